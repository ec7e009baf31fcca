//! The first sector of a segment: whose it is, what precedes it, and how it is laid out.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::flaw::{Field, Flaw};
use super::layout::Layout;
use super::name::{MAX_NAME, TopicName};
use super::seed::Seed;
use super::{ALIGN, PAGE, SECTOR, VERSION};

#[cfg(test)]
mod tests;

/// Partitions of a topic are numbered below this.
pub(crate) const MAX_PARTITIONS: u32 = 65_535;

/// Offsets are below this.
pub(crate) const MAX_OFFSET: u64 = 1 << 63;

/// Stored, never reuse.
pub(super) const MAGIC: [u8; 8] = *b"TIDESEG\0";

// Stored, never reuse.
pub(super) const GAPS_ALLOWED: u16 = 1;
pub(super) const HAS_PREDECESSOR: u16 = 2;
pub(super) const HAS_COVERS_TO: u16 = 4;
const KNOWN: u16 = GAPS_ALLOWED | HAS_PREDECESSOR | HAS_COVERS_TO;

/// The sector. Magic, version and checksum stay where they are in every version, and the
/// checksum covers the whole sector but itself. Stored, never reuse.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Raw {
    pub(super) magic: [u8; 8],
    pub(super) version: U16,
    pub(super) flags: U16,
    pub(super) checksum: U32,
    pub(super) store: [u8; 16],
    pub(super) log: U64,
    pub(super) nonce: U64,
    pub(super) base: U64,
    pub(super) predecessor_place: U64,
    pub(super) predecessor_next: U64,
    pub(super) covers_to: U64,
    pub(super) capacity: U64,
    pub(super) records_at: U64,
    pub(super) index_at: U32,
    pub(super) interval: U32,
    pub(super) number: U32,
    pub(super) epoch: U32,
    pub(super) partition: U32,
    pub(super) topic_len: u8,
    pub(super) topic: [u8; MAX_NAME],
    pub(super) reserved: [u8; 195],
}

const _: () = assert!(size_of::<Raw>() == SECTOR);

/// Where the segment before this one ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Predecessor {
    /// The end of its last frame, in its file.
    pub(crate) place: u64,
    /// The offset that follows its last record.
    pub(crate) next: u64,
}

/// What a segment says of itself from the moment it is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) store: [u8; 16],
    /// The log's id; 0 is the journal.
    pub(crate) log: u64,
    pub(crate) topic: TopicName,
    pub(crate) partition: u32,
    pub(crate) number: u32,
    /// Drawn at random for each taking-over.
    pub(crate) nonce: u64,
    pub(crate) epoch: u32,
    /// The offset of the first record.
    pub(crate) base: u64,
    /// `None` where the chain begins.
    pub(crate) predecessor: Option<Predecessor>,
    /// Whether offsets may be missing, as they are after compaction.
    pub(crate) gaps_allowed: bool,
    /// For a merged segment, up to where it stands for those that it was made from.
    pub(crate) covers_to: Option<u64>,
    pub(crate) layout: Layout,
}

impl Identity {
    /// What frames and slots of this life of the segment are checked with.
    pub(crate) fn seed(&self) -> Seed {
        Seed::new(&self.store, self.log, self.number, self.nonce)
    }

    /// The sector, or why no reader would accept it.
    pub(crate) fn encode(&self) -> Result<[u8; SECTOR], Flaw> {
        self.check()?;
        let mut flags = 0;
        if self.gaps_allowed {
            flags |= GAPS_ALLOWED;
        }
        if self.predecessor.is_some() {
            flags |= HAS_PREDECESSOR;
        }
        if self.covers_to.is_some() {
            flags |= HAS_COVERS_TO;
        }
        let (topic_len, topic) = self.topic.encode();
        let mut raw = Raw {
            magic: MAGIC,
            version: VERSION.into(),
            flags: flags.into(),
            checksum: U32::ZERO,
            store: self.store,
            log: self.log.into(),
            nonce: self.nonce.into(),
            base: self.base.into(),
            predecessor_place: self.predecessor.map_or(0, |end| end.place).into(),
            predecessor_next: self.predecessor.map_or(0, |end| end.next).into(),
            covers_to: self.covers_to.unwrap_or(0).into(),
            capacity: self.layout.capacity.into(),
            records_at: self.layout.records_at.into(),
            index_at: self.layout.index_at.into(),
            interval: self.layout.interval.into(),
            number: self.number.into(),
            epoch: self.epoch.into(),
            partition: self.partition.into(),
            topic_len,
            topic,
            reserved: [0; 195],
        };
        raw.checksum = raw.checksum().into();
        Ok(zerocopy::transmute!(raw))
    }

