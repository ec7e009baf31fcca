//! Looking up an offset or a time.

use std::ops::Range;

use crate::format::Entry;

/// The last place whose frame is not past the offset `base + delta`; `None`: begin at the
/// segment's first record.
pub(crate) fn before_offset(entries: &[Entry], delta: u64) -> Option<u64> {
    let near = nearby(entries, delta);
    let after = near.start + entries[near].partition_point(|entry| u64::from(entry.delta) <= delta);
    Some(entries.get(after.checked_sub(1)?)?.place())
}

/// Where among the entries the first one past `delta` is: behind all before this range, and at its
/// end at the latest. Records of like sizes lie where a straight line says, so it is looked for
/// around there, in steps that double: a cache line or two instead of one for each halving.
fn nearby(entries: &[Entry], delta: u64) -> Range<usize> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return 0..0;
    };
    let (first, last) = (u64::from(first.delta), u64::from(last.delta));
    let part = delta
        .saturating_sub(first)
        .saturating_mul(entries.len() as u64 - 1);
    let guess = usize::try_from(part / last.saturating_sub(first).max(1)).unwrap_or(usize::MAX);
    let past = |at: usize| {
        entries
            .get(at)
            .is_none_or(|entry| u64::from(entry.delta) > delta)
    };
    let (mut from, mut to, mut step) = (guess.min(entries.len()), guess.min(entries.len()), 1);
    while from > 0 && past(from - 1) {
        to = from - 1;
        from = from.saturating_sub(step);
        step *= 2;
    }
    while !past(to) {
        from = to + 1;
        to = to.saturating_add(step).min(entries.len());
        step *= 2;
    }
    from..to
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

    /// However the offsets are spread, looking round the guess finds what halving does.
    #[test]
    fn guessing_finds_what_halving_finds() {
        let even: Vec<u32> = (0..1000).map(|n| n * 31).collect();
        let bent: Vec<u32> = (0..1000).map(|n| n * n).collect();
        let late: Vec<u32> = (0..1000).map(|n| 3_000_000_000 + n).collect();
        for deltas in [even, bent, late, vec![7], vec![7, u32::MAX], vec![]] {
            let entry = |delta| Entry::new(None, delta, 4096 + u64::from(delta) * 8);
            let entries: Vec<Entry> = deltas
                .iter()
                .map(|delta| {
                    entry(*delta).unwrap_or(Entry {
                        greatest: 0,
                        delta: *delta,
                        place8: 9,
                    })
                })
                .collect();
            let near = |delta: &u32| [delta.saturating_sub(1), *delta, delta.saturating_add(1)];
            let looked_for = deltas.iter().flat_map(near).map(u64::from);
            for delta in looked_for.chain([0, 5, u64::from(u32::MAX) + 1, u64::MAX]) {
                let after = entries.partition_point(|entry| u64::from(entry.delta) <= delta);
                let wanted = after.checked_sub(1).map(|at| entries[at].place());
                assert_eq!(before_offset(&entries, delta), wanted, "{delta}");
            }
        }
    }

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
