//! An embedded, durable stream log.

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
mod segment;
mod store;
mod sync;
pub mod sys;

pub use error::{Error, Field, Flaw, Part, Result};
pub use options::{MAX_PARTITIONS, MAX_RECORD_BYTES, StoreOptions, TopicOptions};
pub use store::*;
