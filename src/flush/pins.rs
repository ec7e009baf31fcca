//! Which logs the journal must keep redo for.

use std::collections::BTreeMap;

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// After so many more bytes, copying out what a failed log needs is tried again.
const PUT_OFF: u64 = 1 << 20;

/// For each log whose own files are behind: where in the journal its redo begins.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    held: Mutex<Held>,
    /// Bytes that the journal has held so far, events and redo.
    written: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    pins: BTreeMap<u64, Pin>,
    /// Logs that will not let go by themselves, and how many bytes must have been written before
    /// somebody sees to that.
    failed: BTreeMap<u64, u64>,
}

#[derive(Debug, Clone, Copy)]
struct Pin {
    /// The journal offset of the first record with redo of the log.
    from: u64,
    /// That of the last one.
    last: u64,
    /// Bytes that the journal had held before the first one.
    before: u64,
}

impl Pins {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing that can panic runs under this mutex.
        self.held
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

    /// The journal must keep what it holds from that offset on, for these logs: the record there, of
    /// so many bytes, has been [counted](Pins::count).
    pub(crate) fn hold(&self, logs: &[u64], from: u64, bytes: u64) {
        let before = self.written().saturating_sub(bytes);
        let mut held = self.held();
        for log in logs {
            let pin = Pin {
                from,
                last: from,
                before,
            };
            held.pins.entry(*log).or_insert(pin).last = from;
        }
    }

    /// Bytes that the journal has taken from the first record on that it must keep.
    pub(crate) fn kept(&self) -> u64 {
        let before = self.held().pins.values().map(|pin| pin.before).min();
        before.map_or(0, |before| self.written().saturating_sub(before))
    }

    /// The log's own files are safe, or what it needs is kept elsewhere.
    pub(crate) fn release(&self, log: u64) {
        let mut held = self.held();
        held.pins.remove(&log);
        held.failed.remove(&log);
    }

    /// What a failed log needs of the journal below `end` is kept elsewhere. What it needs beyond,
    /// since it has been opened again meanwhile, stays.
    pub(crate) fn release_below(&self, log: u64, end: u64) {
        let mut held = self.held();
        match held.pins.get_mut(&log) {
            Some(pin) if pin.last >= end => {
                pin.from = pin.from.max(end);
                drop(held);
                self.put_off(log);
            }
            _ => {
                held.pins.remove(&log);
                held.failed.remove(&log);
            }
        }
    }

    /// The log has failed: what it needs, now or by a round that is under way, it needs until the
    /// store is opened again.
    pub(crate) fn fail(&self, log: u64) {
        self.held().failed.entry(log).or_insert(0);
    }

    /// A failed log for which the journal must keep something, and from where on, if it is time to
    /// copy that out.
    pub(crate) fn orphan(&self) -> Option<(u64, u64)> {
        let written = self.written();
        let held = self.held();
        let due = held.failed.iter().filter(|(_, at)| **at <= written);
        let pinned = |log: &u64| held.pins.get(log).map(|pin| (*log, pin.from));
        due.filter_map(|(log, _)| pinned(log)).next()
    }

    /// It could not be copied out.
    pub(crate) fn put_off(&self, log: u64) {
        let at = self.written() + PUT_OFF;
        if let Some(failed) = self.held().failed.get_mut(&log) {
            *failed = at;
        }
    }

    /// The lowest offset that the journal must keep, if any.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.held().pins.values().map(|pin| pin.from).min()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A log failed, and while what it needs was copied out it was opened again and has ridden: of
    /// the two only what was copied is let go of.
    #[test]
    fn a_pin_that_came_while_a_copy_was_made_stays() {
        let pins = Pins::default();
        pins.hold(&[1, 2], 10, 0);
        pins.fail(1);
        assert_eq!(pins.orphan(), Some((1, 10)));
        pins.release(1);
        pins.hold(&[1], 40, 0);
        pins.release_below(1, 30);
        assert_eq!(pins.lowest(), Some(10));
        pins.release(2);
        assert_eq!(pins.lowest(), Some(40));
        pins.release_below(1, 41);
        assert_eq!(pins.lowest(), None);
        // A log that has been well since is not put off, and so not taken for a failed one.
        pins.put_off(1);
        pins.hold(&[1], 50, 0);
        pins.count(1 << 30);
        assert_eq!(pins.orphan(), None);
    }

    /// Two logs ride one after another, and then the first one is settled: what the journal keeps begins
    /// with the second one's record, and is nothing when that has gone, too.
    #[test]
    fn what_is_kept_begins_with_the_first_record_that_is_needed() {
        let pins = Pins::default();
        pins.count(1000);
        for (log, bytes) in [(1, 100), (2, 10)] {
            pins.count(bytes);
            pins.hold(&[log], log, bytes);
        }
        pins.count(5);
        assert_eq!(pins.kept(), 115);
        pins.release(1);
        assert_eq!(pins.kept(), 15);
        pins.release(2);
        assert_eq!(pins.kept(), 0);
    }
}
