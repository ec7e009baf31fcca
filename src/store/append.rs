//! Appending, waiting for durability or not, and flushing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ack::Ack;
use super::record::{Position, Positions, Record};
use super::routing::partition_of;
use super::topic::{Partition, Topic};
use crate::error::{Error, Part, Result};
use crate::format::padded;
use crate::journal::TopicSettings;
use crate::options::Durability;
use crate::partition::Log;
use crate::segment::Writable;

/// What was written: to which partition, whose log, which offsets.
type Written = (u32, Arc<Log>, Range<u64>);

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
        let (partition, offsets) = self.append_durably(std::slice::from_ref(&record))?;
        Ok(Position::new(&self.inner.name, partition, offsets.start))
    }

    /// Appends records as one commit: after a crash all of them are there, or none.
    ///
    /// Records without keys go to one partition together, the next in turn. If keys or explicit
    /// partitions lead to more than one, nothing is written: [`Error::BatchSpread`].
    pub fn append_batch<'a, I>(&self, records: I) -> Result<Positions>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let records: Vec<Record<'a>> = records.into_iter().map(Into::into).collect();
        let (partition, offsets) = self.append_durably(&records)?;
        Ok(Positions::new(&self.inner.name, partition, offsets))
    }

    /// As [`Topic::append`], but returns once the record is written: it has its place and its
    /// offset, and becomes durable in the topic's [`Durability`]. The [`Ack`] tells when.
    ///
    /// What this call may have to wait for: the log being opened, the next segment being made, and
    /// a sync once too much is unsettled ([`TopicOptions::unsettled_bytes`]).
    ///
    /// [`TopicOptions::unsettled_bytes`]: crate::TopicOptions::unsettled_bytes
    ///
    /// # Errors
    ///
    /// As for [`Topic::append`], but for [`Error::InDoubt`] and [`Error::NeedsFlush`]: those are
    /// what the `Ack` says. With an error nothing was written.
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
    /// [`Topic::append_nowait`].
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
    /// assert_eq!(ack.positions().offsets(), 0..2);
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

    /// The one partition that these records go to.
    fn route(&self, records: &[Record<'_>]) -> Result<u32> {
        let partitions = self.partitions();
        let mut chosen: Option<u32> = None;
        for record in records {
            let wanted = match (record.partition, &record.key) {
                (Some(number), _) if number >= partitions => {
                    return Err(self.inner.partition_unknown(number));
                }
                (Some(number), _) => number,
                (None, Some(key)) => partition_of(key, partitions),
                (None, None) => continue,
            };
            if chosen.is_some_and(|chosen| chosen != wanted) {
                return Err(Error::BatchSpread {
                    topic: self.name().to_owned(),
                });
            }
            chosen = Some(wanted);
        }
        Ok(chosen.unwrap_or_else(|| self.inner.turn.fetch_add(1, Ordering::Relaxed) % partitions))
    }

    fn append_durably(&self, records: &[Record<'_>]) -> Result<(u32, Range<u64>)> {
        let settings = self.inner.settings();
        if Durability::from_nanos(settings.sync_after_nanos) == Durability::Manual {
            self.store.shared().check_open()?;
            self.inner.check_there()?;
            return Err(Error::NeedsFlush {
                topic: self.name().to_owned(),
            });
        }
        let (partition, log, offsets) = self.write(records, &settings)?;
        if !records.is_empty() {
            log.wait_durable(offsets.clone())?;
            self.note_settled(partition);
        }
        Ok((partition, offsets))
    }

    fn append_written(&self, records: &[Record<'_>]) -> Result<Ack> {
        let (partition, log, offsets) = self.write(records, &self.inner.settings())?;
        log.notice();
        if log.durable() > 0 {
            self.note_settled(partition);
        }
        Ok(Ack::new(self.clone(), log, offsets))
    }

    fn write(&self, records: &[Record<'_>], settings: &TopicSettings) -> Result<Written> {
        let store = self.store.shared();
        let partition = self.route(records)?;
        store.check_open()?;
        self.inner.check_there()?;
        let mut writable = measure(records, settings)?;
        let log = store.log(&self.inner, partition)?;
        if records.is_empty() {
            let end = log.durable();
            return Ok((partition, log, end..end));
        }
        let offsets = log.write(&mut writable, |writable, now| {
            for (writable, record) in writable.iter_mut().zip(records) {
                writable.timestamp = record.timestamp.map_or(now, |time| time.as_nanos());
            }
        })?;
        Ok((partition, log, offsets))
    }

    /// A partition has records that are durable.
    pub(super) fn note_settled(&self, partition: u32) {
        if let Some(cell) = self.inner.logs.get(partition as usize) {
            cell.note_settled(self.store.shared());
        }
    }
}

/// Measures records against all limits, before anything is written.
fn measure<'r>(records: &'r [Record<'_>], settings: &TopicSettings) -> Result<Vec<Writable<'r>>> {
    let mut total = 0;
    let mut writable = Vec::with_capacity(records.len());
    for record in records {
        let parts = record.parts();
        let length = parts.frame_len()?;
        limit(Part::Record, u64::from(length), settings.max_record_bytes)?;
        total += padded(length) as u64;
        writable.push(Writable {
            parts,
            length,
            timestamp: 0,
        });
    }
    if records.len() > 1 {
        limit(Part::Batch, total, settings.max_batch_bytes)?;
    }
    Ok(writable)
}

fn limit(what: Part, size: u64, limit: u64) -> Result<()> {
    if size > limit {
        return Err(Error::TooLarge { what, size, limit });
    }
    Ok(())
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
