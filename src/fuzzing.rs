//! What the fuzz targets in `fuzz/` call: a function for each format, which takes any bytes and
//! panics if one of the format's properties does not hold for them.
//!
//! Not part of the interface; it exists only under `cfg(fuzzing)` and in tests.

pub use crate::format::fuzzing::{identity, index, record, redo_file, slot};

/// Arbitrary bytes as the payload of a journal record.
pub fn journal_event(bytes: &[u8]) {
    crate::journal::fuzz_event(bytes);
}
