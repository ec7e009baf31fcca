//! The sectors from which recovery may start, and the one that ends a segment.
//!
//! Slots A and B are written in turn, so that one of them is whole whatever happens to the other.
//! The seal is a slot, too, in a sector of its own and marked final. All are checked with the
//! segment's seed: one from another life of the file is none.

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::flaw::{Field, Flaw};
use super::identity::MAX_OFFSET;
use super::layout::MAX_CAPACITY;
use super::seed::Seed;
use super::{ALIGN, PAGE, SECTOR};

#[cfg(test)]
mod tests;

/// Stored, never reuse.
pub(super) const MAGIC: [u8; 4] = *b"SLOT";

// Stored, never reuse.
pub(super) const FINAL: u32 = 1;
pub(super) const HAS_GREATEST: u32 = 2;
pub(super) const HAS_LAST_APPEND: u32 = 4;
const KNOWN: u32 = FINAL | HAS_GREATEST | HAS_LAST_APPEND;

/// The sector. Stored, never reuse.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Raw {
    pub(super) magic: [u8; 4],
    pub(super) checksum: U32,
    pub(super) flags: U32,
    pub(super) epoch: U32,
    pub(super) generation: U64,
    pub(super) place: U64,
    pub(super) next: U64,
    pub(super) records: U64,
    pub(super) greatest: I64,
    pub(super) last_append: I64,
    pub(super) index_entries: U32,
    pub(super) index_checksum: U32,
    pub(super) reserved: [u8; 440],
}

const _: () = assert!(size_of::<Raw>() == SECTOR);

/// A sector of the header page that holds a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sector {
    A,
    B,
    Seal,
}

impl Sector {
    /// Its place in the file.
    pub(crate) const fn place(self) -> u64 {
        self.number() as u64 * SECTOR as u64
    }

    /// Its bytes in a header page; `None` if the page is cut short before them.
    pub(crate) fn of(self, page: &[u8]) -> Option<&[u8; SECTOR]> {
        page.get(self.number() * SECTOR..)?.first_chunk()
    }

    /// Sector 0 is the identity's. Stored in effect, never change.
    const fn number(self) -> usize {
        match self {
            Self::A => 1,
            Self::B => 2,
            Self::Seal => 3,
        }
    }
}

/// A place in the records up to which a segment is known to be whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The seal: the segment ends here.
    pub(crate) is_final: bool,
    /// The greater one counts.
    pub(crate) generation: u64,
    /// The end of the last frame, in the file.
    pub(crate) place: u64,
    /// The offset that follows the last record.
    pub(crate) next: u64,
    /// Records up to here.
    pub(crate) records: u64,
    /// The greatest timestamp among them; `None` if there are none.
    pub(crate) greatest: Option<i64>,
    pub(crate) epoch: u32,
    /// When the segment was last appended to, by the clock of its owner.
    pub(crate) last_append: Option<i64>,
    /// Index entries up to here.
    pub(crate) index_entries: u32,
    /// CRC-32C of those entries.
    pub(crate) index_checksum: u32,
}

impl Slot {
    /// The sector, or why no reader would accept it.
    pub(crate) fn encode(&self, seed: Seed) -> Result<[u8; SECTOR], Flaw> {
        self.check()?;
        let mut flags = 0;
        if self.is_final {
            flags |= FINAL;
        }
        if self.greatest.is_some() {
            flags |= HAS_GREATEST;
        }
        if self.last_append.is_some() {
            flags |= HAS_LAST_APPEND;
        }
        let mut raw = Raw {
            magic: MAGIC,
            checksum: U32::ZERO,
            flags: flags.into(),
            epoch: self.epoch.into(),
            generation: self.generation.into(),
            place: self.place.into(),
            next: self.next.into(),
            records: self.records.into(),
            greatest: self.greatest.unwrap_or(0).into(),
            last_append: self.last_append.unwrap_or(0).into(),
            index_entries: self.index_entries.into(),
            index_checksum: self.index_checksum.into(),
            reserved: [0; 440],
        };
        raw.checksum = raw.checksum(seed).into();
        Ok(zerocopy::transmute!(raw))
    }

    /// What the sector says; `None` if it was never written, not written whole, or written in
    /// another life of the file.
    pub(crate) fn decode(sector: &[u8; SECTOR], seed: Seed) -> Result<Option<Self>, Flaw> {
        let raw: &Raw = zerocopy::transmute_ref!(sector);
        if raw.magic != MAGIC || raw.checksum.get() != raw.checksum(seed) {
            return Ok(None);
        }
        let flags = raw.flags.get();
        if flags & !KNOWN != 0 {
            return Err(Flaw::UnknownFlags {
                found: flags,
                known: KNOWN,
            });
        }
        raw.slot().map(Some)
    }

    fn check(&self) -> Result<(), Flaw> {
        if !(PAGE..=MAX_CAPACITY).contains(&self.place) || !self.place.is_multiple_of(ALIGN as u64)
        {
            return Err(field(Field::Place, self.place));
        }
        if self.next > MAX_OFFSET {
            return Err(field(Field::NextOffset, self.next));
        }
        Ok(())
    }
}

impl Raw {
    /// Of all the sector but the checksum itself.
    pub(super) fn checksum(&self, seed: Seed) -> u32 {
        let bytes = self.as_bytes();
        let at = std::mem::offset_of!(Self, checksum);
        seed.checksum([
            bytes.get(..at).unwrap_or_default(),
            bytes.get(at + size_of::<U32>()..).unwrap_or_default(),
        ])
    }

    fn slot(&self) -> Result<Slot, Flaw> {
        let has = |flag| self.flags.get() & flag != 0;
        let (greatest, last_append) = (self.greatest.get(), self.last_append.get());
        if !has(HAS_GREATEST) && greatest != 0 {
            return Err(field(Field::Greatest, greatest.cast_unsigned()));
        }
        if !has(HAS_LAST_APPEND) && last_append != 0 {
            return Err(field(Field::LastAppend, last_append.cast_unsigned()));
        }
        if let Some(byte) = self.reserved.iter().find(|byte| **byte != 0) {
            return Err(field(Field::Reserved, (*byte).into()));
        }
        let slot = Slot {
            is_final: has(FINAL),
            generation: self.generation.get(),
            place: self.place.get(),
            next: self.next.get(),
            records: self.records.get(),
            greatest: has(HAS_GREATEST).then_some(greatest),
            epoch: self.epoch.get(),
            last_append: has(HAS_LAST_APPEND).then_some(last_append),
            index_entries: self.index_entries.get(),
            index_checksum: self.index_checksum.get(),
        };
        slot.check()?;
        Ok(slot)
    }
}

/// What slots A and B come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The one that counts.
    pub(crate) slot: Option<Slot>,
    /// Where the next one goes: never over the one that counts.
    pub(crate) write_next: Sector,
}

/// Chooses between what slots A and B decoded to.
pub(crate) fn choose(a: Option<Slot>, b: Option<Slot>) -> Choice {
    let generation = |slot: Option<Slot>| slot.map(|slot| slot.generation);
    if generation(a) >= generation(b) && a.is_some() {
        Choice {
            slot: a,
            write_next: Sector::B,
        }
    } else {
        Choice {
            slot: b,
            write_next: Sector::A,
        }
    }
}

const fn field(field: Field, found: u64) -> Flaw {
    Flaw::Field { field, found }
}
