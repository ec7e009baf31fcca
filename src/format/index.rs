//! The index of a segment: an entry now and then, to find an offset or a time by.

use std::borrow::Cow;

use bytemuck::{Pod, PodCastError, Zeroable};

use super::flaw::{Field, Flaw};
use super::layout::MAX_CAPACITY;
use super::{ALIGN, PAGE};

/// One entry: a frame's place, and what precedes it. Stored, never reuse.
///
/// The place is stored last: an entry without a place is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Entry {
    /// The greatest timestamp of the segment's records before the frame; `i64::MIN` if there
    /// are none.
    pub(crate) greatest: i64,
    /// The frame's offset less the segment's base.
    pub(crate) delta: u32,
    /// The frame's place, in eights; never 0.
    pub(crate) place8: u32,
}

impl Entry {
    pub(crate) const SIZE: usize = size_of::<Self>();

    /// An entry for the frame `place` bytes from the start of the file.
    pub(crate) fn new(greatest: Option<i64>, delta: u32, place: u64) -> Result<Self, Flaw> {
        let flaw = Flaw::Field {
            field: Field::Place,
            found: place,
        };
        if place < PAGE || !place.is_multiple_of(ALIGN as u64) {
            return Err(flaw);
        }
        Ok(Self {
            greatest: greatest.unwrap_or(i64::MIN),
            delta,
            place8: u32::try_from(place / ALIGN as u64).map_err(|_| flaw)?,
        })
    }

    /// The frame's place in the file.
    pub(crate) fn place(&self) -> u64 {
        u64::from(self.place8) * ALIGN as u64
    }

    /// The entry but for its place, and the place, which is to be stored last, at byte 12.
    pub(crate) fn encode(&self) -> ([u8; Self::SIZE], u32) {
        let bare = Self { place8: 0, ..*self };
        (bytemuck::cast(bare), self.place8)
    }

    /// The entry in these bytes, if there is one.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let entry: Self = bytemuck::pod_read_unaligned(bytes);
        (entry.place8 != 0).then_some(entry)
    }
}

/// Entries as they lie in a file: borrowed if the bytes are aligned, as they are in a mapping.
///
/// Nothing but their number is checked: what an entry says is a hint until the frame it points
/// at was decoded.
pub(crate) fn entries(bytes: &[u8]) -> Result<Cow<'_, [Entry]>, Flaw> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(entries) => Ok(Cow::Borrowed(entries)),
        Err(PodCastError::TargetAlignmentGreaterAndInputNotAligned)
            if bytes.len().is_multiple_of(Entry::SIZE) =>
        {
            let entries = bytes.chunks_exact(Entry::SIZE);
            Ok(Cow::Owned(
                entries.map(bytemuck::pod_read_unaligned).collect(),
            ))
        }
        Err(_) => Err(Flaw::Field {
            field: Field::IndexBytes,
            found: bytes.len() as u64,
        }),
    }
}

/// Bytes of index in a segment file of this length: whole pages, with an entry to spare for the
/// first frame. `None` for what is no segment.
pub(crate) fn room(capacity: u64, interval: u32) -> Option<u64> {
    if capacity > MAX_CAPACITY || interval == 0 {
        return None;
    }
    capacity
        .div_ceil(interval.into())
        .checked_add(1)?
        .checked_mul(Entry::SIZE as u64)?
        .checked_next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trip(greatest: Option<i64>, delta: u32, place8 in 512..=u32::MAX) {
            let place = u64::from(place8) * 8;
            let entry = Entry::new(greatest, delta, place).unwrap();
            prop_assert_eq!(entry.place(), place);

            let (mut bytes, last) = entry.encode();
            prop_assert_eq!(Entry::decode(&bytes), None);
            bytes[12..].copy_from_slice(&last.to_le_bytes());
            prop_assert_eq!(Entry::decode(&bytes), Some(entry));
        }

        #[test]
        fn aligned_or_not_the_entries_are_the_same(
            deltas in proptest::collection::vec(any::<u32>(), 0..20),
            shift in 0..8_usize,
        ) {
            let written: Vec<Entry> = deltas
                .into_iter()
                .map(|delta| Entry::new(None, delta, PAGE).unwrap())
                .collect();
            let mut bytes = vec![0; shift];
            bytes.extend_from_slice(bytemuck::cast_slice(&written));
            let read = entries(&bytes[shift..]).unwrap();
            prop_assert_eq!(read.as_ref(), written.as_slice());
        }
    }

    #[test]
    fn what_lies_in_a_mapping_is_not_copied() {
        let words = [0_u64; 8];
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        assert!(matches!(entries(bytes), Ok(Cow::Borrowed(all)) if all.len() == 4));
    }

    #[test]
    fn half_an_entry_is_refused() {
        let words = [0_u64; 8];
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        for len in [1, 8, 15, 17, 63] {
            assert!(entries(&bytes[..len]).is_err(), "{len}");
        }
        assert!(entries(&bytes[1..64]).is_err());
        assert!(entries(&[]).unwrap().is_empty());
    }

    #[test]
    fn places_that_no_frame_can_have_are_refused() {
        for place in [
            0,
            8,
            PAGE - 8,
            PAGE + 1,
            MAX_CAPACITY,
            MAX_CAPACITY + 8,
            u64::MAX,
        ] {
            assert!(Entry::new(None, 0, place).is_err(), "{place}");
        }
        assert!(Entry::new(None, 0, MAX_CAPACITY - 8).is_ok());
    }

    #[test]
    fn room_is_whole_pages() {
        assert_eq!(room(64 << 10, 4096), Some(PAGE));
        assert_eq!(room(128 << 20, 4096), Some((512 << 10) + PAGE));
        assert_eq!(room(u64::MAX, 4096), None);
        assert_eq!(room(1 << 20, 0), None);
    }
}
