//! What an append waits for before it has the partition, for how long, and how often that was.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use super::appender::Appender;
use super::held::Lacks;
use super::log::Log;
use crate::error::{Error, Result, Wait};
use crate::segment::Room;
use crate::sync::tally::Sum;
use crate::sync::{Ordering, Waited};

/// So often is tried to get at a partition that somebody has for a moment.
const MOMENT: u32 = 1000;

/// How long a call waits, in all, from its first wait on: a call that never waits reads no clock.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// For everything together; without it, for as long as it takes.
    within: Option<Duration>,
    until: Option<Instant>,
    /// For room in a topic that is full.
    room_until: Option<Instant>,
    /// And no longer than until this is set.
    given_up: Option<Arc<AtomicBool>>,
}

impl Patience {
    /// So long at the most.
    pub(crate) fn of(within: Option<Duration>) -> Patience {
        Patience {
            within,
            ..Patience::default()
        }
    }

    /// Not for room any more than until this is set; who sets it [says so](Log::ask_patience).
    pub(crate) fn unless(given_up: Arc<AtomicBool>) -> Patience {
        Patience {
            given_up: Some(given_up),
            ..Patience::default()
        }
    }

    /// Not at all for room, which only others can make.
    pub(crate) fn not_for_room() -> Patience {
        Patience {
            room_until: Some(Instant::now()),
            ..Patience::default()
        }
    }

    /// Until when it waits for room, if a topic says how long that is.
    pub(super) fn for_room(&mut self, wait: Duration) -> Instant {
        let until = self.until();
        let room = *self.room_until.get_or_insert_with(|| Instant::now() + wait);
        until.map_or(room, |until| until.min(room))
    }

    pub(super) fn is_given_up(&self) -> bool {
        let given_up = self.given_up.as_ref();
        given_up.is_some_and(|it| it.load(Ordering::Acquire))
    }

    /// How long, if not for as long as it takes.
    pub(crate) fn within(&self) -> Option<Duration> {
        self.within
    }

    /// Until when.
    pub(crate) fn until(&mut self) -> Option<Instant> {
        let within = self.within?;
        Some(*self.until.get_or_insert_with(|| Instant::now() + within))
    }
}

/// How often appends have waited, and for how long, by what for.
#[derive(Debug, Default)]
pub(crate) struct Waits([Sum; Wait::ALL.len()]);

impl Waits {
    /// What was waited for, from then until now.
    pub(crate) fn add(&self, wait: Wait, since: Instant) {
        self.0[wait as usize].add(since.elapsed());
    }

    /// How often, and how long in all.
    pub(crate) fn of(&self, wait: Wait) -> (u64, Duration) {
        self.0[wait as usize].get()
    }
}

impl From<Lacks> for Wait {
    fn from(lacks: Lacks) -> Wait {
        match lacks {
            Lacks::Settling => Wait::Settling,
            Lacks::Segment => Wait::Segment,
            Lacks::Room => Wait::Room,
        }
    }
}

impl Log {
    /// How often appends have waited for it.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Waits for what the log lacked; nothing is held meanwhile.
    pub(crate) fn wait_for(
        self: &Arc<Self>,
        lacks: Lacks,
        room: Room,
        patience: &mut Patience,
    ) -> Result<()> {
        self.gate.appends(&self.site)?;
        let since = Instant::now();
        let waited = match lacks {
            Lacks::Settling => self.wait_settled(room, patience),
            Lacks::Segment => self.wait_ready(room, patience),
            Lacks::Room => self.wait_room(room, patience),
        };
        self.waits.add(lacks.into(), since);
        waited
    }

    /// As [`Log::wait_for`], by who read the clock before; what it says then. Retention goes by when a
    /// record was written, not by when somebody began to wait.
    pub(crate) fn wait_from(
        self: &Arc<Self>,
        now: i64,
        lacks: Lacks,
        room: Room,
        patience: &mut Patience,
    ) -> Result<i64> {
        self.wait_for(lacks, room, patience)?;
        Ok(now.max(self.setting.clock.now()))
    }

    /// What who has waited for too long is told.
    pub(crate) fn busy(&self, wait: Wait, patience: &Patience) -> Error {
        Error::Busy {
            topic: self.site.topic(),
            partition: self.site.partition,
            wait,
            within: patience.within.unwrap_or_default(),
        }
    }

    /// The partition, once a transaction that has it lets it go.
    pub(super) fn lock_patiently(
        &self,
        patience: &mut Patience,
    ) -> Result<MutexGuard<'_, Appender>> {
        if let Some(appender) = self.try_lock() {
            return Ok(appender);
        }
        let Some(until) = patience.until() else {
            let held = self.held.load(Ordering::Acquire).then(Instant::now);
            let appender = self.lock();
            if let Some(since) = held {
                self.waits.add(Wait::Transaction, since);
            }
            return Ok(appender);
        };
        let since = Instant::now();
        let mut tries = 0;
        loop {
            let (released, seen) = self.released.heard();
            if let Some(appender) = self.try_lock() {
                return Ok(appender);
            }
            // A transaction has it for as long as a sync, other appends for a moment.
            let free = || !self.held.load(Ordering::Acquire);
            if free() {
                tries += 1;
                std::thread::yield_now();
            } else {
                released.wait_past(seen, Some(until), free);
                self.waits.add(Wait::Transaction, since);
                tries = MOMENT;
            }
            if tries >= MOMENT && Instant::now() >= until {
                return Err(self.busy(Wait::Transaction, patience));
            }
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Appender>> {
        match self.appender.try_lock() {
            Ok(appender) => Some(appender),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits until so much is settled that a batch may be written; in every mode that forces a
    /// sync.
    fn wait_settled(self: &Arc<Self>, room: Room, patience: &mut Patience) -> Result<()> {
        let until = patience.until();
        while !self.has_room(room) {
            let seen = self.settled_bytes.get();
            self.hurry();
            self.ask(self.ledger.next());
            // Who must not wait for a sync does not begin one.
            match until {
                Some(_) if !self.setting.flusher.is_inline() => {
                    self.setting.flusher.request(self.as_dirty());
                }
                _ => self.setting.flusher.assist(self.as_dirty()),
            }
            let stop = || self.gate.is_over() || self.has_room(room);
            let waited = self.settled_bytes.wait_past(seen, until, stop);
            self.gate.appends(&self.site)?;
            if waited == Waited::TimedOut {
                return Err(self.busy(Wait::Settling, patience));
            }
        }
        Ok(())
    }

    /// Waits for what was not there: the files of a parked log, or a segment with room.
    pub(super) fn wait_ready(self: &Arc<Self>, room: Room, patience: &mut Patience) -> Result<()> {
        let parked = {
            let appender = self.lock_patiently(patience)?;
            appender.parked.map(|identity| (identity, appender.mark))
        };
        match parked {
            Some((identity, mark)) => self.unpark(identity, mark),
            None => self.wait_spare(room, patience),
        }
    }

    /// Waits until the preparer has made a segment with room for the batch.
    fn wait_spare(self: &Arc<Self>, room: Room, patience: &mut Patience) -> Result<()> {
        let seen = self.want_spare(room)?;
        let until = patience.until();
        match until {
            Some(_) if !self.setting.preparer.is_inline() => {
                self.setting.preparer.request(self.as_dirty());
            }
            _ => self.setting.preparer.assist(self.as_dirty()),
        }
        match self.shelf.wait(seen, until, || self.gate.is_over())? {
            Waited::TimedOut => Err(self.busy(Wait::Segment, patience)),
            _ => Ok(()),
        }
    }
}
