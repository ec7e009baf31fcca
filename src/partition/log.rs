//! The log of one partition.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::appender::{Appender, Signature};
use super::bells::{Bells, Call};
use super::due::Demand;
use super::early::{Alarm, NearlyFull};
use super::following::Following;
use super::gate::Gate;
use super::held::Lacks;
use super::ledger::Ledger;
use super::limits::{Limits, Live};
use super::list::{Link, Segments};
use super::mark::RecordedEnd;
use super::park::Wanted;
use super::riding::Progress;
use super::rounds::Slots;
use super::site::{Damage, Site};
use super::spare::Shelf;
use super::waiting::{Patience, Waits};
use super::window::Window;
use crate::board::{Board, Entry};
use crate::error::{Error, Flaw, Part, Result};
use crate::flush::{Crew, DirtyLog, Pins};
use crate::format::{Layout, PAGE};
use crate::index::INTERVAL;
use crate::options::{MAX_RECORD_BYTES, Visibility};
use crate::segment::{Room, Writable};
use crate::sync::tally::Tally;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, Watermark};
use crate::sys::{Backend, Clock, Parentage};

/// What a log is opened with, beside its coordinates.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) flusher: Arc<Crew>,
    pub(crate) preparer: Arc<Crew>,
    /// Which logs the journal keeps redo for.
    pub(crate) pins: Arc<Pins>,
    pub(crate) backend: Backend,
    /// The epoch of the owner.
    pub(crate) epoch: u32,
    /// Readers of other processes may have seen what is beyond the end: the last owner lived in
    /// this boot of the machine, or it is not known in which.
    pub(crate) same_boot: bool,
    pub(crate) limits: Limits,
    pub(crate) finished: bool,
    /// Whether this process still is the one that opened the store.
    pub(crate) parentage: Arc<Parentage>,
    /// Woken whenever something becomes durable, or will not: by all partitions of a topic.
    pub(crate) bells: Arc<Bells>,
    /// Where readers in other processes look.
    pub(crate) board: Option<Arc<Board>>,
    /// Made when retention may have something to do.
    pub(crate) retain: Arc<Call>,
    /// Little space is left.
    pub(crate) space: Arc<Alarm>,
}

/// One partition's records: one writer at a time, any number of readers.
pub(crate) struct Log {
    pub(super) site: Site,
    pub(super) setting: Setting,
    pub(super) limits: Live,
    /// The epoch of what this owner writes.
    pub(super) epoch: u32,
    pub(super) segments: Segments,
    pub(super) written: Watermark,
    pub(super) durable: Watermark,
    /// Bytes of frames that are safe, of those that this owner appended.
    pub(super) settled_bytes: Watermark,
    pub(super) first: AtomicU64,
    /// The log could begin with the segments below this number, safely so.
    pub(super) begins: AtomicU64,
    pub(super) appender: Mutex<Appender>,
    pub(super) ledger: Ledger,
    pub(super) shelf: Shelf,
    pub(super) slots: Mutex<Slots>,
    pub(super) progress: Mutex<Progress>,
    /// Bytes of frames that are durable, of those that this owner appended.
    pub(super) durable_bytes: AtomicU64,
    /// The bytes that the journal had taken when it first kept redo of this log that is still
    /// needed; `u64::MAX` if it keeps none.
    pub(super) kept_since: AtomicU64,
    /// The next round shall settle the log.
    pub(super) hurry: AtomicBool,
    pub(super) gate: Gate,
    pub(super) window: Window,
    pub(super) demand: Demand,
    pub(super) damage: Vec<(Damage, Flaw)>,
    /// Bytes of the segments before those that this owner writes.
    pub(super) bytes_before: AtomicU64,
    /// Made when some of them are gone.
    pub(super) freed: Call,
    pub(super) filled: Alarm,
    /// Whether anything has changed since the recorded end.
    pub(super) changed: AtomicBool,
    /// Whether it has been used since somebody looked for a log to park.
    pub(super) used: AtomicBool,
    /// Its entry on the board, for readers in other processes.
    pub(super) entry: Option<Entry>,
    /// Where it is followed, if another process writes it.
    pub(super) following: Option<Following>,
    /// How long durable appends took.
    pub(super) append_times: Tally,
    pub(super) waits: Waits,
    /// Whether a transaction has the partition, and made when one has let it go.
    pub(super) held: AtomicBool,
    pub(super) released: Call,
    /// How many appends have waited for files of it, and would wait again if they were let go of.
    pub(super) wanted: AtomicU32,
}

