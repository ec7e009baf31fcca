//! What an append may have to wait for.

use std::fmt;

/// What an append may have to wait for before anything is written.
///
/// # Examples
///
/// ```
/// use tidelog::Wait;
/// let told: Vec<String> = Wait::ALL.iter().map(|wait| wait.to_string()).collect();
/// assert_eq!(told, ["opening", "segment", "settling", "transaction", "room"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// For its partition to be opened, which its first use does, and recovered where that is needed.
    Opening,
    /// For the next segment, or for the files of a partition that had let go of them.
    Segment,
    /// For a sync, since there is too much that is not settled:
    /// [`TopicOptions::unsettled_bytes`](crate::TopicOptions::unsettled_bytes).
    Settling,
    /// For a transaction, or a batch over several partitions, that has its partition.
    Transaction,
    /// For room, in a topic that is full and has
    /// [`TopicOptions::wait_when_full`](crate::TopicOptions::wait_when_full).
    Room,
}

impl Wait {
    /// All of them.
    pub const ALL: [Wait; 5] = [
        Wait::Opening,
        Wait::Segment,
        Wait::Settling,
        Wait::Transaction,
        Wait::Room,
    ];

    /// Its name, in metrics too.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Wait::Opening => "opening",
            Wait::Segment => "segment",
            Wait::Settling => "settling",
            Wait::Transaction => "transaction",
            Wait::Room => "room",
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
