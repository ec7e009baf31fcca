//! Riding with the journal: what a log has written and not yet made durable goes there as redo.
//!
//! `durable` then runs ahead of `settled`: the records between are safe in the journal, and their
//! own segments are synced later, by a round of the log alone.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::due::Due;
use super::ledger::{Entry, Open};
use super::log::Log;
use crate::error::Result;
use crate::format::Stretch;
use crate::sync::Ordering;

/// A log with more bytes than this is synced by itself: they would be written twice.
const MOST_BYTES: u64 = 128 << 10;
/// ... and one whose redo keeps so much of the journal from being let go of.
const MOST_KEPT: u64 = 16 << 20;

/// How far rounds have come. Rounds alone use it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Records below it are safe in their own segments, headers and all.
    pub(super) settled: u64,
    /// The segment in which `durable` stands, and the place there.
    at: (u32, u64),
    /// The segments up to this one have a safe header.
    header: Option<u32>,
    /// What has been offered to the journal and not yet answered, and when.
    offered: Option<(Entry, Duration)>,
    /// When the last round that made something durable ended, or began if it was the journal's.
    pub(super) busy: Duration,
}

impl Progress {
    /// Everything is settled, up to a place in the last segment, if there is one.
    pub(super) fn new(settled: u64, last: Option<(u32, u64)>) -> Progress {
        Progress {
            settled,
            at: last.unwrap_or((0, 0)),
            header: last.map(|(number, _)| number),
            offered: None,
            busy: Duration::ZERO,
        }
    }

    /// A round of the log alone has synced what stands there.
    pub(super) fn settle(&mut self, entry: &Entry) {
        self.settled = entry.mark.next;
        self.reach(entry);
        self.header = self.header.max(Some(self.at.0));
    }

    /// Whether everything below an offset is settled, and the header of the segment of that number.
    pub(super) fn covers(&self, next: u64, number: u32) -> bool {
        self.settled >= next && self.header >= Some(number)
    }

    /// Whether the header of the segment of that number is safe.
    pub(super) fn has_header(&self, number: u32) -> bool {
        self.header >= Some(number)
    }

    /// The segment of that number, and so its header, has been synced.
    pub(super) fn safe_header(&mut self, number: u32) {
        self.header = self.header.max(Some(number));
    }

    fn reach(&mut self, entry: &Entry) {
        if let Some(open) = entry.open.last() {
            self.at = (open.segment.number(), entry.mark.place);
        }
    }
}

impl Log {
    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        // What a panic left half done is never read again: the log is abandoned.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the journal holds what is not safe in the log's own files.
    pub(super) fn is_behind(&self) -> bool {
        self.progress().settled < self.durable.get()
    }

    /// Whether a round should settle the log now, quiet or not.
    pub(super) fn is_hurried(&self) -> bool {
        self.hurry.swap(false, Ordering::AcqRel) || self.pins_too_much()
    }

    /// Whether the journal must keep much for this log's sake.
    pub(super) fn pins_too_much(&self) -> bool {
        let since = self.kept_since.load(Ordering::Acquire);
        self.setting.pins.written().saturating_sub(since) > MOST_KEPT
    }

    /// The journal need not keep anything for the log any more.
    pub(super) fn let_go(&self) {
        self.kept_since.store(u64::MAX, Ordering::Release);
        self.setting.pins.release(self.site.log);
    }

    /// Whether the journal would be the better place for what is not durable. A look without any
    /// lock that a round holds: it may be outdated, and costs little then.
    pub(super) fn would_ride(&self) -> bool {
        let durable = self.durable_bytes.load(Ordering::Acquire);
        let fresh = self.ledger.bytes().saturating_sub(durable);
        let hurried = self.hurry.load(Ordering::Acquire);
        (1..=MOST_BYTES).contains(&fresh) && !hurried && !self.pins_too_much()
    }

    /// Adds what is not durable to a page of redo, if it would ride.
    pub(super) fn offer_redo(&self, page: &mut Vec<u8>) -> bool {
        if self.gate.is_lost() || !self.would_ride() || self.due() != Due::Now {
            return false;
        }
        let before = page.len();
        match self.add_redo(page) {
            Ok(entry) => self.offered(entry),
            Err(error) => {
                tracing::warn!(log = self.site.log, %error, "no redo");
                page.truncate(before);
                return false;
            }
        }
        true
    }

    /// Adds what is not durable to a page of redo: up to where that goes.
    pub(super) fn add_redo(&self, page: &mut Vec<u8>) -> Result<Entry> {
        let progress = self.progress();
        let entry = self.ledger.read();
        for open in entry.open.iter() {
            self.add_stretch(&progress, &entry, open, page)?;
        }
        Ok(entry)
    }

    /// What goes up to there is on its way to the journal.
    pub(super) fn offered(&self, entry: Entry) {
        self.progress().offered = Some((entry, self.setting.clock.monotonic()));
    }

    /// Adds what one segment holds of it.
    fn add_stretch(
        &self,
        progress: &Progress,
        entry: &Entry,
        open: &Open,
        page: &mut Vec<u8>,
    ) -> Result<()> {
        let segment = &open.segment;
        let number = segment.number();
        let durable = self.durable.get();
        let end = open.done.unwrap_or(entry.mark);
        let place = match number == progress.at.0 {
            true => progress.at.1.max(segment.start()),
            false => segment.start(),
        };
        let new_header = Some(number) > progress.header;
        if number < progress.at.0 || (end.next <= durable && !new_header) {
            return Ok(());
        }
        let malformed = |flaw| self.site.io("encode", number, std::io::Error::other(flaw));
        let identity = match new_header {
            true => Some(segment.identity.encode().map_err(malformed)?),
            false => None,
        };
        // Checked as a reader would: a page that the kernel failed to write, and let go of, must
        // not be acknowledged on the strength of the journal. The log's own sync will tell.
        let frames = segment.sound_frames(place, end.place).map_err(|trouble| {
            let at = super::site::Damage {
                segment: number,
                place,
                offset: durable,
                next: end.next,
            };
            self.site.unreadable(at, trouble)
        })?;
        let stretch = Stretch {
            log: self.site.log,
            number,
            nonce: segment.identity.nonce,
            first: durable.max(segment.base()),
            next: end.next,
            place,
        };
        let encoded = stretch.encode(identity.as_ref(), frames, page);
        encoded.map_err(malformed)
    }

    /// The journal holds, durably, what was offered.
    pub(super) fn redo_is_kept(&self) {
        let mut progress = self.progress();
        let Some((entry, begun)) = progress.offered.take() else {
            return;
        };
        progress.reach(&entry);
        progress.busy = begun;
        self.demand.begin(begun);
        if self.kept_since.load(Ordering::Acquire) == u64::MAX {
            let written = self.setting.pins.written();
            self.kept_since.store(written, Ordering::Release);
        }
        self.became_durable(&entry);
        if self.gate.is_deleted() {
            self.let_go();
        }
    }

    /// Has the next round settle the log.
    pub(super) fn hurry(&self) {
        self.hurry.store(true, Ordering::Release);
    }
}
