//! What logs still lack in their own files when a store is closed: one sync of the whole file
//! system gives it to many of them, where that can be had; else each is synced by itself.

use std::sync::Arc;

use super::inner::Inner;
use super::log_cell::stated;
use crate::error::{Error, Result};
use crate::journal::LogEnd;
use crate::partition::Log;
use crate::sys::Volume;

/// From more logs than this on, one sync of everything costs less than theirs.
const FEW: usize = 8;

/// The logs of a store that is being closed, and how they are settled.
pub(super) struct Closing<'a> {
    store: &'a Inner,
    logs: &'a [Arc<Log>],
    /// The file system to sync, if that is the better way.
    volume: Option<&'a Arc<dyn Volume>>,
    /// For each log, whether that was all it lacked.
    together: Vec<bool>,
}

impl<'a> Closing<'a> {
    /// These logs take no more appends.
    pub(super) fn of(store: &'a Inner, logs: &'a [Arc<Log>]) -> Closing<'a> {
        let volume = store.volume.as_ref();
        let together = logs.iter().map(|log| settles_with_others(volume, log));
        let together: Vec<bool> = together.collect();
        let members = together.iter().filter(|together| **together);
        let few = members.count() <= FEW;
        Closing {
            store,
            logs,
            volume: volume.filter(|_| !few),
            together: together.iter().map(|it| *it && !few).collect(),
        }
    }

    /// Whether each log is to be synced by itself.
    pub(super) fn is_single(&self) -> bool {
        self.volume.is_none()
    }

    /// Settles the logs for good, when no crew is at work any more: the ends of those that have
    /// changed. What goes wrong with one keeps no other from it, and is handed to `fail`.
    pub(super) fn settle(self, mut fail: impl FnMut(Error)) -> Vec<LogEnd> {
        // One may have failed since.
        let still = |(log, together): (&Arc<Log>, &bool)| *together && log.settles_with_others();
        let together: Vec<bool> = self.logs.iter().zip(&self.together).map(still).collect();
        let mut ended: Vec<Result<()>> = self.logs.iter().map(|_| Ok(())).collect();
        if let Some(volume) = self.volume {
            let members = || (0..).zip(self.logs).zip(&together);
            let members = || members().filter(|(_, together)| **together);
            for ((at, log), _) in members() {
                set(&mut ended, at, log.remove_spare());
            }
            let synced = volume.sync();
            let synced = synced.map_err(|error| Error::io("sync", &self.store.root, error));
            if let Err(cause) = &synced {
                self.fail_all(cause);
                fail(cause.clone());
                return Vec::new();
            }
            for ((at, log), _) in members() {
                set(&mut ended, at, log.settled_with_others(&synced));
            }
        }
        let mut ends = Vec::new();
        for ((log, together), ended) in self.logs.iter().zip(together).zip(ended) {
            let end = match together {
                true => ended.map(|()| log.recorded_end()),
                false => log.finish_close(),
            };
            match end {
                Ok(end) => ends.extend(end.map(|end| stated(log.site().log, &end))),
                Err(error) => fail(error),
            }
        }
        ends
    }

    /// The sync of the file system failed. It was one of every file there, the journal's too: what was not
    /// safe before may be gone, and to sync any of them again would prove nothing. What is durable is
    /// found by the next owner.
    fn fail_all(&self, cause: &Error) {
        let failed = Err(cause.clone());
        for log in self.logs {
            // It says no more than what it is told.
            drop(log.settled_with_others(&failed));
        }
        self.store.journal.fail(cause.clone());
    }
}

/// Whether a sync of the file system is all that a log lacks. What is mounted from elsewhere does not
/// lie on it.
fn settles_with_others(volume: Option<&Arc<dyn Volume>>, log: &Log) -> bool {
    let on = |volume: &Arc<dyn Volume>| volume.holds(&log.site().dir).unwrap_or(false);
    log.settles_with_others() && volume.is_some_and(on)
}

/// Notes how a step went, where none has failed before.
fn set(ended: &mut [Result<()>], at: usize, went: Result<()>) {
    if let Some(ended @ Ok(())) = ended.get_mut(at) {
        *ended = went;
    }
}
