//! An embedded, durable stream log.

mod error;
mod flush;
mod format;
mod index;
mod options;
mod partition;
mod segment;
mod sync;
pub mod sys;

pub use error::{Error, Part, Result};
pub use options::{StoreOptions, TopicOptions};
