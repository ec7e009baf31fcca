//! Figures of a log, for who watches it.

use super::log::Log;
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
}
