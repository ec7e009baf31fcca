//! Redo: frames of a segment as the journal keeps them until their own file is safe.
//!
//! A page of redo is stretches, one behind the other. Each is byte for byte what its segment
//! holds, so laying it there twice changes nothing.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::flaw::{Field, Flaw};
use super::{ALIGN, SECTOR};

/// What stands before the bytes of a stretch. Stored, never reuse.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RedoHead {
    pub(super) log: U64,
    pub(super) nonce: U64,
    pub(super) first: U64,
    pub(super) next: U64,
    pub(super) place: U64,
    pub(super) number: U32,
    pub(super) frames: U32,
    pub(super) identity: U32,
    pub(super) reserved: U32,
}

/// Which frames of a segment these are, and where they belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) log: u64,
    /// The segment's number, and the nonce of the life of it that is meant.
    pub(crate) number: u32,
    pub(crate) nonce: u64,
    /// The offset of the first frame. That there is redo from here on proves that everything
    /// below was durable.
    pub(crate) first: u64,
    /// The offset behind the last frame.
    pub(crate) next: u64,
    /// Where in the file the frames belong.
    pub(crate) place: u64,
}

/// Consecutive frames of one segment, and its identity sector while that is not safe in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redo {
    pub(crate) of: Stretch,
    pub(crate) identity: Option<Box<[u8; SECTOR]>>,
    pub(crate) frames: Vec<u8>,
}

impl Stretch {
    /// Writes a stretch behind what a page holds.
    pub(crate) fn encode(
        &self,
        identity: Option<&[u8; SECTOR]>,
        frames: &[u8],
        page: &mut Vec<u8>,
    ) -> Result<(), Flaw> {
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| Flaw::Length {
                found: bytes.len() as u64,
                least: 0,
                limit: u64::from(u32::MAX),
            })
        };
        let identity: &[u8] = identity.map_or(&[], |sector| sector);
        let head = RedoHead {
            log: self.log.into(),
            nonce: self.nonce.into(),
            first: self.first.into(),
            next: self.next.into(),
            place: self.place.into(),
            number: self.number.into(),
            frames: length(frames)?.into(),
            identity: length(identity)?.into(),
            reserved: 0.into(),
        };
        page.extend_from_slice(head.as_bytes());
        page.extend_from_slice(identity);
        page.extend_from_slice(frames);
        Ok(())
    }
}

impl Redo {
    /// Reads a page.
    pub(crate) fn decode(mut page: &[u8]) -> Result<Vec<Redo>, Flaw> {
        let mut stretches = Vec::new();
        while !page.is_empty() {
            let short = |needed| Flaw::Short {
                needed,
                have: page.len(),
            };
            let (head, rest) =
                RedoHead::read_from_prefix(page).map_err(|_| short(size_of::<RedoHead>()))?;
            head.check()?;
            let (identity, rest) = rest
                .split_at_checked(head.identity.get() as usize)
                .ok_or_else(|| short(head.identity.get() as usize))?;
            let (frames, rest) = rest
                .split_at_checked(head.frames.get() as usize)
                .ok_or_else(|| short(head.frames.get() as usize))?;
            stretches.push(Redo {
                of: Stretch {
                    log: head.log.get(),
                    number: head.number.get(),
                    nonce: head.nonce.get(),
                    first: head.first.get(),
                    next: head.next.get(),
                    place: head.place.get(),
                },
                identity: identity.first_chunk().copied().map(Box::new),
                frames: frames.to_vec(),
            });
            page = rest;
        }
        Ok(stretches)
    }

    /// The page that reads as this.
    pub(crate) fn encode(&self, page: &mut Vec<u8>) -> Result<(), Flaw> {
        self.of.encode(self.identity.as_deref(), &self.frames, page)
    }
}

impl RedoHead {
    fn check(&self) -> Result<(), Flaw> {
        let field = |field, found| Err(Flaw::Field { field, found });
        if self.reserved.get() != 0 {
            return Err(Flaw::UnknownFlags {
                found: self.reserved.get(),
                known: 0,
            });
        }
        if self.identity.get() != 0 && self.identity.get() as usize != SECTOR {
            return Err(Flaw::Length {
                found: self.identity.get().into(),
                least: 0,
                limit: SECTOR as u64,
            });
        }
        if self.next < self.first {
            return field(Field::NextOffset, self.next.get());
        }
        let aligned = |bytes: u64| bytes.is_multiple_of(ALIGN as u64);
        if !aligned(self.place.get()) || !aligned(self.frames.get().into()) {
            return field(Field::Place, self.place.get());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
