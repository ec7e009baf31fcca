//! Offsets in a row, with their partition.

use std::fmt;
use std::ops::Range;

/// Offsets in a row, of one partition.
///
/// # Examples
///
/// ```
/// let span = tidelog::Span {
///     topic: "quakes".to_owned(),
///     partition: 2,
///     offsets: 7..9,
/// };
/// assert_eq!(span.to_string(), "quakes/2@7..9");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The offsets.
    pub offsets: Range<u64>,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.offsets;
        write!(f, "{}/{}@{start}..{end}", self.topic, self.partition)
    }
}
