//! A log that another process writes, or nobody does: what its owner shows on the board, or what the
//! files say, becomes this process's own watermarks and segments.
//!
//! Nobody here waits for the owner, and nothing is written. Readers look before each record; whoever
//! finds that the owner has gone on comes by what is new, and the others see it in the watermarks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;

use super::list::Link;
use super::log::Log;
use super::mark::Mark;
use super::site::Site;
use crate::board::{DELETED, FAILED, FINISHED, Lookout, Marks, Seen};
use crate::error::{Error, Result};
use crate::format::Entry;
use crate::segment::{End, Follower, Header, Page, Segment, read_page};
use crate::sync::{AtomicU64, Ordering};
use crate::sys::{Access, Backend, File, Pattern, region};

/// Where a log is followed.
#[derive(Debug)]
pub(crate) struct Following {
    lookout: Arc<Lookout>,
    /// The log's entry on the board, while there is one.
    seen: ArcSwapOption<Seen>,
    /// Which changes of the board there had been when an entry was last looked for in vain.
    tried: AtomicU64,
    reach: Mutex<Reach>,
    /// Segments that nobody could open anew.
    _held: Vec<Arc<Segment>>,
}

/// How far this process has come.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) follower: Option<Follower>,
    /// The number of the segment that comes next.
    pub(super) number: u32,
    /// The offset that follows what can be read.
    pub(super) next: u64,
}

impl Following {
    pub(super) fn new(lookout: Arc<Lookout>, reach: Reach, held: Vec<Arc<Segment>>) -> Following {
        Following {
            lookout,
            seen: ArcSwapOption::empty(),
            tried: AtomicU64::new(0),
            reach: Mutex::new(reach),
            _held: held,
        }
    }

    fn reach(&self) -> MutexGuard<'_, Reach> {
        // A panic while following leaves a place that was come by.
        self.reach.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the owner shows of the log, if it has it open.
    fn marks(&self, log: u64) -> Option<Marks> {
        let known = self.seen.load();
        let marks = known.as_ref().and_then(|seen| seen.read());
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
        let Some(marks) = following.marks(self.site.log) else {
            return;
        };
        let there = self.written.get() >= marks.written
            && self.durable.get() >= marks.durable
            && self.first.load(Ordering::Acquire) >= marks.first
            && self.gate.lasting() & marks.state == marks.state;
        if there {
            return;
        }
        let mut reach = following.reach();
        if let Err(error) = reach.come_to(self, &marks) {
            tracing::error!(log = self.site.log, %error, "cannot be followed");
            self.gate.fail(Arc::new(error));
            self.wake_all();
        }
        let next = reach.next;
        drop(reach);
        self.first.fetch_max(marks.first, Ordering::AcqRel);
        self.show_written(next.min(marks.written));
        if marks.durable > self.durable.get() {
            self.show_durable(next.min(marks.durable));
        }
        if next >= marks.written {
            self.enter_state(marks.state);
        }
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

    /// In a log that another process writes: its topic was finished, or deleted, as the catalog says.
    pub(crate) fn enter_catalog_state(&self, finished: bool, deleted: bool) {
        let state = |is, bit| if is { bit } else { 0 };
        self.enter_state(state(finished, FINISHED) | state(deleted, DELETED));
    }
}

impl Reach {
    /// Goes as far as the owner shows, and as far as the files have it.
    fn come_to(&mut self, log: &Log, marks: &Marks) -> Result<()> {
        let first = log.segments.now().first().map(|link| link.number);
        if first.is_some_and(|first| first < marks.first_segment) {
            log.segments.drop_below(marks.first_segment);
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
