//! Redo in a file of its own: what the journal kept for a log whose own files failed.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::VERSION;
use super::flaw::{Field, Flaw};
use super::redo::Redo;

/// Stored, never reuse.
pub(super) const MAGIC: [u8; 8] = *b"TIDEREDO";

/// What stands before the stretches. Magic, version and checksum stay where they are in every
/// version, and the checksum covers the whole file but itself. Stored, never reuse.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RedoFileHead {
    pub(super) magic: [u8; 8],
    pub(super) version: U16,
    pub(super) flags: U16,
    pub(super) checksum: U32,
    pub(super) store: [u8; 16],
    pub(super) log: U64,
    pub(super) nonce: U64,
    pub(super) length: U64,
}

const HEAD: usize = size_of::<RedoFileHead>();

/// The redo of one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RedoFile {
    pub(crate) store: [u8; 16],
    pub(crate) log: u64,
    /// Drawn at random for this file.
    pub(crate) nonce: u64,
    /// All of this log, in the order in which they were written.
    pub(crate) stretches: Vec<Redo>,
}

impl RedoFile {
    /// Bytes before the stretches.
    pub(crate) const HEAD: usize = HEAD;

    /// How long the file says that it is; at least its head. Nothing else of it has been checked.
    pub(crate) fn length(head: &[u8]) -> Option<u64> {
        let (head, _) = RedoFileHead::read_from_prefix(head).ok()?;
        Some(head.length.get()).filter(|length| *length >= HEAD as u64)
    }

    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Flaw> {
        let mut file = vec![0; HEAD];
        for stretch in &self.stretches {
            stretch.encode(&mut file)?;
        }
        let mut head = RedoFileHead {
            magic: MAGIC,
            version: VERSION.into(),
            flags: 0.into(),
            checksum: 0.into(),
            store: self.store,
            log: self.log.into(),
            nonce: self.nonce.into(),
            length: (file.len() as u64).into(),
        };
        if let Some((into, stretches)) = file.split_first_chunk_mut::<HEAD>() {
            head.checksum = head.checksum(stretches).into();
            *into = zerocopy::transmute!(head);
        }
        Ok(file)
    }

    /// What the file says. The checksum comes before the version, so that a damaged version is
    /// damage.
    pub(crate) fn decode(file: &[u8]) -> Result<RedoFile, Flaw> {
        let have = file.len();
        let (head, stretches) =
            RedoFileHead::read_from_prefix(file).map_err(|_| Flaw::Short { needed: HEAD, have })?;
        head.check(stretches)?;
        let stretches = Redo::decode(stretches)?;
        let log = head.log.get();
        if stretches.iter().any(|redo| redo.of.log != log) {
            return Err(Flaw::Stale);
        }
        Ok(RedoFile {
            store: head.store,
            log,
            nonce: head.nonce.get(),
            stretches,
        })
    }
}

impl RedoFileHead {
    /// Of all the file but the checksum itself.
    pub(super) fn checksum(&self, stretches: &[u8]) -> u32 {
        let bytes = self.as_bytes();
        let at = std::mem::offset_of!(Self, checksum);
        let before = bytes.get(..at).unwrap_or_default();
        let behind = bytes.get(at + size_of::<U32>()..).unwrap_or_default();
        let head = crc32c::crc32c_append(crc32c::crc32c(before), behind);
        crc32c::crc32c_append(head, stretches)
    }

    fn check(&self, stretches: &[u8]) -> Result<(), Flaw> {
        if self.magic != MAGIC {
            return Err(Flaw::Magic {
                expected: u64::from_be_bytes(MAGIC),
                found: u64::from_be_bytes(self.magic),
            });
        }
        let (expected, found) = (self.checksum(stretches), self.checksum.get());
        if found != expected {
            return Err(Flaw::Checksum { expected, found });
        }
        match self.version.get() {
            0 => {
                return Err(Flaw::Field {
                    field: Field::Version,
                    found: 0,
                });
            }
            VERSION => {}
            found => {
                return Err(Flaw::Version {
                    found,
                    known: VERSION,
                });
            }
        }
        if self.flags.get() != 0 {
            return Err(Flaw::UnknownFlags {
                found: self.flags.get().into(),
                known: 0,
            });
        }
        let have = (HEAD + stretches.len()) as u64;
        if self.length.get() != have {
            return Err(Flaw::Length {
                found: self.length.get(),
                least: have,
                limit: have,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
