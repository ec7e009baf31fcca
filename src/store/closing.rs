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

/// The file system to sync, if that is the better way for these logs.
pub(super) fn volume<'a>(store: &'a Inner, logs: &[Arc<Log>]) -> Option<&'a Arc<dyn Volume>> {
    let members = logs.iter().filter(|log| log.settles_with_others());
    let many = members.take(FEW + 1).count() > FEW;
    store.volume.as_ref().filter(|_| many)
}

/// Settles logs that take no more appends for good, when no crew is at work any more: the ends of
/// those that have changed. What goes wrong with one keeps no other from it, and is handed to `fail`.
pub(super) fn settle(store: &Inner, logs: &[Arc<Log>], mut fail: impl FnMut(Error)) -> Vec<LogEnd> {
    let mut ended: Vec<Result<()>> = logs.iter().map(|_| Ok(())).collect();
    let together: Vec<bool> = logs.iter().map(|log| log.settles_with_others()).collect();
    let volume = volume(store, logs);
    if let Some(volume) = volume {
        let members = || logs.iter().zip(&together).enumerate();
        let members = || members().filter(|(_, (_, together))| **together);
        for (at, (log, _)) in members() {
            ended[at] = log.remove_spare();
        }
        let synced = volume.sync();
        let synced = synced.map_err(|error| Error::io("sync", &store.root, error));
        for (at, (log, _)) in members() {
            let settled = log.settled_with_others(&synced);
            ended[at] = std::mem::replace(&mut ended[at], Ok(())).and(settled);
        }
    }
    let mut ends = Vec::new();
    for ((log, together), ended) in logs.iter().zip(together).zip(ended) {
        let end = match (volume, together) {
            (Some(_), true) => ended.map(|()| log.recorded_end()),
            _ => log.finish_close(),
        };
        match end {
            Ok(end) => ends.extend(end.map(|end| stated(log.site().log, &end))),
            Err(error) => fail(error),
        }
    }
    ends
}
