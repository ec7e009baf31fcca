//! A record as it lies in a segment: the frame.
//!
//! Encoding fills everything but the length word, which the caller stores last: a frame without a
//! length is not there, whatever else of it is. Decoding looks at the length before anything, at
//! the checksum next, and only then at what the bytes say.

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ALIGN;
use super::seed::Seed;

mod frame;
mod parts;
#[cfg(test)]
mod tests;

pub(crate) use frame::{Frame, Peek};
pub(crate) use parts::Parts;

/// Bytes of the fixed part of a frame, and so the length of the shortest one.
pub(crate) const HEAD: usize = size_of::<Head>();

/// The longest frame: 1 GiB of payload, and 32 MiB for key, headers and the rest.
pub(crate) const MAX_FRAME: u32 = (1 << 30) + (32 << 20);

/// The fixed part of a frame. Stored, never reuse.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Head {
    pub(super) length: U32,
    pub(super) checksum: U32,
    pub(super) delta: U32,
    pub(super) lag: U32,
    pub(super) timestamp: I64,
    pub(super) epoch: U32,
    pub(super) key: U16,
    pub(super) flags: u8,
    pub(super) headers: u8,
}

/// What follows a producer's id. Stored, never reuse.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct ProducerTail {
    pub(super) epoch: U64,
    pub(super) sequence: U64,
}

/// Where the checksum ends and what it covers goes on.
const COVERED: usize = 8;

// Stored, never reuse.
pub(super) const MORE: u8 = 1;
pub(super) const KEY: u8 = 2;
pub(super) const TOMBSTONE: u8 = 4;
pub(super) const EVENT_ID: u8 = 8;
pub(super) const PRODUCER: u8 = 16;
const KNOWN: u8 = MORE | KEY | TOMBSTONE | EVENT_ID | PRODUCER;

/// Who wrote a record, and which of theirs it is: what duplicates are told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Producer<'a> {
    /// 1 to 255 bytes.
    pub(crate) id: &'a [u8],
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

/// What the log adds to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Offset less the segment's base.
    pub(crate) delta: u32,
    /// Offset less the durable watermark as it stood, saturating: tells a torn tail from rot.
    pub(crate) lag: u32,
    /// Nanoseconds since the Unix epoch.
    pub(crate) timestamp: i64,
    pub(crate) epoch: u32,
    /// Whether the batch goes on behind this frame.
    pub(crate) more: bool,
}

/// How many frames so many bytes hold at the most: what claims to be further away than that need
/// not be checked, so that a search through payloads stays linear.
pub(crate) const fn most_frames(bytes: u64) -> u64 {
    bytes / HEAD as u64
}

/// What a frame of this length takes up.
pub(crate) const fn padded(length: u32) -> usize {
    (length as usize).next_multiple_of(ALIGN)
}

/// The checksum of a frame of this length, whatever its first 8 bytes say.
pub(super) fn checksum(seed: Seed, length: u32, frame: &[u8]) -> u32 {
    let covered = frame.get(COVERED..).unwrap_or_default();
    seed.checksum([&length.to_le_bytes(), covered])
}
