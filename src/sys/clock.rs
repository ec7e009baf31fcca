//! Time and chance.

use std::fmt::Debug;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Where the engine learns the time, and takes numbers nobody can guess.
pub trait Clock: Debug + Send + Sync {
    /// Nanoseconds since the Unix epoch by the wall clock, as coarse as the kernel's tick. It may
    /// jump, also back.
    fn now(&self) -> i64;

    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;

    /// A number nobody can guess: nonces and ids.
    fn random(&self) -> u64;
}

/// The machine's own clock.
///
/// ```
/// use tidelog::sys::{Clock, SystemClock};
///
/// let clock = SystemClock;
/// assert!(clock.now() > 1_600_000_000_000_000_000);
/// assert!(clock.monotonic() <= clock.monotonic());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        let time = clock_gettime(ClockId::RealtimeCoarse);
        time.tv_sec
            .saturating_mul(1_000_000_000)
            .saturating_add(time.tv_nsec)
    }

    fn monotonic(&self) -> Duration {
        since_start(clock_gettime(ClockId::Monotonic))
    }

    fn random(&self) -> u64 {
        let mut bytes = [0u8; 8];
        // A call for 8 bytes is never cut short. Where it is forbidden (a sandbox), the standard
        // library knows other ways to the same source.
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(8) => u64::from_ne_bytes(bytes),
            _ => RandomState::new().build_hasher().finish(),
        }
    }
}

/// The monotonic clock starts at zero with the machine: neither part is ever negative.
fn since_start(time: Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::{Clock, SystemClock};

    #[test]
    fn two_random_numbers_differ() {
        assert_ne!(SystemClock.random(), SystemClock.random());
    }
}
