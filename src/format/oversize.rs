use crate::error::{Error, Part};

/// Why a record does not fit the format.
///
/// Limits of a topic are the business of floors above; these no topic can raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Oversize {
    #[error("a key of {size} bytes; the limit is {limit}")]
    Key { size: usize, limit: usize },

    #[error("{count} headers; the limit is {limit}")]
    Headers { count: usize, limit: usize },

    #[error("a header name of {size} bytes; the limit is {limit}")]
    HeaderName { size: usize, limit: usize },

    #[error("a header value of {size} bytes; the limit is {limit}")]
    HeaderValue { size: usize, limit: usize },

    /// Empty, or too long.
    #[error("an event id of {size} bytes, which is not within 1 and {limit}")]
    EventId { size: usize, limit: usize },

    /// Empty, or too long.
    #[error("a producer id of {size} bytes, which is not within 1 and {limit}")]
    Producer { size: usize, limit: usize },

    #[error("a record of {size} bytes; the limit is {limit}")]
    Frame { size: u64, limit: u64 },

    /// The room lent to the encoder is not the padded length of the frame.
    #[error("{given} bytes of room for a frame that takes {needed}")]
    Room { needed: usize, given: usize },
}

impl From<Oversize> for Error {
    fn from(oversize: Oversize) -> Error {
        let (what, size, limit) = match oversize {
            Oversize::Key { size, limit } => (Part::Key, size, limit),
            Oversize::Headers { count, limit } => (Part::Headers, count, limit),
            Oversize::HeaderName { size, limit } => (Part::HeaderName, size, limit),
            Oversize::HeaderValue { size, limit } => (Part::HeaderValue, size, limit),
            Oversize::EventId { size, limit } => (Part::EventId, size, limit),
            Oversize::Producer { size, limit } => (Part::ProducerId, size, limit),
            Oversize::Room { needed, given } => (Part::Record, needed, given),
            Oversize::Frame { size, limit } => {
                let what = Part::Record;
                return Error::TooLarge { what, size, limit };
            }
        };
        Error::TooLarge {
            what,
            size: size as u64,
            limit: limit as u64,
        }
    }
}
