//! What subscriptions have done.

use crate::sys::Counter;

/// What subscriptions have done since the store was opened, by whatever handles.
#[derive(Debug, Default)]
pub(in crate::store) struct Totals {
    /// Records returned.
    pub(in crate::store) reads: Counter,
    /// Commits that moved something.
    pub(in crate::store) commits: Counter,
    /// How often what was to be read next had expired.
    pub(in crate::store) expired: Counter,
}
