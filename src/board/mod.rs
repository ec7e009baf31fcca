//! The live board: shared memory in which the owner of a store mirrors the watermarks of its logs, and
//! on whose words readers in other processes sleep.
//!
//! It consists of slots of 128 bytes. The first one is the header; each other one may be the *entry*
//! of a log that the owner has open.
//!
//! | slot | bytes | what |
//! |---|---|---|
//! | header | 0 | `TIDELOG\1`, written last |
//! | | 8, 24 | the store's id, the boot of the machine |
//! | | 40 | generation: counts the owners that have used this board |
//! | | 44 | the owner's process id, as information |
//! | | 48 | 1 while an owner has the store open |
//! | | 52 | how many slots were ever used |
//! | | 56 | how often entries or the owner have changed |
//! | | 64 | the bell for that |
//! | entry | 0 | the log's id |
//! | | 8 | version: odd while the entry changes hands; 0 where it was never used |
//! | | 12 | state: in use, finished, failed, deleted |
//! | | 16, 24 | the first offset that is still there, the number of its segment |
//! | | 32, 40 | `written`, and its bell |
//! | | 64, 72 | `durable`, and its bell |
//!
//! What the flusher changes lies in another cache line than what appenders do. The owner only ever
//! makes the board longer, and allocates it.
//!
//! The board is a hint. It is not synced, and dies with the boot. Whatever stands there, a reader hands
//! out what is in the segments, after their checksums; a board that lies can only show it less.

mod lookout;
mod owner;
#[cfg(all(test, not(loom)))]
mod tests;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) use lookout::{Lookout, stated};
pub(crate) use owner::{Board, Entry, Shown, discard};
pub(crate) use watch::{Marks, Seen, Watch};

use crate::sys::board::Words;

const MAGIC: u64 = u64::from_le_bytes(*b"TIDELOG\x01");

/// Slots that are mapped, and made, together.
const SLOTS: usize = 512;
const SLOT: usize = 128;
const CHUNK: u64 = (SLOTS * SLOT) as u64;
/// A store has no more logs open than this; a board that says so lies.
const MOST_SLOTS: u32 = 1 << 22;

/// Of an entry's state: the rest are the states of a log.
const IN_USE: u32 = 1;
pub(crate) const FINISHED: u32 = 2;
pub(crate) const FAILED: u32 = 4;
pub(crate) const DELETED: u32 = 8;

/// Which store a board is for, and in which boot of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) store: [u8; 16],
    pub(crate) boot: [u8; 16],
}

impl Key {
    fn words(&self) -> [u64; 4] {
        let halves = |id: &[u8; 16]| {
            let id = u128::from_le_bytes(*id);
            [id as u64, (id >> 64) as u64]
        };
        let ([a, b], [c, d]) = (halves(&self.store), halves(&self.boot));
        [a, b, c, d]
    }
}

/// A slot of the board.
#[derive(Debug, Clone)]
struct Slot {
    words: Arc<Words>,
    /// Which of the chunk's.
    at: usize,
}

impl Slot {
    fn long(&self, byte: usize) -> &AtomicU64 {
        self.words.long((self.at * SLOT + byte) / 8)
    }

    fn word(&self, byte: usize) -> &AtomicU32 {
        self.words.word((self.at * SLOT + byte) / 4)
    }
}

/// The header's words.
#[derive(Debug, Clone)]
struct Head(Slot);

impl Head {
    fn of(words: &Arc<Words>) -> Head {
        let words = Arc::clone(words);
        Head(Slot { words, at: 0 })
    }

    fn magic(&self) -> &AtomicU64 {
        self.0.long(0)
    }

    fn key(&self) -> [&AtomicU64; 4] {
        [8, 16, 24, 32].map(|byte| self.0.long(byte))
    }

    fn generation(&self) -> &AtomicU32 {
        self.0.word(40)
    }

    fn pid(&self) -> &AtomicU32 {
        self.0.word(44)
    }

    fn live(&self) -> &AtomicU32 {
        self.0.word(48)
    }

    fn used(&self) -> &AtomicU32 {
        self.0.word(52)
    }

    fn changes(&self) -> &AtomicU32 {
        self.0.word(56)
    }

    fn bell(&self) -> &AtomicU32 {
        self.0.word(64)
    }

    /// Whether it is the header of a board with this key.
    fn is_of(&self, key: &Key) -> bool {
        let found = self.key().map(|word| word.load(Ordering::Relaxed));
        self.magic().load(Ordering::Acquire) == MAGIC && found == key.words()
    }
}

/// The words of a log's entry.
#[derive(Debug, Clone)]
struct Row(Slot);

impl Row {
    fn log(&self) -> &AtomicU64 {
        self.0.long(0)
    }

    fn version(&self) -> &AtomicU32 {
        self.0.word(8)
    }

    fn state(&self) -> &AtomicU32 {
        self.0.word(12)
    }

    fn first(&self) -> &AtomicU64 {
        self.0.long(16)
    }

    fn first_segment(&self) -> &AtomicU32 {
        self.0.word(24)
    }

    fn written(&self) -> &AtomicU64 {
        self.0.long(32)
    }

    fn written_bell(&self) -> &AtomicU32 {
        self.0.word(40)
    }

    fn durable(&self) -> &AtomicU64 {
        self.0.long(64)
    }

    fn durable_bell(&self) -> &AtomicU32 {
        self.0.word(72)
    }
}
