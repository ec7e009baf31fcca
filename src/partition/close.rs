//! The end of a handle, and of segments.

use std::sync::Arc;

use super::log::Log;
use super::mark::RecordedEnd;
use crate::error::{Error, Result};
use crate::sync::Ordering;

impl Log {
    /// Refuses appends from now on, and makes what was written durable. Readers go on.
    pub(crate) fn drain(self: &Arc<Self>) -> Result<()> {
        // Whoever is appending now is done when the lock can be had.
        let appending = self.lock();
        self.gate.close();
        drop(appending);
        self.wake_all();
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
        self.shelf.clear(&self.site)?;
        if !self.changed.load(Ordering::Acquire) {
            return Ok(None);
        }
        self.settle()
            .inspect_err(|cause| self.poison(cause.clone()))?;
        Ok(self.recorded_end())
    }

    /// The topic is gone: appends and reads are refused, and whoever waits is told.
    pub(crate) fn delete(&self) {
        let appending = self.lock();
        self.gate.delete();
        drop(appending);
        self.wake_all();
    }

    /// No appends from now on; what was written before is made durable.
    pub(crate) fn finish(self: &Arc<Self>) -> Result<()> {
        let appending = self.lock();
        self.gate.finish();
        drop(appending);
        self.flush()?;
        self.wake_all();
        Ok(())
    }

    /// Removes the segments that lie wholly below `offset`, lowest first; each removal is durable
    /// before the next. The active segment stays.
    pub(crate) fn remove_below(&self, offset: u64) -> Result<()> {
        let links = self.segments.now();
        for pair in links.windows(2) {
            let [lowest, next] = pair else { continue };
            let base = next.base(&self.site)?;
            if base > offset {
                break;
            }
            self.first.fetch_max(base, Ordering::AcqRel);
            self.segments.drop_below(next.number);
            let path = self.site.segment(lowest.number);
            let removed = self.site.storage.remove_file(&path);
            removed.map_err(|error| Error::io("remove", &path, error))?;
            let synced = self.site.storage.sync_dir(&self.site.dir);
            synced.map_err(|error| Error::io("sync", &self.site.dir, error))?;
        }
        Ok(())
    }
}
