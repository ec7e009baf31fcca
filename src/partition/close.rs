//! The end of a handle, and of segments.

use std::sync::Arc;

use super::appender::Active;
use super::log::Log;
use super::mark::RecordedEnd;
use crate::error::Result;
use crate::sync::Ordering;

impl Log {
    /// Refuses appends from now on. Readers go on.
    pub(crate) fn refuse(&self) {
        // Whoever is appending now is done when the lock can be had.
        let appending = self.lock();
        self.gate.close();
        drop(appending);
        self.wake_all();
    }

    /// Refuses appends from now on, and makes what was written durable.
    pub(crate) fn drain(self: &Arc<Self>) -> Result<()> {
        self.refuse();
        match self.gate.failure() {
            Some(_) => Err(self.gate.failed(&self.site)),
            None => self.flush(),
        }
    }

    /// Settles a drained log for good, when no crew is at work any more. Its end, if it has
    /// changed since it was last recorded.
    pub(crate) fn finish_close(&self) -> Result<Option<RecordedEnd>> {
        if self.gate.failure().is_some() {
            return Err(self.gate.failed(&self.site));
        }
        // Whoever waits for what was written is answered, whatever becomes of the spare.
        let cleared = match self.limits.load().ahead {
            // The next owner finds it, also on a full disk.
            true => self.shelf.leave(&self.site),
            false => self.shelf.clear(&self.site),
        };
        if !self.changed.load(Ordering::Acquire) {
            return cleared.map(|()| None);
        }
        self.settle()
            .inspect_err(|cause| self.poison(cause.clone()))?;
        cleared.map(|()| self.recorded_end())
    }

    /// Whether a sync of the whole file system is all that a drained log lacks to be settled for
    /// good. Where segments are to be sealed it lacks more.
    pub(crate) fn settles_with_others(&self) -> bool {
        let over = self.lock().active.as_ref().is_some_and(Active::is_over);
        let changed = self.changed.load(Ordering::Acquire);
        changed && !over && self.gate.failure().is_none() && self.ledger.read().open.len() <= 1
    }

    /// Removes the spare; the sync that settles the log makes that durable.
    pub(crate) fn remove_spare(&self) -> Result<()> {
        self.shelf.remove(&self.site).map(|_| ())
    }

    /// The file system was synced, or that failed: what the log lacked is settled, or never will
    /// be. A slot at the end says what the recorded end does, and is not synced: if it is lost, less
    /// is known of the end, and the log is walked.
    pub(crate) fn settled_with_others(&self, synced: &Result<()>) -> Result<()> {
        let entry = self.ledger.read();
        let mut progress = self.progress();
        let last = entry.open.last().map(|open| open.segment.number());
        let lacks = last.is_some_and(|number| !progress.covers(entry.mark.next, number));
        match synced {
            Ok(()) => {
                progress.settle(&entry);
                self.became_durable(&entry);
                self.settled_bytes.advance(entry.bytes);
                self.let_go();
                self.slot_at_end(&mut progress, &entry)?;
            }
            Err(cause) if lacks => self.poison(cause.clone()),
            Err(_) => {}
        }
        synced.clone()
    }

    /// The topic is gone: appends and reads are refused, and whoever waits is told.
    pub(crate) fn delete(&self) {
        let appending = self.lock();
        self.gate.delete();
        drop(appending);
        self.wake_all();
    }

    /// Removes the segments that lie wholly below `offset`, lowest first and by one caller at a time.
    /// One leaves the list when its removal is durable, and only then does the next one go: so a
    /// failure leaves a chain without a hole, and the next call begins where this one ended. The
    /// active segment stays. For the journal alone, of which nobody keeps segments for a copy.
    pub(crate) fn remove_below(&self, offset: u64) -> Result<()> {
        let _one = self.segments.removing();
        loop {
            let links = self.segments.now();
            let [lowest, next, ..] = links.as_slice() else {
                return Ok(());
            };
            let base = next.base(&self.site)?;
            if base > offset {
                return Ok(());
            }
            self.first.fetch_max(base, Ordering::AcqRel);
            self.show_first(base, next.number);
            if !self.unname(lowest)? {
                return Ok(());
            }
            self.segments.drop_below(next.number);
        }
    }
}
