use super::flaw::{Field, Flaw};
use super::{PAGE, index};

/// The largest segment: the index counts places in eights, in 32 bits.
pub(crate) const MAX_CAPACITY: u64 = 8 << 32;

/// Fewest and most bytes of records from one index entry to the next.
pub(super) const INTERVALS: std::ops::RangeInclusive<u32> = 256..=(1 << 20);

/// Where the parts of a segment lie: header page, index, records, each from a page's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The length of the file.
    pub(crate) capacity: u64,
    pub(crate) index_at: u32,
    pub(crate) records_at: u64,
    /// Bytes of records from one index entry to the next.
    pub(crate) interval: u32,
}

impl Layout {
    /// How a file of this length is laid out.
    pub(crate) fn new(capacity: u64, interval: u32) -> Result<Self, Flaw> {
        if !INTERVALS.contains(&interval) {
            return Err(flaw(Field::Interval, interval.into()));
        }
        let too_small_or_large = flaw(Field::Capacity, capacity);
        let records_at = index::room(capacity, interval)
            .and_then(|room| room.checked_add(PAGE))
            .ok_or(too_small_or_large)?;
        let layout = Self {
            capacity,
            index_at: INDEX_AT,
            records_at,
            interval,
        };
        layout.check().map_err(|_| too_small_or_large)?;
        Ok(layout)
    }

    /// The smallest layout with this much room for records; `None` if no segment has it.
    pub(crate) fn for_records(bytes: u64, interval: u32) -> Option<Self> {
        let mut capacity = PAGE.checked_mul(2)?;
        // Each step asks for what the last one lacked, from below; room grows by at most a
        // sixteenth of the capacity, so this ends after a few.
        loop {
            let room = index::room(capacity, interval)?;
            let needed = PAGE
                .checked_add(room)?
                .checked_add(bytes.max(1))?
                .checked_next_multiple_of(PAGE)?;
            if needed > MAX_CAPACITY {
                return None;
            }
            if needed <= capacity {
                // What cannot be laid out has no capacity, whatever is wrong with it.
                return Self::new(capacity, interval).ok();
            }
            capacity = needed;
        }
    }

    /// Bytes of room for index entries.
    pub(crate) fn index_len(&self) -> u64 {
        self.records_at.saturating_sub(self.index_at.into())
    }

    /// Bytes of room for records.
    pub(crate) fn records_len(&self) -> u64 {
        self.capacity.saturating_sub(self.records_at)
    }

    /// Whether the numbers, wherever they come from, describe a segment at all.
    pub(super) fn check(&self) -> Result<(), Flaw> {
        if !INTERVALS.contains(&self.interval) {
            return Err(flaw(Field::Interval, self.interval.into()));
        }
        if self.capacity > MAX_CAPACITY || !self.capacity.is_multiple_of(PAGE) {
            return Err(flaw(Field::Capacity, self.capacity));
        }
        if self.index_at != INDEX_AT {
            return Err(flaw(Field::IndexAt, self.index_at.into()));
        }
        let within = u64::from(self.index_at)..self.capacity;
        if !within.contains(&self.records_at) || !self.records_at.is_multiple_of(PAGE) {
            return Err(flaw(Field::RecordsAt, self.records_at));
        }
        Ok(())
    }
}

/// The index begins behind the header page.
const INDEX_AT: u32 = 4096;

const fn flaw(field: Field, found: u64) -> Flaw {
    Flaw::Field { field, found }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_smallest_segment_has_a_page_of_each() {
        let layout = Layout::new(3 * PAGE, 4096).unwrap();
        assert_eq!(layout.records_at, 2 * PAGE);
        assert_eq!(layout.index_len(), PAGE);
        assert_eq!(layout.records_len(), PAGE);
        assert_eq!(Layout::for_records(1, 4096), Some(layout));
        assert_eq!(Layout::for_records(0, 4096), Some(layout));
        assert_eq!(Layout::for_records(PAGE, 4096), Some(layout));
        assert!(Layout::new(2 * PAGE, 4096).is_err());
        assert!(Layout::new(0, 4096).is_err());
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(Layout::new(3 * PAGE + 8, 4096).is_err());
        assert!(Layout::new(MAX_CAPACITY, 4096).is_ok());
        assert!(Layout::new(MAX_CAPACITY + PAGE, 4096).is_err());
        assert!(Layout::new(u64::MAX, 4096).is_err());
        assert!(Layout::new(1 << 20, 255).is_err());
        assert!(Layout::new(1 << 20, (1 << 20) + 1).is_err());
        assert_eq!(Layout::for_records(u64::MAX, 4096), None);
        assert_eq!(Layout::for_records(MAX_CAPACITY, 4096), None);
        assert_eq!(Layout::for_records(1, 0), None);
        assert_eq!(Layout::for_records(1, 1), None);
    }

    proptest! {
        #[test]
        fn no_smaller_segment_would_do(
            bytes in 0..(1_u64 << 34),
            interval in INTERVALS,
        ) {
            let layout = Layout::for_records(bytes, interval).unwrap();
            prop_assert_eq!(layout.check(), Ok(()));
            prop_assert!(layout.records_len() >= bytes);
            prop_assert_eq!(Layout::new(layout.capacity, interval), Ok(layout));
            if let Ok(smaller) = Layout::new(layout.capacity - PAGE, interval) {
                prop_assert!(smaller.records_len() < bytes);
            }
        }

        #[test]
        fn the_index_has_room_for_all_its_entries(
            pages in 3..(1_u64 << 23),
            interval in INTERVALS,
        ) {
            let layout = Layout::new(pages * PAGE, interval).unwrap();
            let entries = layout.records_len() / u64::from(interval) + 1;
            prop_assert!(layout.index_len() >= entries * 16);
        }
    }
}
