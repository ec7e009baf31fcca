//! How long something took, counted in steps of two: whoever did it adds, and anybody may look.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So many steps: up to 1 us, 2 us, 4 us and so on; the last one takes what is longer than 18 minutes.
pub(crate) const STEPS: usize = 32;

/// The counts. They are looked at one by one: those of a moment may be a few apart.
#[derive(Debug, Default)]
pub(crate) struct Tally([AtomicU64; STEPS]);

impl Tally {
    /// It took so long, once more.
    pub(crate) fn add(&self, time: Duration) {
        self.0[step(time)].fetch_add(1, Ordering::Relaxed);
    }

    /// How often it took up to each step, and longer than the one before.
    pub(crate) fn counts(&self) -> [u64; STEPS] {
        std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed))
    }
}

/// How often something took time, and how much in all.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    times: AtomicU64,
    nanos: AtomicU64,
}

impl Sum {
    /// It took so long, once more.
    pub(crate) fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Relaxed);
    }

    /// How often, and how long in all.
    pub(crate) fn get(&self) -> (u64, Duration) {
        let times = self.times.load(Ordering::Relaxed);
        (
            times,
            Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        )
    }
}

/// The longest time of a step.
pub(crate) fn longest(step: usize) -> Duration {
    Duration::from_micros(1 << step.min(STEPS - 1))
}

fn step(time: Duration) -> usize {
    let micros = time.as_nanos().div_ceil(1000).max(1);
    let step = micros.next_power_of_two().trailing_zeros();
    (step as usize).min(STEPS - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_in_the_first_step_that_is_not_shorter() {
        let cases = [
            (0, 0),
            (1000, 0),
            (1001, 1),
            (2000, 1),
            (2001, 2),
            (4_000_000, 12),
        ];
        for (nanos, expected) in cases {
            assert_eq!(step(Duration::from_nanos(nanos)), expected, "{nanos}");
        }
        assert_eq!(step(Duration::MAX), STEPS - 1);
        let tally = Tally::default();
        tally.add(Duration::from_micros(3));
        assert_eq!(tally.counts()[2], 1);
        assert!(longest(2) >= Duration::from_micros(3) && longest(1) < Duration::from_micros(3));
    }
}
