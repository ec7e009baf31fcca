//! Figures of a log, for who watches it.

use super::log::Log;
use crate::error::Span;
use crate::sync::tally::Tally;

impl Log {
    /// How long durable appends took, as whoever waits for them adds.
    pub(crate) fn append_times(&self) -> &Tally {
        &self.append_times
    }

    /// Bytes that are not safe in their own segments yet.
    pub(crate) fn unsettled_bytes(&self) -> u64 {
        let settled = self.settled_bytes.get();
        self.ledger.bytes().saturating_sub(settled)
    }

    /// Records of which nobody knows whether they are there when the log is opened again: they were
    /// written before it failed, and are not durable.
    pub(crate) fn in_doubt(&self) -> Option<Span> {
        self.gate().failure()?;
        let offsets = self.durable()..self.written();
        (!offsets.is_empty()).then(|| self.site().span(offsets))
    }
}
