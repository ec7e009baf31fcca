//! A position that only moves forward, and those who wait for it to pass a place.
//!
//! The one who writes *publishes*, then *looks* at the word `awaited`; if it is set, he takes off
//! the list whoever waits for less than he published, and wakes them. The one who waits *enters*
//! the list and sets `awaited`, then *looks* at the position. Between the two steps of either
//! stands a sequentially consistent fence, so one of the two sees the other: no wake-up is lost,
//! and moving a position that nobody waits for costs two accesses and a fence, neither a lock nor
//! a call.
//!
//! The word is changed under the lock of the list, and says whether anybody is in it. Who waits for
//! a later position stays asleep: with many threads on one log about half of them wait for the
//! round after the one that ends, and waking them for nothing took a third of the throughput
//! (`docs/decisions/0007-waiters-by-position.md`).
//!
//! Publishing is a release store and reading an acquire load, so whoever sees a position sees
//! everything that was written before it was published.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use super::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, Thread, fence, park, this_thread};

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The position is past what had been seen; this is where it stood.
    Past(u64),
    /// Whoever waited has been told to stop.
    Stopped,
    /// The deadline has passed.
    TimedOut,
}

/// A position that only moves forward.
#[derive(Debug)]
pub(crate) struct Watermark {
    position: AtomicU64,
    /// Whether anybody is in the list; changed under its lock.
    awaited: AtomicBool,
    list: Mutex<List>,
}

/// Who waits, by the position that has to be passed.
#[derive(Debug, Default)]
struct List {
    waiters: BTreeMap<Place, Waker>,
    tickets: u64,
}

/// A waiter's place in the list: what has to be passed, and a number of its own.
pub(crate) type Place = (u64, u64);

/// Behind all places.
const EVERYBODY: Place = (u64::MAX, u64::MAX);

impl Watermark {
    /// A watermark that stands at `position`.
    pub(crate) fn new(position: u64) -> Self {
        Self {
            position: AtomicU64::new(position),
            awaited: AtomicBool::new(false),
            list: Mutex::new(List::default()),
        }
    }

