//! An embedded, durable stream log.

mod format;
mod sync;
pub mod sys;
