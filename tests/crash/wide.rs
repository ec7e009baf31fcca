//! What a few seeds do beside the rest: a topic whose facts are so large that the journal is folded
//! into snapshots and lets go of segments, and one whose records are so large that slots are
//! written between its segments' beginnings and ends.

use tidelog::{Error, Store, TopicOptions};

use crate::model::Check;
use crate::run::{Run, in_doubt};

/// One seed in so many is wide.
pub const EACH: u64 = 32;
/// The topic with large facts; it holds no records.
pub const BULK: &str = "bulk";
/// The topic with large records.
pub const BIG: &str = "floods";

/// Each statement about a topic names the log of each partition.
const PARTITIONS: u32 = 3_000;

/// What is known of the topic with large facts.
#[derive(Debug, Default)]
pub struct Bulk {
    /// The limit that was acknowledged last; `None` if there is no such topic.
    limit: Option<u64>,
    /// The limit whose statement is in doubt.
    doubt: Option<u64>,
}

impl Bulk {
    /// Nothing yet; in most seeds there is never anything.
    pub fn of(seed: u64) -> Option<Bulk> {
        (seed % EACH == EACH - 1).then(Bulk::default)
    }
}

impl Run<'_> {
    pub fn wide_step(&mut self) -> Check {
        match self.dice.below(4) {
            0 => self.create_big(),
            1 | 2 => self.append(true, false),
            _ => self.state_much(),
        }
    }

    fn create_big(&mut self) -> Check {
        if self.topics.contains_key(BIG) {
            return Ok(());
        }
        let options = TopicOptions::new()
            .first_segment_bytes(2 << 20)
            .max_segment_bytes(4 << 20)
            .max_batch_bytes(2 << 20)
            .unsettled_bytes(1 << 20);
        self.say(format!("create {BIG}"));
        self.make(BIG, 1, options)
    }

    /// States again and again how large the records of the bulky topic may be.
    fn state_much(&mut self) -> Check {
        let count = self.dice.within(10, 60);
        self.say(format!("state {count} limits of {BULK}"));
        for _ in 0..count {
            let limit = self.dice.within(1_000, 1_000_000);
            let options = TopicOptions::new()
                .partitions(PARTITIONS)
                .max_record_bytes(limit);
            let failed = self.journal_failed();
            let made = self.open_store()?.create_topic(BULK, options);
            let bulk = self.bulk.as_mut().ok_or("not a wide program")?;
            let Err(error) = made else {
                bulk.limit = Some(limit);
                bulk.doubt = None;
                continue;
            };
            if !failed && in_doubt(&error) {
                bulk.doubt = Some(limit);
            }
            return self.error("state", &error);
        }
        Ok(())
    }

    /// The bulky topic is as it was stated last.
    pub fn see_bulk(&mut self, store: &Store) -> Check {
        let found = match store.existing_topic(BULK) {
            Ok(topic) => Some(topic.max_record_bytes()),
            Err(Error::TopicUnknown { .. }) => None,
            Err(error) => return self.error("topic", &error),
        };
        let Some(bulk) = &mut self.bulk else {
            return Ok(());
        };
        let doubt = bulk.doubt.take();
        if found != bulk.limit && (doubt.is_none() || found != doubt) {
            return Err(format!("{BULK}: {found:?}, not {:?}", bulk.limit));
        }
        bulk.limit = found;
        Ok(())
    }
}
