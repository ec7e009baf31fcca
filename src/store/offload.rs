//! A call that waits for the disk, as a future: a thread of its own makes it.
//!
//! For what is rare and costs syncs anyway (opening, making, finishing, closing): beside those a
//! thread costs nothing, and no runtime is needed. A future that is dropped leaves the thread to
//! end what it has begun.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::flush::panic_message;
use crate::sync::Watermark;

const NAME: &str = "call";

/// What the thread and the future share.
struct Shared<T> {
    result: Mutex<Option<Result<T>>>,
    ended: Watermark,
}

impl<T> Shared<T> {
    fn result(&self) -> MutexGuard<'_, Option<Result<T>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the call on a thread of its own.
pub(crate) async fn offload<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let shared = spawn(call)?;
    shared.ended.past(0, || false).await;
    shared.result().take().unwrap_or_else(lost)
}

/// As [`offload`], for a call that must not go on behind the back of whoever gave up: a future that is
/// dropped waits until the call has ended, as long as a sync takes, and `heard` is told what came of
/// it in any case.
pub(super) async fn offload_to_its_end<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
    heard: impl FnOnce(&Result<T>),
) -> Result<T> {
    let shared = spawn(call)?;
    let waits = Waits {
        shared: Arc::clone(&shared),
        heard: Some(heard),
    };
    shared.ended.past(0, || false).await;
    drop(waits);
    shared.result().take().unwrap_or_else(lost)
}

/// Waits for the call's end, and tells of it.
struct Waits<T, F: FnOnce(&Result<T>)> {
    shared: Arc<Shared<T>>,
    heard: Option<F>,
}

impl<T, F: FnOnce(&Result<T>)> Drop for Waits<T, F> {
    fn drop(&mut self) {
        self.shared.ended.wait_past(0, None, || false);
        if let (Some(result), Some(heard)) = (&*self.shared.result(), self.heard.take()) {
            heard(result);
        }
    }
}

/// Makes the call on a thread of its own, and lets it be.
pub(super) fn begin(call: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    spawn(call).map(drop)
}

fn spawn<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Arc<Shared<T>>> {
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
            *theirs.result() = Some(result);
            theirs.ended.advance(1);
        });
    spawned.map_err(|error| ended(error.to_string()))?;
    Ok(shared)
}

fn lost<T>() -> Result<T> {
    Err(ended("it left no result".to_owned()))
}

fn ended(reason: String) -> Error {
    Error::ThreadEnded {
        thread: NAME,
        reason,
    }
}
