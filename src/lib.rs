//! An embedded, durable stream log.

mod error;
mod flush;
mod format;
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
