//! What goes into the journal with its rounds: redo, and snapshots.
//!
//! Nothing here waits: it runs on whichever thread runs the round, which may be the very one that
//! would have to be waited for.

use std::sync::{Arc, Mutex, TryLockError, Weak};

use super::journal::{Book, Unfinished};
use super::record::REDO;
use super::rescue::Rescue;
use super::snapshot::{Snapshot, should_snapshot};
use crate::error::{Error, Result};
use crate::flush::{Crew, DirtyLog, Pins, RedoSink};
use crate::format::Parts;
use crate::partition::{Log, Setting};
use crate::segment::Writable;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::Clock;

/// Whatever is written counts for a snapshot, which is what lets go of old segments: at this many
/// bytes, or so many times the last snapshot.
const MOST_BYTES: u64 = 16 << 20;
const MOST_TIMES: u64 = 8;
/// What is left free beside the room of a snapshot.
const RESERVE: u64 = 4 << 10;

/// The journal, shared with the flusher.
pub(super) struct Shared {
    pub(super) log: Arc<Log>,
    pub(super) book: Mutex<Book>,
    pub(super) pins: Arc<Pins>,
    pub(super) clock: Arc<dyn Clock>,
    flusher: Arc<Crew>,
    me: Weak<Shared>,
    /// What a snapshot that is written folds up to, and the offset behind its last part.
    written: Mutex<Option<(u64, u64)>>,
    /// What the newest durable snapshot of this owner folds up to.
    folded: AtomicU64,
    /// Bytes that are left to the next snapshot, the next owner's first record and the last one of
    /// this, in a segment behind which there is none yet.
    reserve: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Journal").field(&self.log).finish()
    }
}

/// Payloads as records of the journal.
pub(super) fn writables(payloads: &[Vec<u8>]) -> Result<Vec<Writable<'_>>> {
    fn writable(payload: &Vec<u8>) -> Result<Writable<'_>> {
        let parts = Parts {
            payload,
            ..Parts::default()
        };
        let length = parts.frame_len()?;
        Ok(Writable {
            parts,
            length,
            timestamp: 0,
        })
    }
    payloads.iter().map(writable).collect()
}

