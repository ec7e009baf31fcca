//! A subscription as its processor needs it: it can be waited at and sent back to a record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::follow::{Found, Stopper, look};
use super::read::{Cursor, Start};
use super::subscription::Subscription;
use super::topic::Topic;
use crate::error::Result;
use crate::options::Visibility;

/// What ended waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// There may be something to read.
    Ready,
    /// The topic is finished, and everything of it has been read.
    Ended,
    /// Somebody wants it to stop.
    Stopped,
}

impl Subscription {
    /// Waits until there is something to read, or nothing will come any more, or it is to stop.
    pub(crate) fn wait(&mut self, stop: &AtomicBool) -> Result<Waited> {
        self.cursors.iter_mut().for_each(Cursor::rest);
        let bell = self.topic.inner.bells.of(Visibility::Durable);
        let found = || match stop.load(Ordering::Acquire) {
            true => Some(Ok(Waited::Stopped)),
            false => match look(&self.cursors, self.turn) {
                Found::Ready(_) => Some(Ok(Waited::Ready)),
                Found::Ended => Some(Ok(Waited::Ended)),
                Found::Failed(error) => Some(Err(error)),
                Found::Nothing => None,
            },
        };
        loop {
            bell.wait_past(u64::MAX, None, || found().is_some());
            if let Some(found) = found() {
                return found;
            }
        }
    }

    /// The next record comes from this place, which is one that has been returned, or its next one.
    pub(crate) fn stand_at(&mut self, partition: u32, offset: u64) -> Result<()> {
        self.turn = partition as usize;
        self.cursors[self.turn].seek(Start::Offset(offset))
    }

    /// Where the durable records of each partition end now.
    pub(crate) fn ends(&self) -> Vec<u64> {
        self.cursors.iter().map(|it| it.log().durable()).collect()
    }

    /// Whether it has returned less than everything below these ends.
    pub(crate) fn is_before(&self, ends: &[u64]) -> bool {
        let mut each = self.cursors.iter().zip(ends);
        each.any(|(cursor, end)| cursor.offset() < *end)
    }

    /// A handle by which somebody else sets `stop`, and wakes who waits here.
    pub(crate) fn stopper(&self, stop: &Arc<AtomicBool>) -> Stopper {
        Stopper::new(&self.topic, stop)
    }
}

impl Topic {
    /// Waits until then, or until it is to stop.
    pub(crate) fn sleep(&self, until: Option<Instant>, stop: &AtomicBool) {
        let bell = self.inner.bells.of(Visibility::Durable);
        bell.wait_past(u64::MAX, until, || stop.load(Ordering::Acquire));
    }
}
