//! When a log is synced: at once, at intervals, or when somebody asks; and waiting for it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::Limits;
use super::log::Log;
use crate::error::{Error, Result};
use crate::flush::{Crew, DirtyLog};
use crate::options::Durability;
use crate::sync::{AtomicU64, Ordering, Told, fence};

/// When the next round of a log is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Now, or there is nothing to sync.
    Now,
    /// When the rest of the interval has passed.
    After(Duration),
    /// When somebody asks.
    WhenAsked,
}

/// Who wants what of a log to be synced.
#[derive(Debug)]
pub(crate) struct Demand {
    /// Records below this offset are to be synced whatever the mode.
    asked: AtomicU64,
    /// The flusher has been told of what was appended, or will look again by itself.
    told: Told,
    /// When the last sync began, in nanoseconds of the monotonic clock.
    synced: AtomicU64,
}

impl Demand {
    /// Nothing is wanted yet; the first interval begins now.
    pub(crate) fn new(now: Duration) -> Demand {
        Demand {
            asked: AtomicU64::new(0),
            told: Told::new(),
            synced: AtomicU64::new(nanos(now)),
        }
    }

    /// A sync begins.
    pub(crate) fn begin(&self, now: Duration) {
        self.synced.store(nanos(now), Ordering::Release);
    }