    /// What the sector says; `None` while it is all zeroes: prepared, and nobody's yet.
    ///
    /// The checksum comes before the version, so that a damaged version is damage.
    pub(crate) fn decode(sector: &[u8; SECTOR]) -> Result<Option<Self>, Flaw> {
        if sector.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let raw: &Raw = zerocopy::transmute_ref!(sector);
        if raw.magic != MAGIC {
            return Err(Flaw::Magic {
                expected: u64::from_be_bytes(MAGIC),
                found: u64::from_be_bytes(raw.magic),
            });
        }
        let (expected, found) = (raw.checksum(), raw.checksum.get());
        if found != expected {
            return Err(Flaw::Checksum { expected, found });
        }
        match raw.version.get() {
            0 => return Err(field(Field::Version, 0)),
            VERSION => {}
            found => {
                return Err(Flaw::Version {
                    found,
                    known: VERSION,
                });
            }
        }
        let flags = raw.flags.get();
        if flags & !KNOWN != 0 {
            return Err(Flaw::UnknownFlags {
                found: flags.into(),
                known: KNOWN.into(),
            });
        }
        raw.identity().map(Some)
    }

    fn check(&self) -> Result<(), Flaw> {
        self.layout.check()?;
        if self.topic.is_journal() && self.log != 0 {
            return Err(field(Field::Topic, 0));
        }
        if self.partition >= MAX_PARTITIONS {
            return Err(field(Field::Partition, self.partition.into()));
        }
        if self.base >= MAX_OFFSET {
            return Err(field(Field::Base, self.base));
        }
        if let Some(end) = self.predecessor {
            if end.place < PAGE || !end.place.is_multiple_of(ALIGN as u64) {
                return Err(field(Field::Predecessor, end.place));
            }
            if end.next > self.base {
                return Err(field(Field::Predecessor, end.next));
            }
        }
        Ok(())
    }
}

impl Raw {
    /// Of all the sector but the checksum itself.
    pub(super) fn checksum(&self) -> u32 {
        let bytes = self.as_bytes();
        let at = std::mem::offset_of!(Self, checksum);
        let before = bytes.get(..at).unwrap_or_default();
        let behind = bytes.get(at + size_of::<U32>()..).unwrap_or_default();
        crc32c::crc32c_append(crc32c::crc32c(before), behind)
    }

    fn identity(&self) -> Result<Identity, Flaw> {
        let has = |flag| self.flags.get() & flag != 0;
        let end = Predecessor {
            place: self.predecessor_place.get(),
            next: self.predecessor_next.get(),
        };
        let covers_to = self.covers_to.get();
        if !has(HAS_PREDECESSOR) && (end.place, end.next) != (0, 0) {
            return Err(field(Field::Predecessor, end.place));
        }
        if !has(HAS_COVERS_TO) && covers_to != 0 {
            return Err(field(Field::CoversTo, covers_to));
        }
        if let Some(byte) = self.reserved.iter().find(|byte| **byte != 0) {
            return Err(field(Field::Reserved, (*byte).into()));
        }
        let identity = Identity {
            store: self.store,
            log: self.log.get(),
            topic: TopicName::decode(self.topic_len, self.topic)?,
            partition: self.partition.get(),
            number: self.number.get(),
            nonce: self.nonce.get(),
            epoch: self.epoch.get(),
            base: self.base.get(),
            predecessor: has(HAS_PREDECESSOR).then_some(end),
            gaps_allowed: has(GAPS_ALLOWED),
            covers_to: has(HAS_COVERS_TO).then_some(covers_to),
            layout: Layout {
                capacity: self.capacity.get(),
                index_at: self.index_at.get(),
                records_at: self.records_at.get(),
                interval: self.interval.get(),
            },
        };
        identity.check()?;
        Ok(identity)
    }
}

const fn field(field: Field, found: u64) -> Flaw {
    Flaw::Field { field, found }
}