/// What is to be told when a partition has been let go of.
#[derive(Debug)]
pub(super) struct Unlocked {
    next: u64,
    /// It is time for the next segment.
    spare: bool,
    /// Pages are to be made ready.
    window: bool,
    full: Option<NearlyFull>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("id", &self.site.log)
            .field("written", &self.written.get())
            .field("durable", &self.durable.get())
            .finish_non_exhaustive()
    }
}

impl Log {
    /// The log's coordinates.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// The first offset that is still there.
    pub(crate) fn first(&self) -> u64 {
        self.catch_up();
        self.first.load(Ordering::Acquire)
    }

    /// Records below this offset may be read by who asks for written ones. What is durable is written,
    /// also where the append that wrote it has not come to showing it yet.
    pub(crate) fn written(&self) -> u64 {
        self.catch_up();
        self.written.get().max(self.durable.get())
    }

    /// Records below this offset survive a power cut.
    pub(crate) fn durable(&self) -> u64 {
        self.catch_up();
        self.durable.get()
    }

    /// The same, as far as this process has come by it.
    pub(crate) fn known_durable(&self) -> u64 {
        self.durable.get()
    }

    /// Records below this offset may be read by who asks for these.
    pub(crate) fn visible(&self, visibility: Visibility) -> u64 {
        match visibility {
            Visibility::Durable => self.durable(),
            Visibility::Written => self.written(),
        }
    }

    /// What recovery found damaged when the log was opened.
    pub(crate) fn damage(&self) -> &[(Damage, Flaw)] {
        &self.damage
    }

