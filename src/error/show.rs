//! How parts of an error read.

use std::fmt;

use super::Span;

pub(super) struct Owner(pub(super) Option<u32>);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("another process"),
        }
    }
}

pub(super) struct Spans<'a>(pub(super) &'a [Span]);

impl fmt::Display for Spans<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, span) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{span}")?;
        }
        f.write_str(if self.0.len() == 1 { " is" } else { " are" })
    }
}

/// So many bytes, unless nobody knows.
pub(super) struct Needed(pub(super) u64);

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            needed => write!(f, " for {needed} bytes"),
        }
    }
}

pub(super) struct Free(pub(super) Option<u64>);

impl fmt::Display for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(free) => write!(f, "{free} free"),
            None => f.write_str("the disk does not tell how many are free"),
        }
    }
}
