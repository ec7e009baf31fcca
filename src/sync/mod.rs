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

#[cfg(not(loom))]
pub(crate) use std::thread::{Thread, current as this_thread};

#[cfg(loom)]
pub(crate) use loom::thread::{Thread, current as this_thread};

pub(crate) mod bell;
mod list;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod tally;
mod told;
mod watermark;
mod whole;

pub(crate) use list::List;
pub(crate) use told::Told;
pub(crate) use watermark::{Place, Waited, Watermark};
pub(crate) use whole::Whole;

/// Lets others go on for a moment, whose few steps this thread waits for, and has waited for so often.
#[cfg(not(loom))]
pub(crate) fn pause(tries: u32) {
    match tries {
        0..16 => std::hint::spin_loop(),
        16..64 => std::thread::yield_now(),
        // Who is less important than this thread goes on only while it sleeps.
        _ => std::thread::sleep(std::time::Duration::from_micros(50)),
    }
}

/// The same in a model, where no time passes.
#[cfg(loom)]
pub(crate) fn pause(_tries: u32) {
    loom::thread::yield_now();
}

/// Sleeps until somebody unparks this thread, or for no reason; false if the deadline has passed.
#[cfg(not(loom))]
pub(crate) fn park(deadline: Option<std::time::Instant>) -> bool {
    let Some(deadline) = deadline else {
        std::thread::park();
        return true;
    };
    let rest = deadline.saturating_duration_since(std::time::Instant::now());
    if !rest.is_zero() {
        std::thread::park_timeout(rest);
    }
    !rest.is_zero()
}

/// The same in a model, where no time passes.
#[cfg(loom)]
pub(crate) fn park(_deadline: Option<std::time::Instant>) -> bool {
    loom::thread::park();
    true
}
