use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::error::Error;
use crate::flush::{Crew, DirtyLog};

/// A log that rides, or not, and counts what is done for it.
#[derive(Default)]
struct Rider {
    id: u64,
    large: AtomicBool,
    alone: AtomicUsize,
    kept: AtomicUsize,
    lost: AtomicUsize,
    /// Who was served, in order.
    order: Arc<StdMutex<Vec<u64>>>,
}

impl Rider {
    fn new(id: u64) -> Arc<Rider> {
        Arc::new(Rider {
            id,
            ..Rider::default()
        })
    }
}

fn count(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

fn bump(counter: &AtomicUsize) -> Next {
    counter.fetch_add(1, Ordering::SeqCst);
    Next::Rest
}

impl DirtyLog for Rider {
    fn id(&self) -> u64 {
        self.id
    }
    fn round(&self) -> Next {
        self.order.lock().unwrap().push(self.id);
        bump(&self.alone)
    }
    fn rides(&self) -> bool {
        !self.large.load(Ordering::SeqCst)
    }
    fn offer(&self, page: &mut Vec<u8>) -> bool {
        page.push(7);
        self.rides()
    }
    fn kept(&self) -> Next {
        self.order.lock().unwrap().push(self.id);
        bump(&self.kept)
    }
    fn lost(&self, _: &Arc<Error>) -> Next {
        bump(&self.lost)
    }
    fn prepare(&self) -> Next {
        Next::Rest
    }
    fn abandon(&self, _: &'static str, _: String) {}
}

/// Tells that a round has begun, and holds it up.
type Gate = (StdMutex<mpsc::Sender<()>>, StdMutex<mpsc::Receiver<()>>);

/// A journal whose rounds can be held up, or fail.
struct Journal {
    log: Arc<Rider>,
    room: AtomicBool,
    failed: AtomicBool,
    pages: StdMutex<Vec<usize>>,
    /// Whose redo it keeps.
    held: StdMutex<Vec<u64>>,
    gate: Option<Gate>,
}

impl Journal {
    fn new() -> Journal {
        Journal {
            log: Rider::new(0),
            room: AtomicBool::new(true),
            failed: AtomicBool::new(false),
            pages: StdMutex::default(),
            held: StdMutex::default(),
            gate: None,
        }
    }
}

impl RedoSink for Journal {
    fn log(&self) -> Arc<dyn DirtyLog> {
        self.log.clone()
    }
    fn page(&self) -> Vec<u8> {
        Vec::new()
    }
    fn write(&self, pages: &[Vec<u8>], riders: &[u64]) -> bool {
        if let Some((entered, release)) = &self.gate {
            entered.lock().unwrap().send(()).unwrap();
            release.lock().unwrap().recv().unwrap();
        }
        let bytes = pages.iter().map(Vec::len);
        self.pages.lock().unwrap().extend(bytes);
        let written = self.room.load(Ordering::SeqCst) && !pages.is_empty();
        if written {
            self.held.lock().unwrap().extend(riders);
        }
        written
    }
    fn failure(&self) -> Option<Arc<Error>> {
        self.failed
            .load(Ordering::SeqCst)
            .then(|| Arc::new(Error::Closed))
    }
    fn tidy(&self) {}
}

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "hung: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn inline(journal: &Arc<Journal>) -> Crew {
    let crew = Crew::start("test", 0, |log| log.round()).unwrap();
    crew.set_journal(journal.clone());
    crew
}

/// All of these become due, and then the crew takes its turn.
fn serve(crew: &Crew, logs: &[Arc<Rider>]) {
    for log in logs {
        crew.request(log.clone());
    }
    crew.turn();
}

/// Three logs are due: the journal is synced once, with what all of them offered on one page, and
/// none of them by itself.
#[test]
fn logs_that_are_due_together_share_one_sync_of_the_journal() {
    let journal = Arc::new(Journal::new());
    let crew = inline(&journal);
    let logs = [Rider::new(1), Rider::new(2), Rider::new(3)];
    serve(&crew, &logs);
    assert_eq!(count(&journal.log.alone), 1);
    assert_eq!(*journal.pages.lock().unwrap(), [3]);
    assert_eq!(*journal.held.lock().unwrap(), [1, 2, 3]);
    for log in &logs {
        assert_eq!((count(&log.kept), count(&log.alone)), (1, 0));
    }
}

/// A lone log, when nobody is at anything, is synced by itself: nothing is written twice.
#[test]
fn a_lone_log_is_synced_by_itself() {
    let journal = Arc::new(Journal::new());
    let crew = inline(&journal);
    let log = Rider::new(1);
    crew.assist(log.clone());
    assert_eq!((count(&log.alone), count(&log.kept)), (1, 0));
    assert_eq!(count(&journal.log.alone), 0);
}

/// Somebody commits an event while a log is due: one sync carries both.
#[test]
fn a_due_log_rides_with_an_event() {
    let journal = Arc::new(Journal::new());
    let crew = inline(&journal);
    let log = Rider::new(1);
    crew.request(log.clone());
    crew.assist(journal.log.clone());
    assert_eq!(count(&journal.log.alone), 1);
    assert_eq!((count(&log.kept), count(&log.alone)), (1, 0));
}

/// A log with many bytes is due among small ones: it goes alone, they ride.
#[test]
fn a_log_with_many_bytes_goes_alone() {
    let journal = Arc::new(Journal::new());
    let crew = inline(&journal);
    let (small, other, large) = (Rider::new(1), Rider::new(2), Rider::new(3));
    large.large.store(true, Ordering::SeqCst);
    for log in [&small, &large, &other] {
        crew.request(log.clone());
    }
    crew.turn();
    assert_eq!((count(&large.alone), count(&large.kept)), (1, 0));
    assert_eq!((count(&small.kept), count(&other.kept)), (1, 1));
}

/// Four logs with many bytes are due before two small ones: these do not wait for all of them.
#[test]
fn small_logs_do_not_starve_behind_large_ones() {
    let crew = inline(&Arc::new(Journal::new()));
    let order = Arc::new(StdMutex::new(Vec::new()));
    for id in 1..=6 {
        let log = Rider {
            order: Arc::clone(&order),
            large: AtomicBool::new(id <= 4),
            id,
            ..Rider::default()
        };
        crew.request(Arc::new(log));
    }
    crew.turn();
    let order = order.lock().unwrap();
    let served = |id| order.iter().position(|it| *it == id).unwrap();
    assert_eq!(order.len(), 6);
    assert!(served(5) < served(3) && served(6) < served(3), "{order:?}");
}

/// The journal has no room prepared: nobody is told that anything is durable, and each log is
/// synced by itself.
#[test]
fn without_room_in_the_journal_each_log_goes_alone() {
    let journal = Arc::new(Journal::new());
    journal.room.store(false, Ordering::SeqCst);
    let crew = inline(&journal);
    let logs = [Rider::new(1), Rider::new(2)];
    serve(&crew, &logs);
    for log in &logs {
        assert_eq!((count(&log.kept), count(&log.alone)), (0, 1));
    }
    assert!(journal.held.lock().unwrap().is_empty());
}

/// The sync of the journal fails: who rode is told so, and nothing is acknowledged.
#[test]
fn riders_of_a_failed_journal_are_told() {
    let journal = Arc::new(Journal::new());
    journal.failed.store(true, Ordering::SeqCst);
    let crew = inline(&journal);
    let logs = [Rider::new(1), Rider::new(2)];
    serve(&crew, &logs);
    for log in &logs {
        assert_eq!((count(&log.kept), count(&log.lost)), (0, 1));
    }
}

/// While the journal is being synced twenty logs become due: they gather, and share the one round
/// that follows.
#[test]
fn logs_that_become_due_during_a_round_gather_for_the_next() {
    let (entered, in_round) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let mut journal = Journal::new();
    journal.gate = Some((StdMutex::new(entered), StdMutex::new(released)));
    let journal = Arc::new(journal);
    let crew = Crew::start("test", 3, |log| log.round()).unwrap();
    crew.set_journal(journal.clone());
    crew.request(journal.log.clone());
    in_round.recv().unwrap();
    let logs: Vec<_> = (1..=20).map(Rider::new).collect();
    for log in &logs {
        crew.request(log.clone());
    }
    release.send(()).unwrap();
    in_round.recv().unwrap();
    release.send(()).unwrap();
    until("all of them", || {
        logs.iter().all(|log| count(&log.kept) == 1)
    });
    assert_eq!(count(&journal.log.alone), 2);
    assert!(logs.iter().all(|log| count(&log.alone) == 0));
    crew.stop();
    assert_eq!(
        Arc::strong_count(&journal),
        1,
        "a stopped crew lets go of it"
    );
}
