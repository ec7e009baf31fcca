//! Models of the hand-over between appenders, the flusher and those who wait, over every interleaving
//! (with a bound on preemptions): `RUSTFLAGS="--cfg loom" cargo test --release --lib loom`.

use std::sync::Arc;

use loom::thread;

use super::{Crew, Shared};
use crate::flush::queue::Queue;
use crate::flush::{DirtyLog, Next};
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, Watermark};

/// A log that is written to by adding one, and synced by looking how far it has come.
struct Log {
    written: AtomicU64,
    durable: Watermark,
    failed: AtomicBool,
    /// The round of that number, counted from 0, fails.
    fails: Option<u64>,
    rounds: AtomicU64,
}

impl Log {
    fn new(fails: Option<u64>) -> Arc<Log> {
        Arc::new(Log {
            written: AtomicU64::new(0),
            durable: Watermark::new(0),
            failed: AtomicBool::new(false),
            fails,
            rounds: AtomicU64::new(0),
        })
    }
}

impl DirtyLog for Log {
    fn id(&self) -> u64 {
        1
    }

    fn round(&self) -> Next {
        let end = self.written.load(Ordering::Acquire);
        let round = self.rounds.fetch_add(1, Ordering::AcqRel);
        if self.failed.load(Ordering::Acquire) {
            return Next::Rest;
        }
        if self.fails == Some(round) {
            self.failed.store(true, Ordering::Release);
            self.durable.wake();
        } else {
            self.durable.advance(end);
        }
        Next::Rest
    }

    fn abandon(&self, _thread: &'static str, reason: String) {
        panic!("{reason}");
    }
}

/// A crew whose thread is the model's.
fn crew() -> Crew {
    let shared = Arc::new(Shared {
        name: "flusher",
        duty: |log| log.round(),
        queue: Mutex::new(Queue::default()),
        work: Condvar::new(),
        free: Condvar::new(),
    });
    Crew {
        shared,
        threads: Mutex::new(Vec::new()),
        inline: false,
    }
}

/// Appends one record and waits for it; whether it became durable.
fn append(crew: &Crew, log: &Arc<Log>) -> bool {
    let mine = log.written.fetch_add(1, Ordering::AcqRel);
    crew.assist(Arc::clone(log) as Arc<dyn DirtyLog>);
    let lost = || log.failed.load(Ordering::Acquire);
    log.durable.wait_past(mine, None, lost);
    log.durable.get() > mine
}

/// Somebody does `act` while another thread appends and a flusher stands by; whether that record became
/// durable.
fn beside_an_append(crew: &Arc<Crew>, log: &Arc<Log>, act: impl FnOnce()) -> bool {
    let flusher = thread::spawn({
        let shared = Arc::clone(&crew.shared);
        move || shared.work()
    });
    let other = thread::spawn({
        let (crew, log) = (Arc::clone(crew), Arc::clone(log));
        move || append(&crew, &log)
    });
    act();
    let durable = other.join().unwrap();
    crew.shared.queue().stop();
    crew.shared.work.notify_all();
    flusher.join().unwrap();
    durable
}

fn bounded(model: impl Fn(Arc<Crew>) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || model(Arc::new(crew())));
}

/// Two appenders and a flusher; the flusher ends when both have been answered.
fn two_appenders(fails: Option<u64>) {
    bounded(move |crew| {
        let log = Log::new(fails);
        let mut mine = false;
        let theirs = beside_an_append(&crew, &log, || mine = append(&crew, &log));
        if fails.is_none() {
            assert!(mine && theirs);
        }
        // What was acknowledged was made durable by a round that did not fail.
        assert!(log.durable.get() >= u64::from(mine) + u64::from(theirs));
    });
}

/// Two threads append while a flusher stands by: whoever finds the log free does the round, the other's
/// request is not lost, and both are answered.
#[test]
fn each_of_two_appenders_is_answered() {
    two_appenders(None);
}

/// The first round fails, whoever runs it: both appenders come back all the same.
#[test]
fn each_of_two_appenders_is_answered_when_the_sync_fails() {
    two_appenders(Some(0));
}

/// The second round fails: who was acknowledged by the first stays acknowledged.
#[test]
fn each_of_two_appenders_is_answered_when_the_second_sync_fails() {
    two_appenders(Some(1));
}

/// A caller claims the log for himself, as a transaction does, while another appends: neither waits for
/// ever, and the append's round comes when the claim is given back.
#[test]
fn a_claim_and_an_append_do_not_wait_for_each_other() {
    bounded(|crew| {
        let log = Log::new(None);
        let claim = || drop(crew.claim(vec![Arc::clone(&log) as Arc<dyn DirtyLog>]));
        assert!(beside_an_append(&crew, &log, claim));
    });
}
