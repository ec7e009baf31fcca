//! What a log adds up to at some place: what slots, seals and recorded ends carry.

use crate::format::Slot;
use crate::segment::End;

/// The sums of a segment up to a place between two batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The end of the last frame, in the file.
    pub(crate) place: u64,
    /// The offset that follows the last record.
    pub(crate) next: u64,
    /// Records of the segment up to here.
    pub(crate) records: u64,
    /// The greatest timestamp among them.
    pub(crate) greatest: Option<i64>,
    /// When the segment was last appended to.
    pub(crate) last_append: Option<i64>,
    /// Index entries up to here, and their checksum.
    pub(crate) index_entries: u32,
    pub(crate) index_checksum: u32,
}

impl Mark {
    /// The mark of a segment that holds nothing yet.
    pub(crate) fn empty(place: u64, next: u64) -> Mark {
        Mark {
            place,
            next,
            records: 0,
            greatest: None,
            last_append: None,
            index_entries: 0,
            index_checksum: 0,
        }
    }

    /// What a slot says.
    pub(crate) fn of(slot: &Slot) -> Mark {
        Mark {
            place: slot.place,
            next: slot.next,
            records: slot.records,
            greatest: slot.greatest,
            last_append: slot.last_append,
            index_entries: slot.index_entries,
            index_checksum: slot.index_checksum,
        }
    }

    /// A slot that says this.
    pub(crate) fn slot(&self, epoch: u32, generation: u64) -> Slot {
        Slot {
            is_final: false,
            generation,
            place: self.place,
            next: self.next,
            records: self.records,
            greatest: self.greatest,
            epoch,
            last_append: self.last_append,
            index_entries: self.index_entries,
            index_checksum: self.index_checksum,
        }
    }

    /// A seal that says that the segment ends here.
    pub(crate) fn seal(&self, epoch: u32) -> Slot {
        Slot {
            is_final: true,
            ..self.slot(epoch, 0)
        }
    }

    /// Where a segment ends that ends here.
    pub(crate) fn end(&self) -> End {
        End {
            place: self.place,
            next: self.next,
        }
    }
}

/// The end of a log as its owner left it: written to the journal when a log is settled for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordedEnd {
    pub(crate) segment: u32,
    /// The nonce of that segment: which life of it is meant.
    pub(crate) nonce: u64,
    /// The greatest epoch of the log.
    pub(crate) epoch: u32,
    pub(crate) mark: Mark,
}
