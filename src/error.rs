//! Everything that can go wrong, by what the caller can do about it.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

mod make;
mod part;
mod show;
mod span;
mod wait;

use show::{Free, Needed, Owner, Spans};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with coordinates.
///
/// Three families matter to a program:
///
/// * **Rejected**: nothing was written. All variants but those named below.
/// * **In doubt**: [`Error::InDoubt`]. It was written, but the sync failed, or the write of the last
///   word of it did; whether it is there shows after the store has been opened again.
/// * **Failed**: [`Error::Failed`], [`Error::StoreFailed`]. An earlier failure stands in the way
///   until the store is opened again. Nothing was written.
///
/// What waiting on an [`Ack`](crate::Ack) says is of its own kind: [`Error::TimedOut`] and
/// [`Error::NeedsFlush`] say that its records are written and not durable yet.
///
/// An error can be cloned, since one failed sync answers many waiters.
///
/// # Examples
///
/// ```
/// use tidelog::{Error, Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// match topic.append(Record::new("M 4.6 Volcano, Hawaii")) {
///     Ok(at) => println!("{at} is on disk"),
///     Err(Error::StorageFull { .. }) => println!("nothing was written: free space, call again"),
///     Err(Error::InDoubt { spans, .. }) => println!("{spans:?}: reopen, then look"),
///     Err(error) => return Err(error.into()),
/// }
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process, or another handle of this one, owns the store for writing.
    #[error("{} is owned by {}", path.display(), Owner(*pid))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The owner's process id, where its lock file tells it.
        pid: Option<u32>,
    },

    /// The store, or the thing the handle stood for, has been closed.
    #[error("the store is closed")]
    Closed,

    /// There is no store in the folder, or no such folder.
    #[error("there is no store in {}", path.display())]
    NoStore {
        /// The folder.
        path: PathBuf,
    },

    /// A name that no topic or subscription can have.
    #[error("{name:?} is not a name: {reason}")]
    InvalidName {
        /// The name as given.
        name: String,
        /// Which rule it breaks.
        reason: &'static str,
    },

    /// An option outside its limits.
    #[error("option {option}: {reason}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong with its value.
        reason: String,
    },

    /// There is no topic of that name.
    #[error("there is no topic {topic:?}")]
    TopicUnknown {
        /// The name asked for.
        topic: String,
    },

    /// The topic exists with another setting that cannot change.
    #[error("topic {topic:?} has {setting} {existing}, not {requested}")]
    TopicMismatch {
        /// The topic.
        topic: String,
        /// Which setting: partitions, or content type.
        setting: &'static str,
        /// What it has.
        existing: String,
        /// What was asked for.
        requested: String,
    },

    /// The topic was deleted while it was in use.
    #[error("topic {topic:?} was deleted")]
    TopicDeleted {
        /// The topic.
        topic: String,
    },

    /// The topic was finished: it can be read, and never be appended to again.
    #[error("topic {topic:?} is finished")]
    Finished {
        /// The topic.
        topic: String,
    },

    /// The topic has no partition of that number.
    #[error("topic {topic:?} has {partitions} partitions, no number {partition}")]
    PartitionUnknown {
        /// The topic.
        topic: String,
        /// The number asked for.
        partition: u32,
        /// How many there are, numbered from 0.
        partitions: u32,
    },

    /// An offset means something in one partition only, and the topic has several.
    #[error("topic {topic:?} has {partitions} partitions: name the one that is meant")]
    PartitionNeeded {
        /// The topic.
        topic: String,
        /// How many partitions it has.
        partitions: u32,
    },

    /// A record, or a part of one, is over its limit. Nothing was written.
    #[error("{what} of {size} is over the limit of {limit}")]
    TooLarge {
        /// Which part.
        what: Part,
        /// Its size, in bytes (headers: their number).
        size: u64,
        /// The limit in force.
        limit: u64,
    },

    /// A transaction holds more than it may. Nothing was written.
    #[error("a transaction of {size} bytes is over the limit of {limit}")]
    TransactionTooLarge {
        /// The bytes of its records, or of its commits and ends, with what was to be added.
        size: u64,
        /// The greatest batch limit of its topics, or 16 MiB if that is more; 16 MiB for the others.
        limit: u64,
    },

    /// Whoever filled the transaction gave it up, for this reason. Nothing was written.
    #[error("the transaction was given up: {reason}")]
    Aborted {
        /// As it was given to [`Error::aborted`].
        reason: Arc<dyn std::error::Error + Send + Sync>,
    },

    /// The topic holds as many bytes as it may. Nothing was written.
    #[error("topic {topic:?} is full: {used} bytes of {limit}")]
    TopicFull {
        /// The topic.
        topic: String,
        /// Bytes its partition holds now, or would hold.
        used: u64,
        /// `max_total_bytes`, shared evenly by its partitions.
        limit: u64,
    },

    /// The disk is full. Nothing was written; the same call succeeds once there is space.
    #[error("{}: no space{} ({})", path.display(), Needed(*needed), Free(*free))]
    StorageFull {
        /// What was to be made or written.
        path: PathBuf,
        /// How many bytes it needed; 0 where that is not known, of a folder for instance.
        needed: u64,
        /// How many are free, where the disk tells.
        free: Option<u64>,
    },

    /// The records were written but the sync that was to make them durable failed, or the write of
    /// the one word that makes them count did: after the store has been opened again they may be
    /// there, all of them, or not. After a failed write the partition takes further appends; once
    /// one of them is acknowledged, or the store was closed without an error, they are not there.
    /// A batch over several partitions is there in all of them, or in none.
    #[error("{} in doubt: {cause}", Spans(spans))]
    InDoubt {
        /// The offsets the records have, if they are there: in one partition, or in several.
        spans: Vec<Span>,
        /// The sync, or the write, that failed.
        cause: Arc<Error>,
    },

    /// The topic's records become durable when somebody flushes ([`Durability::Manual`]), and
    /// nobody has. From `append` and `append_batch` nothing was written: use their `nowait` forms.
    /// From an [`Ack`] its records are written, and a flush makes them durable.
    ///
    /// [`Durability::Manual`]: crate::Durability::Manual
    /// [`Ack`]: crate::Ack
    #[error("topic {topic:?} is durable only when flushed")]
    NeedsFlush {
        /// The topic.
        topic: String,
    },

    /// The records were not durable when the time was up. They are written, and still on their
    /// way: their [`Ack`](crate::Ack) can be waited on again.
    #[error("{topic}/{partition}@{}..{} is not durable yet", offsets.start, offsets.end)]
    TimedOut {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The offsets of the records.
        offsets: Range<u64>,
    },

    /// An append that may not wait for long, [`StoreOptions::nowait_timeout`], would have had to.
    ///
    /// [`StoreOptions::nowait_timeout`]: crate::StoreOptions::nowait_timeout
    #[error("{topic}/{partition} took nothing within {within:?}: it waits for {wait}")]
    Busy {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// What it waited for when the time was up.
        wait: Wait,
        /// How long it was to wait at most.
        within: Duration,
    },

    /// The partition takes no appends since an earlier failure; its durable records stay
    /// readable. Opening the store again checks it.
    #[error("{topic}/{partition} failed earlier: {cause}")]
    Failed {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// What happened.
        cause: Arc<Error>,
    },

    /// The store takes no more writes since its journal failed.
    #[error("the store's journal failed earlier: {cause}")]
    StoreFailed {
        /// What happened.
        cause: Arc<Error>,
    },

    /// A damaged record. The records around it stay readable: a reader may skip it.
    #[error("{topic}/{partition}@{offset} is damaged: {reason} ({} at byte {place})", file.display())]
    Corrupt {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The first damaged offset.
        offset: u64,
        /// The first offset behind the damage: a reader goes on there.
        next: u64,
        /// The segment file.
        file: PathBuf,
        /// Where in the file, in bytes.
        place: u64,
        /// What does not fit.
        reason: Flaw,
    },

    /// A record whose bytes cannot be had: a bad sector, or a file cut short from outside. The
    /// records around it stay readable: a reader may skip it.
    #[error("{topic}/{partition}@{offset} cannot be read: {source} ({} at byte {place})", file.display())]
    Unreadable {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The first offset that cannot be read.
        offset: u64,
        /// The first offset behind the damage: a reader goes on there.
        next: u64,
        /// The segment file.
        file: PathBuf,
        /// Where in the file, in bytes.
        place: u64,
        /// The system's answer.
        source: Arc<io::Error>,
    },

    /// Files are missing, short, or older than what the store's other files promise: they were
    /// lost or restored from a copy. Everything is kept as it is.
    #[error("{}: {reason}", path.display())]
    Mismatch {
        /// The file or folder.
        path: PathBuf,
        /// What is promised and what was found.
        reason: String,
    },

    /// A reader of written records stands beyond the end: what it had read there was not durable, and
    /// a crash has taken it; or it was sent there and nothing ever was. It goes on at the end.
    #[error("{0} lies beyond the end: if it was read, it was not durable, and lost in a crash")]
    Truncated(Span),

    /// The record was removed by retention.
    #[error("{topic}/{partition}@{asked} has expired: the first offset there is {first}")]
    OffsetExpired {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The offset asked for.
        asked: u64,
        /// The first one still there.
        first: u64,
    },

    /// An offset beyond the end, where only one that exists will do.
    #[error("{topic}/{partition} ends at {end}, before {asked}")]
    BeyondEnd {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The offset asked for.
        asked: u64,
        /// The next offset that will be given.
        end: u64,
    },

    /// The subscription has a live holder already.
    #[error("subscription {subscription:?} on topic {topic:?} is in use")]
    SubscriptionBusy {
        /// The topic.
        topic: String,
        /// The subscription.
        subscription: String,
    },

    /// The topic has no subscription of that name.
    #[error("topic {topic:?} has no subscription {subscription:?}")]
    SubscriptionUnknown {
        /// The topic.
        topic: String,
        /// The name asked for.
        subscription: String,
    },

    /// The subscription is paused.
    #[error("subscription {subscription:?} on topic {topic:?} is paused")]
    SubscriptionPaused {
        /// The topic.
        topic: String,
        /// The subscription.
        subscription: String,
    },

    /// The processor has no output of that name: all of them are declared before it runs.
    #[error("processor {processor:?} has no output {topic:?}")]
    OutputUnknown {
        /// The processor.
        processor: String,
        /// The topic asked for; empty where any would have done.
        topic: String,
    },

    /// The processor's function failed with a record, as often as it may be tried, and the policy is
    /// to stop. Everything before the record is committed, the record is not.
    #[error(
        "processor {processor:?} failed with {topic}/{partition}@{offset}, {attempts} times: {reason}"
    )]
    ProcessorFailed {
        /// The processor.
        processor: String,
        /// The topic of the record.
        topic: String,
        /// Its partition.
        partition: u32,
        /// Its offset.
        offset: u64,
        /// How often it was tried.
        attempts: u32,
        /// The last failure, or panic.
        reason: String,
    },

    /// A format version, flag or event kind that this version of the library does not know.
    /// Nothing was changed.
    #[error("{}: {what} {found} is not supported (known: {known})", path.display())]
    UnsupportedVersion {
        /// The file.
        path: PathBuf,
        /// What is unknown: version, flags, event.
        what: &'static str,
        /// What was found.
        found: String,
        /// What is known.
        known: String,
    },

    /// A path that is not what the store put there: a symbolic link, somebody else's file, a
    /// folder in the place of a file.
    #[error("{} is refused: {reason}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },

    /// A value could not be made a payload by its codec. Nothing was written.
    #[error("a value for topic {topic:?} cannot be encoded: {reason}")]
    NotEncoded {
        /// The topic.
        topic: String,
        /// What the codec says.
        reason: String,
    },

    /// A payload is not what the codec reads values from. A reader goes on behind it.
    #[error("{topic}/{partition}@{offset} cannot be decoded: {reason}")]
    NotDecoded {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The offset.
        offset: u64,
        /// What the codec says.
        reason: String,
    },

    /// The payload is not UTF-8.
    #[error("the payload is not UTF-8 from byte {valid_up_to}")]
    NotText {
        /// How many bytes at its beginning are.
        valid_up_to: usize,
    },

    /// The handle is from before a fork, and this is the child: the store is the parent's. Only a
    /// store that the child opens itself can be used here.
    #[error("the store was opened before this process was forked, and belongs to its parent")]
    Forked,

    /// The store was opened for reading only.
    #[error("{} was opened for reading only", path.display())]
    ReadOnly {
        /// Its folder.
        path: PathBuf,
    },

    /// A background thread ended without doing what was asked of it.
    #[error("the {thread} thread has ended: {reason}")]
    ThreadEnded {
        /// Which one.
        thread: &'static str,
        /// Its panic message, or why it could not be started.
        reason: String,
    },

    /// The disk or the system refused.
    #[error("{op} {}: {source}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's answer.
        source: Arc<io::Error>,
    },
}

/// What does not fit in a damaged frame or header: expected and found, as fields.
pub use crate::format::{Field, Flaw};
pub(crate) use make::is_full;
pub use part::Part;
pub use span::Span;
pub use wait::Wait;

#[cfg(test)]
mod tests;
