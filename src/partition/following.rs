//! A log that another process writes, or nobody does: what its owner shows on the board, or what the
//! files say, becomes this process's own watermarks and segments.
//!
//! Nobody here waits for the owner, and nothing is written. Readers look before each record; whoever
//! finds that the owner has gone on comes by what is new, and the others see it in the watermarks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwapOption;

use super::attach::{known, still};
use super::list::Link;
use super::log::Log;
use super::mark::Mark;
use super::plan::Promises;
use super::site::Site;
use crate::board::{DELETED, FAILED, FINISHED, Lookout, Marks, Seen};
use crate::error::{Error, Result};
use crate::format::Entry;
use crate::segment::{End, Follower, Header, Page, Segment, read_page};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::sys::{Access, Backend, File, Pattern, region};

/// Files of a log that no entry stands for are looked at so often.
const AGAIN: u64 = 100;

/// What the rest of the store says about a log that is followed.
pub(crate) trait Says: std::fmt::Debug + Send + Sync {
    /// What is promised of it, and whether its last owner lived in this boot of the machine.
    fn promises(&self) -> Result<(Promises, bool)>;
}

/// Where a log is followed.
#[derive(Debug)]
pub(crate) struct Following {
    lookout: Arc<Lookout>,
    says: Box<dyn Says>,
    /// The log's entry on the board, while there is one.
    seen: ArcSwapOption<Seen>,
    /// Which changes of the board there had been when an entry was last looked for in vain.
    tried: AtomicU64,
    reach: Mutex<Reach>,
    /// When files are looked at again, in milliseconds since it was opened.
    again: AtomicU64,
    began: Instant,
    /// The catalog says that its topic is finished.
    finished: AtomicBool,
}

/// How far this process has come.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) follower: Option<Follower>,
    /// The number of the segment that comes next.
    pub(super) number: u32,
    /// The offset that follows what can be read.
    pub(super) next: u64,
    /// No segment below this number is in the list.
    pub(super) lowest: u32,
    /// Segments that are not in their files as they are read, the follower's among them: redo of the
    /// journal is laid over copies of them, which nobody could open anew.
    pub(super) laid: Vec<Arc<Segment>>,
    /// What the files said when they were last looked at.
    pub(super) evidence: Option<Evidence>,
}

impl Following {
    pub(super) fn new(lookout: Arc<Lookout>, says: Box<dyn Says>, reach: Reach) -> Following {
        Following {
            lookout,
            says,
            seen: ArcSwapOption::empty(),
            tried: AtomicU64::new(0),
            reach: Mutex::new(reach),
            again: AtomicU64::new(AGAIN),
            began: Instant::now(),
            finished: AtomicBool::new(false),
        }
    }

    fn reach(&self) -> MutexGuard<'_, Reach> {
        // A panic while following leaves a place that was come by.
        self.reach.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the owner shows of the log, if it has it open.
    fn marks(&self, log: u64) -> Option<Marks> {
        let known = self.seen.load();
        let known = known.as_ref().filter(|seen| self.lookout.has(seen));
        let marks = known.and_then(|seen| seen.read());
        marks.or_else(|| self.find(log))
    }

    /// Looks for the log's entry, unless it was not there and nothing has changed since.
    fn find(&self, log: u64) -> Option<Marks> {
        let watch = self.lookout.watch()?;
        let changes = watch.changes();
        if self.tried.load(Ordering::Acquire) == changes {
            return None;
        }
        let seen = watch.find(log);
        let marks = seen.as_ref().and_then(Seen::read);
        match marks {
            Some(_) => self.seen.store(seen.map(Arc::new)),
            None => {
                self.seen.store(None);
                self.tried.store(changes, Ordering::Release);
            }
        }
        marks
    }

    /// Whether it is time to look at the files again; true for one who asks.
    fn is_time(&self) -> bool {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = self.again.load(Ordering::Relaxed);
        let next = now.saturating_add(AGAIN);
        let claim = || {
            let (order, other) = (Ordering::Relaxed, Ordering::Relaxed);
            self.again.compare_exchange(due, next, order, other).is_ok()
        };
        now >= due && claim()
    }
}

impl Log {
    /// The log's entry on the board of its owner, for whoever is about to sleep on it.
    pub(crate) fn entry_seen(&self) -> Option<Arc<Seen>> {
        let seen = self.following.as_ref()?.seen.load_full()?;
        seen.read().is_some().then_some(seen)
    }

