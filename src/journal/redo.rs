//! Redo that a journal held when it was opened: what logs may lack in their own files.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fold::Fold;
use crate::error::Error;
use crate::format::Redo;

/// For each log, what it may lack.
pub(crate) type Pending = BTreeMap<u64, PendingRedo>;

/// What one log may lack, in the order in which it was written.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingRedo {
    /// The journal offset from which on it is kept there; `None` if all of it has a file of its own.
    pub(crate) from: Option<u64>,
    pub(crate) stretches: Vec<Redo>,
    /// Why the file of its own cannot be read: without it the log must not be opened.
    pub(crate) unread: Option<Arc<Error>>,
}

impl PendingRedo {
    /// Bytes of frames that are there.
    pub(crate) fn bytes(&self) -> u64 {
        let frames = self.stretches.iter().map(|redo| redo.frames.len() as u64);
        frames.sum()
    }
}

/// Redo as it is met, from the lowest journal record kept on.
#[derive(Debug, Default)]
pub(super) struct Met(Vec<(u64, Redo)>);

impl Met {
    pub(super) fn extend(&mut self, offset: u64, stretches: Vec<Redo>) {
        self.0
            .extend(stretches.into_iter().map(|redo| (offset, redo)));
    }

    /// What is still needed, now that the state of the store is known: redo of logs that are
    /// there, beyond the ends recorded for them.
    pub(super) fn pending(self, fold: &Fold) -> Pending {
        let mut pending = Pending::new();
        for (offset, redo) in self.0 {
            if !is_needed(fold, &redo) {
                continue;
            }
            let of_log = pending.entry(redo.of.log).or_default();
            of_log.from.get_or_insert(offset);
            of_log.stretches.push(redo);
        }
        pending
    }
}

/// Whether a log is there, and this lies beyond the end recorded for it.
pub(super) fn is_needed(fold: &Fold, redo: &Redo) -> bool {
    let Some(log) = fold.log(redo.of.log) else {
        return false;
    };
    // A stretch without a frame, behind the end, brings a header that others stand on.
    let settled = log.end.as_ref().and_then(|end| end.end.as_ref());
    settled.is_none_or(|end| end.next < redo.of.next || end.segment < redo.of.number)
}
