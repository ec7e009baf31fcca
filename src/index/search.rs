//! Looking up an offset or a time.

use crate::format::Entry;

/// The last place whose frame is not past the offset `base + delta`; `None`: begin at the
/// segment's first record.
pub(crate) fn before_offset(entries: &[Entry], delta: u64) -> Option<u64> {
    let after = entries.partition_point(|entry| u64::from(entry.delta) <= delta);
    Some(entries.get(after.checked_sub(1)?)?.place())
}

/// The last place before which all records have timestamps below `time`; `None`: begin at the
/// segment's first record.
pub(crate) fn before_time(entries: &[Entry], time: i64) -> Option<u64> {
    let after = entries.partition_point(|entry| entry.greatest < time);
    Some(entries.get(after.checked_sub(1)?)?.place())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::index::Pace;

    proptest! {
        /// Records with timestamps in any order: the place found for a time is never past the
        /// first record at or after it, and that for an offset never past it.
        #[test]
        fn a_place_is_never_past_what_is_looked_for(
            records in prop::collection::vec((0..50_i64, 1..40_usize), 1..200),
            time in 0..50_i64,
            offset in 0..200_u32,
        ) {
            let mut pace = Pace::new(100, None, 0, 0);
            let mut entries = Vec::new();
            let mut places = Vec::new();
            let mut place = 4096;
            for (delta, (timestamp, words)) in records.iter().enumerate() {
                let bytes = words * 8;
                let delta = u32::try_from(delta).unwrap();
                if let Some(entry) = pace.note(place, delta, bytes, *timestamp) {
                    pace.count(entry);
                    entries.push(entry);
                }
                places.push(place);
                place += bytes as u64;
            }
            prop_assert_eq!(pace.entries() as usize, entries.len());
            let first = records.iter().position(|(timestamp, _)| *timestamp >= time);
            let found = before_time(&entries, time).unwrap_or(4096);
            if let Some(first) = first {
                prop_assert!(found <= places[first]);
                prop_assert!(places[first] - found < 100 + 39 * 8, "one interval and one record");
            }
            let found = before_offset(&entries, u64::from(offset)).unwrap_or(4096);
            if let Some(place) = places.get(offset as usize) {
                prop_assert!(found <= *place && *place - found < 100 + 39 * 8);
            }
        }
    }
}
