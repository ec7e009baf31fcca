//! A call that waits for the disk, as a future: a thread of its own makes it.
//!
//! For what is rare and costs syncs anyway (opening, making, finishing, closing): beside those a
//! thread costs nothing, and no runtime is needed. A future that is dropped leaves the thread to
//! end what it has begun.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::flush::panic_message;
use crate::sync::Watermark;

const NAME: &str = "call";

/// What the thread and the future share.
struct Shared<T> {
    result: Mutex<Option<Result<T>>>,
    ended: Watermark,
}

/// Makes the call on a thread of its own.
pub(super) async fn offload<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let shared = Arc::new(Shared {
        result: Mutex::new(None),
        ended: Watermark::new(0),
    });
    let theirs = Arc::clone(&shared);
    let spawned = std::thread::Builder::new()
        .name(format!("tidelog-{NAME}"))
        .spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(call));
            let result = result.unwrap_or_else(|panic| Err(ended(panic_message(panic.as_ref()))));
            let mut slot = theirs.result.lock().unwrap_or_else(PoisonError::into_inner);
            *slot = Some(result);
            drop(slot);
            theirs.ended.advance(1);
        });
    spawned.map_err(|error| ended(error.to_string()))?;
    shared.ended.past(0, || false).await;
    let mut slot = shared.result.lock().unwrap_or_else(PoisonError::into_inner);
    slot.take()
        .unwrap_or_else(|| Err(ended("it left no result".to_owned())))
}

fn ended(reason: String) -> Error {
    Error::ThreadEnded {
        thread: NAME,
        reason,
    }
}
