//! A few threads that do one duty for many logs, and claim a log while they do.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{DirtyLog, Next};
use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// The duty of a crew, for one log.
pub(crate) type Duty = fn(&dyn DirtyLog) -> Next;

/// Threads with one duty. Without threads (*inline*) whoever waits calls [`Crew::turn`].
pub(crate) struct Crew {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    inline: bool,
}

struct Shared {
    name: &'static str,
    duty: Duty,
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    due: VecDeque<Arc<dyn DirtyLog>>,
    claims: BTreeMap<u64, Claim>,
    later: BTreeMap<u64, (Instant, Arc<dyn DirtyLog>)>,
    stopping: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// In `due`.
    Queued,
    /// A thread is at it.
    Running,
    /// A thread is at it, and it was asked for again meanwhile.
    RunningAndDue,
}

impl Queue {
    fn push(&mut self, log: Arc<dyn DirtyLog>) -> bool {
        let id = log.id();
        match self.claims.get(&id) {
            None => {
                self.claims.insert(id, Claim::Queued);
                self.due.push_back(log);
                true
            }
            Some(Claim::Queued | Claim::RunningAndDue) => false,
            Some(Claim::Running) => {
                self.claims.insert(id, Claim::RunningAndDue);
                false
            }
        }
    }

    fn take(&mut self) -> Option<Arc<dyn DirtyLog>> {
        let log = self.due.pop_front()?;
        self.claims.insert(log.id(), Claim::Running);
        Some(log)
    }

    /// Moves the log that has rested longest into `due`, whether its time has come or not.
    fn promote_one(&mut self) {
        let longest = self.later.iter().min_by_key(|(_, (at, _))| *at);
        let Some(id) = longest.map(|(id, _)| *id) else {
            return;
        };
        if let Some((_, log)) = self.later.remove(&id) {
            self.push(log);
        }
    }

    /// Gives the claim back; whether there is something new for a thread to do or to wait for.
    fn done(&mut self, log: Arc<dyn DirtyLog>, next: Next) -> bool {
        let id = log.id();
        if self.claims.remove(&id) == Some(Claim::RunningAndDue) {
            self.claims.insert(id, Claim::Queued);
            self.due.push_back(log);
            return true;
        }
        match next {
            // A look that is due earlier says itself when to look again.
            Next::After(pause) if !self.stopping && !self.later.contains_key(&id) => {
                self.later.insert(id, (Instant::now() + pause, log));
                true
            }
            _ => false,
        }
    }

    /// Moves what has rested long enough into `due`; how long until the next of the others.
    fn promote(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let ripe: Vec<u64> = self
            .later
            .iter()
            .filter(|(_, (at, _))| *at <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in ripe {
            if let Some((_, log)) = self.later.remove(&id) {
                self.push(log);
            }
        }
        let nearest = self.later.values().map(|(at, _)| *at).min()?;
        Some(nearest.saturating_duration_since(now))
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under this mutex.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the duty for a log that was taken from the queue.
    fn serve(&self, log: Arc<dyn DirtyLog>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.duty)(log.as_ref())));
        let next = match outcome {
            Ok(next) => next,
            Err(panic) => {
                log.abandon(self.name, panic_message(panic.as_ref()));
                Next::Rest
            }
        };
        let (news, stopping) = {
            let mut queue = self.queue();
            (queue.done(log, next), queue.stopping)
        };
        if stopping {
            self.work.notify_all();
        } else if news {
            self.work.notify_one();
        }
    }

    fn work(&self) {
        let mut queue = self.queue();
        loop {
            let pause = queue.promote();
            if let Some(log) = queue.take() {
                drop(queue);
                self.serve(log);
                queue = self.queue();
                continue;
            }
            if queue.stopping {
                return;
            }
            queue = match pause {
                None => self
                    .work
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(pause) => {
                    let waited = self.work.wait_timeout(queue, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Crew {
    /// Starts `threads` threads; with none the crew is inline.
    pub(crate) fn start(name: &'static str, threads: usize, duty: Duty) -> Result<Crew> {
        let shared = Arc::new(Shared {
            name,
            duty,
            queue: Mutex::new(Queue::default()),
            work: Condvar::new(),
        });
        let crew = Crew {
            shared,
            threads: Mutex::new(Vec::new()),
            inline: threads == 0,
        };
        for _ in 0..threads {
            let shared = Arc::clone(&crew.shared);
            let spawned = std::thread::Builder::new()
                .name(format!("tidelog-{name}"))
                .spawn(move || shared.work());
            match spawned {
                Ok(thread) => crew.handles().push(thread),
                Err(error) => {
                    crew.stop();
                    return Err(Error::ThreadEnded {
                        thread: name,
                        reason: error.to_string(),
                    });
                }
            }
        }
        Ok(crew)
    }

    fn handles(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether callers must do the work themselves, by [`Crew::turn`].
    pub(crate) fn is_inline(&self) -> bool {
        self.inline
    }

    /// Asks for the log's duty. It will begin after this call; but a crew that has been stopped
    /// takes up no log any more, and only [`Crew::assist`] has its duty done. A log that lay there
    /// would never be let go of, and assisting would wait for whoever was to take it.
    pub(crate) fn request(&self, log: Arc<dyn DirtyLog>) {
        let fresh = {
            let mut queue = self.shared.queue();
            if queue.stopping && !queue.claims.contains_key(&log.id()) {
                return;
            }
            queue.push(log)
        };
        if fresh && !self.inline {
            self.shared.work.notify_one();
        }
    }

    /// Does the log's duty on the caller's thread if the log is free, so that a lone caller waits
    /// for no other thread; else asks for it. It works, too, when the crew has been stopped.
    pub(crate) fn assist(&self, log: Arc<dyn DirtyLog>) {
        let free = {
            let mut queue = self.shared.queue();
            let free = !queue.claims.contains_key(&log.id());
            if free {
                queue.claims.insert(log.id(), Claim::Running);
            }
            free
        };
        if free {
            self.shared.serve(log);
        } else {
            self.request(log);
        }
        if self.inline {
            self.turn();
        }
    }

    /// Inline: does what is due, on the caller's thread, and one duty that was to come later: nobody
    /// waits for its time here, and whether that has come is for the duty to tell, by its own clock.
    pub(crate) fn turn(&self) {
        self.shared.queue().promote_one();
        loop {
            let Some(log) = self.shared.queue().take() else {
                return;
            };
            self.shared.serve(log);
        }
    }

    /// Does what is due and ends the threads; afterwards nobody is at any duty. What rests is not
    /// waited for.
    pub(crate) fn stop(&self) {
        {
            let mut queue = self.shared.queue();
            queue.stopping = true;
            queue.later.clear();
        }
        self.shared.work.notify_all();
        let threads = std::mem::take(&mut *self.handles());
        let me = std::thread::current().id();
        for thread in threads {
            if thread.thread().id() != me && thread.join().is_err() {
                tracing::error!(crew = self.shared.name, "a thread of the crew panicked");
            }
        }
        self.wait_for_assistants();
        self.turn();
    }

    /// Waits until nobody who assists is in the middle of a duty.
    fn wait_for_assistants(&self) {
        let mut queue = self.shared.queue();
        let running = |claim: &Claim| *claim != Claim::Queued;
        while queue.claims.values().any(running) {
            let waited = self.shared.work.wait(queue);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew")
            .field("name", &self.shared.name)
            .field("inline", &self.inline)
            .finish_non_exhaustive()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop();
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(all(test, not(loom)))]
#[path = "crew_tests.rs"]
mod tests;
