//! `tidelog create`: makes a topic.

use clap::Args;
use serde::Serialize;
use tidelog::{Store, TopicOptions};
use tidelog_config::Size;

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, count};
use crate::store::{quiet, with};

/// Make a topic, and the store where there is none
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Create {
    /// The topic's name: 1 to 200 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit
    topic: String,

    /// How many partitions, for good
    #[arg(long, value_name = "N", default_value_t = 1)]
    partitions: u32,

    /// What the payloads are, for good
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream")]
    content_type: String,

    /// The largest record, with key and headers [default: 16MiB]
    #[arg(long, value_name = "SIZE")]
    max_record: Option<Size>,

    /// The largest batch [default: 16MiB]
    #[arg(long, value_name = "SIZE")]
    max_batch: Option<Size>,

    /// How much the whole topic may hold [default: no limit]
    #[arg(long, value_name = "SIZE")]
    max_total: Option<Size>,

    /// The size that segment files double up to [default: 128MiB]
    #[arg(long, value_name = "SIZE")]
    max_segment: Option<Size>,

    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Make a topic, and the store where there is none

Making it again with the same partitions and content type is no error, and sets the limits to what \
is asked for now. Sizes are bytes, or have a unit: 20MB, 1GiB.";

const EXAMPLES: &str = "\
Examples:
  tidelog create orders
  tidelog create quakes --partitions 4 --content-type application/json
  tidelog create audit --max-record 1MiB --max-total 20GB";

#[derive(Debug, Serialize)]
struct TopicJson<'a> {
    topic: &'a str,
    partitions: u32,
    content_type: &'a str,
}

impl Create {
    pub(crate) fn run(&self) -> Result<Exit> {
        let store = Store::open_with(&self.common.store, quiet())?;
        with(store, |store| {
            let topic = store.create_topic(&self.topic, self.options())?;
            let mut out = Out::new();
            if self.common.json {
                out.json(&TopicJson {
                    topic: topic.name(),
                    partitions: topic.partitions(),
                    content_type: topic.content_type(),
                })?;
            } else {
                let partitions = count(u64::from(topic.partitions()), "partition", "partitions");
                let name = topic.name();
                out.line(format!("{name}: {partitions} of {}", topic.content_type()))?;
            }
            out.flush()?;
            Ok(Exit::Success)
        })
    }

    fn options(&self) -> TopicOptions {
        let mut options = TopicOptions::new()
            .partitions(self.partitions)
            .content_type(&self.content_type);
        if let Some(bytes) = self.max_record {
            options = options.max_record_bytes(bytes.0);
        }
        if let Some(bytes) = self.max_batch {
            options = options.max_batch_bytes(bytes.0);
        }
        if let Some(bytes) = self.max_total {
            options = options.max_total_bytes(bytes.0);
        }
        if let Some(bytes) = self.max_segment {
            options = options.max_segment_bytes(bytes.0);
        }
        options
    }
}
