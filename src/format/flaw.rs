use thiserror::Error;

/// Why bytes are not what they should be.
///
/// This is the inner floor's error: it says what was expected and what was found, and leaves it
/// to floors above to say where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Flaw {
    /// The length word is zero: no frame was finished here.
    #[error("nothing here")]
    Empty,

    /// Fewer bytes than the fixed part needs.
    #[error("{have} bytes where {needed} are needed")]
    Short {
        /// Bytes that the fixed part takes.
        needed: usize,
        /// Bytes that are there.
        have: usize,
    },

    /// A length that cannot be, here or anywhere.
    #[error("length {found}, which is not within {least} and {limit}")]
    Length {
        /// The length word.
        found: u64,
        /// The shortest that can be.
        least: u64,
        /// The longest that can be here.
        limit: u64,
    },

    /// The bytes do not add up: torn, damaged, or of another life of the file.
    #[error("checksum {found:#010x} where the bytes make {expected:#010x}")]
    Checksum {
        /// What the bytes make.
        expected: u32,
        /// What stands there.
        found: u32,
    },

    /// Not this kind of thing at all.
    #[error("magic {found:#018x} instead of {expected:#018x}")]
    Magic {
        /// The one of this kind of file.
        expected: u64,
        /// What stands there.
        found: u64,
    },

    /// Whole, and written by a later version.
    #[error("version {found}; known is up to {known}")]
    Version {
        /// The version that wrote it.
        found: u16,
        /// The newest that is known.
        known: u16,
    },

    /// Whole, with flags of a later version.
    #[error("flags {found:#x}; known are {known:#x}")]
    UnknownFlags {
        /// The flags that are set.
        found: u32,
        /// The flags that are known.
        known: u32,
    },

    /// The checksum passed and a field still makes no sense.
    #[error("{field:?} cannot be {found}")]
    Field {
        /// Which field.
        field: Field,
        /// What it says, as a number; of names and bytes, their length.
        found: u64,
    },

    /// Sound, and it does not belong here: its offset does not follow, or it is of an owner
    /// before the last one.
    #[error("a record of another place or an earlier owner")]
    Stale,
}

impl Flaw {
    /// Whether the bytes are sound and only too new for this code, rather than damaged.
    pub(crate) const fn is_unsupported(&self) -> bool {
        matches!(self, Self::Version { .. } | Self::UnknownFlags { .. })
    }
}

/// The field a [`Flaw::Field`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are those of docs/format.md")]
pub enum Field {
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
