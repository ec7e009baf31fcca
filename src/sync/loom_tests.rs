//! Models of the watermark, run over every interleaving by loom:
//! `RUSTFLAGS="--cfg loom" cargo test --release --lib loom`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Arc;
use loom::thread;

use super::watermark::{Waited, Watermark};
use super::{AtomicBool, AtomicU64, List, Ordering, Told, Whole, fence};

/// A model with so many waiters that three preemptions must do.
fn bounded(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn wait(mark: &Arc<Watermark>, seen: u64) -> thread::JoinHandle<Waited> {
    let mark = Arc::clone(mark);
    thread::spawn(move || mark.wait_past(seen, None, || false))
}

/// A reader goes by the watermark alone: the bytes below it were written with no ordering of
/// their own, so they are seen only if the watermark carries them.
#[test]
fn who_sees_the_watermark_sees_the_bytes_below_it() {
    loom::model(|| {
        let mark = Arc::new(Watermark::new(0));
        let bytes = Arc::new(AtomicU64::new(0));
        let writer = thread::spawn({
            let (mark, bytes) = (Arc::clone(&mark), Arc::clone(&bytes));
            move || {
                bytes.store(42, Ordering::Relaxed);
                mark.advance(1);
            }
        });
        if mark.get() == 1 {
            assert_eq!(bytes.load(Ordering::Relaxed), 42);
        }
        writer.join().unwrap();
    });
}

/// Two readers wait for the first record while it is appended: both come back, and see it.
#[test]
fn no_wake_up_is_lost() {
    bounded(|| {
        let mark = Arc::new(Watermark::new(0));
        let bytes = Arc::new(AtomicU64::new(0));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (mark, bytes) = (Arc::clone(&mark), Arc::clone(&bytes));
                thread::spawn(move || {
                    assert_eq!(mark.wait_past(0, None, || false), Waited::Past(1));
                    assert_eq!(bytes.load(Ordering::Relaxed), 42);
                })
            })
            .collect();
        bytes.store(42, Ordering::Relaxed);
        mark.advance(1);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// A log is closed while a reader is about to wait: the reader comes back and is told so.
#[test]
fn a_stop_is_not_missed() {
    loom::model(|| {
        let mark = Arc::new(Watermark::new(0));
        let closed = Arc::new(AtomicBool::new(false));
        let reader = thread::spawn({
            let (mark, closed) = (Arc::clone(&mark), Arc::clone(&closed));
            move || mark.wait_past(0, None, || closed.load(Ordering::Relaxed))
        });
        closed.store(true, Ordering::Relaxed);
        mark.wake();
        assert_eq!(reader.join().unwrap(), Waited::Stopped);
    });
}

/// Two threads move the watermark at once, the greater position first or last: it ends at the
/// greater one, and a reader never sees it go back.
#[test]
fn it_never_moves_back() {
    loom::model(|| {
        let mark = Arc::new(Watermark::new(0));
        let other = thread::spawn({
            let mark = Arc::clone(&mark);
            move || mark.advance(2)
        });
        mark.advance(1);
        let first = mark.get();
        assert!(mark.get() >= first);
        other.join().unwrap();
        assert_eq!(mark.get(), 2);
    });
}

/// Two threads move the watermark in turn, and only the second move is far enough for the reader:
/// that the first mover has just cleared the word that says somebody waits loses nothing.
#[test]
fn a_wake_for_another_move_takes_nothing_away() {
    bounded(|| {
        let mark = Arc::new(Watermark::new(0));
        let reader = wait(&mark, 1);
        let other = thread::spawn({
            let mark = Arc::clone(&mark);
            move || mark.wake()
        });
        mark.advance(2);
        assert_eq!(reader.join().unwrap(), Waited::Past(2));
        other.join().unwrap();
    });
}

/// One reader waits for the first record, another for the second, while both are appended: each
/// comes back, though the first move takes only the first off the list.
#[test]
fn a_move_leaves_who_waits_for_a_later_one_in_the_list() {
    bounded(|| {
        let mark = Arc::new(Watermark::new(0));
        let readers: Vec<_> = (0..2).map(|seen| wait(&mark, seen)).collect();
        mark.advance(1);
        mark.advance(2);
        for (reader, seen) in readers.into_iter().zip(0..) {
            let Waited::Past(position) = reader.join().unwrap() else {
                panic!("nobody stopped it")
            };
            assert!(position > seen);
        }
    });
}

/// Of two readers one sees its record without having slept and leaves the list while the other is
/// entering it: the other is woken all the same.
#[test]
fn who_leaves_takes_nobody_along() {
    bounded(|| {
        let mark = Arc::new(Watermark::new(0));
        let (early, late) = (wait(&mark, 0), wait(&mark, 1));
        mark.advance(2);
        assert_eq!(early.join().unwrap(), Waited::Past(2));
        assert_eq!(late.join().unwrap(), Waited::Past(2));
    });
}

/// Wakes the thread that polls.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

/// A future waits for a record in one thread and is polled whenever it is woken, while another
/// appends: it resolves, whichever of its two looks sees the record.
#[test]
fn a_future_is_not_forgotten() {
    bounded(|| {
        let mark = Arc::new(Watermark::new(0));
        let reader = thread::spawn({
            let mark = Arc::clone(&mark);
            move || {
                let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
                let mut future = pin!(mark.past(0, || false));
                loop {
                    match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                        Poll::Ready(end) => return end,
                        Poll::Pending => thread::park(),
                    }
                }
            }
        });
        mark.advance(1);
        assert_eq!(reader.join().unwrap(), Waited::Past(1));
    });
}

/// The kernel's sleep on a word: whoever sleeps looks at it under a lock that whoever wakes takes, too.
#[derive(Default)]
struct Kernel {
    lock: super::Mutex<()>,
    asleep: super::Condvar,
}

impl Kernel {
    fn sleep(&self, word: &super::AtomicU32, seen: u32) {
        let guard = self.lock.lock().unwrap();
        if word.load(Ordering::Relaxed) == seen {
            drop(self.asleep.wait(guard).unwrap());
        }
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap());
        self.asleep.notify_all();
    }
}

