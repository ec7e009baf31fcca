//! The thread that applies retention: it sleeps until something can have expired, and where nothing
//! can, until there is something that will.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{apply, each};
use crate::store::inner::{Inner, TopicInner};

/// Segments that end one after another are looked at together.
const GATHER: Duration = Duration::from_millis(100);

/// Starts it, unless it is there, if there is anything for it to do and the store has threads of its
/// own.
pub(crate) fn start(store: &Arc<Inner>) {
    let options = &store.options;
    if options.inline || !options.background_retention || store.reading.is_some() {
        return;
    }
    let retained = |topic: &Arc<TopicInner>| topic.retention().is_limited();
    if !store.topics().values().any(retained) {
        return;
    }
    let mut slot = slot(store);
    if slot.is_some() || store.is_closed() {
        return;
    }
    let inner = Arc::clone(store);
    let spawned = std::thread::Builder::new()
        .name("tidelog-retain".to_owned())
        .spawn(move || keep(&inner));
    match spawned {
        Ok(thread) => *slot = Some(thread),
        Err(error) => tracing::warn!(%error, "what expires is removed when that is asked for"),
    }
}

/// Waits until it has ended: the store is closed by now.
pub(crate) fn stop(store: &Inner) {
    let thread = slot(store).take();
    store.setting.retain.heard().0.wake();
    if thread.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("removing what has expired panicked");
    }
}

fn slot(store: &Inner) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
    let slot = store.keeping.lock();
    slot.unwrap_or_else(PoisonError::into_inner)
}

fn keep(store: &Arc<Inner>) {
    let stop = || store.is_closed();
    while !stop() {
        let (calls, seen) = store.setting.retain.heard();
        let pause = pass(store);
        let deadline = pause.and_then(|pause| Instant::now().checked_add(pause));
        calls.wait_past(seen, deadline, stop);
        // Nobody is heard but who closes the store.
        calls.wait_past(u64::MAX, Some(Instant::now() + GATHER), stop);
    }
}

/// Applies the retention of all topics once; how long to sleep then if nobody calls.
fn pass(store: &Inner) -> Option<Duration> {
    let topics: Vec<Arc<TopicInner>> = store.topics().values().cloned().collect();
    let interval = store.options.retention_interval;
    let mut pause = None;
    for topic in &topics {
        for done in each(store, topic, apply) {
            if store.is_closed() {
                return None;
            }
            if let Some(error) = &done.failed {
                let (topic, partition) = (&done.topic, done.partition);
                tracing::warn!(topic, partition, error, "retention is not applied");
            }
            let now = store.options.clock.now();
            let until = done
                .due
                .map(|due| due.as_nanos().saturating_sub(now).max(0));
            let until = until.map(|nanos| Duration::from_nanos(nanos.unsigned_abs()));
            let until = until.or(done.failed.map(|_| interval));
            pause = pause.into_iter().chain(until).min();
        }
    }
    // The clock may be set.
    pause.map(|pause| pause.min(interval))
}
