//! What a limit is about.

use std::fmt;

/// The part of a record that a limit is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// A whole record as it lies in the log, in bytes.
    Record,
    /// All records of a batch together, in bytes.
    Batch,
    /// The key.
    Key,
    /// The number of headers.
    Headers,
    /// A header's name.
    HeaderName,
    /// A header's value.
    HeaderValue,
    /// The event id.
    EventId,
    /// The producer's id.
    ProducerId,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Record => "a record",
            Part::Batch => "a batch",
            Part::Key => "a key",
            Part::Headers => "a number of headers",
            Part::HeaderName => "a header name",
            Part::HeaderValue => "a header value",
            Part::EventId => "an event id",
            Part::ProducerId => "a producer id",
        })
    }
}
