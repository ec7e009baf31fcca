//! A clock that stands still until it is told otherwise.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::chance::Chance;
use crate::sys::Clock;

/// A [`Clock`] moved by hand, with chance from a seed.
///
/// ```
/// use std::time::Duration;
/// use tidelog::sys::{Clock, sim::SimClock};
///
/// let clock = SimClock::new(7, 1_000);
/// clock.advance(Duration::from_nanos(5));
/// assert_eq!(clock.now(), 1_005);
/// clock.jump(10);
/// assert_eq!((clock.now(), clock.monotonic()), (10, Duration::from_nanos(5)));
/// ```
#[derive(Debug)]
pub struct SimClock {
    now: AtomicI64,
    monotonic: AtomicU64,
    chance: Mutex<Chance>,
}

impl SimClock {
    /// A clock whose wall time is `now`, in nanoseconds since the Unix epoch.
    pub fn new(seed: u64, now: i64) -> Self {
        Self {
            now: AtomicI64::new(now),
            monotonic: AtomicU64::new(0),
            chance: Mutex::new(Chance::new(seed)),
        }
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.monotonic.fetch_add(nanos, Ordering::Relaxed);
        self.now
            .fetch_add(i64::try_from(nanos).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Sets the wall clock to `now`; no time passes.
    pub fn jump(&self, now: i64) {
        self.now.store(now, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> i64 {
        self.now.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.monotonic.load(Ordering::Relaxed))
    }

    fn random(&self) -> u64 {
        self.chance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    }
}
