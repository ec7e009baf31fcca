//! Appending, waiting for durability or not, and flushing.

use std::sync::Arc;
use std::time::Instant;

use super::ack::Ack;
use super::batch::Written;
use super::inner::Caps;
use super::position::{Position, Positions};
use super::record::Record;
use super::topic::{Partition, Topic};
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::partition::{Log, Patience};

impl Topic {
    /// Appends a record and returns once it is durable.
    ///
    /// It goes to the partition it names, else to that of its key (as in Kafka), else to the next
    /// in turn.
    ///
    /// # Errors
    ///
    /// [`Error::InDoubt`] if it was written and the sync failed, or if it may have been written
    /// since only the write of its last word failed: it may be there after a reopen. With any other
    /// error nothing was written that could ever be read. [`Error::NeedsFlush`] if the topic is synced by hand only
    /// ([`Durability::Manual`]).
    pub fn append<'a>(&self, record: impl Into<Record<'a>>) -> Result<Position> {
        let record = record.into();
        let positions = self.append_durably(std::slice::from_ref(&record))?;
        Ok(positions.first())
    }

    /// Appends records as one commit: after a crash all of them are there, or none, also when keys or
    /// explicit partitions lead to several partitions. Whoever reads one of them knows that the
    /// others are durable; in another partition they may show a moment later.
    ///
    /// Records without keys go to one partition together: to that of the first record that has
    /// one, else to the next in turn.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Record, Store, TopicOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let transfers = store.create_topic("transfers", TopicOptions::new().partitions(8))?;
    /// let batch = transfers.append_batch([
    ///     Record::new("-100").key("alice"),
    ///     Record::new("+100").key("bob"),
    /// ])?;
    /// assert_eq!(batch.iter().count(), 2);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_batch<'a, I>(&self, records: I) -> Result<Positions>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let records: Vec<Record<'a>> = records.into_iter().map(Into::into).collect();
        self.append_durably(&records)
    }

    /// Appends records and ends the topic with them, as one: after a crash they are there and the
    /// topic is finished, or neither. Everything appended before, to any partition, is durable then,
    /// too. It works in any [`Durability`]. Without records it is [`Topic::finish`].
    ///
    /// # Errors
    ///
    /// [`Error::Finished`] if the topic was finished before; else as for [`Topic::append_batch`].
    /// [`Error::InDoubt`], or without records [`Error::StoreFailed`] of this call, leaves in doubt
    /// whether the topic is finished, too.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Error, Record, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let answer = store.topic("answer.42")?;
    /// answer.append(Record::new("the first words"))?;
    /// answer.append_and_finish([Record::new("and the last ones")])?;
    /// assert!(answer.is_finished());
    /// assert!(matches!(answer.append(Record::new("more")), Err(Error::Finished { .. })));
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_and_finish<'a, I>(&self, records: I) -> Result<Positions>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let records: Vec<Record<'a>> = records.into_iter().map(Into::into).collect();
        self.finish_with(&records)
    }

    /// As [`Topic::append`], but returns once the record is written: it has its place and its
    /// offset, and becomes durable in the topic's [`Durability`]. The [`Ack`] tells when.
    ///
    /// [`Wait`] lists what this call may have to wait for; [`StoreOptions::nowait_timeout`] says how long
    /// it does, and [`Metrics`] how often that was.
    ///
    /// [`Wait`]: crate::Wait
    /// [`StoreOptions::nowait_timeout`]: crate::StoreOptions::nowait_timeout
    /// [`Metrics`]: crate::Metrics
    ///
    /// # Errors
    ///
    /// As for [`Topic::append`], but for [`Error::InDoubt`] and [`Error::NeedsFlush`]: those are
    /// what the `Ack` says. [`Error::Busy`] when it has waited for long enough. With an error nothing was
    /// written.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// # use tidelog::{Record, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let quakes = store.topic("quakes")?;
    /// let first = quakes.append_nowait(Record::new("M 4.6"))?;
    /// let second = quakes.append_nowait(Record::new("M 2.1"))?;
    /// assert_eq!(second.wait_timeout(Duration::from_secs(60))?.offset(), 1);
    /// assert!(first.is_durable());
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_nowait<'a>(&self, record: impl Into<Record<'a>>) -> Result<Ack> {
        let record = record.into();
        self.append_written(std::slice::from_ref(&record))
    }

    /// As [`Topic::append_batch`], but returns once the batch is written, like
    /// [`Topic::append_nowait`]. A batch that goes to several partitions is written and durable at
    /// once, so that one is waited for.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Record, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let quakes = store.topic("quakes")?;
    /// let ack = quakes.append_batch_nowait(["M 4.6", "M 2.1"].map(Record::new))?;
    /// ack.wait()?;
    /// assert_eq!(ack.positions().parts(), [(0, 0..2)]);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_batch_nowait<'a, I>(&self, records: I) -> Result<Ack>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let records: Vec<Record<'a>> = records.into_iter().map(Into::into).collect();
        self.append_written(&records)
    }

    /// Makes everything written to the topic so far durable, whatever its [`Durability`].
    ///
    /// # Errors
    ///
    /// [`Error::InDoubt`] with the offsets of one partition that could not be synced.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Durability, Record, Store, TopicOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let manual = TopicOptions::new().durability(Durability::Manual);
    /// let quakes = store.create_topic("quakes", manual)?;
    /// let ack = quakes.append_nowait(Record::new("M 4.6"))?;
    /// assert!(!ack.is_durable());
    /// quakes.flush()?;
    /// assert!(ack.is_durable());
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&self) -> Result<()> {
        self.store.shared().check_open()?;
        self.inner.check_there()?;
        let store = self.store.shared();
        Log::flush_together(&store.setting.flusher, self.inner.open_logs());
        self.inner.flush(store)
    }

    /// In a topic that is synced by hand only, waiting for durability would never end.
    fn check_waits(&self, caps: Caps) -> Result<()> {
        if caps.durability != Durability::Manual {
            return Ok(());
        }
        self.store.shared().check_open()?;
        self.inner.check_there()?;
        Err(Error::NeedsFlush {
            topic: self.name().to_owned(),
        })
    }

    /// As `append_durably`, without blocking.
    pub(super) async fn append_durably_async(&self, records: &[Record<'_>]) -> Result<Positions> {
        let begun = Instant::now();
        let caps = self.inner.caps();
        self.check_waits(caps)?;
        let written = self.write_async(records, caps).await?;
        if let (Written::To(partition, offsets), Some(log)) = (&written, self.log_of(&written)) {
            log.until_durable(offsets.clone()).await?;
            log.append_times().add(begun.elapsed());
            self.note_settled(*partition);
        }
        Ok(self.positions_of(&written))
    }

    /// As `append_written`, without blocking.
    pub(super) async fn append_written_async(&self, records: &[Record<'_>]) -> Result<Ack> {
        let written = self.write_async(records, self.inner.caps()).await?;
        Ok(self.acked(written))
    }

    fn append_durably(&self, records: &[Record<'_>]) -> Result<Positions> {
        let begun = Instant::now();
        let caps = self.inner.caps();
        self.check_waits(caps)?;
        let written = self.write(records, caps, Patience::default())?;
        if let (Written::To(partition, offsets), Some(log)) = (&written, self.log_of(&written)) {
            log.wait_durable(offsets.clone())?;
            log.append_times().add(begun.elapsed());
            self.note_settled(*partition);
        }
        Ok(self.positions_of(&written))
    }

    fn append_written(&self, records: &[Record<'_>]) -> Result<Ack> {
        let within = self.store.shared().options.nowait_timeout;
        let written = self.write(records, self.inner.caps(), Patience::of(within))?;
        Ok(self.acked(written))
    }

    fn acked(&self, written: Written) -> Ack {
        if let (Written::To(partition, _), Some(log)) = (&written, self.log_of(&written)) {
            log.notice();
            if log.durable() > 0 {
                self.note_settled(*partition);
            }
        }
        Ack::new(self.clone(), written)
    }

    /// The log in which something written has to become durable.
    pub(super) fn log_of(&self, written: &Written) -> Option<&Arc<Log>> {
        match written {
            Written::To(partition, offsets) if offsets.end > 0 => {
                self.inner.log_if_open(*partition)
            }
            _ => None,
        }
    }

    pub(super) fn positions_of(&self, written: &Written) -> Positions {
        match written {
            Written::To(partition, offsets) => {
                Positions::new(&self.inner.name, *partition, offsets.clone())
            }
            Written::Durable(positions) => positions.clone(),
        }
    }

    /// A partition has records that are durable.
    pub(super) fn note_settled(&self, partition: u32) {
        if let Some(cell) = self.inner.logs.get(partition as usize) {
            cell.note_settled(self.store.shared());
        }
    }
}

impl Partition {
    /// Appends a record here, whatever its key; returns once it is durable.
    pub fn append<'a>(&self, record: impl Into<Record<'a>>) -> Result<Position> {
        self.topic.append(record.into().partition(self.number))
    }

    /// Appends records here as one commit: after a crash all of them are there, or none.
    pub fn append_batch<'a, I>(&self, records: I) -> Result<Positions>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let here = |record: I::Item| record.into().partition(self.number);
        self.topic.append_batch(records.into_iter().map(here))
    }

    /// Appends a record here, whatever its key; returns once it is written. As
    /// [`Topic::append_nowait`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Record, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let partition = store.topic("quakes")?.partition(0)?;
    /// let ack = partition.append_nowait(Record::new("M 4.6"))?;
    /// assert_eq!(ack.position().to_string(), "quakes/0@0");
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_nowait<'a>(&self, record: impl Into<Record<'a>>) -> Result<Ack> {
        self.topic
            .append_nowait(record.into().partition(self.number))
    }

    /// Appends records here as one commit; returns once they are written. As
    /// [`Topic::append_batch_nowait`].
    pub fn append_batch_nowait<'a, I>(&self, records: I) -> Result<Ack>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let here = |record: I::Item| record.into().partition(self.number);
        self.topic
            .append_batch_nowait(records.into_iter().map(here))
    }

    /// Makes everything written to this partition so far durable, whatever the topic's
    /// [`Durability`]. As [`Topic::flush`].
    pub fn flush(&self) -> Result<()> {
        let store = self.topic.store.shared();
        store.check_open()?;
        self.topic.inner.check_there()?;
        match self.topic.inner.logs.get(self.number as usize) {
            Some(cell) => cell.flush(store),
            None => Ok(()),
        }
    }
}
