//! An embedded, durable stream log: topics, partitions, offsets, named subscriptions and replay in
//! a directory, with no broker.
//!
//! ```text
//!  append ──copy──▶ ┌──────── topics/quakes/000000-17/ ───────┐
//!                   │ 00000000.seg   00000001.seg   00000002  │ ──lend──▶ cursors, followers,
//!  publish written ▶│ ███ sealed ███ ████████▒▒░░░░ spare     │           subscriptions
//!                   └──────────────────────┬─┬────────────────┘
//!  one sync for all who wait ──────────────┘ └─ written: in memory, not yet safe
//!             durable: what readers see
//! ```
//!
//! # Example
//!
//! ```
//! use tidelog::{Record, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let data = dir.path().join("data");
//! let store = Store::open(data)?;
//! let quakes = store.topic("quakes")?;                 // opened, or created with defaults
//!
//! let at = quakes.append(Record::new("M 4.6 Volcano, Hawaii").key("hv"))?;
//! println!("{at} is on disk");                         // quakes/0@0
//!
//! let mut archive = quakes.subscribe("archive")?;      // named, durable
//! while let Some(record) = archive.next()? {           // borrows from the mapping
//!     println!("{} {}", record.position(), record.text()?);
//!     archive.commit()?;                               // everything returned so far
//! }
//! # drop(archive);
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What may be relied on
//!
//! * **Acknowledged is durable.** When [`Topic::append`] returns, the record survives a process
//!   kill, a kernel panic and a power cut. So does a commit, a topic made, finished or deleted.
//!   [`Topic::append_nowait`] returns earlier, with an [`Ack`] that tells when.
//! * **A batch is whole** after any crash, or not there at all. So is a [`Store::transaction`], over topics
//!   and checkpoints.
//! * **Ordered.** Offsets in a partition are 0, 1, 2, ...; records of one key stay in one partition.
//! * **Readers see durable data**, and take no lock.
//! * **Reopening is flat**: after a crash a bounded part of the tail is read, after a clean close
//!   no record at all.
//! * **Errors are values** with coordinates: see [`Error`].
//! * **Kept as long as you say**: for ever, or by age or bytes ([`Retention`]), also what a required
//!   subscription has not read yet.
//! * **At least once**: a subscription gets a record again if the crash came before its commit.
//!
//! A store has one writing process at a time; subscriptions are independent readers and never
//! compete for records; partitions cannot be added to a topic; remote file systems are refused.
//!
//! # Values and functions
//!
//! [`Topic::typed`] appends and reads values of a type, [`Store::processor`] runs a function from topic to
//! topic, and [`Store::transaction`] makes its output and its place one.
//!
//! # Without blocking
//!
//! Each call that waits has a twin that is a future, named `..._async`; an [`Ack`] can be awaited, and
//! [`Follow::into_stream`] makes a [`Stream`](futures_core::Stream) of what comes. They need no
//! runtime, and run in any.
//!
//! # Features
//!
//! `sim`: the simulated disk ([`sys::sim`]) on which the crash tests of this crate run, for those
//! of programs that embed it.

mod board;
mod error;
mod flush;
mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod journal;
mod options;
mod partition;
mod processor;
mod segment;
mod store;
mod sync;
pub mod sys;

// Opening and shaping.
pub use options::{Durability, Retention, StoreOptions, TopicOptions, Visibility};
pub use options::{MAX_PARTITIONS, MAX_RECORD_BYTES};
pub use store::{Health, Store, TopicInfo};

// Appending.
pub use store::{Ack, Header, IntoBytes, Position, Positions, Record, Timestamp};
pub use store::{Partition, Topic, Transaction};

// Reading.
pub use store::{Counts, Filter, FilterOn, OnExpiry, Sampling};
pub use store::{Cursor, Follow, FollowStream, OwnedRecord, Records, Start, Stopper, StoredRecord};
pub use store::{Lag, Subscription, SubscriptionBuilder, SubscriptionInfo, SubscriptionStatus};

// Values in place of bytes.
pub use store::{Codec, Json, Typed, TypedFollow, TypedRecords, TypedSubscription, TypedTopic};

// Processing.
pub use processor::{Failure, OnError, Output, Processor, Retry};
pub use processor::{OpenProcessor, ProcessorBuilder, RunningProcessor};

// What can go wrong, and looking after it.
pub use error::{Error, Field, Flaw, Part, Result, Span, Wait};
pub use store::BackupReport;
pub use store::{AppendWaits, Latency, Metrics, PartitionMetrics};
pub use store::{Audit, PartitionAudit, Reason, Removal};
pub use store::{LogReport, VerifyReport, verify};
pub use store::{ProcessorCounts, ProcessorMetrics};
pub use store::{RepairAction, RepairReport, RepairStep, RepairedLog, repair, repair_plan};
pub use store::{SalvageReport, SalvagedLog, salvage};
pub use store::{SubscriptionMetrics, TopicMetrics};

/// Keeps the code on the front page compiling.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