/// The words of an entry on the board: how much is shown, and the bell for it.
#[derive(Default)]
struct Entry {
    shown: AtomicU64,
    bell: super::AtomicU32,
    kernel: Kernel,
}

impl Entry {
    fn show(&self, next: u64) {
        self.shown.store(next, Ordering::Release);
        super::fence(Ordering::SeqCst);
        super::bell::ring(&self.bell, || self.kernel.wake());
    }

    fn wait(&self, next: u64) {
        loop {
            let seen = super::bell::announce(&self.bell);
            if self.shown.load(Ordering::Acquire) >= next {
                return;
            }
            self.kernel.sleep(&self.bell, seen);
        }
    }
}

/// Readers in other processes sleep on the board while its owner shows more: none of them sleeps
/// through it, and each sees what was written before. One that is killed behind its announcement (the
/// first line) changes nothing for the others.
#[test]
fn nobody_sleeps_through_what_the_board_shows() {
    bounded(|| {
        let entry = Arc::new(Entry::default());
        let bytes = Arc::new(AtomicU64::new(0));
        super::bell::announce(&entry.bell);
        let readers = [1, 1].map(|next| {
            let (entry, bytes) = (Arc::clone(&entry), Arc::clone(&bytes));
            thread::spawn(move || {
                entry.wait(next);
                assert!(bytes.load(Ordering::Relaxed) >= next);
            })
        });
        bytes.store(1, Ordering::Relaxed);
        entry.show(1);
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    });
}

/// An owner whom nobody waits for makes no call.
#[test]
fn a_bell_that_nobody_waits_for_does_not_ring() {
    loom::model(|| {
        let bell = super::AtomicU32::new(0);
        super::bell::ring(&bell, || panic!("nobody waits"));
        let seen = super::bell::announce(&bell);
        let mut rung = 0;
        super::bell::ring(&bell, || rung += 1);
        super::bell::ring(&bell, || rung += 1);
        assert_eq!(rung, 1);
        assert_ne!(bell.load(Ordering::Relaxed), seen);
    });
}

