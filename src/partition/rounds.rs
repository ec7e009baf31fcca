//! Rounds of one log: one sync, and what it makes durable; then slots and seals.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::appender::Active;
use super::due::Due;
use super::ledger::{Entry, Open};
use super::log::Log;
use super::mark::Mark;
use super::riding::Progress;
use crate::error::{Error, Result, is_full};
use crate::flush::{DirtyLog, Next};
use crate::format::{SECTOR, Sector, Slot};
use crate::segment::Segment;
use crate::sync::Ordering;

/// A slot is written when this many bytes have been settled since the last one.
const SLOT_DISTANCE: u64 = 1 << 20;
/// ... and when nothing has been appended for this long.
const QUIET: Duration = Duration::from_secs(1);

/// Where the last slot is, and where the next one goes. Rounds alone use it.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(super) segment: Option<u32>,
    pub(super) place: u64,
    pub(super) generation: u64,
    pub(super) sector: Sector,
}

impl Slots {
    /// Of a log without an active segment.
    pub(super) fn none() -> Slots {
        Slots {
            segment: None,
            place: 0,
            generation: 0,
            sector: Sector::A,
        }
    }
}

impl Log {
    pub(super) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs every segment with bytes that are not settled, oldest first. One that ended without
    /// a record, since its first write failed, is a link of the chain all the same.
    fn sync(&self, entry: &Entry, settled: u64) -> Result<()> {
        let unsafe_still = |open: &&Open| {
            let empty = |done: Mark| done.next == open.segment.base();
            open.done
                .is_none_or(|done| done.next > settled || empty(done))
        };
        for open in entry.open.iter().filter(unsafe_still) {
            self.sync_file(&open.segment)?;
        }
        Ok(())
    }

    pub(super) fn sync_file(&self, segment: &Segment) -> Result<()> {
        let synced = segment.file.sync();
        synced.map_err(|error| self.site.io("sync", segment.number(), error))
    }

    /// What the log has failed of: nothing becomes durable any more, and whoever waits is told.
    pub(crate) fn poison(&self, cause: Error) {
        tracing::error!(log = self.site.log, error = %cause, "the log fails");
        self.gate.fail(Arc::new(cause));
        self.setting.pins.fail(self.site.log);
        self.wake_all();
    }

    /// Seals the segments that are settled for good.
    fn seal(&self, entry: &Entry) -> Result<()> {
        for open in entry.open.iter() {
            let Some(done) = open.done.filter(|done| done.next <= entry.mark.next) else {
                continue;
            };
            // A segment that ends without a seal ends where its successor says: on a full disk
            // that is good enough.
            if self.put(&open.segment, Sector::Seal, &done.seal(self.epoch))? {
                self.sync_file(&open.segment)?;
            }
        }
        self.ledger.settled(entry);
        Ok(())
    }

    /// Writes a slot where everything below it is settled.
    fn write_slot(&self, slots: &mut Slots, segment: &Segment, mark: Mark) -> Result<()> {
        if slots.segment != Some(segment.number()) {
            slots.sector = Sector::A;
        }
        let slot = mark.slot(self.epoch, slots.generation + 1);
        if self.put(segment, slots.sector, &slot)? {
            slots.segment = Some(segment.number());
            slots.place = mark.place;
            slots.generation += 1;
            slots.sector = match slots.sector {
                Sector::A => Sector::B,
                _ => Sector::A,
            };
        }
        Ok(())
    }

    /// Writes a slot at the end of a log, unless one is there, or not all is settled. The header of
    /// a segment without a record may have had no sync yet: a slot beside a header that is lost is
    /// taken for rot.
    pub(super) fn slot_at_end(&self, progress: &mut Progress, entry: &Entry) -> Result<()> {
        let [Open { segment, .. }] = entry.open.as_slice() else {
            return Ok(());
        };
        if progress.settled < entry.mark.next {
            return Ok(());
        }
        if !progress.covers(entry.mark.next, segment.number()) {
            self.sync_file(segment)?;
            progress.settle(entry);
        }
        let mut slots = self.slots();
        if slots.segment == Some(segment.number()) && slots.place == entry.mark.place {
            return Ok(());
        }
        self.write_slot(&mut slots, segment, entry.mark)
    }

    /// Writes a sector of a segment's header; false if there is no space for it.
    fn put(&self, segment: &Segment, sector: Sector, slot: &Slot) -> Result<bool> {
        let number = segment.number();
        let bytes: [u8; SECTOR] = slot
            .encode(segment.seed())
            .map_err(|flaw| self.site.io("encode", number, io::Error::other(flaw)))?;
        match segment.file.write_at(&bytes, sector.place()) {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(self.site.io("write", number, error)),
        }
    }

