//! `tidelog topics`: which topics there are.

use clap::Args;
use serde::Serialize;
use tidelog::{Store, TopicInfo};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, thousands};
use crate::store::with_existing;

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
}

#[derive(Debug, Serialize)]
struct PartitionJson {
    partition: u32,
    first: u64,
    end: u64,
}

impl Topics {
    pub(crate) fn run(&self) -> Result<Exit> {
        with_existing(&self.common.store, |store| self.print(store))
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
        for topic in &topics {
            let described = describe(store, topic)?;
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
        }
        out.flush()?;
        Ok(Exit::Success)
    }
}

fn describe<'a>(store: &Store, info: &'a TopicInfo) -> Result<TopicJson<'a>> {
    let topic = store.existing_topic(&info.name)?;
    let mut partitions = Vec::new();
    for number in 0..info.partitions {
        let partition = topic.partition(number)?;
        partitions.push(PartitionJson {
            partition: number,
            first: partition.first()?,
            end: partition.end()?,
        });
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
    })
}
