//! `tidelog topics`: which topics there are.

use clap::Args;
use serde::Serialize;
use tidelog::{Error, Store, Topic, TopicInfo};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, thousands};
use crate::store::reading;

/// List the topics of a store
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Topics {
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  tidelog topics
  tidelog topics --store tidelog-demo --json | jq '.partitions[].end'";

#[derive(Debug, Serialize)]
struct TopicJson<'a> {
    topic: &'a str,
    content_type: &'a str,
    finished: bool,
    records: u64,
    partitions: Vec<PartitionJson>,
    /// Why those partitions that are not listed cannot be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PartitionJson {
    partition: u32,
    first: u64,
    end: u64,
}

impl Topics {
    pub(crate) fn run(&self) -> Result<Exit> {
        reading(&self.common.store, |store| self.print(store))
    }

    fn print(&self, store: &Store) -> Result<Exit> {
        let topics = store.topics();
        let mut out = Out::new();
        let width = topics
            .iter()
            .map(|topic| topic.name.len())
            .max()
            .unwrap_or(0)
            .max(5);
        if !self.common.json && !topics.is_empty() {
            out.line(format!(
                "{:width$}  partitions       records  content type",
                "topic"
            ))?;
        }
        let mut exit = Exit::Success;
        for topic in &topics {
            let described = describe(store, topic, &mut exit)?;
            if self.common.json {
                out.json(&described)?;
                continue;
            }
            let finished = if topic.finished { ", finished" } else { "" };
            out.line(format!(
                "{:width$}  {:>10}  {:>12}  {}{finished}",
                topic.name,
                topic.partitions,
                thousands(described.records),
                topic.content_type
            ))?;
            for reason in &described.failed {
                out.line(format!("{:width$}  failed: {reason}", ""))?;
            }
        }
        out.flush()?;
        Ok(exit)
    }
}

/// What a topic holds. What one partition fails of is told beside the others, and the command has
/// failed then.
fn describe<'a>(store: &Store, info: &'a TopicInfo, exit: &mut Exit) -> Result<TopicJson<'a>> {
    let topic = store.existing_topic(&info.name)?;
    let mut partitions = Vec::new();
    let mut failed = Vec::new();
    for number in 0..info.partitions {
        match place(&topic, number) {
            Ok(found) => partitions.push(found),
            Err(error) => {
                *exit = Exit::Failure;
                failed.push(match error {
                    // It says which one.
                    Error::Failed { .. } => error.to_string(),
                    error => format!("{}/{number}: {error}", info.name),
                });
            }
        }
    }
    Ok(TopicJson {
        topic: &info.name,
        content_type: &info.content_type,
        finished: info.finished,
        records: partitions
            .iter()
            .map(|partition| partition.end - partition.first)
            .sum(),
        partitions,
        failed,
    })
}

fn place(topic: &Topic, number: u32) -> Result<PartitionJson, Error> {
    let partition = topic.partition(number)?;
    Ok(PartitionJson {
        partition: number,
        first: partition.first()?,
        end: partition.end()?,
    })
}