/// A round reads the sums of a log while two appends change them: it sees those of one moment, and what
/// was written before that moment.
#[test]
fn sums_are_read_as_a_whole() {
    bounded(|| {
        let sums = Arc::new(Whole::new([0, 0]));
        let bytes = Arc::new(AtomicU64::new(0));
        let writer = thread::spawn({
            let (sums, bytes) = (Arc::clone(&sums), Arc::clone(&bytes));
            move || {
                for number in 1..=2 {
                    bytes.store(number, Ordering::Relaxed);
                    sums.set([number, 10 * number]);
                }
            }
        });
        let [number, tenfold] = sums.get();
        assert_eq!(tenfold, 10 * number);
        assert!(bytes.load(Ordering::Relaxed) >= number);
        assert!(sums.word(0) >= number);
        writer.join().unwrap();
        assert_eq!(sums.get(), [2, 20]);
    });
}

/// An append finds that the flusher has been told already, while the flusher looks what there is to do:
/// either that look, or another one to which it is told, finds the append.
#[test]
fn nothing_appended_is_left_undone() {
    loom::model(|| {
        let (sums, told) = (Arc::new(Whole::new([0])), Arc::new(Told::new()));
        told.know();
        let flusher = thread::spawn({
            let (sums, told) = (Arc::clone(&sums), Arc::clone(&told));
            move || {
                told.forget();
                sums.word(0)
            }
        });
        sums.set([1]);
        fence(Ordering::SeqCst);
        let asked = told.ask();
        assert!(asked || flusher.join().unwrap() == 1);
    });
}

/// A topic that is synced by hand only is told to sync by itself while a record is appended: whoever changes
/// it finds the record, or the append finds the change.
#[test]
fn a_change_of_durability_misses_no_append() {
    loom::model(|| {
        let log = Arc::new((Whole::new([0]), AtomicBool::new(false)));
        let change = thread::spawn({
            let log = Arc::clone(&log);
            move || {
                log.1.store(true, Ordering::Release);
                fence(Ordering::SeqCst);
                log.0.word(0) == 1
            }
        });
        log.0.set([1]);
        fence(Ordering::SeqCst);
        let seen = log.1.load(Ordering::Acquire);
        assert!(seen | change.join().unwrap());
    });
}

/// The owner appends one record, and then wakes who waits for it, at the log or at the topic's bell, while
/// the reader is about to sleep.
#[test]
fn who_waits_for_what_is_set_is_woken() {
    bounded(|| {
        let marks = Arc::new([Watermark::new(0), Watermark::new(0)]);
        let reader = thread::spawn({
            let marks = Arc::clone(&marks);
            move || marks[1].wait_past(u64::MAX, None, || marks[0].get() == 1)
        });
        marks[0].set(1);
        fence(Ordering::SeqCst);
        marks[0].ring(1, &marks[1]);
        assert_eq!(reader.join().unwrap(), Waited::Stopped);
    });
}

/// A log rolls and appends while a reader goes by its watermark: whoever sees a record sees the segment
/// that it is in.
#[test]
fn a_record_that_shows_is_in_a_segment_that_is_listed() {
    loom::model(|| {
        let log = Arc::new((List::new(vec![0]), Watermark::new(1)));
        let appender = thread::spawn({
            let log = Arc::clone(&log);
            move || {
                log.0.push(&1);
                log.1.set(2);
            }
        });
        if log.1.get() == 2 {
            assert_eq!(*log.0.now(), [0, 1]);
        }
        appender.join().unwrap();
    });
}

/// Retention takes the first segment away while the log rolls and a reader looks for the first record: he
/// finds its segment, or that the log begins behind it, and the segment that took over stays.
#[test]
fn who_does_not_find_a_segment_sees_that_it_has_expired() {
    bounded(|| {
        let log = Arc::new((List::new(vec![0, 1]), AtomicU64::new(0)));
        let retention = thread::spawn({
            let log = Arc::clone(&log);
            move || {
                log.1.fetch_max(1, Ordering::AcqRel);
                log.0.retain(|number| *number >= 1);
            }
        });
        let appender = thread::spawn({
            let log = Arc::clone(&log);
            move || log.0.push(&2)
        });
        let there = log.0.now().contains(&0);
        assert!(there || log.1.load(Ordering::Acquire) == 1);
        retention.join().unwrap();
        appender.join().unwrap();
        assert_eq!(*log.0.now(), [1, 2]);
    });
}
