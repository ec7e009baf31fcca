//! A few words that one thread at a time changes, and that others read as a whole, without a lock.
//!
//! A sequence lock. The writer makes the number odd, changes the words, and makes it even again; a
//! reader takes the words between two looks at the number, and takes them anew unless it was even and
//! has not changed. The writer never waits, and pays stores only. A reader waits while a change is
//! under way, which is a few stores long.
//!
//! Words that are seen carry everything that was written before they were changed.

use super::{AtomicU64, Ordering, fence, pause};

/// Words that belong together.
#[derive(Debug)]
pub(crate) struct Whole<const N: usize> {
    number: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Whole<N> {
    pub(crate) fn new(words: [u64; N]) -> Self {
        Self {
            number: AtomicU64::new(0),
            words: words.map(AtomicU64::new),
        }
    }

    /// Changes the words. One thread at a time: the caller sees to it, by a lock that he holds for
    /// other reasons.
    pub(crate) fn set(&self, words: [u64; N]) {
        let before = self.number.load(Ordering::Relaxed);
        self.number.store(before.wrapping_add(1), Ordering::Relaxed);
        // Who sees a word of these sees the odd number, too.
        fence(Ordering::Release);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.number.store(before.wrapping_add(2), Ordering::Release);
    }

    /// The words as they were at one moment.
    pub(crate) fn get(&self) -> [u64; N] {
        let mut tries = 0;
        loop {
            let before = self.number.load(Ordering::Acquire);
            let words = std::array::from_fn(|index| self.words[index].load(Ordering::Relaxed));
            // Who has seen a word of a change sees that the number has moved.
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.number.load(Ordering::Relaxed) == before {
                return words;
            }
            pause(tries);
            tries += 1;
        }
    }

    /// One of the words, which by itself is always whole.
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Acquire)
    }
}
