//! Redo that a journal held when it was opened: what logs may lack in their own files.

use std::collections::BTreeMap;

use super::fold::Fold;
use crate::format::Redo;

/// For each log, what it may lack.
pub(crate) type Pending = BTreeMap<u64, PendingRedo>;

/// What one log may lack, in the order in which it was written.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingRedo {
    /// The journal offset from which on this is kept.
    pub(crate) from: u64,
    pub(crate) stretches: Vec<Redo>,
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
            let Some(log) = fold.log(redo.of.log) else {
                continue;
            };
            // A stretch without a frame, behind the end, brings a header that others stand on.
            let settled = log.end.as_ref().and_then(|end| end.end.as_ref());
            if settled.is_some_and(|end| end.next >= redo.of.next && end.segment >= redo.of.number)
            {
                continue;
            }
            let of_log = pending.entry(redo.of.log).or_insert_with(|| PendingRedo {
                from: offset,
                stretches: Vec::new(),
            });
            of_log.stretches.push(redo);
        }
        pending
    }
}
