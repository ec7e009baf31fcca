//! The sparse index of a segment, by offset and by time: an entry for about every KiB of
//! records.
//!
//! An entry is a hint. It says where a frame begins, how far its offset is from the segment's
//! first, and the greatest timestamp of all records before it. Whoever follows one decodes the
//! frame there, and starts at the segment's first record where that does not fit.

mod pace;
mod search;
mod writer;

pub(crate) use pace::Pace;
pub(crate) use search::{before_offset, before_time};
pub(crate) use writer::Writer;

/// Bytes of records from one entry to the next.
pub(crate) const INTERVAL: u32 = 1024;