    /// Sees what is new, and rings for it.
    pub(crate) fn look(&self) {
        self.catch_up();
    }

    /// In a log that another process writes: sees what is new.
    pub(super) fn catch_up(&self) {
        let Some(following) = &self.following else {
            return;
        };
        let mut marks = following.marks(self.site.log);
        if marks.is_none() {
            if !following.is_time() {
                return;
            }
            following.lookout.look();
            marks = following.marks(self.site.log);
        }
        let Some(marks) = marks else {
            return self.look_at_files(following);
        };
        let there = self.written.get() >= marks.written
            && self.durable.get() >= marks.durable
            && self.first.load(Ordering::Acquire) >= marks.first
            && self.gate.lasting() & marks.state == marks.state;
        if !there {
            let (next, come) = following.reach().go_along(self, &marks);
            self.settle_at(&marks, next, come);
        }
    }

    /// Where the log's owner shows nothing of it, or there is none: what its files say, if that is
    /// anything new.
    fn look_at_files(&self, following: &Following) {
        let finishes = following.finished.load(Ordering::Acquire) && !self.gate.is_finished();
        let looked = self.look_and_go(following, finishes);
        if let Some((marks, next, come)) = looked {
            self.settle_at(&marks, next, come);
        }
    }

    /// What the files say and how far this process has gone by it; nothing where nothing is new.
    fn look_and_go(
        &self,
        following: &Following,
        finishes: bool,
    ) -> Option<(Marks, u64, Result<()>)> {
        let mut reach = following.reach();
        match reach.evidence(&self.site) {
            Ok(evidence) if evidence == reach.evidence && !finishes && reach.laid.is_empty() => {
                return None;
            }
            Ok(evidence) => reach.evidence = evidence,
            Err(error) => return Some((Marks::default(), 0, Err(error))),
        }
        let planned = following.says.promises();
        let planned =
            planned.and_then(|(promises, same_boot)| still(&self.site, &promises, same_boot));
        let found = match planned {
            Ok(found) => found,
            // Somebody is in the middle of changing it, or it is damaged: what was seen stays.
            Err(error) => {
                tracing::debug!(log = self.site.log, %error, "looked at in vain");
                reach.evidence = None;
                return None;
            }
        };
        let marks = Marks {
            first: found.first,
            first_segment: found
                .links
                .first()
                .map_or(found.reach.number, |link| link.number),
            written: found.written,
            durable: found.durable,
            state: if finishes { FINISHED } else { 0 },
        };
        let (next, come) = reach.go_along(self, &marks);
        Some((marks, next, come))
    }

    /// This process has come so far. Whoever waits is woken, so no lock may be held.
    fn settle_at(&self, marks: &Marks, next: u64, come: Result<()>) {
        match come {
            Ok(()) => {}
            Err(error) if passes(&error) => {
                tracing::debug!(log = self.site.log, %error, "cannot be followed now");
            }
            Err(error) => {
                tracing::error!(log = self.site.log, %error, "cannot be followed");
                self.gate.fail(Arc::new(error));
                self.wake_all();
            }
        }
        self.first.fetch_max(marks.first, Ordering::AcqRel);
        self.show_written(next.min(marks.written));
        if marks.durable > self.durable.get() {
            self.show_durable(next.min(marks.durable));
        }
        // Whoever reads to the end has all of it; what has failed or is gone has no end.
        let ends = if next >= marks.written { FINISHED } else { 0 };
        self.enter_state(marks.state & (FAILED | DELETED | ends));
    }

    /// In a log that another process writes: what could not be found has been removed meanwhile, if the
    /// owner says so.
    pub(super) fn or_expired<T>(&self, offset: u64, found: Result<T>) -> Result<T> {
        match found {
            Err(_) if self.following.is_some() && offset < self.first() => {
                Err(self.expired(offset))
            }
            found => found,
        }
    }

    /// The log is in the state that its owner has brought it to.
    fn enter_state(&self, state: u32) {
        if self.gate.lasting() & state == state {
            return;
        }
        if state & FINISHED != 0 {
            self.gate.finish();
        }
        if state & FAILED != 0 {
            let reason = "its owner could not make it durable";
            let cause = self.site.mismatch(&self.site.dir, reason);
            self.gate.fail(Arc::new(cause));
        }
        if state & DELETED != 0 {
            self.gate.delete();
        }
        self.wake_all();
    }

