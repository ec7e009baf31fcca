//! An embedded, durable stream log.

mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod sync;
pub mod sys;
