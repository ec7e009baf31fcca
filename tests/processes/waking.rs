//! Sleeping on the owner's words, and being woken.

use std::fs;
use std::future::Future as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures_lite::StreamExt as _;
use tidelog::{Follow, Start, Store, Visibility};

use crate::child::{Other, PART, part};
use crate::kit::{append, asked, opened, reader, reads, until};

/// A process whose calls to the kernel are written down: this test once more, in its other part.
struct Traced {
    child: Child,
    trace: std::path::PathBuf,
}

impl Traced {
    fn start(test: &str, folder: &Path, role: &str) -> Traced {
        let trace = folder.join(format!("trace-{role}"));
        let child = Command::new("strace")
            .args(["-f", "-qq", "-o"])
            .arg(&trace)
            .arg(std::env::current_exe().unwrap())
            .args([
                test,
                "--exact",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(PART, folder)
            .env("TIDELOG_TEST_ROLE", role)
            .stdout(Stdio::null())
            .spawn()
            .expect("strace is there");
        Traced { child, trace }
    }

    /// Its calls between two marks, but for those that only pass the time of the test itself.
    fn calls(mut self) -> Vec<String> {
        assert!(self.child.wait().unwrap().success());
        let trace = fs::read_to_string(&self.trace).unwrap();
        assert!(trace.contains("/idle-ends"), "{trace}");
        let lines = trace
            .lines()
            .skip_while(|line| !line.contains("/idle-begins"));
        let lines = lines
            .skip(1)
            .take_while(|line| !line.contains("/idle-ends"));
        // A call that was interrupted by another thread's line is told in two.
        let calls = lines.filter(|line| !line.contains("resumed>"));
        let calls = calls.filter(|line| !line.contains("clock_nanosleep("));
        calls.map(str::to_owned).collect()
    }
}

fn mark(name: &str) {
    fs::metadata(name).unwrap_err();
}

const READERS: usize = 16;

/// The owner's part: it opens, waits until the readers sleep, and does nothing for thirty seconds.
fn idle_owner(folder: &Path) {
    let store = Store::open(folder.join("store")).unwrap();
    let topic = store.topic("quakes").unwrap();
    append(&topic, 10, 10);
    until("the readers sleep", || folder.join("asleep").exists());
    // What rode is settled a second later, and noted.
    thread::sleep(Duration::from_secs(5));
    mark("/idle-begins");
    fs::write(folder.join("idle"), "").unwrap();
    mark("/idle-begins");
    thread::sleep(Duration::from_secs(30));
    mark("/idle-ends");
    append(&topic, 1, 1);
    until("the readers have it", || folder.join("read").exists());
    drop(topic);
    store.close().unwrap();
}

/// The readers' part: all of them have read everything and wait for one more record.
fn idle_readers(folder: &Path) {
    let store = reader(&folder.join("store"));
    let topic = opened(&store, "quakes");
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let mut tail = topic.follow(Start::Earliest).unwrap();
            reads(&mut tail, 0, 10);
            thread::spawn(move || reads(&mut tail, 10, 11))
        })
        .collect();
    fs::write(folder.join("asleep"), "").unwrap();
    until("the owner idles", || folder.join("idle").exists());
    mark("/idle-begins");
    thread::sleep(Duration::from_secs(28));
    mark("/idle-ends");
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    fs::write(folder.join("read"), "").unwrap();
}

/// Row D30 with two processes: sixteen readers wait in another process, and nothing comes for thirty
/// seconds. The owner makes no call at all; each reader makes one a second at the most. Then one record
/// wakes them all.
#[test]
#[ignore = "needs strace; run by .ci/run with --ignored"]
fn idle_readers_make_a_call_a_second_and_their_owner_none() {
    const NAME: &str = "waking::idle_readers_make_a_call_a_second_and_their_owner_none";
    if let Some(folder) = part() {
        return match std::env::var("TIDELOG_TEST_ROLE").as_deref() {
            Ok("owner") => idle_owner(&folder),
            _ => idle_readers(&folder),
        };
    }
    let dir = tempfile::tempdir().unwrap();
    let owner = Traced::start(NAME, dir.path(), "owner");
    let readers = Traced::start(NAME, dir.path(), "readers");
    let calls = owner.calls();
    // It makes the file by which the test goes on.
    let begun = calls.iter().position(|call| call.contains("/idle-begins"));
    let calls = &calls[begun.expect("the second mark") + 1..];
    assert!(calls.is_empty(), "{calls:#?}");
    let calls = readers.calls();
    println!("{} calls of {READERS} readers in 28 s", calls.len());
    assert!(calls.len() <= READERS * 28, "{calls:#?}");
    assert!(
        calls.iter().any(|call| call.contains("futex(")),
        "{calls:#?}"
    );
}

/// An owner whom nobody follows makes no call to wake anybody, however much it appends; with a reader
/// that sleeps it does.
#[test]
#[ignore = "needs strace; run by .ci/run with --ignored"]
fn an_owner_that_nobody_waits_for_wakes_nobody() {
    const NAME: &str = "waking::an_owner_that_nobody_waits_for_wakes_nobody";
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let topic = store.topic("quakes").unwrap();
        append(&topic, 10, 10);
        let waits = std::env::var("TIDELOG_TEST_ROLE").as_deref() == Ok("followed");
        if waits {
            until("a reader sleeps", || folder.join("asleep").exists());
            thread::sleep(Duration::from_millis(500));
        }
        mark("/idle-begins");
        append(&topic, 1000, 1);
        mark("/idle-ends");
        drop(topic);
        store.close().unwrap();
        return;
    }
    for role in ["alone", "followed"] {
        let dir = tempfile::tempdir().unwrap();
        let owner = Traced::start(NAME, dir.path(), role);
        if role == "followed" {
            let store = reader(&dir.path().join("store"));
            let mut tail = opened(&store, "quakes").follow(Start::Earliest).unwrap();
            reads(&mut tail, 0, 10);
            fs::write(dir.path().join("asleep"), "").unwrap();
            reads(&mut tail, 10, 1010);
        }
        let calls = owner.calls();
        assert!(calls.iter().any(|call| call.contains("fdatasync(")));
        // Those of one process are private.
        let wakes = calls
            .iter()
            .filter(|call| call.contains("FUTEX_WAKE,"))
            .count();
        println!("{role}: {wakes} calls that wake");
        assert_eq!(wakes > 0, role == "followed", "{calls:#?}");
    }
}