    /// In a log that another process writes: its topic is gone, as the catalog says.
    pub(crate) fn is_gone(&self) {
        self.enter_state(DELETED);
    }

    /// In a log that another process writes: its topic is finished, as the catalog says, which counts
    /// when everything has been come by.
    pub(crate) fn will_end(&self) {
        if let Some(following) = &self.following {
            following.finished.store(true, Ordering::Release);
        }
    }
}

/// What files show of a log at the place to which it is known: another look at them is worth while if
/// that has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    /// The length word of the next frame.
    word: Option<u32>,
    /// The checksum of the segment's header page, and of that of the next one.
    headers: [Option<u32>; 2],
}

impl Reach {
    fn evidence(&self, site: &Site) -> Result<Option<Evidence>> {
        let here = self
            .follower
            .as_ref()
            .map(|follower| follower.segment().number());
        let page = |number: Option<u32>| -> Result<Option<u32>> {
            let found = number.map(|number| assigned(site, number)).transpose()?;
            Ok(found
                .flatten()
                .map(|(_, header)| crc32c::crc32c(&header.bytes)))
        };
        Ok(Some(Evidence {
            word: self.follower.as_ref().and_then(Follower::word),
            headers: [page(here)?, page(Some(self.number))?],
        }))
    }

    /// Goes over from copies, on which the journal's redo was laid, to the files, once they have it.
    fn leave_copies(&mut self, log: &Log) -> Result<()> {
        let Some(follower) = self.follower.as_ref().filter(|_| !self.laid.is_empty()) else {
            return Ok(());
        };
        let (number, end) = (follower.segment().number(), follower.end());
        for laid in self.laid.iter().filter(|laid| laid.number() != number) {
            if in_file(&log.site, laid.number(), laid.end().unwrap_or(end))?.is_none() {
                return Ok(());
            }
        }
        let Some(bare) = in_file(&log.site, number, end)? else {
            return Ok(());
        };
        let links = log.segments.now();
        let link = links.iter().find(|link| link.number == number);
        link.into_iter()
            .for_each(|link| link.resume(bare.segment()));
        self.follower = Some(bare);
        self.laid.clear();
        Ok(())
    }

    /// Goes as far as the owner shows, and as far as the files have it; how far that is.
    fn go_along(&mut self, log: &Log, marks: &Marks) -> (u64, Result<()>) {
        let left = self.leave_copies(log);
        // Behind a copy nothing comes by itself.
        let come = left.and_then(|()| match self.laid.is_empty() {
            true => self.come_to(log, marks),
            false => Ok(()),
        });
        (self.next, come)
    }

    fn come_to(&mut self, log: &Log, marks: &Marks) -> Result<()> {
        if self.lowest < marks.first_segment {
            log.segments.drop_below(marks.first_segment);
            self.lowest = marks.first_segment;
        }
        loop {
            if let Some(follower) = &mut self.follower {
                let number = follower.segment().number();
                let reached = follower.reach(marks.written);
                self.next = reached.map_err(|error| log.site.io("read", number, error))?;
            }
            if self.next >= marks.written || !self.step(log, marks)? {
                return Ok(());
            }
        }
    }

    /// Goes over to the next segment, if it has taken over; whether anything came of it.
    fn step(&mut self, log: &Log, marks: &Marks) -> Result<bool> {
        let wanted = self.number.max(marks.first_segment);
        let Some((file, header)) = assigned(&log.site, wanted)? else {
            return self.skip(log);
        };
        if let Some(follower) = &mut self.follower {
            let end = header.identity.predecessor.map(|end| End {
                place: end.place,
                next: end.next,
            });
            match end.filter(|_| follower.segment().number() + 1 == wanted) {
                Some(end) => finish(&log.site, follower, end)?,
                // What came between has been removed, so nothing follows here.
                None => follower.segment().set_end(follower.end()),
            }
        }
        let mark = Mark::empty(header.identity.layout.records_at, header.identity.base);
        let follower = follow(&log.site, file, &header, mark)?;
        log.segments.push(&Link::held(follower.segment()));
        self.next = self.next.max(follower.next());
        self.number = wanted + 1;
        self.follower = Some(follower);
        Ok(true)
    }

