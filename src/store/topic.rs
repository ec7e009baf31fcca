//! Handles of a topic and of one of its partitions: what they are, and where reading starts.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::follow::Follow;
use super::inner::TopicInner;
use super::read::{Cursor, Records, Start};
use super::record::IntoBytes;
use super::routing::partition_of;
use super::store::Store;
use super::subscription::{Subscription, SubscriptionBuilder};
use crate::error::{Error, Result};
use crate::options::{Durability, TopicOptions};
use crate::partition::Log;

/// A topic of a store.
///
/// # Examples
///
/// ```
/// use tidelog::{Record, Store, TopicOptions};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let quakes = store.create_topic("quakes", TopicOptions::new().partitions(4))?;
/// let first = quakes.append(Record::new("M 4.6").key("hv"))?;
/// let second = quakes.append(Record::new("M 2.1").key("hv"))?;
/// assert_eq!(first.partition(), second.partition());
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Topic {
    pub(super) store: Store,
    pub(super) inner: Arc<TopicInner>,
}

/// One partition of a topic.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let partition = store.topic("quakes")?.partition(0)?;
/// partition.append(Record::new("M 4.6"))?;
/// assert_eq!(partition.end()?, 1);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Partition {
    pub(super) topic: Topic,
    pub(super) number: u32,
}

impl Topic {
    /// The topic's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How many partitions it has, numbered from 0.
    pub fn partitions(&self) -> u32 {
        self.inner.partitions()
    }

    /// What its payloads are.
    pub fn content_type(&self) -> &str {
        &self.inner.content_type
    }

    /// Whether it takes no more records.
    pub fn is_finished(&self) -> bool {
        self.inner.finished.load(Ordering::Acquire)
    }

    /// The largest record it takes, in bytes of its frame.
    pub fn max_record_bytes(&self) -> u64 {
        self.inner.caps().record
    }

    /// The largest batch it takes, in bytes of frames.
    pub fn max_batch_bytes(&self) -> u64 {
        self.inner.caps().batch
    }

    /// When what is written to it is synced.
    pub fn durability(&self) -> Durability {
        self.inner.caps().durability
    }

    /// What it was made with, and what of that was changed since: for who makes it anew with other limits
    /// and means to keep the rest.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Retention, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let quakes = store.topic("quakes")?;
    /// store.create_topic("quakes", quakes.options().retention(Retention::days(7)))?;
    /// assert_eq!(quakes.retention(), Retention::days(7));
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn options(&self) -> TopicOptions {
        self.inner.options()
    }

    /// One of its partitions.
    pub fn partition(&self, number: u32) -> Result<Partition> {
        if number >= self.partitions() {
            return Err(self.inner.partition_unknown(number));
        }
        Ok(Partition {
            topic: self.clone(),
            number,
        })
    }

    /// The number of the partition that records of a key go to: the same as in Kafka.
    pub fn partition_of<'a>(&self, key: impl IntoBytes<'a>) -> u32 {
        partition_of(&key.into_bytes(), self.partitions())
    }

    /// Ends the topic for good: behind what has been appended so far, nothing can be appended any
    /// more. Reading goes on, and followers end when they have read everything.
    pub fn finish(&self) -> Result<()> {
        self.finish_with(&[]).map(|_| ())
    }

    /// Follows all partitions: what is there, and then what comes. The order between partitions
    /// is fair and not promised; a start by offset needs a topic with one partition.
    pub fn follow(&self, start: Start) -> Result<Follow> {
        let cursors = self.cursors(start)?;
        Ok(Follow::new(self.clone(), cursors))
    }

    pub(super) fn cursors(&self, start: Start) -> Result<Vec<Cursor>> {
        if matches!(start, Start::Offset(_)) && self.partitions() > 1 {
            return Err(Error::PartitionNeeded {
                topic: self.name().to_owned(),
                partitions: self.partitions(),
            });
        }
        let cursor = |number| self.partition(number)?.cursor(start);
        (0..self.partitions()).map(cursor).collect()
    }

    /// The named subscription, made if there is none, reading from the earliest record.
    pub fn subscribe(&self, name: &str) -> Result<Subscription> {
        self.subscription(name).open()
    }

    /// The named subscription, with options.
    pub fn subscription(&self, name: &str) -> SubscriptionBuilder {
        SubscriptionBuilder::new(self.clone(), name)
    }

    pub(super) fn log(&self, partition: u32) -> Result<Arc<Log>> {
        let store = self.store.shared();
        self.inner.check_there()?;
        store.check_not_closed()?;
        store.log(&self.inner, partition)
    }
}

impl Partition {
    /// The topic it is a part of.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The first offset that is still there.
    pub fn first(&self) -> Result<u64> {
        Ok(self.topic.log(self.number)?.first())
    }

    /// The offset that follows the last durable record.
    pub fn end(&self) -> Result<u64> {
        Ok(self.topic.log(self.number)?.durable())
    }

    /// The offset of the first record at or after a time; the end if there is none.
    pub fn find(&self, time: impl Into<super::record::Timestamp>) -> Result<u64> {
        let log = self.topic.log(self.number)?;
        log.offset_at(time.into().as_nanos(), log.durable())
    }

    /// The records of a range, as far as they exist: owned ones, in order.
    ///
    /// # Errors
    ///
    /// [`Error::OffsetExpired`] if it begins below the first offset that is still there. A
    /// damaged record is an error in its place; the iterator goes on behind it.
    pub fn read(&self, offsets: Range<u64>) -> Result<Records> {
        let log = self.topic.log(self.number)?;
        if offsets.start < log.first() {
            return Err(log.expired(offsets.start));
        }
        let to = offsets.end.min(log.durable());
        let cursor = self.cursor(Start::Offset(offsets.start))?;
        Ok(Records::new(cursor, to))
    }

    /// A cursor that stands at a start.
    pub fn cursor(&self, start: Start) -> Result<Cursor> {
        Cursor::new(&self.topic, self.number, start)
    }

    /// Follows this partition: what is there, and then what comes.
    pub fn follow(&self, start: Start) -> Result<Follow> {
        let cursor = self.cursor(start)?;
        Ok(Follow::new(self.topic.clone(), vec![cursor]))
    }
}
