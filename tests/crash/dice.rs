//! Chance, from a seed or from bytes that somebody else has thrown.

use std::sync::Arc;

/// A splitmix64 generator: the same program for the same seed, everywhere. Or bytes, as a fuzzer makes
/// them: each throw takes as few of them as it needs, so that one changed byte is one changed throw.
#[derive(Debug, Clone)]
pub struct Dice {
    state: u64,
    bytes: Option<(Arc<[u8]>, usize)>,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice {
            state: seed ^ 0x7469_6465_6C6F_6721,
            bytes: None,
        }
    }

    /// Throws these; zeroes once they are spent.
    #[cfg(fuzzing)]
    pub fn of(bytes: &[u8]) -> Dice {
        let bytes = Some((bytes.into(), 0));
        Dice { state: 0, bytes }
    }

    /// Whether there were bytes, and all have been thrown.
    pub fn is_spent(&self) -> bool {
        let spent = |(bytes, at): &(Arc<[u8]>, usize)| *at >= bytes.len();
        self.bytes.as_ref().is_some_and(spent)
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let Some((bytes, at)) = &mut self.bytes else {
            return self.next() % bound;
        };
        let mut thrown = 0;
        for byte in 0..u64::from(bound.ilog2() / 8 + 1) {
            let next = bytes.get(*at).copied().unwrap_or_default();
            thrown |= u64::from(next) << (8 * byte);
            *at += 1;
        }
        thrown % bound
    }

    /// A number from `low` up to and without `high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