/// Gives records of the journal their time.
pub(super) fn stamp(records: &mut [Writable<'_>], now: i64) {
    for record in records {
        record.timestamp = now;
    }
}

impl Shared {
    pub(super) fn new(log: Arc<Log>, book: Mutex<Book>, setting: &Setting) -> Arc<Shared> {
        Arc::new_cyclic(|me| Shared {
            log,
            book,
            pins: Arc::clone(&setting.pins),
            clock: Arc::clone(&setting.clock),
            flusher: Arc::clone(&setting.flusher),
            me: Weak::clone(me),
            written: Mutex::new(None),
            folded: AtomicU64::new(0),
            reserve: AtomicU64::new(RESERVE),
        })
    }

    /// What a record that can be refused leaves free behind it.
    pub(super) fn reserve(&self) -> u64 {
        self.reserve.load(Ordering::Acquire)
    }

    /// Appends payloads as one batch, without waiting, and so many bytes stay free behind it; the
    /// offset of the first.
    fn try_append(&self, payloads: &[Vec<u8>], keep: u64) -> Result<Option<u64>> {
        if payloads.is_empty() {
            return Ok(None);
        }
        let mut records = writables(payloads)?;
        let written = self.log.try_write(&mut records, stamp, keep);
        let first = written?.map(|offsets| offsets.start);
        if first.is_some() {
            self.count(payloads);
        }
        Ok(first)
    }

    /// Counts what was written: how many bytes that is.
    pub(super) fn count(&self, payloads: &[Vec<u8>]) -> u64 {
        let bytes = payloads.iter().map(|it| it.len() as u64).sum();
        self.pins.count(bytes);
        bytes
    }

    /// Writes a snapshot if enough has been written since the last one. Its parts ride with this
    /// round; who has the book now may be waiting for it, and the next round tries again.
    fn snapshot_if_due(&self) -> Result<()> {
        match self.book.try_lock() {
            Ok(mut book) => self.snapshot(&mut book),
            Err(TryLockError::Poisoned(book)) => self.snapshot(&mut book.into_inner()),
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    fn snapshot(&self, book: &mut Book) -> Result<()> {
        let mut snapshot = match book.unfinished.take() {
            Some(snapshot) => snapshot,
            None if self.is_due(book) => self.take_snapshot(book),
            None => return Ok(()),
        };
        while let Some(part) = snapshot.parts.front() {
            let appended = self.try_append(std::slice::from_ref(part), 0);
            let Ok(Some(at)) = appended else {
                // The parts that are there count, and the others come with later rounds.
                book.unfinished = Some(snapshot);
                return appended.map(|_| ());
            };
            snapshot.parts.pop_front();
            if snapshot.parts.is_empty() {
                book.written = snapshot.written;
                book.snapshot = snapshot.bytes;
                *self.written() = Some((snapshot.folds_to, at + 1));
            }
        }
        Ok(())
    }

    /// On a full disk a snapshot is due in every segment, early: it lets go of the one before, which
    /// is the room that the next one gets.
    fn is_due(&self, book: &Book) -> bool {
        let newest = self.written().map_or(0, |(folds_to, _)| folds_to);
        let newest = newest.max(self.folded.load(Ordering::Acquire));
        if self.log.lacks_room() && self.log.last_base().is_ok_and(|base| newest < base) {
            return true;
        }
        let written = self.pins.written() - book.written;
        written >= MOST_BYTES.max(MOST_TIMES * book.snapshot)
            || should_snapshot(book.since, book.snapshot)
    }

    fn take_snapshot(&self, book: &mut Book) -> Unfinished {
        let folds_to = self.log.written();
        let parts = Snapshot::of(&book.fold, folds_to);
        // What is stated from here on counts for the next one.
        book.since = 0;
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.reserve.store(RESERVE + bytes, Ordering::Release);
        Unfinished {
            folds_to,
            written: self.pins.written(),
            bytes,
            parts: parts.into(),
        }
    }

    /// On a full disk: writes a snapshot, if the last one is not of the present segment, and waits
    /// until it is durable and old segments have gone, whose space the next one gets. Nobody else
    /// states anything meanwhile.
    pub(super) fn make_room(&self, book: &mut Book) -> Result<()> {
        // What is refused is the fact, whatever became of the snapshot.
        if let Err(error) = self.snapshot(book) {
            tracing::warn!(%error, "no snapshot makes room");
        }
        let end = self.written().map(|(_, end)| end);
        if let Some(end) = end {
            self.log.wait_durable(end.saturating_sub(1)..end)?;
        }
        self.fold();
        self.cut();
        Ok(())
    }

    /// Notes which snapshot is durable; whether it is another one.
    fn fold(&self) -> bool {
        let durable = self.log.durable();
        let ripe = self.written().take_if(|(_, end)| *end <= durable);
        if let Some((folds_to, _)) = ripe {
            self.folded.fetch_max(folds_to, Ordering::AcqRel);
        }
        ripe.is_some()
    }

    /// Lets go of the segments below what the newest durable snapshot folds, and below all redo that a
    /// log still needs.
    pub(super) fn cut(&self) {
        let folded = self.folded.load(Ordering::Acquire);
        let keep = self.pins.lowest().unwrap_or(folded).min(folded);
        if let Err(error) = self.log.remove_below(keep) {
            tracing::warn!(%error, "the journal keeps what it does not need");
        }
    }

    fn written(&self) -> std::sync::MutexGuard<'_, Option<(u64, u64)>> {
        let written = self.written.lock();
        written.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl RedoSink for Shared {
    fn log(&self) -> Arc<dyn DirtyLog> {
        Arc::clone(&self.log) as _
    }

    fn page(&self) -> Vec<u8> {
        vec![REDO]
    }

    fn write(&self, pages: &[Vec<u8>], riders: &[u64]) -> bool {
        let written = self
            .try_append(pages, self.reserve())
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "the journal takes no redo");
                None
            });
        // Before the sync: from then on the journal may be cut short below its newest snapshot.
        if let Some(from) = written {
            let bytes = pages.iter().map(|page| page.len() as u64).sum();
            self.pins.hold(riders, from, bytes);
        }
        if let Err(error) = self.snapshot_if_due() {
            // The facts stand; the next round tries again.
            tracing::warn!(%error, "no snapshot of the journal");
        }
        written.is_some()
    }

    fn failure(&self) -> Option<Arc<Error>> {
        self.log.gate().failure()
    }

    /// Lets go of what is not needed; what a failed log needs is to be copied out before the next
    /// time.
    fn tidy(&self) {
        if self.pins.orphan().is_some()
            && let Some(me) = self.me.upgrade()
        {
            self.flusher.request(Arc::new(Rescue(me)));
        }
        if self.fold() || self.log.lacks_room() {
            self.cut();
        }
        self.log.try_again();
    }
}
