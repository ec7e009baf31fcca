//! What a log adds up to at some place: what slots, seals and recorded ends carry.

use crate::format::{ALIGN, Entry, Identity, MAX_OFFSET, Slot, most_frames};
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

    /// Whether a segment can add up to this. Only where it has ended may offsets be missing in
    /// front of its end.
    pub(crate) fn check(&self, identity: &Identity, ended: bool) -> Result<(), String> {
        let (layout, place) = (&identity.layout, self.place);
        let records = layout.records_at..=layout.capacity;
        if !records.contains(&place) || !place.is_multiple_of(ALIGN as u64) {
            return Err(format!("an end at byte {place} lies outside the records"));
        }
        let most = match ended || identity.gaps_allowed {
            true => u64::MAX,
            false => most_frames(place - layout.records_at),
        };
        let (base, next) = (identity.base, self.next);
        let records = next.checked_sub(base);
        if next > MAX_OFFSET || records.is_none_or(|records| records > most) {
            return Err(format!(
                "offset {next} at byte {place} does not follow from {base}"
            ));
        }
        let entries = u64::from(self.index_entries);
        if entries * Entry::SIZE as u64 > layout.index_len() {
            return Err(format!("there is no room for {entries} index entries"));
        }
        Ok(())
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
