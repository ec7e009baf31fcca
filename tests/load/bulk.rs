//! A topic whose facts are so large that the journal is folded into snapshots, and lets go of segments.

use tidelog::{Result, Store, TopicOptions};

use super::{Life, say};
use crate::dice::Dice;

pub const NAME: &str = "bulk";
/// Each statement about the topic names the log of each partition.
const PARTITIONS: u32 = 3_000;

/// States again and again how large its records may be.
pub fn state(life: &Life, mut dice: Dice) {
    while !life.is_over() {
        if let Err(error) = limit(&life.store, dice.within(1_000, 1_000_000)) {
            life.failed("limit", &error);
        }
    }
}

fn limit(store: &Store, limit: u64) -> Result<()> {
    say(&format!("limit {limit}"));
    let options = TopicOptions::new()
        .partitions(PARTITIONS)
        .max_record_bytes(limit);
    store.create_topic(NAME, options)?;
    say(&format!("limited {limit}"));
    Ok(())
}

/// What was stated last, if there is such a topic.
pub fn stated(store: &Store) -> Result<Option<u64>> {
    let there = store.topics().iter().any(|info| info.name == NAME);
    let topic = there.then(|| store.existing_topic(NAME)).transpose()?;
    Ok(topic.map(|topic| topic.max_record_bytes()))
}