    /// Goes past what cannot be come by, where the segment's own slot says that more is there.
    fn skip(&mut self, log: &Log) -> Result<bool> {
        let Some(follower) = &mut self.follower else {
            return Ok(false);
        };
        let number = follower.segment().number();
        let page = read_page(follower.segment().file.as_ref());
        let page = page.map_err(|error| log.site.io("read", number, error))?;
        let Page::Assigned(header) = page else {
            return Ok(false);
        };
        let Some(slot) = header.slots.slot.filter(|slot| slot.next > self.next) else {
            return Ok(false);
        };
        let end = Mark::of(&slot).end();
        let skipped = follower.skip(end);
        skipped.map_err(|error| log.site.io("read", number, error))?;
        Ok(true)
    }
}

/// A segment as its file has it, if that has all frames up to this end, each of them sound.
fn in_file(site: &Site, number: u32, end: End) -> Result<Option<Follower>> {
    let Some((file, header)) = assigned(site, number)? else {
        return Ok(None);
    };
    let start = known(&header);
    if start.next >= end.next {
        // What a slot covers is in the file.
        let mark = Mark::empty(end.place, end.next);
        return follow(site, file, &header, mark).map(Some);
    }
    let mut bare = follow(site, file, &header, start)?;
    let reached = bare.reach(end.next);
    reached.map_err(|error| site.io("read", number, error))?;
    let is_whole = bare.end() == end && bare.segment().sound_frames(start.place, end.place).is_ok();
    Ok(is_whole.then_some(bare))
}

/// Whether the next look may find what this one could not: the process, or the machine, was short of
/// something, or the owner was in the middle of it.
fn passes(error: &Error) -> bool {
    let Error::Io { source, .. } = error else {
        return false;
    };
    let short = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::EINTR,
        libc::EAGAIN,
        libc::ENOENT,
    ];
    source
        .raw_os_error()
        .is_some_and(|errno| short.contains(&errno))
}

/// A segment has ended there.
fn finish(site: &Site, follower: &mut Follower, end: End) -> Result<()> {
    let number = follower.segment().number();
    if end.next < follower.next() {
        let reason = format!(
            "records from {} on were taken back, and have been seen",
            end.next
        );
        return Err(site.mismatch(&site.segment(number), reason));
    }
    let skipped = follower.skip(end);
    skipped.map_err(|error| site.io("read", number, error))?;
    follower.segment().set_end(end);
    Ok(())
}

/// The segment of that number, once it belongs to the log.
pub(super) fn assigned(site: &Site, number: u32) -> Result<Option<(Arc<dyn File>, Header)>> {
    let path = site.segment(number);
    let file = match site.storage.open(&path, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| Error::opening("open", &path, error))?,
    };
    let page = read_page(file.as_ref()).map_err(|error| site.io("read", number, error))?;
    match page {
        Page::Assigned(header) if site.owns(&header.identity, number) => Ok(Some((file, *header))),
        Page::Bad(flaw) if flaw.is_unsupported() => Err(super::unsupported(&path, flaw)),
        _ => Ok(None),
    }
}

/// Follows a segment from a place on up to which it is known.
pub(super) fn follow(
    site: &Site,
    file: Arc<dyn File>,
    header: &Header,
    mark: Mark,
) -> Result<Follower> {
    let (identity, layout) = (header.identity, header.identity.layout);
    let fail = |error| site.io("map", identity.number, error);
    let map = Arc::new(file.map(Access::Read, layout.capacity).map_err(fail)?);
    // Large folios under the tail would cost its writer dear.
    map.advise(Pattern::Random).map_err(fail)?;
    let part = |range, published| {
        let (map, file) = (Arc::clone(&map), Arc::clone(&file));
        region(map, file, Backend::Pwrite, range, published).map_err(fail)
    };
    let written = mark.place - layout.records_at;
    let (tail, records) = part(layout.records_at..layout.capacity, written)?;
    let entries = u64::from(mark.index_entries) * Entry::SIZE as u64;
    let (_, index) = part(u64::from(layout.index_at)..layout.records_at, entries)?;
    let segment = Segment::new(file, identity, (records, index), None);
    Ok(Follower::new(Arc::new(segment), tail, mark.next))
}
