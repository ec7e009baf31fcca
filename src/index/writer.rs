//! Index entries into their region.

use std::io;

use super::Pace;
use crate::format::Entry;
use crate::sys::Tail;

/// The writing end of a segment's index.
#[derive(Debug)]
pub(crate) struct Writer {
    tail: Tail,
    pace: Pace,
    full: bool,
}

impl Writer {
    /// Goes on behind what `tail` holds, which is what `pace` has counted.
    pub(crate) fn new(tail: Tail, pace: Pace) -> Writer {
        Writer {
            tail,
            pace,
            full: false,
        }
    }

    /// Takes note of a record that was written, with an entry if one is due. An index that
    /// cannot grow any more stays as it is; looking up then walks further.
    pub(crate) fn note(
        &mut self,
        place: u64,
        delta: u32,
        bytes: usize,
        timestamp: i64,
    ) -> io::Result<()> {
        let Some(entry) = self.pace.note(place, delta, bytes, timestamp) else {
            return Ok(());
        };
        self.full |= self.tail.capacity() - self.tail.written_end() < Entry::SIZE as u64;
        if self.full {
            return Ok(());
        }
        let (encoded, word) = entry.encode();
        let put = self.tail.append(
            Entry::SIZE,
            |space| space.copy_from_slice(&encoded),
            std::iter::once((Entry::SIZE - 4, word)),
        );
        self.full = put.is_err();
        put?;
        self.pace.count(entry);
        Ok(())
    }

    /// Lets readers see the entries.
    pub(crate) fn publish(&mut self) {
        self.tail.publish();
    }

    /// What the index adds up to.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }
}
