//! Reading on from another place, also a step back, and not into what is being removed.

use super::Subscription;
use crate::error::{Error, Result};
use crate::store::read::{Cursor, Start};

impl Subscription {
    /// Reads on from another place, durably: it becomes the committed one, also where that is a
    /// step back.
    ///
    /// # Errors
    ///
    /// [`Error::PartitionNeeded`] for an offset on a topic with several partitions,
    /// [`Error::BeyondEnd`] for one behind the last record, [`Error::OffsetExpired`] for
    /// one that retention has removed, or is about to: what a required subscription was reset to before
    /// that stays.
    pub fn reset(&mut self, start: Start) -> Result<()> {
        self.set_back((0..).zip(self.topic.cursors(start)?).collect())
    }

    /// As [`Subscription::reset`], of one partition: the others stay where they are.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Start, Store, TopicOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let orders = store.create_topic("orders", TopicOptions::new().partitions(2))?;
    /// orders.partition(1)?.append_batch(["one", "two"])?;
    /// let mut kitchen = orders.subscribe("kitchen")?;
    /// kitchen.reset_partition(1, Start::Offset(1))?;
    /// assert_eq!(kitchen.next()?.expect("it is there").text()?, "two");
    /// # drop(kitchen);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_partition(&mut self, partition: u32, start: Start) -> Result<()> {
        let cursor = self.topic.partition(partition)?.cursor(start)?;
        self.set_back(vec![(partition, cursor)])
    }

    fn set_back(&mut self, cursors: Vec<(u32, Cursor)>) -> Result<()> {
        let moved = self.topic.checkpoints_at(&cursors)?;
        self.store(&moved, true)?;
        self.go_to(cursors);
        Ok(())
    }

    /// States checkpoints; up to where the journal has to be durable for them. One that goes back does so
    /// before its records are let go of, which then stay if it is required, or not at all.
    pub(in crate::store) fn state_checkpoints(
        &self,
        moved: &[(u32, u64)],
        resets: bool,
    ) -> Result<u64> {
        let journal = &self.topic.store.shared().journal;
        let _floors = resets.then(|| self.topic.inner.floors());
        for (partition, next) in moved.iter().filter(|_| resets) {
            let log = self.topic.log(*partition)?;
            let id = log.site().log;
            let stated = journal.fold(|fold| Some(fold.log(id)?.start.as_ref()?.offset));
            let first = log.first().max(stated.unwrap_or(0));
            if *next < first {
                return Err(Error::OffsetExpired {
                    topic: self.topic.name().to_owned(),
                    partition: *partition,
                    asked: *next,
                    first,
                });
            }
        }
        journal.state(&self.checkpoints(moved))
    }
}
