//! Opening a partition for somebody who waits for so long at the most: a thread of its own does it, and
//! goes on when he has given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::inner::TopicInner;
use super::offload::begin;
use super::topic::Topic;
use crate::error::{Error, Result, Wait};
use crate::partition::{Log, Patience};

/// Whether a thread is opening a partition for others.
#[derive(Debug, Default)]
pub(super) struct Elsewhere(AtomicBool);

impl Elsewhere {
    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Ends when the thread does, whatever came of it.
struct Opening(Arc<TopicInner>, u32);

impl Drop for Opening {
    fn drop(&mut self) {
        let Opening(topic, partition) = self;
        if let Some(cell) = topic.logs.get(*partition as usize) {
            cell.elsewhere().0.store(false, Ordering::Release);
        }
        topic.bells.written.wake();
    }
}

impl Topic {
    /// A partition's log, opened first if need be.
    pub(super) fn log_within(&self, partition: u32, patience: &mut Patience) -> Result<Arc<Log>> {
        let (store, topic) = (self.store.shared(), &self.inner);
        let until = patience.until().filter(|_| !store.options.inline);
        let (Some(until), Some(cell)) = (until, topic.logs.get(partition as usize)) else {
            return store.log(topic, partition);
        };
        let elsewhere = cell.elsewhere();
        if !elsewhere.0.swap(true, Ordering::AcqRel) {
            let opening = Opening(Arc::clone(topic), partition);
            let theirs = self.clone();
            begin(move || {
                let _opening = opening;
                theirs
                    .store
                    .shared()
                    .log(&theirs.inner, partition)
                    .map(drop)
            })?;
        }
        let ended = || !elsewhere.is_open();
        topic.bells.written.wait_past(u64::MAX, Some(until), ended);
        match cell.get() {
            Some(log) => Ok(Arc::clone(log)),
            None if elsewhere.is_open() => Err(Error::Busy {
                topic: topic.name.to_string(),
                partition,
                wait: Wait::Opening,
                within: patience.within().unwrap_or_default(),
            }),
            None => Err(cell.failure(topic, partition).unwrap_or(Error::Closed)),
        }
    }
}