    fn is_asked(&self, offset: u64) -> bool {
        self.asked.load(Ordering::Acquire) > offset
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Log {
    pub(super) fn durability(&self) -> Durability {
        self.limits.load().durability
    }

    /// Whether a round is due now, after a pause, or not until somebody asks. Who asks this does
    /// what it says: whoever appends afterwards relies on it.
    pub(crate) fn due(&self) -> Due {
        // Whoever appends from here on tells the flusher anew; what was appended before is seen
        // below.
        self.demand.told.forget();
        let durable = self.durable.get();
        if self.ledger.next() <= durable || self.demand.is_asked(durable) {
            return Due::Now;
        }
        match self.durability() {
            Durability::Commit => Due::Now,
            Durability::Interval(interval) => {
                let synced = Duration::from_nanos(self.demand.synced.load(Ordering::Acquire));
                let passed = self.setting.clock.monotonic().saturating_sub(synced);
                let rest = interval.saturating_sub(passed);
                if rest.is_zero() {
                    return Due::Now;
                }
                self.demand.told.know();
                Due::After(rest)
            }
            Durability::Manual => Due::WhenAsked,
        }
    }

    /// The limits from now on. Another durability makes what was written under the last one
    /// durable, since somebody may be waiting for it.
    pub(crate) fn set_limits(self: &Arc<Self>, limits: Limits) {
        let before = self.limits.load();
        self.limits.store(limits);
        if before.total.is_none() && limits.total.is_some() {
            self.count(&self.lock());
        }
        self.limit_spares();
        // Who waits for room may have it.
        self.freed.make();
        // Between saying how it is synced and looking what there is; the other fence is passed between
        // appending and `notice`.
        fence(Ordering::SeqCst);
        if before.durability != limits.durability {
            self.start_flush();
        }
    }

    /// Asks for a sync of everything below an offset, whatever the mode: the next round does it.
    pub(super) fn ask(&self, end: u64) {
        self.demand.asked.fetch_max(end, Ordering::AcqRel);
    }

    /// Tells the flusher, unless it knows, that there is something to sync; in a mode in which it
    /// syncs by itself. Without threads it waits in the queue until somebody runs a round. Called behind
    /// the fence that ends an append.
    pub(crate) fn notice(self: &Arc<Self>) {
        let flusher = &self.setting.flusher;
        let by_itself = self.durability() != Durability::Manual;
        if by_itself && self.demand.told.ask() {
            flusher.request(self.as_dirty());
        }
    }

    /// Has everything written so far synced in any mode, and does not wait for it.
    fn start_flush(self: &Arc<Self>) {
        if let Some(log) = self.ask_all() {
            self.setting.flusher.request(log);
        }
    }

    /// Has everything written so far to these logs synced, in any mode: in one round, on this
    /// thread, where that can be done now. Not all of it need be durable afterwards.
    pub(crate) fn flush_together(flusher: &Crew, logs: impl Iterator<Item = Arc<Log>>) {
        let due: Vec<_> = logs.filter_map(|log| log.ask_all()).collect();
        flusher.assist_all(due);
    }

    /// Asks for everything written so far; the log, if there is something to sync.
    fn ask_all(self: &Arc<Self>) -> Option<Arc<dyn DirtyLog>> {
        // The ledger, not `written`, which an append shows behind it.
        let end = self.ledger.next();
        (self.durable.get() < end).then(|| {
            self.ask(end);
            self.as_dirty()
        })
    }

    /// Makes everything written so far durable, in any mode.
    pub(crate) fn flush(self: &Arc<Self>) -> Result<()> {
        self.flush_to(self.ledger.next())
    }

    /// Makes what is written below an offset durable, in any mode.
    pub(crate) fn flush_to(self: &Arc<Self>, end: u64) -> Result<()> {
        if self.is_durable(end) {
            return Ok(());
        }
        let end = end.min(self.ledger.next());
        self.ask(end);
        self.wait_durable(self.durable.get().min(end)..end)
    }

    /// Waits until these records are durable, or will not be. Where nothing would be synced
    /// without being asked for, it asks.
    pub(crate) fn wait_durable(self: &Arc<Self>, offsets: Range<u64>) -> Result<()> {
        if self.durability() == Durability::Manual {
            self.ask(offsets.end);
        }
        if self.wait(offsets, None)? {
            return Ok(());
        }
        Err(Error::Closed)
    }

    /// Waits, as long as that, until these records are durable, or will not be; where nothing
    /// would be synced without being asked for, and nobody has asked, that is an error.
    pub(crate) fn wait_acknowledged(
        self: &Arc<Self>,
        offsets: Range<u64>,
        timeout: Option<Duration>,
    ) -> Result<()> {
        self.check_covered(&offsets)?;
        if self.wait(offsets.clone(), timeout)? {
            return Ok(());
        }
        Err(Error::TimedOut {
            topic: self.site.topic(),
            partition: self.site.partition,
            offsets,
        })
    }

    /// Where nothing would be synced without being asked for, and nobody has asked, waiting would
    /// never end.
    pub(super) fn check_covered(&self, offsets: &Range<u64>) -> Result<()> {
        self.gate.check_owner()?;
        let covered = self.is_durable(offsets.end)
            || self.demand.asked.load(Ordering::Acquire) >= offsets.end
            || self.gate.is_over();
        if !covered && self.durability() == Durability::Manual {
            return Err(Error::NeedsFlush {
                topic: self.site.topic(),
            });
        }
        Ok(())
    }

    /// Whether everything below an offset is durable.
    pub(crate) fn is_durable(&self, end: u64) -> bool {
        self.durable.get() >= end
    }

    /// Whether everything that was appended is durable.
    pub(crate) fn is_all_durable(&self) -> bool {
        self.is_durable(self.ledger.next())
    }

    /// Waits until these records are durable; false if the time was up before.
    fn wait(self: &Arc<Self>, offsets: Range<u64>, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let Some(last) = offsets.end.checked_sub(1) else {
            return Ok(true);
        };
        self.gate.check_owner()?;
        if !self.is_durable(offsets.end) {
            self.drive(offsets.end, timeout);
        }
        let alone = self.setting.flusher.is_inline() && timeout.is_some();
        if !self.is_durable(offsets.end) && !alone {
            let lost = || self.gate.is_lost();
            self.durable.wait_past(last, deadline, lost);
        }
        self.answer(offsets)
    }

    /// What became of records that were waited for: whether they are durable.
    pub(super) fn answer(&self, offsets: Range<u64>) -> Result<bool> {
        if self.is_durable(offsets.end) {
            return Ok(true);
        }
        self.gate.is_there(&self.site)?;
        match self.gate.failure() {
            Some(cause) => Err(Error::InDoubt {
                spans: vec![self.site.span(offsets)],
                cause,
            }),
            None => Ok(false),
        }
    }

    /// Sees to it that a round comes. A caller without much time does not run it himself.
    fn drive(self: &Arc<Self>, end: u64, timeout: Option<Duration>) {
        let flusher = &self.setting.flusher;
        if !flusher.is_inline() && timeout.is_some() {
            flusher.request(self.as_dirty());
            return;
        }
        if flusher.is_inline()
            && let Due::After(rest) = self.due()
            && timeout.is_none_or(|timeout| rest <= timeout)
        {
            // Nobody else will do it later: as though the interval had passed.
            self.ask(end);
        }
        flusher.assist(self.as_dirty());
    }
}
