//! Logs whose newest records are only in the journal, since their owner did not get to close the
//! store: they are opened one after another in the background, so that the journal need not keep
//! them for as long as nobody uses them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::inner::{Inner, TopicInner};

/// Starts opening them, if there are any and the store has threads of its own. A store without
/// opens each when it is used.
pub(super) fn start(store: &Arc<Inner>) {
    if store.options.inline || store.pending().is_empty() {
        return;
    }
    let inner = Arc::clone(store);
    let spawned = std::thread::Builder::new()
        .name("tidelog-recover".to_owned())
        .spawn(move || open_all(&inner));
    match spawned {
        Ok(thread) => *slot(store) = Some(thread),
        Err(error) => tracing::warn!(%error, "the journal keeps what nobody uses"),
    }
}

/// Waits until the one being opened is.
pub(super) fn stop(store: &Inner) {
    let thread = slot(store).take();
    if thread.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("recovering in the background panicked");
    }
}

fn slot(store: &Inner) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
    let slot = store.recovering.lock();
    slot.unwrap_or_else(PoisonError::into_inner)
}

fn open_all(store: &Inner) {
    let topics: Vec<Arc<TopicInner>> = store.topics().values().cloned().collect();
    for topic in topics {
        for (partition, cell) in (0..).zip(&topic.logs) {
            if store.closed.load(Ordering::Acquire) {
                return;
            }
            if !store.pending().contains_key(&cell.id()) {
                continue;
            }
            if let Err(error) = store.log(&topic, partition) {
                tracing::warn!(topic = %topic.name, partition, %error, "not recovered yet");
            }
        }
    }
}
