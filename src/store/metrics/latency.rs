//! How long something took, as a distribution.

use std::time::Duration;

use crate::sync::tally::{STEPS, longest};

/// How often something took how long: each step is twice as long as the one before, the first is a
/// microsecond.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append("M 4.6")?;
/// let latency = store.metrics()?.topics[0].partitions[0].append_latency;
/// assert_eq!(latency.count(), 1);
/// println!("half of them within {:?}", latency.quantile(0.5));
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    counts: [u64; STEPS],
}

impl Latency {
    pub(super) fn new(counts: [u64; STEPS]) -> Latency {
        Latency { counts }
    }

    /// How often.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The times of the steps, and how often it took no longer than each, and longer than the one before.
    pub fn steps(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let counts = self.counts.iter().copied();
        counts
            .enumerate()
            .map(|(step, count)| (longest(step), count))
    }

    /// The time within which this share of them stayed, rounded up to a step; nothing if there were none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all = self.count();
        let wanted = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let reached = |count: u64| {
            seen += count;
            seen >= wanted
        };
        let step = self.counts.iter().copied().position(reached)?;
        (all > 0).then(|| longest(step))
    }

    /// What has been added since.
    pub(super) fn since(&self, before: &Latency) -> Latency {
        let added = |step: usize| self.counts[step].saturating_sub(before.counts[step]);
        Latency::new(std::array::from_fn(added))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_rounded_up_to_a_step() {
        let mut counts = [0; STEPS];
        assert_eq!(Latency::new(counts).quantile(0.5), None);
        counts[3] = 98;
        counts[10] = 2;
        let latency = Latency::new(counts);
        assert_eq!(latency.quantile(0.5), Some(Duration::from_micros(8)));
        assert_eq!(latency.quantile(0.98), Some(Duration::from_micros(8)));
        assert_eq!(latency.quantile(0.99), Some(Duration::from_micros(1024)));
        assert_eq!(latency.quantile(0.0), Some(Duration::from_micros(8)));
        assert_eq!(latency.since(&latency).count(), 0);
    }
}
