//! Bytes to values and back: no files, no threads.
//!
//! What a segment file holds, bit by bit; `docs/format.md` draws it, and a test holds the two
//! together. Everything is little-endian. Each kind of thing encodes and decodes in one file:
//!
//! * [`Identity`]: the first sector of a segment: whose it is and how it is laid out.
//! * [`Slot`]: the sectors from which recovery may start, and the seal.
//! * [`Entry`]: the sparse index of a segment.
//! * [`Parts`] and [`Frame`]: a record on its way in and on its way out.
//! * [`Redo`]: frames as the journal keeps them; [`RedoFile`]: those of a failed log, in a file.
//! * [`Layout`]: where in a segment these lie.
//!
//! Decoding promises three things. No bytes make it panic, allocate, or read past what it was
//! given. What it accepts was accepted in full: accessors cannot fail afterwards. And what it
//! refuses, it refuses with a [`Flaw`] that tells damage ([`Flaw::is_unsupported`] is false) from
//! a file of a later version.

#![deny(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod flaw;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(test)]
pub(crate) mod golden;
mod headers;
mod identity;
mod index;
mod layout;
mod name;
mod oversize;
mod record;
mod redo;
mod redo_file;
mod seed;
mod slot;
#[cfg(test)]
mod tests;

pub use flaw::{Field, Flaw};
pub use headers::Header;

pub(crate) use identity::{Identity, MAX_OFFSET, Predecessor};
pub(crate) use index::{Entry, entries};
pub(crate) use layout::Layout;
pub(crate) use name::TopicName;
pub(crate) use oversize::Oversize;
pub(crate) use record::{Frame, HEAD, MAX_FRAME, Parts, Peek, Stamp, most_frames, padded};
pub(crate) use redo::{Redo, Stretch};
pub(crate) use redo_file::RedoFile;
#[cfg(all(test, not(loom)))]
pub(crate) use seed::SUMMED;
pub(crate) use seed::{Seed, append};
pub(crate) use slot::{Choice, Sector, Slot, choose};

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("segments are mapped as they are: tidelog needs a little-endian 64-bit system");

/// The version this code writes, and the newest it reads. Stored, never reuse.
pub(crate) const VERSION: u16 = 1;

/// What a disk writes whole or not at all; identity, slots and seal have one each.
pub(crate) const SECTOR: usize = 512;

/// What the parts of a segment are aligned to: header page, index, records, and its end.
pub(crate) const PAGE: u64 = 4096;

/// What frames are aligned to.
pub(crate) const ALIGN: usize = 8;
