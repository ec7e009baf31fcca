//! The one door to atomics, locks and threads: `std`, or `loom` under `--cfg loom`.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(all(test, loom))]
mod loom_tests;
mod watermark;

pub(crate) use watermark::Watermark;
