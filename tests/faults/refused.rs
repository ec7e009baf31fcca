//! D41: writes and syncs beside those of the records: of the journal, a header, a slot, a folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use tidelog::sys::sim::{Crash, Keep};
use tidelog::sys::{Backend, Clock, Storage};
use tidelog::{Error, Record, Result, Store, StoreOptions, Topic};

use crate::faulty::{Call, Faulty};
use crate::kit::{one, payload, payloads, segments_of};
use crate::machine::{Machine, ROOT};

const PRODUCERS: u64 = 16;
const TOPICS: [&str; 4] = ["a", "b", "c", "d"];
/// So many records does each producer send, if nothing stops it.
const RECORDS: u64 = 40;
/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a record: of which topic, its number, and the answer.
type Answer = (&'static str, u64, Result<u64>);

fn open(machine: &Machine, disk: &Faulty) -> Store {
    let options = StoreOptions::new()
        .storage(Arc::new(disk.clone()))
        .clock(Arc::clone(&machine.clock) as Arc<dyn Clock>);
    Store::open_with(ROOT, options).unwrap()
}

fn produce(topic: &Topic, name: &'static str, numbers: std::ops::Range<u64>, to: &Sender<Answer>) {
    for number in numbers {
        let answer = topic.append(Record::new(payload(number, 600)));
        let failed = answer.is_err();
        to.send((name, number, answer.map(|at| at.offset())))
            .unwrap();
        // Once more after a refusal: the next answer must be as true.
        if failed && number % 2 == 0 {
            return;
        }
    }
}

/// Sixteen producers, a committer and a creator, all at once; what the producers were answered.
fn produce_all(store: &Store) -> Vec<Answer> {
    let (to, answers) = channel();
    let start = Arc::new(Barrier::new(PRODUCERS as usize + 1));
    let (done, dones) = channel();
    for producer in 0..PRODUCERS {
        let name = TOPICS[producer as usize % TOPICS.len()];
        let topic = store.existing_topic(name).unwrap();
        let (to, done, start) = (to.clone(), done.clone(), Arc::clone(&start));
        thread::spawn(move || {
            start.wait();
            let from = producer * RECORDS;
            produce(&topic, name, from..from + RECORDS, &to);
            done.send(()).unwrap();
        });
    }
    let (other, commits) = (store.clone(), Arc::clone(&start));
    thread::spawn(move || {
        commits.wait();
        let reader = other.existing_topic("a").unwrap().subscribe("reader");
        if let Ok(mut reader) = reader {
            for round in 0..10 {
                let stepped = reader.next().map(|_| ()).and_then(|()| reader.commit());
                let made = other.create_topic(&format!("more-{round}"), segments_of(16 << 10));
                for error in [stepped.err(), made.err()].into_iter().flatten() {
                    assert!(is_documented(&error), "{error:?}");
                }
            }
        }
        drop(other);
        done.send(()).unwrap();
    });
    for _ in 0..=PRODUCERS {
        dones
            .recv_timeout(PATIENCE)
            .expect("somebody hangs, or panicked");
    }
    drop(to);
    answers.iter().collect()
}

/// What a call may answer when the disk is full or broken.
fn is_documented(error: &Error) -> bool {
    matches!(
        error,
        Error::StorageFull { .. }
            | Error::Io { .. }
            | Error::InDoubt { .. }
            | Error::Failed { .. }
            | Error::StoreFailed { .. }
    )
}

/// What was acknowledged is there, in its place, and what was refused is not.
fn check(store: &Store, answers: &[Answer], closed: bool) {
    let mut all: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    for name in TOPICS {
        all.insert(name, payloads(&one(store, name)));
    }
    for (name, number, answer) in answers {
        let sent = payload(*number, 600);
        let found: Vec<usize> = (0..)
            .zip(&all[name])
            .filter(|(_, it)| **it == sent)
            .map(|(at, _)| at)
            .collect();
        match answer {
            Ok(offset) => assert_eq!(found, [*offset as usize], "{name} {number}"),
            Err(Error::InDoubt { .. }) => assert!(found.len() <= 1, "{name} {number}"),
            Err(error) => assert!(found.is_empty() || !closed, "{name} {number}: {error}"),
        }
        if let Err(error) = answer {
            assert!(is_documented(error), "{error:?}");
        }
    }
}

/// The `nth` such call fails, and so many after it.
fn run(call: Call, part: &str, (nth, count): (usize, usize), errno: i32, backend: Backend) -> bool {
    let machine = Machine::new(nth as u64);
    machine.sim.set_backend(backend);
    let disk = Faulty::over(Arc::new(machine.sim.clone()));
    let store = open(&machine, &disk);
    for name in TOPICS {
        store.create_topic(name, segments_of(16 << 10)).unwrap();
    }
    let mut orders = vec![None; nth];
    orders.extend(vec![Some(errno); count]);
    disk.answer(call, part, &orders);
    let answers = produce_all(&store);
    let what = format!("{call:?} on {part:?}, {nth} and {count} more, {errno}, {backend:?}");
    let acknowledged = answers.iter().filter(|(.., answer)| answer.is_ok()).count();
    let closed = store.close().is_ok();
    assert_eq!(disk.synced_again(), 0, "{what}");
    let struck = disk.failed() > 0;
    disk.heal();
    machine.sim.crash_after(0);
    machine.sim.free(Path::new("/")).unwrap_err();
    machine.sim.crash(Crash::Cut(Keep::Nothing)).unwrap();
    machine.sim.set_backend(backend);
    let store = machine.open();
    eprintln!("{what}: {acknowledged} acknowledged, closed: {closed}, struck: {struck}");
    check(&store, &answers, closed);
    store.close().unwrap();
    struck
}

/// Sixteen producers append, a subscription commits and topics are made, when a write or a sync fails
/// that is not one of the records': of the journal, of a header, of a slot, of a folder. Elsewhere such
/// a failure was dropped on the way, and acknowledging went on. Here everybody is answered, the first
/// one whose record it was is refused, no failed sync is tried again, and after a power cut everything
/// acknowledged is there.
#[test]
fn whatever_else_fails_no_record_is_acknowledged_that_is_not_there() {
    let calls = [
        (Call::Write, "/journal/"),
        (Call::Sync, "/journal/"),
        (Call::Header, "/topics/"),
        (Call::Header, "/journal/"),
        (Call::Slot, "/topics/"),
        (Call::SyncDir, "/topics/"),
        (Call::SyncDir, "/journal"),
        (Call::Sync, "/topics/"),
    ];
    for (call, part) in calls {
        let mut struck = 0;
        for errno in [libc::ENOSPC, libc::EIO] {
            for backend in [Backend::Mapped, Backend::Pwrite] {
                for times in [(0, 1), (1, 1), (5, 1), (2, 1000)] {
                    struck += usize::from(run(call, part, times, errno, backend));
                }
            }
        }
        assert!(struck > 0, "{call:?} on {part} never failed");
    }
}
