use thiserror::Error;

/// Why bytes are not what they should be.
///
/// This is the inner floor's error: it says what was expected and what was found, and leaves it
/// to floors above to say where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Flaw {
    /// The length word is zero: no frame was finished here.
    #[error("nothing here")]
    Empty,

    /// Fewer bytes than the fixed part needs.
    #[error("{have} bytes where {needed} are needed")]
    Short { needed: usize, have: usize },

    /// A length that cannot be, here or anywhere.
    #[error("length {found}, which is not within {least} and {limit}")]
    Length { found: u64, least: u64, limit: u64 },

    /// The bytes do not add up: torn, damaged, or of another life of the file.
    #[error("checksum {found:#010x} where the bytes make {expected:#010x}")]
    Checksum { expected: u32, found: u32 },

    /// Not this kind of thing at all.
    #[error("magic {found:#018x} instead of {expected:#018x}")]
    Magic { expected: u64, found: u64 },

    /// Whole, and written by a later version.
    #[error("version {found}; known is up to {known}")]
    Version { found: u16, known: u16 },

    /// Whole, with flags of a later version.
    #[error("flags {found:#x}; known are {known:#x}")]
    UnknownFlags { found: u32, known: u32 },

    /// The checksum passed and a field still makes no sense.
    #[error("{field:?} cannot be {found}")]
    Field { field: Field, found: u64 },
}

impl Flaw {
    /// Whether the bytes are sound and only too new for this code, rather than damaged.
    pub(crate) const fn is_unsupported(&self) -> bool {
        matches!(self, Self::Version { .. } | Self::UnknownFlags { .. })
    }
}

/// The field a [`Flaw::Field`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Key,
    EventId,
    Producer,
    HeaderName,
    HeaderValue,
    Version,
    Topic,
    Partition,
    Base,
    Predecessor,
    CoversTo,
    Capacity,
    IndexAt,
    RecordsAt,
    Interval,
    Place,
    NextOffset,
    Greatest,
    LastAppend,
    IndexBytes,
    /// Bytes that are zero in this version.
    Reserved,
}
