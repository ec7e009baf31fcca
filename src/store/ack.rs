//! What says when an append that did not wait has become durable.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::batch::Written;
use super::position::{Position, Positions};
use super::topic::Topic;
use crate::error::Result;
use crate::partition::Log;

/// What an append that did not wait returns: where its records are, and whether they are durable.
///
/// It can be waited on, with a time-out or without, or awaited. It is cheap to keep and to clone, and
/// dropping it cancels nothing. Like every handle it keeps
/// the store open until it is closed by [`Store::close`](crate::Store::close).
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let quakes = store.topic("quakes")?;
/// let acks: Vec<_> = ["M 4.6", "M 2.1", "M 3.0"]
///     .map(Record::new)
///     .into_iter()
///     .map(|record| quakes.append_nowait(record))
///     .collect::<Result<_, _>>()?;
/// for ack in &acks {
///     println!("{} is on disk", ack.wait()?);
/// }
/// # futures_lite::future::block_on(async {
/// let at = quakes.append_nowait("M 5.1")?.await?;
/// println!("{at} is on disk");
/// # tidelog::Result::<()>::Ok(())
/// # })?;
/// # drop(acks);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Ack {
    topic: Topic,
    written: Written,
}

impl Ack {
    pub(super) fn new(topic: Topic, written: Written) -> Ack {
        Ack { topic, written }
    }

    /// The position of the record; of a batch, that of its first one.
    pub fn position(&self) -> Position {
        match &self.written {
            Written::To(partition, offsets) => {
                Position::new(&self.topic.inner.name, *partition, offsets.start)
            }
            Written::Durable(positions) => positions.first(),
        }
    }

    /// The positions of all records.
    pub fn positions(&self) -> Positions {
        self.topic.positions_of(&self.written)
    }

    /// The log, and the offsets in it, that have to become durable.
    fn pending(&self) -> Option<(&Arc<Log>, &Range<u64>)> {
        match &self.written {
            Written::To(_, offsets) => Some((self.topic.log_of(&self.written)?, offsets)),
            Written::Durable(_) => None,
        }
    }

    /// Whether the records are durable by now.
    pub fn is_durable(&self) -> bool {
        let pending = self.pending();
        let durable = pending.is_none_or(|(log, offsets)| log.is_durable(offsets.end));
        if durable {
            self.note_settled();
        }
        durable
    }

    /// Waits until the records are durable; [`Ack::position`] then.
    ///
    /// # Errors
    ///
    /// [`Error::InDoubt`](crate::Error::InDoubt) when the sync failed that would have made them
    /// durable; [`Error::TopicDeleted`](crate::Error::TopicDeleted);
    /// [`Error::NeedsFlush`](crate::Error::NeedsFlush), at once, if the topic is synced by hand only
    /// ([`Durability::Manual`](crate::Durability::Manual)) and no flush has covered them yet.
    pub fn wait(&self) -> Result<Position> {
        self.wait_for(None)
    }

    /// As [`Ack::wait`], for so long at the most. It can be called again.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](crate::Error::TimedOut) if the records are not durable then, and may
    /// still become so.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Position> {
        self.wait_for(Some(timeout))
    }

    fn wait_for(&self, timeout: Option<Duration>) -> Result<Position> {
        if let Some((log, offsets)) = self.pending() {
            log.wait_acknowledged(offsets.clone(), timeout)?;
        }
        self.note_settled();
        Ok(self.position())
    }

    /// [`Ack::wait`] as a future.
    pub(super) async fn resolved(&self) -> Result<Position> {
        if let Some((log, offsets)) = self.pending() {
            log.acknowledged(offsets.clone()).await?;
        }
        self.note_settled();
        Ok(self.position())
    }

    fn note_settled(&self) {
        if let (Written::To(partition, _), Some(_)) = (&self.written, self.pending()) {
            self.topic.note_settled(*partition);
        }
    }
}