    /// The position now. What was written before it was published is visible afterwards.
    pub(crate) fn get(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Moves the position to `to` and wakes whoever waits for that; does nothing if it already
    /// stands there or further on.
    pub(crate) fn advance(&self, to: u64) {
        if self.position.fetch_max(to, Ordering::Release) < to {
            self.wake_before((to, 0));
        }
    }

    /// As [`advance`](Self::advance), and wakes everybody who waits at `bell`, with one fence for both.
    pub(crate) fn advance_and_ring(&self, to: u64, bell: &Watermark) {
        if self.position.fetch_max(to, Ordering::Release) < to {
            // As in `wake_before`.
            fence(Ordering::SeqCst);
            self.ring(to, bell);
        }
    }

    /// Moves the position to `to`, forward, and wakes nobody. One thread at a time, and no other way of
    /// moving it meanwhile: the caller sees to that, by a lock that he holds for other reasons.
    pub(crate) fn set(&self, to: u64) {
        self.position.store(to, Ordering::Release);
    }

    /// Wakes whoever waits for `to` to be reached, and everybody who waits at `bell`. The caller has
    /// [`set`](Self::set) the position, and then passed a sequentially consistent fence.
    pub(crate) fn ring(&self, to: u64, bell: &Watermark) {
        self.wake_those((to, 0));
        bell.wake_those(EVERYBODY);
    }

    /// Wakes everybody who waits, without moving, so that they look whether to stop.
    pub(crate) fn wake(&self) {
        self.wake_before(EVERYBODY);
    }

    fn wake_before(&self, end: Place) {
        // Between publishing and looking; the other fence is in `enter`.
        fence(Ordering::SeqCst);
        self.wake_those(end);
    }

    fn wake_those(&self, end: Place) {
        if !self.awaited.load(Ordering::Relaxed) {
            return;
        }
        let woken = {
            let mut list = self.list();
            let rest = list.waiters.split_off(&end);
            let woken = std::mem::replace(&mut list.waiters, rest);
            self.awaited
                .store(!list.waiters.is_empty(), Ordering::Relaxed);
            woken
        };
        for waker in woken.into_values() {
            // A waker is the runtime's code: if one panics, the others are woken all the same, and
            // whoever moved the position goes on.
            if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
                tracing::error!("a waker panicked");
            }
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        // Nothing that can panic runs under this mutex.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the list. Look at the position *afterwards*, before sleeping.
    fn enter(&self, seen: u64, waker: Waker) -> Place {
        let place = {
            let mut list = self.list();
            list.tickets += 1;
            let place = (seen, list.tickets);
            list.waiters.insert(place, waker);
            self.awaited.store(true, Ordering::Relaxed);
            place
        };
        // Between entering and looking; the other fence is in `wake_before`.
        fence(Ordering::SeqCst);
        place
    }

    /// Leaves the list, in which the place may not be any more.
    pub(crate) fn leave(&self, place: Place) {
        let gone = {
            let mut list = self.list();
            let gone = list.waiters.remove(&place);
            self.awaited
                .store(!list.waiters.is_empty(), Ordering::Relaxed);
            gone
        };
        // Letting go of a waker is the runtime's code, too, which may come back here.
        drop(gone);
    }

    /// Waits until the position is past `seen`, or `stop` is true, or the deadline has passed.
    ///
    /// `stop` is asked at the start and after each wake; who makes it true calls
    /// [`wake`](Self::wake) afterwards. A position past `seen` goes before `stop`.
    pub(crate) fn wait_past(
        &self,
        seen: u64,
        deadline: Option<Instant>,
        stop: impl Fn() -> bool,
    ) -> Waited {
        let look = || self.look(seen, &stop);
        if let Some(end) = look() {
            return end;
        }
        let sleeper = Arc::new(Sleeper::new());
        loop {
            let place = self.enter(seen, Waker::from(Arc::clone(&sleeper)));
            let end = sleeper.sleep(deadline, look);
            if !sleeper.woken.swap(false, Ordering::Acquire) {
                self.leave(place);
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// As [`wait_past`](Self::wait_past), for a future: looks, and stands in the list where there
    /// is nothing to be seen yet. Whoever gives up [leaves](Self::leave) `place`.
    pub(crate) fn poll_past(
        &self,
        seen: u64,
        place: &mut Option<Place>,
        context: &mut Context<'_>,
        stop: impl Fn() -> bool,
    ) -> Poll<Waited> {
        let mut end = self.look(seen, &stop);
        if end.is_none() {
            let before = place.replace(self.enter(seen, context.waker().clone()));
            before.into_iter().for_each(|place| self.leave(place));
            end = self.look(seen, &stop);
        }
        let Some(end) = end else {
            return Poll::Pending;
        };
        place.take().into_iter().for_each(|place| self.leave(place));
        Poll::Ready(end)
    }

    /// [`wait_past`](Self::wait_past) as a future. One that is dropped leaves the list.
    pub(crate) async fn past(&self, seen: u64, stop: impl Fn() -> bool) -> Waited {
        let mut waiting = Waiting {
            mark: self,
            place: None,
        };
        std::future::poll_fn(|context| self.poll_past(seen, &mut waiting.place, context, &stop))
            .await
    }

    fn look(&self, seen: u64, stop: &impl Fn() -> bool) -> Option<Waited> {
        let position = self.get();
        if position > seen {
            Some(Waited::Past(position))
        } else {
            stop().then_some(Waited::Stopped)
        }
    }
}

/// What takes a future that is dropped off the list.
struct Waiting<'a> {
    mark: &'a Watermark,
    place: Option<Place>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.place
            .take()
            .into_iter()
            .for_each(|place| self.mark.leave(place));
    }
}

/// A thread that sleeps until it is woken.
struct Sleeper {
    /// Whoever woke it has taken it off the list.
    woken: AtomicBool,
    thread: Thread,
}

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper {
            woken: AtomicBool::new(false),
            thread: this_thread(),
        }
    }

    /// Sleeps until there is an end to be seen, or the deadline has passed; nothing if it was
    /// woken before that.
    fn sleep(
        &self,
        deadline: Option<Instant>,
        look: impl Fn() -> Option<Waited>,
    ) -> Option<Waited> {
        loop {
            let end = look();
            if end.is_some() || self.woken.load(Ordering::Acquire) {
                return end;
            }
            if !park(deadline) {
                return look().or(Some(Waited::TimedOut));
            }
        }
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake, Waker};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{Waited, Watermark};

    #[test]
    fn it_never_moves_back() {
        let mark = Watermark::new(5);
        mark.advance(3);
        assert_eq!(mark.get(), 5);
        mark.advance(9);
        assert_eq!(mark.get(), 9);
    }

    #[test]
    fn a_wait_ends_by_move_stop_or_deadline() {
        let mark = Arc::new(Watermark::new(0));
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(mark.wait_past(0, Some(soon), || false), Waited::TimedOut);
        assert_eq!(mark.wait_past(0, None, || true), Waited::Stopped);

        let waiter = thread::spawn({
            let mark = Arc::clone(&mark);
            move || mark.wait_past(0, None, || false)
        });
        mark.advance(7);
        assert_eq!(waiter.join().unwrap(), Waited::Past(7));
    }

    /// The waker of a task panics: the one behind it in the list is woken, and the mover goes on.
    #[test]
    fn a_waker_that_panics_keeps_nobody_asleep() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("the runtime is gone");
            }
        }
        let mark = Arc::new(Watermark::new(0));
        let waker = Waker::from(Arc::new(Panics));
        let mut task = std::pin::pin!(mark.past(0, || false));
        let poll = task.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(poll.is_pending());
        let waiter = thread::spawn({
            let mark = Arc::clone(&mark);
            move || mark.wait_past(0, None, || false)
        });
        while mark.list().waiters.len() < 2 {
            thread::yield_now();
        }
        mark.advance(1);
        assert_eq!(waiter.join().unwrap(), Waited::Past(1));
    }

    #[test]
    fn a_closed_log_wakes_all_its_waiters() {
        let mark = Arc::new(Watermark::new(0));
        let closed = Arc::new(AtomicBool::new(false));
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let (mark, closed) = (Arc::clone(&mark), Arc::clone(&closed));
                thread::spawn(move || mark.wait_past(0, None, || closed.load(Ordering::Acquire)))
            })
            .collect();
        thread::sleep(Duration::from_millis(5));
        closed.store(true, Ordering::Release);
        mark.wake();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Waited::Stopped);
        }
    }
}
