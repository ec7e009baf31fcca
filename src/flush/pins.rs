//! Which logs the journal must keep redo for.

use std::collections::BTreeMap;

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// For each log whose own files are behind: the journal offset of the first record with its redo.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pins: Mutex<BTreeMap<u64, u64>>,
    /// Bytes that the journal has held so far, events and redo.
    written: AtomicU64,
}

impl Pins {
    fn pins(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        // Nothing that can panic runs under this mutex.
        self.pins
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Bytes were written to the journal.
    pub(crate) fn count(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes written to the journal so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The journal must keep what it holds from that offset on, for these logs.
    pub(crate) fn hold(&self, logs: &[u64], from: u64) {
        let mut pins = self.pins();
        for log in logs {
            pins.entry(*log).or_insert(from);
        }
    }

    /// The log's own files are safe.
    pub(crate) fn release(&self, log: u64) {
        self.pins().remove(&log);
    }

    /// The lowest offset that the journal must keep, if any.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.pins().values().copied().min()
    }
}