    /// The states of the log.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Appender> {
        // A panic under this lock breaks the tail, which then refuses everything.
        self.appender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a batch and returns once it is written.
    ///
    /// `stamp` fills in timestamps with the clock's reading, taken once. So many bytes stay free behind
    /// it, or the next segment is there.
    pub(crate) fn write_keeping(
        self: &Arc<Self>,
        records: &mut [Writable<'_>],
        stamp: impl FnOnce(&mut [Writable<'_>], i64),
        keep: u64,
        mut patience: Patience,
    ) -> Result<Range<u64>> {
        let mut now = self.setting.clock.now();
        stamp(records, now);
        let room = Room {
            keep,
            ..Room::of(records)
        };
        let mut wanted = None;
        loop {
            match self.attempt(records, room, now, &mut wanted, &mut patience)? {
                Ok(offsets) => return Ok(offsets),
                Err(lacks) => now = self.wait_from(now, lacks, room, &mut patience)?,
            }
        }
    }

    /// As [`Log::write_keeping`], if nothing has to be waited for; `None` if something would.
    pub(crate) fn try_write(
        self: &Arc<Self>,
        records: &mut [Writable<'_>],
        stamp: impl FnOnce(&mut [Writable<'_>], i64),
        keep: u64,
    ) -> Result<Option<Range<u64>>> {
        let now = self.setting.clock.now();
        stamp(records, now);
        let room = Room {
            keep,
            ..Room::of(records)
        };
        let endless = &mut Patience::default();
        let attempt = self.attempt(records, room, now, &mut None, endless)?;
        if attempt == Err(Lacks::Segment) {
            self.want_spare(room)?;
            self.ask_preparer();
        }
        Ok(attempt.ok())
    }

    /// Appends a batch, unless something has to be waited for: then `wanted` keeps the files that it
    /// waits for from being let go of again.
    pub(super) fn attempt<'a>(
        self: &'a Arc<Self>,
        records: &[Writable<'_>],
        room: Room,
        now: i64,
        wanted: &mut Option<Wanted<'a>>,
        patience: &mut Patience,
    ) -> Result<std::result::Result<Range<u64>, Lacks>> {
        self.mark_used();
        // Before the lock, too: in a forked child nobody lets go of it.
        self.gate.check_owner()?;
        let appender = self.lock_patiently(patience)?;
        self.gate.appends(&self.site)?;
        if !self.has_room_behind(appender.bytes, room) {
            return Ok(Err(Lacks::Settling));
        }
        if !self.check_total(&appender, room)? {
            return Ok(Err(Lacks::Room));
        }
        let written = self.write_here(appender, records, room, now)?;
        if written.is_none() {
            wanted.get_or_insert_with(|| Wanted::by(self));
        }
        Ok(written.ok_or(Lacks::Segment))
    }

    /// Writes a batch under the partition's lock; `None` if there is no segment for it yet.
    fn write_here(
        self: &Arc<Self>,
        mut appender: MutexGuard<'_, Appender>,
        records: &[Writable<'_>],
        room: Room,
        now: i64,
    ) -> Result<Option<Range<u64>>> {
        if appender.parked.is_some() {
            return Ok(None);
        }
        if !self.fits(&appender, room) && !self.roll(&mut appender, room)? {
            return Ok(None);
        }
        let first = appender.mark.next;
        let stamp = (self.durable.get(), self.epoch, now);
        self.write_down(&mut appender, records, room, stamp)?;
        let next = self.show(appender);
        Ok(Some(first..next))
    }

    /// Writes a batch for which there is room.
    pub(super) fn write_down(
        &self,
        appender: &mut Appender,
        records: &[Writable<'_>],
        room: Room,
        stamp: (u64, u32, i64),
    ) -> Result<()> {
        // A write that fails leaves something behind the recorded end, too.
        self.changed.store(true, Ordering::Release);
        let begins = appender.mark.records == 0;
        appender.write(&self.site, records, stamp)?;
        appender.bytes += room.bytes;
        // First, since who sees it may ask for it to be made durable.
        self.ledger.appended(&appender.mark, appender.bytes);
        self.show_written(appender.mark.next);
        if begins && self.limits.load().retained {
            // Nobody was waiting for this segment to get old, or the one before it to be one too many.
            self.setting.retain.make();
        }
        Ok(())
    }

    /// Lets the partition go, and tells who waits: everything below the offset returned is written.
    pub(super) fn show(self: &Arc<Self>, appender: MutexGuard<'_, Appender>) -> u64 {
        let unlocked = self.let_go_of(appender);
        self.tell(&unlocked);
        unlocked.next
    }

    /// Lets the partition go, and tells nobody yet.
    pub(super) fn let_go_of(&self, appender: MutexGuard<'_, Appender>) -> Unlocked {
        let limits = self.limits.load();
        let full = limits.total.and_then(|it| self.nearly_full(&appender, it));
        Unlocked {
            next: appender.mark.next,
            spare: limits.ahead || self.is_half_full(&appender),
            window: self.wants_window(&appender),
            full,
        }
    }

    /// Wakes who waits for what was written: no lock is held any more.
    pub(super) fn tell(self: &Arc<Self>, unlocked: &Unlocked) {
        self.ring_written(unlocked.next);
        unlocked.full.iter().for_each(|full| self.warn(full));
        if unlocked.spare && !self.shelf.has_spare() {
            self.ask_preparer();
        } else if unlocked.window {
            self.setting.preparer.request(self.as_dirty());
        }
    }

    /// Wakes everybody who waits for anything, so that they look at the gate.
    pub(crate) fn wake_all(&self) {
        self.show_state();
        self.durable.wake();
        self.written.wake();
        self.settled_bytes.wake();
        self.shelf.wake();
        self.freed.make();
        self.setting.bells.ring();
    }

    pub(super) fn as_dirty(self: &Arc<Self>) -> Arc<dyn DirtyLog> {
        Arc::clone(self) as Arc<dyn DirtyLog>
    }

    pub(super) fn ask_preparer(self: &Arc<Self>) {
        self.shelf.ask();
        self.setting.preparer.request(self.as_dirty());
        if self.setting.preparer.is_inline() {
            self.setting.preparer.turn();
        }
    }

    /// Whether a batch may be written before more is settled.
    pub(super) fn has_room(&self, room: Room) -> bool {
        self.has_room_behind(self.ledger.bytes(), room)
    }

    fn has_room_behind(&self, appended: u64, room: Room) -> bool {
        let unsettled = appended.saturating_sub(self.settled_bytes.get());
        unsettled == 0 || unsettled + room.bytes <= self.limits.load().unsettled
    }

    fn is_half_full(&self, appender: &Appender) -> bool {
        appender.active.as_ref().is_some_and(|active| {
            let layout = active.segment.identity.layout;
            active.place() - layout.records_at >= layout.records_len() / 2
        })
    }

    /// The length of the next segment, as the log would choose it.
    pub(super) fn next_capacity(&self) -> u64 {
        let limits = self.limits.load();
        let last = self.shelf.last_capacity();
        // Not `clamp`: of limits that are being changed one may be the old one.
        let natural = last.map_or(limits.first_segment, |last| {
            let longest = limits.max_segment.max(limits.first_segment);
            // One that ends by its age need not be followed by a longer one.
            let used = limits.retained.then(|| self.ledger.read().mark.place);
            let next = match used {
                Some(used) if used < last / 4 => last / 2,
                Some(used) if used < last / 2 => last,
                _ => last.saturating_mul(2),
            };
            next.max(limits.first_segment).min(longest)
        });
        natural.next_multiple_of(PAGE)
    }

    /// A spare that was made under other limits may be longer than one is to be now.
    pub(super) fn limit_spares(&self) {
        let limits = self.limits.load();
        let longest = limits.max_segment.max(limits.first_segment);
        self.shelf.limit(longest.next_multiple_of(PAGE));
    }

    /// Lets the spare take over, if there is one that has room for the batch.
    pub(super) fn roll(&self, appender: &mut Appender, room: Room) -> Result<bool> {
        let _span = tracing::debug_span!("roll", log = self.site.log).entered();
        let Some(mut spare) = self.shelf.take(least(room)?) else {
            return Ok(false);
        };
        let signature = Signature {
            epoch: self.epoch,
            nonce: self.setting.clock.random(),
            backend: self.setting.backend,
        };
        let active = appender.active.as_ref();
        let before = active.map(|active| active.place() - active.segment.start());
        let segment = match appender.roll(&self.site, &mut spare, signature) {
            Ok(segment) => segment,
            Err(error) => {
                self.shelf.put_back(spare);
                return Err(error);
            }
        };
        if let (Some(bytes), Some(ended)) = (before, self.segments.now().last()) {
            ended.ended(bytes);
            self.bytes_before.fetch_add(bytes, Ordering::Relaxed);
        }
        // In this order: once the ledger knows, the one before may be let go of, and who reads in it
        // then asks its successor where it ends.
        self.segments.push(&Link::held(&segment));
        self.ledger.rolled(&segment, &appender.mark);
        tracing::debug!(log = self.site.log, segment = segment.number(), "rolled");
        Ok(true)
    }

    /// Says that the next segment must have room for the batch; how many attempts to make one had
    /// begun before.
    pub(super) fn want_spare(&self, room: Room) -> Result<u64> {
        Ok(self.shelf.want(least(room)?))
    }

    /// The end that recovery came to; `None` if the log was found as its end was recorded.
    pub(crate) fn recovered_end(&self) -> Option<RecordedEnd> {
        let changed = self.changed.load(Ordering::Acquire);
        self.recorded_end().filter(|_| changed)
    }

    /// The end of the log as it stands, for the journal; `None` if it holds no segment.
    pub(crate) fn recorded_end(&self) -> Option<RecordedEnd> {
        let appender = self.lock();
        let last = appender.last?;
        Some(RecordedEnd {
            segment: last.number,
            nonce: last.nonce,
            epoch: self.epoch,
            mark: appender.mark,
        })
    }
}

/// The least length of a segment that has room for a batch.
fn least(room: Room) -> Result<u64> {
    let layout = Layout::for_records(room.bytes, INTERVAL).ok_or_else(|| too_large(room))?;
    Ok(layout.capacity)
}

fn too_large(room: Room) -> Error {
    Error::TooLarge {
        what: Part::Batch,
        size: room.bytes,
        limit: MAX_RECORD_BYTES,
    }
}
