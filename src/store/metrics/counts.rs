//! What a processor has done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a processor has done since it was opened; in
/// [`ProcessorMetrics`](crate::ProcessorMetrics) since the store was.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// store.topic("quakes")?.append("M 4.6")?;
/// let counts = store.processor("silent").input("quakes").run_once(|_, _| Ok(()))?;
/// assert_eq!((counts.records_in, counts.records_out), (1, 0));
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessorCounts {
    /// Records that are done with, also those that were skipped or are dead letters.
    pub records_in: u64,
    /// Records put out, dead letters not counted.
    pub records_out: u64,
    /// How often the function failed, each attempt counted, or a record could not be read.
    pub failures: u64,
    /// Attempts after the first one.
    pub retries: u64,
    /// Records that were given up and left out.
    pub skipped: u64,
    /// Records that were given up and went to the dead-letter topic.
    pub dead_lettered: u64,
}

/// The same, as it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) records_in: AtomicU64,
    pub(crate) records_out: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) dead_lettered: AtomicU64,
    /// Where all who have the name count, one after another.
    totals: Option<Arc<Counters>>,
}

impl Counters {
    /// For one opening: what is counted there is counted in the totals, too.
    pub(super) fn of(totals: &Arc<Counters>) -> Arc<Counters> {
        Arc::new(Counters {
            totals: Some(Arc::clone(totals)),
            ..Counters::default()
        })
    }

    /// Counts so many.
    pub(crate) fn count(&self, what: fn(&Counters) -> &AtomicU64, many: u64) {
        what(self).fetch_add(many, Ordering::Relaxed);
        if let Some(totals) = &self.totals {
            totals.count(what, many);
        }
    }

    pub(crate) fn now(&self) -> ProcessorCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProcessorCounts {
            records_in: of(&self.records_in),
            records_out: of(&self.records_out),
            failures: of(&self.failures),
            retries: of(&self.retries),
            skipped: of(&self.skipped),
            dead_lettered: of(&self.dead_lettered),
        }
    }
}
