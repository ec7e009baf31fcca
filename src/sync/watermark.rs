//! A position that only moves forward, and those who wait for it to move.
//!
//! The one who writes *publishes*, then *looks* at the word `awaited`; if it is set, he clears it
//! and wakes all. The one who waits *registers* with the event, sets `awaited`, then *looks* at the
//! position. Between the two steps of either stands a sequentially consistent fence, so one of the
//! two sees the other: no wake-up is lost, and moving a position that nobody waits for costs two
//! accesses and a fence, neither a lock nor a call (the event itself would take its lock each time).
//!
//! Clearing loses nobody: whoever set the word had registered before, and is woken by the one who
//! cleared it; whoever registers later sets it again. A waiter that gives up leaves it set, which
//! costs one needless wake.
//!
//! Publishing is a release store and reading an acquire load, so whoever sees a position sees
//! everything that was written before it was published.

use std::time::Instant;

use event_listener::{Event, EventListener, IntoNotification, Listener};

use super::{AtomicBool, AtomicU64, Ordering, fence};

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
    /// Somebody has registered since the last wake.
    awaited: AtomicBool,
    moved: Event,
}

impl Watermark {
    /// A watermark that stands at `position`.
    pub(crate) fn new(position: u64) -> Self {
        Self {
            position: AtomicU64::new(position),
            awaited: AtomicBool::new(false),
            moved: Event::new(),
        }
    }

    /// The position now. What was written before it was published is visible afterwards.
    pub(crate) fn get(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Moves the position to `to` and wakes whoever waits; does nothing if it already stands
    /// there or further on.
    pub(crate) fn advance(&self, to: u64) {
        if self.position.fetch_max(to, Ordering::Release) < to {
            self.wake();
        }
    }

    /// Wakes whoever waits, without moving, so that they look whether to stop.
    pub(crate) fn wake(&self) {
        // Between publishing and looking; the other fence is in `listen`.
        fence(Ordering::SeqCst);
        if self.awaited.load(Ordering::Relaxed) {
            self.awaited.store(false, Ordering::Relaxed);
            self.moved.notify(usize::MAX.relaxed());
        }
    }

    /// A listener for the next move or wake. Look at the position *after* making one and before
    /// waiting on it.
    pub(crate) fn listen(&self) -> EventListener {
        let listener = self.moved.listen();
        self.awaited.store(true, Ordering::Relaxed);
        // Between registering and looking; the other fence is in `wake`.
        fence(Ordering::SeqCst);
        listener
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
        loop {
            if let Some(end) = self.look(seen, &stop) {
                return end;
            }
            let listener = self.listen();
            if let Some(end) = self.look(seen, &stop) {
                return end;
            }
            match deadline {
                None => listener.wait(),
                Some(deadline) => {
                    if listener.wait_deadline(deadline).is_none() {
                        return self.look(seen, &stop).unwrap_or(Waited::TimedOut);
                    }
                }
            }
        }
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
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
