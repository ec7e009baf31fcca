//! What appends have waited for.

use std::time::Duration;

use crate::error::Wait;
use crate::partition::Log;

/// How often appends to a partition have waited for one thing since the store was opened, those that
/// wait for nothing else among them; see [`PartitionMetrics`](crate::PartitionMetrics).
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, Wait};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// store.topic("quakes")?.append("M 4.6")?;
/// let waits = store.metrics()?.topics[0].partitions[0].append_waits;
/// assert_eq!((waits[0].wait, waits[0].times), (Wait::Opening, 1));
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendWaits {
    /// What for.
    pub wait: Wait,
    /// How often.
    pub times: u64,
    /// How long in all.
    pub time: Duration,
}

impl AppendWaits {
    pub(super) fn of(log: &Log) -> [AppendWaits; Wait::ALL.len()] {
        Wait::ALL.map(|wait| {
            let (times, time) = log.waits().of(wait);
            AppendWaits { wait, times, time }
        })
    }
}
