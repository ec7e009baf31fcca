//! A word that rings for sleepers in other processes.
//!
//! The low bit says that somebody sleeps, or is about to; the rest counts how often it has rung, so
//! that who looked before a ring does not sleep through it. Who sleeps *announces* that, then *looks*;
//! who has something to show *publishes* it, then looks at the bit, and makes the call only where it
//! is set. Between the two steps of either stands a sequentially consistent fence, so one of the two
//! sees the other.
//!
//! Ringing clears the bit. So a sleeper that is killed leaves nothing behind but one call too many.

use super::{Ordering, fence};

const AWAITED: u32 = 1;

/// An atomic word, of this process or shared with others.
pub(crate) trait Word {
    fn load(&self) -> u32;
    fn set(&self, bits: u32) -> u32;
    fn replace(&self, seen: u32, with: u32) -> Result<u32, u32>;
}

macro_rules! word {
    ($atomic:ty) => {
        impl Word for $atomic {
            fn load(&self) -> u32 {
                self.load(Ordering::Relaxed)
            }

            fn set(&self, bits: u32) -> u32 {
                self.fetch_or(bits, Ordering::Relaxed)
            }

            fn replace(&self, seen: u32, with: u32) -> Result<u32, u32> {
                self.compare_exchange(seen, with, Ordering::Relaxed, Ordering::Relaxed)
            }
        }
    };
}

word!(std::sync::atomic::AtomicU32);
#[cfg(loom)]
word!(super::AtomicU32);

/// Rings for whoever sleeps. The caller has published what there is to see, and then passed a
/// sequentially consistent fence. `wake` makes the call that wakes all who sleep on the word.
pub(crate) fn ring(word: &impl Word, wake: impl FnOnce()) {
    let mut seen = word.load();
    loop {
        if seen & AWAITED == 0 {
            return;
        }
        match word.replace(seen, (seen & !AWAITED).wrapping_add(2)) {
            Ok(_) => return wake(),
            Err(now) => seen = now,
        }
    }
}

/// Announces a sleeper: look *afterwards*, and then sleep only while the word is as this says.
pub(crate) fn announce(word: &impl Word) -> u32 {
    let seen = word.set(AWAITED) | AWAITED;
    // Between announcing and looking; the other fence is that of who rings.
    fence(Ordering::SeqCst);
    seen
}
