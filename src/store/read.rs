//! Reading one partition.

use std::sync::Arc;
use std::time::SystemTime;

use super::record::Timestamp;
use super::stored::{OwnedRecord, StoredRecord};
use super::topic::Topic;
use crate::error::{Error, Result};
use crate::options::Visibility;
use crate::partition::{self, Log};

/// Where reading starts.
///
/// # Examples
///
/// ```
/// use tidelog::{Start, Timestamp};
/// let yesterday = Start::At(Timestamp::from_millis(1_517_363_399_650));
/// assert_ne!(yesterday, Start::Earliest);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first record that is still there.
    Earliest,
    /// Behind the last durable record.
    Latest,
    /// At this offset, which need not exist yet.
    Offset(u64),
    /// At the first record with this time or a later one.
    At(Timestamp),
}

impl From<SystemTime> for Start {
    fn from(time: SystemTime) -> Self {
        Start::At(time.into())
    }
}

impl Start {
    pub(super) fn offset(self, log: &Log) -> Result<u64> {
        match self {
            Start::Earliest => Ok(log.first()),
            Start::Latest => Ok(log.durable()),
            Start::Offset(offset) => Ok(offset),
            Start::At(time) => log.offset_at(time.as_nanos(), log.durable()),
        }
    }
}

/// A reader's place in a partition: lends the records that are durable, and never waits.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Start, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append_batch(["one", "two"].map(Record::new))?;
/// let mut cursor = topic.partition(0)?.cursor(Start::Offset(1))?;
/// while let Some(record) = cursor.next()? {
///     println!("{} {}", record.position(), record.text()?);
/// }
/// assert_eq!(cursor.offset(), 2);
/// # drop(cursor);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cursor {
    topic: Topic,
    partition: u32,
    cursor: partition::Cursor,
}

impl Cursor {
    pub(super) fn new(topic: &Topic, partition: u32, start: Start) -> Result<Cursor> {
        let log = topic.log(partition)?;
        let offset = start.offset(&log)?;
        Ok(Cursor {
            topic: topic.clone(),
            partition,
            cursor: partition::Cursor::new(log, offset),
        })
    }

    /// The next record, if there is one that is durable.
    ///
    /// # Errors
    ///
    /// A stretch of damaged records is [`Error::Corrupt`] or [`Error::Unreadable`] once; calling
    /// again goes on behind it. [`Error::OffsetExpired`] stays until the cursor is sent elsewhere.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends, which an Iterator cannot"
    )]
    pub fn next(&mut self) -> Result<Option<StoredRecord<'_>>> {
        self.next_below(u64::MAX)
    }

    /// The record that was returned last, once more.
    pub(super) fn again(&mut self) -> Result<Option<StoredRecord<'_>>> {
        self.step_back();
        self.next()
    }

    /// Goes back before the record that was returned last, of which nobody has let go in between.
    pub(super) fn step_back(&mut self) {
        self.cursor.step_back();
    }

    /// [`Error::OffsetExpired`] if the next record has gone.
    pub(super) fn check_expiry(&mut self) -> Result<()> {
        self.cursor.check_expiry()
    }

    pub(super) fn next_below(&mut self, limit: u64) -> Result<Option<StoredRecord<'_>>> {
        let origin = (self.topic.store.shared().id, self.cursor.log().site().log);
        let found = self.cursor.next(limit)?;
        Ok(found.map(|lent| StoredRecord {
            topic: &self.topic.inner.name,
            partition: self.partition,
            origin,
            offset: lent.offset,
            frame: lent.frame,
            segment: lent.segment,
            durable: lent.durable,
        }))
    }

    /// Which records it sees from here on: those that are durable, unless this says otherwise.
    ///
    /// [`Visibility::Written`] shows a record as soon as it is written. After a crash it may be gone,
    /// and its offset belong to another. A reader who comes back to a place beyond the end is told so,
    /// once, by [`Error::Truncated`], and goes on at the end; so is one who was sent there without
    /// having read anything. If so much has been appended since the crash that the end is beyond his
    /// place again, nobody can tell: who keeps his place across restarts had better keep one below
    /// [`Partition::end`](super::Partition::end), where everything is durable.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Durability, Start, Store, TopicOptions, Visibility};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let by_hand = TopicOptions::new().durability(Durability::Manual);
    /// let ticks = store.create_topic("ticks", by_hand)?;
    /// ticks.append_nowait("101.25")?;
    /// let cursor = ticks.partition(0)?.cursor(Start::Earliest)?;
    /// let mut cursor = cursor.visibility(Visibility::Written);
    /// assert_eq!(cursor.next()?.expect("it is written").text()?, "101.25");
    /// # drop(cursor);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        self.set_visibility(visibility);
        self
    }

    pub(super) fn set_visibility(&mut self, visibility: Visibility) {
        self.cursor.set_visibility(visibility);
    }

    /// The offset of the next record.
    pub fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    /// The partition it reads.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// Goes elsewhere.
    pub fn seek(&mut self, start: Start) -> Result<()> {
        let log = self.cursor.log();
        log.gate().reads(log.site())?;
        let offset = start.offset(log)?;
        self.cursor.seek(offset);
        Ok(())
    }

    /// Holds nothing while there is nothing to read.
    pub(super) fn rest(&mut self) {
        self.cursor.rest();
    }

    pub(super) fn log(&self) -> &Arc<Log> {
        self.cursor.log()
    }

    /// Whether calling [`Cursor::next`] gives something: a record or an error.
    pub(super) fn is_ready(&self) -> bool {
        let log = self.cursor.log();
        log.gate().reads(log.site()).is_err() || self.cursor.is_ready()
    }

    /// Whether nothing will come any more.
    pub(super) fn is_drained(&self) -> bool {
        let log = self.cursor.log();
        log.gate().is_finished() && log.is_all_durable() && !self.cursor.is_ready()
    }

    /// Why nothing comes any more, where the log has failed.
    pub(super) fn failure(&self) -> Option<Error> {
        let log = self.cursor.log();
        let stuck = log.gate().failure().is_some() && !self.cursor.is_ready();
        stuck.then(|| log.gate().failed(log.site()))
    }
}

/// The records of a range, owned. A damaged stretch is an error in its place; what follows it
/// follows.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append_batch(["one", "two"].map(Record::new))?;
/// for record in topic.partition(0)?.read(0..100)? {
///     println!("{}", record?.text()?);
/// }
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Records {
    cursor: Cursor,
    to: u64,
}

impl Records {
    pub(super) fn new(cursor: Cursor, to: u64) -> Records {
        Records { cursor, to }
    }
}

impl Iterator for Records {
    type Item = Result<OwnedRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.cursor.next_below(self.to) {
            Ok(record) => record.map(|record| Ok(record.to_owned())),
            Err(error) => {
                if !matches!(error, Error::Corrupt { .. } | Error::Unreadable { .. }) {
                    self.to = 0;
                }
                Some(Err(error))
            }
        }
    }
}
