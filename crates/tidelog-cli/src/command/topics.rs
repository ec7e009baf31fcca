//! `tidelog topics`

use std::path::Path;

use clap::Args;
use serde_json::json;

use super::open_existing;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// List the topics of a store, with their partitions and how many records they hold.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tidelog topics
  tidelog topics --json | jq .records")]
pub struct Topics {}

impl Topics {
    /// Prints the list.
    pub fn run(&self, path: &Path, mut to: Output) -> Result<Exit, Failure> {
        let store = open_existing(path)?;
        for info in store.topics() {
            let topic = store.existing_topic(&info.name)?;
            let mut records = 0;
            for number in 0..info.partitions {
                let partition = topic.partition(number)?;
                records += partition.end()? - partition.first()?;
            }
            if to.is_json() {
                to.value(&json!({
                    "topic": info.name,
                    "partitions": info.partitions,
                    "content_type": info.content_type,
                    "finished": info.finished,
                    "records": records,
                }))?;
                continue;
            }
            let finished = if info.finished { "  finished" } else { "" };
            to.line(format!(
                "{:<24} {:>5} partitions {records:>12} records  {}{finished}",
                info.name, info.partitions, info.content_type
            ))?;
        }
        to.flush()?;
        store.close()?;
        Ok(Exit::Success)
    }
}
