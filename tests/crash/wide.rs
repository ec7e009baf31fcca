//! What a few seeds do beside the rest: a topic whose facts are so large that the journal is folded
//! into snapshots and lets go of segments, and one whose records are so large that slots are
//! written between its segments' beginnings and ends.

use std::time::Duration;

use tidelog::sys::sim::{Call, Fault, When};
use tidelog::{Error, Store, TopicOptions};

use crate::model::Check;
use crate::run::{Run, in_doubt};

/// One seed in so many is wide.
pub const EACH: u64 = 32;
/// The topics with large facts; they hold no records. They are two, so that the last fact about one
/// of them may be one that came between a snapshot's taking and its writing.
/// The third is stated once, and makes a snapshot need more room than a fact.
pub const BULK: [&str; 3] = ["bulk", "mass", "giant"];
/// The topic with large records.
pub const BIG: &str = "floods";

/// Each statement about a topic names the log of each partition.
const PARTITIONS: [u32; 3] = [3_000, 3_000, 20_000];

/// What is known of the topics with large facts.
pub type Bulk = [Bulky; 3];

/// What is known of one of them.
#[derive(Debug, Default)]
pub struct Bulky {
    /// The limit that was acknowledged last; `None` if there is no such topic.
    limit: Option<u64>,
    /// The limit whose statement is in doubt.
    doubt: Option<u64>,
}

/// Nothing yet; in most seeds there is never anything.
pub fn bulk_of(seed: u64) -> Option<Bulk> {
    (seed % EACH == EACH - 1).then(Bulk::default)
}

impl Run<'_> {
    pub fn wide_step(&mut self) -> Check {
        match self.dice.below(5) {
            0 => self.create_big(),
            1 | 2 => self.append(true, false),
            3 if self.dice.percent(70) => self.state_much_in_little_room(),
            3 => self.state_much(),
            _ => self.rely_on_redo(),
        }
    }

    /// A transaction in logs that are behind and have been quiet, so that rounds of theirs are due
    /// while it is under way; and then so much that the journal would let go of it.
    fn rely_on_redo(&mut self) -> Check {
        self.joint_step()?;
        self.clock.advance(Duration::from_millis(1_500));
        self.joint_step()?;
        self.state_limits(150)?;
        if self.dice.percent(60) {
            self.sim.crash_after(0);
            self.say("the machine stops".to_owned());
        }
        Ok(())
    }

    /// States much while the journal gets no new segment. A snapshot that is due may find no room then,
    /// while facts, which are smaller, go on: they lie behind the place up to which it folds, and
    /// before the snapshot, when that is written at last. Then the machine may stop.
    fn state_much_in_little_room(&mut self) -> Check {
        if self
            .bulk
            .as_ref()
            .is_some_and(|bulk| bulk[2].limit.is_none())
        {
            self.state(2)?;
        }
        self.troubled = true;
        for call in [Call::Create, Call::Grow] {
            let full = Fault::new(call, When::From(0), 28);
            self.sim.fail(full.on("/journal/"));
        }
        self.say("the journal gets no segments".to_owned());
        if self.dice.percent(50) {
            // While a segment that goes becomes the next one, maybe.
            let calls = self.dice.below(1500);
            self.sim.crash_after(calls);
            self.say(format!("the machine will stop after {calls} calls"));
        }
        self.state_limits(150)?;
        if self.sim.has_stopped() {
            return Ok(());
        }
        self.relieve()?;
        for _ in 0..2 {
            self.joint_step()?;
        }
        if self.dice.percent(60) {
            self.sim.crash_after(0);
            self.say("the machine stops".to_owned());
        }
        Ok(())
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

    /// States again and again how large the records of a bulky topic may be.
    fn state_much(&mut self) -> Check {
        let count = self.dice.within(10, 60);
        self.state_limits(count)
    }

    fn state_limits(&mut self, count: u64) -> Check {
        self.say(format!("state {count} limits of {BULK:?}"));
        for _ in 0..count {
            let which = self.dice.below(2) as usize;
            if !self.state(which)? {
                break;
            }
        }
        Ok(())
    }

    /// States a limit of one of them; whether that went well.
    fn state(&mut self, which: usize) -> Check<bool> {
        let limit = self.dice.within(1_000, 1_000_000);
        let options = TopicOptions::new()
            .partitions(PARTITIONS[which])
            .max_record_bytes(limit);
        let failed = self.journal_failed();
        let made = self.open_store()?.create_topic(BULK[which], options);
        let bulk = &mut self.bulk.as_mut().ok_or("not a wide program")?[which];
        let Err(error) = made else {
            bulk.limit = Some(limit);
            bulk.doubt = None;
            return Ok(true);
        };
        if !failed && in_doubt(&error) {
            bulk.doubt = Some(limit);
        }
        self.error("state", &error)?;
        Ok(false)
    }

    /// The bulky topics are as they were stated last.
    pub fn see_bulk(&mut self, store: &Store) -> Check {
        for (which, name) in BULK.into_iter().enumerate() {
            let found = match store.existing_topic(name) {
                Ok(topic) => Some(topic.max_record_bytes()),
                Err(Error::TopicUnknown { .. }) => None,
                Err(error) => return self.error("topic", &error),
            };
            let Some(all) = &mut self.bulk else {
                return Ok(());
            };
            let bulk = &mut all[which];
            let doubt = bulk.doubt.take();
            if found != bulk.limit && (doubt.is_none() || found != doubt) {
                return Err(format!("{name}: {found:?}, not {:?}", bulk.limit));
            }
            bulk.limit = found;
        }
        Ok(())
    }
}
