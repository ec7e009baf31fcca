//! An embedded, durable stream log.

mod format;
mod journal;
mod sync;
pub mod sys;
