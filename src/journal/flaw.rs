//! Contradictions between an event and the state it is folded into.

use thiserror::Error;

/// Why an event was refused: it contradicts the state, which is left as it was (but for the next
/// ids and for `closed`, which any event ends).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FoldFlaw {
    /// The name of a new topic is that of another one that is live.
    #[error("journal record {offset}: topic {id} is called {name:?}, but so is topic {holder}")]
    NameTaken {
        /// The record that states it.
        offset: u64,
        /// The topic it states.
        id: u64,
        /// The name.
        name: String,
        /// The live topic of that name.
        holder: u64,
    },
    /// The name of a new subscription is that of another one on the same topic.
    #[error(
        "journal record {offset}: subscription {id} on topic {topic} is called {name:?}, \
         but so is subscription {holder}"
    )]
    SubscriptionTaken {
        /// The record that states it.
        offset: u64,
        /// The subscription it states.
        id: u64,
        /// The topic.
        topic: u64,
        /// The name.
        name: String,
        /// The live subscription of that name.
        holder: u64,
    },
    /// A new topic names a log twice, or one that belongs to another topic.
    #[error("journal record {offset}: topic {id} cannot have log {log}, which is taken")]
    LogTaken {
        /// The record that states it.
        offset: u64,
        /// The topic it states.
        id: u64,
        /// The log.
        log: u64,
    },
    /// A known topic is stated with another name or other logs than it has.
    #[error("journal record {offset}: topic {id} is stated with another name or other logs")]
    TopicChanged {
        /// The record that states it.
        offset: u64,
        /// The topic it states.
        id: u64,
    },
    /// A known subscription is stated with another topic or name than it has.
    #[error("journal record {offset}: subscription {id} is stated with another topic or name")]
    SubscriptionChanged {
        /// The record that states it.
        offset: u64,
        /// The subscription it states.
        id: u64,
    },
    /// A topic with no partition or too many, or a subscription that counts other ones than its
    /// topic has.
    #[error("journal record {offset}: {id} is stated with {stated} partitions, which cannot be")]
    Partitions {
        /// The record that states it.
        offset: u64,
        /// The topic or subscription it states.
        id: u64,
        /// How many partitions that has.
        stated: usize,
    },
    /// An owner with a smaller epoch than one before it.
    #[error("journal record {offset}: epoch {stated} comes after epoch {current}")]
    EpochFell {
        /// The record that states it.
        offset: u64,
        /// The epoch it states.
        stated: u32,
        /// The one before.
        current: u32,
    },
    /// A snapshot with a fact about something it does not hold.
    #[error("journal record {offset}: this part of a snapshot speaks of what is not in it")]
    Baseless {
        /// The part that states it.
        offset: u64,
    },
}