    /// One round of this log by itself: everything that is not settled is synced in its own files.
    /// What is durable already, in the journal, and what is not `due`, can wait until the log is
    /// quiet; not if there is a `hurry`.
    pub(super) fn direct(&self, hurry: bool, due: bool) -> Result<Next> {
        let mut progress = self.progress();
        let entry = self.ledger.read();
        let fresh = entry.mark.next > self.durable.get();
        let behind = entry.mark.next > progress.settled;
        if behind && !(fresh && due) && !hurry {
            let now = self.setting.clock.monotonic();
            let quiet_at = progress.busy + QUIET;
            if let Some(left) = quiet_at.checked_sub(now).filter(|left| !left.is_zero()) {
                return Ok(Next::After(left));
            }
        }
        if behind {
            let _span = tracing::debug_span!("flush", log = self.site.log).entered();
            self.demand.begin(self.setting.clock.monotonic());
            let bytes = entry.bytes - self.durable_bytes.load(Ordering::Acquire);
            self.sync(&entry, progress.settled)?;
            self.renew_window(&entry, bytes);
            progress.settle(&entry);
            self.became_durable(&entry);
            self.settled_bytes.advance(entry.bytes);
            self.let_go();
        } else if entry.open.len() > 1 {
            // A seal is only written behind a header that is safe, and one that ended without a
            // record may have had no sync yet.
            self.sync(&entry, progress.settled)?;
        }
        self.seal(&entry)?;
        self.slot(&entry, fresh, &mut progress.busy)
    }

    /// Everything up to here survives a power cut, wherever it is stored.
    pub(super) fn became_durable(&self, entry: &Entry) {
        self.durable_bytes.store(entry.bytes, Ordering::Release);
        self.show_durable(entry.mark.next);
    }

    /// Writes a slot if it is time to, or says when to look again.
    fn slot(&self, entry: &Entry, fresh: bool, busy: &mut Duration) -> Result<Next> {
        let Some(Open { segment, .. }) = entry.open.last() else {
            return Ok(Next::Rest);
        };
        let mut slots = self.slots();
        let now = self.setting.clock.monotonic();
        if fresh {
            *busy = now;
        }
        let from = match slots.segment {
            Some(number) if number == segment.number() => slots.place,
            _ => segment.start(),
        };
        let distance = entry.mark.place - from;
        let quiet = now.saturating_sub(*busy) >= QUIET;
        if distance >= SLOT_DISTANCE || (quiet && distance > 0) {
            self.write_slot(&mut slots, segment, entry.mark)?;
            return Ok(Next::Rest);
        }
        Ok(if distance > 0 {
            Next::After(QUIET)
        } else {
            Next::Rest
        })
    }

    /// Settles everything for good: a last round, and a slot at the end that is synced, too.
    /// Nobody appends any more, and no crew is at work on this log.
    pub(crate) fn settle(&self) -> Result<()> {
        let _claim = self.direct(true, true)?;
        let entry = self.ledger.read();
        let Some(Open { segment, .. }) = entry.open.last() else {
            return Ok(());
        };
        let over = self.lock().active.as_ref().is_some_and(Active::is_over);
        if over {
            // A frame whose writing failed may stand behind the end, whole: nobody shall find it.
            // Its header may have had no sync yet.
            self.sync_file(segment)?;
            let seal = entry.mark.seal(self.epoch);
            if !self.put(segment, Sector::Seal, &seal)? {
                let full = io::ErrorKind::StorageFull.into();
                return Err(self.site.io("seal", segment.number(), full));
            }
        } else {
            self.slot_at_end(&mut self.progress(), &entry)?;
        }
        self.sync_file(segment)
    }
}

impl DirtyLog for Log {
    fn id(&self) -> u64 {
        self.site.log
    }

    fn round(&self) -> Next {
        if self.gate.is_lost() {
            if self.gate.is_deleted() {
                self.let_go();
            }
            return Next::Rest;
        }
        let hurry = self.is_hurried();
        let due = self.due();
        let next = match due {
            // What the journal holds must be settled in any mode.
            Due::After(rest) if !hurry && !self.is_behind() => return Next::After(rest),
            Due::WhenAsked if !hurry && !self.is_behind() => return Next::Rest,
            due => self.direct(hurry, due == Due::Now),
        };
        let next = next.unwrap_or_else(|cause| {
            self.poison(cause);
            Next::Rest
        });
        match (next, due) {
            (Next::After(quiet), Due::After(rest)) => Next::After(quiet.min(rest)),
            (next, _) => next,
        }
    }

    fn rides(&self) -> bool {
        self.would_ride()
    }

    fn offer(&self, page: &mut Vec<u8>) -> bool {
        self.offer_redo(page)
    }

    fn kept(&self) -> Next {
        self.redo_is_kept();
        Next::After(QUIET)
    }

    fn lost(&self, cause: &Arc<Error>) -> Next {
        self.poison(Error::StoreFailed {
            cause: Arc::clone(cause),
        });
        Next::Rest
    }

    fn prepare(&self) -> Next {
        if self.shelf.is_asked() {
            self.prepare_spare();
        }
        self.prepare_window();
        Next::Rest
    }

    fn abandon(&self, thread: &'static str, reason: String) {
        self.poison(Error::ThreadEnded { thread, reason });
    }
}
