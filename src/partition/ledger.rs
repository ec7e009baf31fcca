//! What has been written and not yet settled: the appender writes it down, rounds read it.
//!
//! A small mutex of its own, held for a few assignments and never across anything that waits: the
//! flusher must be able to look without taking the partition's lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mark::Mark;
use crate::segment::Segment;

/// A segment with bytes that are not settled.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) segment: Arc<Segment>,
    /// Its sums at its end, once another segment has taken over.
    pub(crate) done: Option<Mark>,
}

/// What is written down.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The sums of the active segment behind the last append.
    pub(crate) mark: Mark,
    /// Bytes of frames ever appended by this owner.
    pub(crate) bytes: u64,
    /// Segments that are not settled, oldest first; the active one last.
    pub(crate) open: Arc<Vec<Open>>,
}

/// The page they are written on.
#[derive(Debug)]
pub(crate) struct Ledger(Mutex<Entry>);

impl Ledger {
    pub(crate) fn new(mark: Mark, active: Option<Arc<Segment>>) -> Ledger {
        let open = active.map(|segment| Open {
            segment,
            done: None,
        });
        Ledger(Mutex::new(Entry {
            mark,
            bytes: 0,
            open: Arc::new(open.into_iter().collect()),
        }))
    }

    fn page(&self) -> MutexGuard<'_, Entry> {
        // Nothing that can panic runs under this mutex.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of what stands there now.
    pub(crate) fn read(&self) -> Entry {
        self.page().clone()
    }

    /// The offset that follows the last record appended.
    pub(crate) fn next(&self) -> u64 {
        self.page().mark.next
    }

    /// Bytes of frames appended so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.page().bytes
    }

    /// A batch was appended.
    pub(crate) fn appended(&self, mark: Mark, bytes: u64) {
        let mut page = self.page();
        page.mark = mark;
        page.bytes += bytes;
    }

    /// A segment has taken over, with these sums.
    pub(crate) fn rolled(&self, segment: &Arc<Segment>, mark: Mark) {
        let mut page = self.page();
        let done = page.mark;
        let open = Arc::make_mut(&mut page.open);
        if let Some(last) = open.last_mut() {
            last.done = Some(done);
        }
        open.push(Open {
            segment: Arc::clone(segment),
            done: None,
        });
        page.mark = mark;
    }

    /// The log lets go of its files: everything is settled.
    pub(crate) fn parked(&self) {
        self.page().open = Arc::default();
    }

    /// The appender holds its segment again.
    pub(crate) fn resumed(&self, segment: &Arc<Segment>) {
        let mut page = self.page();
        Arc::make_mut(&mut page.open).push(Open {
            segment: Arc::clone(segment),
            done: None,
        });
    }

    /// Whether any segment is held open for writing.
    pub(crate) fn holds_files(&self) -> bool {
        !self.page().open.is_empty()
    }

    /// Crosses out the segments that had taken no more appends when the entry was read, and end at or
    /// below it. One that ended since then has not been sealed.
    pub(crate) fn settled(&self, entry: &Entry) {
        let sealed = |open: &&Open| open.done.is_some_and(|done| done.next <= entry.mark.next);
        let sealed = entry.open.iter().rfind(sealed);
        let Some(sealed) = sealed.map(|open| open.segment.number()) else {
            return;
        };
        let keep = |open: &Open| open.segment.number() > sealed;
        let mut page = self.page();
        if !page.open.iter().all(keep) {
            Arc::make_mut(&mut page.open).retain(keep);
        }
    }
}
