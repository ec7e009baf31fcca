//! A log that another process writes, or nobody does: what its owner shows on the board, or what the
//! files say, becomes this process's own watermarks and segments.
//!
//! Nobody here waits for the owner, and nothing is written. Readers look before each record; whoever
//! finds that the owner has gone on comes by what is new, and the others see it in the watermarks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwapOption;

use super::attach::still;
use super::holding::Tip;
use super::log::Log;
use super::mark::Mark;
use super::plan::Promises;
use super::reach::Reach;
use crate::board::{DELETED, FAILED, FINISHED, Lookout, Marks, Seen};
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

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

    /// The segments, as far as this process has come by them: when the last one was last appended to is
    /// told by its slot, or by where the journal says that the log ended, if that is its end still.
    pub(super) fn tip(&self, log: &Log, now: i64) -> Tip {
        let reach = self.reach();
        let links = log.segments.now();
        let follower = reach.follower.as_ref();
        let last = follower.map(|it| (it.segment().number(), it.segment().start(), it.end()));
        drop(reach);
        let mut tip = Tip {
            links,
            open: Arc::default(),
            start: last.map(|(_, start, _)| start),
            place: last.map_or(0, |(_, _, end)| end.place),
            next: last.map_or(0, |(_, _, end)| end.next),
            last_append: None,
            began: None,
        };
        let Some((number, _, end)) = last else {
            return tip;
        };
        let header = log.site.header(number).ok().map(|(_, header)| header);
        let slot = header.and_then(|header| header.seal.or(header.slots.slot));
        let slot = slot.map(|slot| Mark::of(&slot));
        let stated = self.says.promises().ok().and_then(|(it, _)| it.end);
        let stated = stated.filter(|stated| stated.segment == number);
        let mut marks = slot.into_iter().chain(stated.map(|stated| stated.mark));
        let known = marks.find(|mark| mark.next == end.next);
        tip.last_append = known.and_then(|mark| mark.last_append);
        if known.is_none() {
            tip.began = log.first_time(number, now);
        }
        tip
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

    /// In a log that another process writes: sees what is new, and rings for it.
    pub(crate) fn catch_up(&self) {
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
        if self.first.load(Ordering::Acquire) < marks.first {
            self.first.fetch_max(marks.first, Ordering::AcqRel);
        }
        let bell = &self.setting.bells.written;
        self.written.advance_and_ring(next.min(marks.written), bell);
        if marks.durable > self.durable.get() {
            self.show_durable(next.min(marks.durable));
        }
        // Whoever reads to the end has all of it; what has failed or is gone has no end.
        let ends = if next >= marks.written { FINISHED } else { 0 };
        self.enter_state(marks.state & (FAILED | DELETED | ends));
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