/// A reader is killed in its sleep. It leaves nothing that the owner would have to wait for, or that
/// other readers would miss.
#[test]
fn a_reader_that_is_killed_in_its_sleep_leaves_nothing() {
    const NAME: &str = "waking::a_reader_that_is_killed_in_its_sleep_leaves_nothing";
    if let Some(folder) = part() {
        let store = reader(&folder.join("store"));
        let mut tail = opened(&store, "quakes").follow(Start::Earliest).unwrap();
        reads(&mut tail, 0, 10);
        println!("read");
        reads(&mut tail, 10, 20);
        println!("woken");
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let owner = Store::open(dir.path().join("store")).unwrap();
    let topic = owner.topic("quakes").unwrap();
    append(&topic, 10, 10);
    for round in 0..3 {
        let mut sleeps = Other::start(NAME, dir.path());
        sleeps.says("read");
        if round < 2 {
            thread::sleep(Duration::from_millis(50));
            sleeps.kill();
        } else {
            append(&topic, 10, 1);
            sleeps.says("woken");
        }
    }
    drop(topic);
    owner.close().unwrap();
}

/// Futures wait for another process's records, too: without a runtime, one by one and as a stream; and
/// a stopper ends a sleeper.
#[test]
fn futures_and_stoppers_work_beside_an_owner() {
    let dir = tempfile::tempdir().unwrap();
    let owner = Store::open(dir.path().join("store")).unwrap();
    let topic = owner.topic("quakes").unwrap();
    append(&topic, 1, 1);
    let store = reader(&dir.path().join("store"));
    let quakes = opened(&store, "quakes");
    thread::scope(|scope| {
        let mut tail = quakes.follow(Start::Earliest).unwrap();
        let mut stream = quakes.follow(Start::Earliest).unwrap().into_stream();
        let mut stopped = quakes.follow(Start::Latest).unwrap();
        let stopper = stopped.stopper();
        scope.spawn(move || {
            futures_lite::future::block_on(async {
                for offset in 0..100 {
                    let record = tail.next_async().await.unwrap().unwrap();
                    assert_eq!(record.offset(), offset);
                }
            });
        });
        scope.spawn(move || {
            futures_lite::future::block_on(async {
                for offset in 0..100 {
                    let record = stream.next().await.unwrap().unwrap();
                    assert_eq!(record.offset(), offset);
                }
            });
        });
        let sleeper = scope.spawn(move || while stopped.next().unwrap().is_some() {});
        append(&topic, 99, 1);
        stopper.stop();
        sleeper.join().unwrap();
    });
    let mut waits = quakes.follow(Start::Latest).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || waits.next().map(|record| record.is_some()));
        thread::sleep(Duration::from_millis(20));
        store.clone().close().unwrap();
        assert!(waiter.join().unwrap().is_err());
    });
    drop((topic, quakes, store));
    owner.close().unwrap();
}

/// A waker that looks itself when it is called.
struct Looks(Mutex<Follow>, AtomicBool);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        let mut tail = self.0.lock().unwrap();
        assert!(tail.try_next().unwrap().is_some());
        self.1.store(true, Ordering::Release);
    }
}

/// A runtime may poll within the call that wakes it. Whoever comes by what is new calls it with no lock
/// held, so that it sees it, too.
#[test]
fn a_waker_may_read_what_it_is_called_for() {
    let dir = tempfile::tempdir().unwrap();
    let owner = Store::open(dir.path().join("store")).unwrap();
    let topic = owner.topic("quakes").unwrap();
    append(&topic, 1, 1);
    let store = reader(&dir.path().join("store"));
    let written = || {
        let tail = opened(&store, "quakes").follow(Start::Latest).unwrap();
        tail.visibility(Visibility::Written)
    };
    let looks = Arc::new(Looks(Mutex::new(written()), AtomicBool::new(false)));
    let mut tail = written();
    let mut waits = Box::pin(tail.next_async());
    let waker = Waker::from(Arc::clone(&looks));
    assert!(
        waits
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    append(&topic, 1, 1);
    until("the waker has looked", || looks.1.load(Ordering::Acquire));
    drop(waits);
    drop((topic, tail));
    owner.close().unwrap();
}

/// Whoever pays a core for it does not sleep at all.
#[test]
fn a_spinning_follower_sees_what_comes() {
    let dir = tempfile::tempdir().unwrap();
    let owner = Store::open(dir.path().join("store")).unwrap();
    let topic = owner.topic("quakes").unwrap();
    let store = reader(&dir.path().join("store"));
    let mut tail = opened(&store, "quakes")
        .follow(Start::Earliest)
        .unwrap()
        .spinning();
    thread::scope(|scope| {
        scope.spawn(|| append(&topic, 50, 1));
        reads(&mut tail, 0, 50);
    });
    assert!(
        tail.next_timeout(Duration::from_millis(1))
            .unwrap()
            .is_none()
    );
    drop((topic, tail, store));
    owner.close().unwrap();
}
