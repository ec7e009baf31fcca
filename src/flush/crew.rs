//! A few threads that do one duty for many logs, and claim a log while they do.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::queue::{Job, Queue};
use super::together::together;
use super::{DirtyLog, Next, RedoSink};
use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, MutexGuard};

thread_local! {
    /// This thread is in the middle of a duty, or of a close.
    static SERVING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in the middle of a duty, or of a close, and so in code that is called there:
/// a waker. Who waits for the store to end would wait for himself.
pub(crate) fn is_serving() -> bool {
    SERVING.get()
}

/// Does something that others wait for, and that may wake somebody.
pub(crate) fn serving<T>(act: impl FnOnce() -> T) -> T {
    let _serving = Serving::begin();
    act()
}

/// As long as this lives, which stays on its thread, that is in the middle of a duty.
struct Serving {
    /// Whether it was before.
    before: bool,
}

impl Serving {
    fn begin() -> Serving {
        Serving {
            before: SERVING.replace(true),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        SERVING.set(self.before);
    }
}

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
    /// For who waits to claim a log: a claim was given back.
    free: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under this mutex.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a job, and wakes whoever can go on then.
    fn serve(&self, job: Job) {
        serving(|| self.do_job(job));
        self.wake();
    }

    fn do_job(&self, job: Job) {
        match job {
            Job::Alone(log) => {
                let duty = AssertUnwindSafe(|| (self.duty)(log.as_ref()));
                let next = catch_unwind(duty).unwrap_or_else(|panic| {
                    log.abandon(self.name, panic_message(panic.as_ref()));
                    Next::Rest
                });
                self.queue().done(log, next, Instant::now());
            }
            Job::Together(journal, riders) => {
                let round = AssertUnwindSafe(|| together(journal.as_ref(), &riders));
                let (next, nexts) = catch_unwind(round).unwrap_or_else(|panic| {
                    let reason = panic_message(panic.as_ref());
                    journal.log().abandon(self.name, reason.clone());
                    for log in &riders {
                        log.abandon(self.name, reason.clone());
                    }
                    (Next::Rest, vec![Next::Rest; riders.len()])
                });
                let now = Instant::now();
                let mut queue = self.queue();
                queue.done(journal.log(), next, now);
                for (log, next) in riders.into_iter().zip(nexts) {
                    queue.done(log, next, now);
                }
            }
        }
    }

    /// Wakes whoever can go on, now that a claim was given back.
    fn wake(&self) {
        let queue = self.queue();
        let (ready, stopping) = (queue.is_ready(), queue.stopping);
        let wanted = queue.is_wanted();
        drop(queue);
        if wanted {
            self.free.notify_all();
        }
        if stopping {
            self.work.notify_all();
        } else if ready {
            self.work.notify_one();
        }
    }

    /// A claim was given back by somebody who does no duty. Once the crew has been stopped, nobody
    /// else does what the log was asked for meanwhile, and it would never be let go of.
    fn left(&self) {
        self.wake();
        if self.queue().stopping {
            self.turn();
        }
    }

    /// Does what can be done now.
    fn turn(&self) {
        loop {
            let job = self.queue().next();
            match job {
                Some(job) => self.serve(job),
                None => return,
            }
        }
    }

    fn work(&self) {
        let mut queue = self.queue();
        loop {
            let pause = queue.promote();
            if let Some(job) = queue.next() {
                if queue.is_ready() {
                    self.work.notify_one();
                }
                drop(queue);
                self.serve(job);
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
            free: Condvar::new(),
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

    /// From now on logs that are due together, with few bytes each, ride with this journal: one
    /// sync for all of them.
    pub(crate) fn set_journal(&self, journal: Arc<dyn RedoSink>) {
        self.shared.queue().set_journal(journal);
    }

    /// Asks for the log's duty. It will begin after this call; but a crew that has been stopped
    /// takes up no log any more, and only [`Crew::assist`] has its duty done. A log that lay there
    /// would never be let go of, and assisting would wait for whoever was to take it.
    pub(crate) fn request(&self, log: Arc<dyn DirtyLog>) {
        let ready = {
            let mut queue = self.shared.queue();
            if queue.stopping && !queue.is_claimed(log.id()) {
                return;
            }
            queue.push(log) && queue.is_ready()
        };
        if ready && !self.inline {
            self.shared.work.notify_one();
        }
    }

    /// Does the log's duty on the caller's thread if that can be done now, so that a lone caller
    /// waits for no other thread; else asks for it. It works, too, when the crew has been stopped.
    pub(crate) fn assist(&self, log: Arc<dyn DirtyLog>) {
        self.assist_all([log]);
    }

    /// The same for several logs: in one round, where they can ride together.
    pub(crate) fn assist_all(&self, logs: impl IntoIterator<Item = Arc<dyn DirtyLog>>) {
        let (job, ready, stopping) = {
            let mut queue = self.shared.queue();
            let mut first = None;
            for log in logs {
                first.get_or_insert(log.id());
                queue.push(log);
            }
            let job = first.and_then(|first| queue.next_with(first));
            (job, queue.is_ready(), queue.stopping)
        };
        if ready && !self.inline {
            self.shared.work.notify_one();
        }
        if let Some(job) = job {
            self.shared.serve(job);
        }
        if self.inline {
            self.turn();
        } else if stopping {
            // Nobody else does what has gathered meanwhile.
            self.shared.turn();
        }
    }

    /// Does something to a log in place of its duty, claimed like it: nothing, and false, if
    /// somebody has asked for the duty or is at it.
    pub(crate) fn instead(&self, log: Arc<dyn DirtyLog>, act: impl FnOnce() -> Next) -> bool {
        if !self.shared.queue().claim(log.id()) {
            return false;
        }
        let act = AssertUnwindSafe(|| serving(act));
        let next = catch_unwind(act).unwrap_or_else(|panic| {
            log.abandon(self.shared.name, panic_message(panic.as_ref()));
            Next::Rest
        });
        self.shared.queue().done(log, next, Instant::now());
        self.shared.left();
        true
    }

    /// Inline: does what is due, on the caller's thread, and one duty that was to come later: nobody
    /// waits for its time here, and whether that has come is for the duty to tell, by its own clock.
    pub(crate) fn turn(&self) {
        self.shared.queue().promote_one();
        self.shared.turn();
    }

    /// Leaves logs that are due, and that nobody is at, to the caller, who settles all of them by
    /// himself: whoever waits for one of them is answered by that.
    pub(crate) fn forget_due(&self) {
        self.shared.queue().forget_due();
    }

    /// Does what is due and ends the threads; afterwards nobody is at any duty. What rests is not
    /// waited for.
    pub(crate) fn stop(&self) {
        self.shared.queue().stop();
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
        // It leads back here, by its log.
        self.shared.queue().forget_journal();
        self.turn();
    }

    /// Claims logs for the caller, in the order of their ids, and waits for whoever is at one of
    /// them: from this call on nobody else takes them up. They must be told apart by their ids.
    pub(crate) fn claim(&self, mut logs: Vec<Arc<dyn DirtyLog>>) -> Claims<'_> {
        logs.sort_by_key(|log| log.id());
        let mut queue = self.shared.queue();
        logs.iter().for_each(|log| queue.want(log.id()));
        for log in &logs {
            while !queue.take(log.id()) {
                let waited = self.shared.free.wait(queue);
                queue = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        drop(queue);
        let logs = logs.into_iter().map(|log| (log, Next::Rest)).collect();
        Claims {
            crew: self,
            logs,
            _serving: Serving::begin(),
        }
    }

    /// Waits until nobody who assists is in the middle of a duty.
    fn wait_for_assistants(&self) {
        let mut queue = self.shared.queue();
        while !queue.is_idle() {
            let waited = self.shared.work.wait(queue);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Logs that a caller has claimed: nobody runs a duty of theirs until this is dropped.
pub(crate) struct Claims<'a> {
    crew: &'a Crew,
    logs: Vec<(Arc<dyn DirtyLog>, Next)>,
    _serving: Serving,
}

impl Claims<'_> {
    /// Tells the logs that what they offered is durable in the journal.
    pub(crate) fn kept(&mut self) {
        self.logs
            .iter_mut()
            .for_each(|(log, next)| *next = log.kept());
    }

    /// Tells them that it failed to become so there, of this.
    pub(crate) fn lost(&mut self, cause: &Arc<Error>) {
        self.logs
            .iter_mut()
            .for_each(|(log, next)| *next = log.lost(cause));
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (log, _) in &self.logs {
                log.abandon(
                    "caller",
                    "it panicked while it had claimed the log".to_owned(),
                );
            }
        }
        let now = Instant::now();
        let mut queue = self.crew.shared.queue();
        for (log, next) in self.logs.drain(..) {
            queue.done(log, next, now);
        }
        drop(queue);
        self.crew.shared.left();
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

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(all(test, not(loom)))]
#[path = "crew_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "crew_loom.rs"]
mod loom_tests;
