//! When an entry is due, and what it says.

use crate::format::Entry;

/// The state from which an index goes on: what the next entry will say, what those before add
/// up to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    interval: u64,
    /// Bytes of records since the last entry.
    since: u64,
    greatest: Option<i64>,
    entries: u32,
    checksum: u32,
}

impl Pace {
    /// An index that goes on behind `entries` entries with that checksum; the next record gets
    /// an entry, since how far away the last one is, is not known.
    pub(crate) fn new(interval: u32, greatest: Option<i64>, entries: u32, checksum: u32) -> Pace {
        Pace {
            interval: u64::from(interval),
            since: u64::from(interval),
            greatest,
            entries,
            checksum,
        }
    }

    /// Takes note of a record; the entry for it, if one is due.
    pub(crate) fn note(
        &mut self,
        place: u64,
        delta: u32,
        bytes: usize,
        timestamp: i64,
    ) -> Option<Entry> {
        let due = self.since >= self.interval;
        let entry = due
            .then(|| Entry::new(self.greatest, delta, place).ok())
            .flatten();
        if due {
            self.since = 0;
        }
        self.since += bytes as u64;
        self.greatest = self.greatest.max(Some(timestamp));
        entry
    }

    /// The entry has been written: from now on it counts.
    pub(crate) fn count(&mut self, entry: Entry) {
        self.entries += 1;
        self.checksum = crc32c::crc32c_append(self.checksum, bytemuck::bytes_of(&entry));
    }

    /// The greatest timestamp noted so far.
    pub(crate) fn greatest(&self) -> Option<i64> {
        self.greatest
    }

    /// How many entries there are.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// CRC-32C of those entries.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum
    }
}
