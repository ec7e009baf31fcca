//! `tidelog create`

use std::path::Path;

use clap::Args;
use serde_json::json;
use tidelog::{Store, TopicOptions};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Make a topic, and the store if there is none.
///
/// A topic that is there already with the same partitions and content type is left as it is but
/// for its limits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tidelog create quakes --partitions 4 --content-type application/json
  tidelog create notes --max-total-bytes 1073741824")]
pub struct Create {
    /// The topic's name: lowercase letters, digits, '.', '_' and '-'.
    topic: String,

    /// How many partitions; they cannot be added to later.
    #[arg(long, default_value_t = 1)]
    partitions: u32,

    /// What the payloads are.
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream")]
    content_type: String,

    /// The largest record, in bytes.
    #[arg(long, value_name = "BYTES")]
    max_record_bytes: Option<u64>,

    /// The most that the topic may hold, in bytes.
    #[arg(long, value_name = "BYTES")]
    max_total_bytes: Option<u64>,
}

impl Create {
    /// Makes the topic.
    pub fn run(&self, path: &Path, mut to: Output) -> Result<Exit, Failure> {
        let mut options = TopicOptions::new()
            .partitions(self.partitions)
            .content_type(&*self.content_type);
        if let Some(bytes) = self.max_record_bytes {
            options = options
                .max_record_bytes(bytes)
                .max_batch_bytes(bytes.max(16 << 20));
        }
        if let Some(bytes) = self.max_total_bytes {
            options = options.max_total_bytes(bytes);
        }
        let store = Store::open(path)?;
        let topic = store.create_topic(&self.topic, options)?;
        if to.is_json() {
            to.value(&json!({
                "topic": topic.name(),
                "partitions": topic.partitions(),
                "content_type": topic.content_type(),
            }))?;
        }
        to.flush()?;
        store.close()?;
        Ok(Exit::Success)
    }
}
