//! What has been written and not yet settled: the appender writes it down, rounds read it.
//!
//! Whoever writes it down holds the partition's lock; rounds look without it. The sums change with each
//! append, and cost it a few stores. Which segments are open changes with the segment, under a small
//! mutex that an append does not touch, and that is never held across anything that waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mark::Mark;
use crate::segment::Segment;
use crate::sync::Whole;

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

/// The sums of a log: what one word of them is, is [`Ledger::sums`]' affair.
type Sums = Whole<8>;

/// The page they are written on.
#[derive(Debug)]
pub(crate) struct Ledger {
    sums: Sums,
    /// Segments that are not settled. Sums of another segment than its last are written under it.
    open: Mutex<Arc<Vec<Open>>>,
}

/// Where among the sums the offset stands that follows the last record.
const NEXT: usize = 0;
/// Where among the sums the bytes ever appended stand.
const BYTES: usize = 1;

fn sums(mark: &Mark, bytes: u64) -> [u64; 8] {
    let timed = u64::from(mark.greatest.is_some()) | u64::from(mark.last_append.is_some()) << 1;
    [
        mark.next,
        bytes,
        mark.place,
        mark.records,
        timed,
        mark.greatest.unwrap_or(0).cast_unsigned(),
        mark.last_append.unwrap_or(0).cast_unsigned(),
        u64::from(mark.index_entries) << 32 | u64::from(mark.index_checksum),
    ]
}

fn mark_and_bytes(sums: [u64; 8]) -> (Mark, u64) {
    let [
        next,
        bytes,
        place,
        records,
        timed,
        greatest,
        last_append,
        index,
    ] = sums;
    let time = |bit, time: u64| (timed & bit != 0).then(|| time.cast_signed());
    let mark = Mark {
        place,
        next,
        records,
        greatest: time(1, greatest),
        last_append: time(2, last_append),
        index_entries: (index >> 32) as u32,
        index_checksum: index as u32,
    };
    (mark, bytes)
}

impl Ledger {
    pub(crate) fn new(mark: Mark, active: Option<Arc<Segment>>) -> Ledger {
        let open = active.map(|segment| Open {
            segment,
            done: None,
        });
        Ledger {
            sums: Whole::new(sums(&mark, 0)),
            open: Mutex::new(Arc::new(open.into_iter().collect())),
        }
    }

    fn open(&self) -> MutexGuard<'_, Arc<Vec<Open>>> {
        // Nothing that can panic runs under this mutex.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of what stands there now.
    pub(crate) fn read(&self) -> Entry {
        // No segment takes over meanwhile, so the sums are the last one's.
        let open = self.open();
        let (mark, bytes) = mark_and_bytes(self.sums.get());
        Entry {
            mark,
            bytes,
            open: Arc::clone(&open),
        }
    }

    /// The offset that follows the last record appended.
    pub(crate) fn next(&self) -> u64 {
        self.sums.word(NEXT)
    }

    /// Bytes of frames appended so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.sums.word(BYTES)
    }

    /// A batch was appended to the active segment; so many bytes by now.
    pub(crate) fn appended(&self, mark: &Mark, bytes: u64) {
        self.sums.set(sums(mark, bytes));
    }

    /// A segment has taken over, with these sums.
    pub(crate) fn rolled(&self, segment: &Arc<Segment>, mark: &Mark) {
        let mut open = self.open();
        let (done, bytes) = mark_and_bytes(self.sums.get());
        let all = Arc::make_mut(&mut open);
        if let Some(last) = all.last_mut() {
            last.done = Some(done);
        }
        all.push(Open {
            segment: Arc::clone(segment),
            done: None,
        });
        self.sums.set(sums(mark, bytes));
    }

    /// The log lets go of its files: everything is settled.
    pub(crate) fn parked(&self) {
        *self.open() = Arc::default();
    }

    /// The appender holds its segment again.
    pub(crate) fn resumed(&self, segment: &Arc<Segment>) {
        Arc::make_mut(&mut self.open()).push(Open {
            segment: Arc::clone(segment),
            done: None,
        });
    }

    /// Whether any segment is held open for writing.
    pub(crate) fn holds_files(&self) -> bool {
        !self.open().is_empty()
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
        let mut open = self.open();
        if !open.iter().all(keep) {
            Arc::make_mut(&mut open).retain(keep);
        }
    }
}
