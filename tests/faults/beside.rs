//! Verifying: beside an owner that writes, and without any right to write.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidelog::sys::sim::{Crash, Keep};
use tidelog::sys::{Backend, Storage};
use tidelog::{Error, Record, Start, Store, StoreOptions};

use crate::faulty::{Call, Faulty};
use crate::kit::{
    BACKENDS, End, Place, end, fill, fingerprint, one, options, payload, segments_of,
};
use crate::machine::{Machine, ROOT};

/// D16 in part. Verifying read the end of a log, and further on what its owner had written meanwhile,
/// and called what lay between damaged. An owner appends, alone and in batches, rolls, commits, and
/// makes and deletes topics, while the store is verified again and again: nothing is ever damaged.
#[test]
fn verifying_beside_a_live_owner_finds_no_damage() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        fill(&one(&store, "t"), 0..10, 100);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let topic = store.existing_topic("t").unwrap();
                let mut archive = topic.subscribe("archive").unwrap();
                let mut number = 10;
                while !stop.load(Ordering::Relaxed) {
                    topic.append(Record::new(payload(number, 300))).unwrap();
                    fill(&one(&store, "t"), number + 1..number + 40, 200);
                    number += 40;
                    archive.reset(Start::Latest).unwrap();
                    if number % 400 == 10 {
                        store.topic("passing").unwrap().append("one").unwrap();
                        store.delete_topic("passing").unwrap();
                    }
                }
            });
            let begun = Instant::now();
            let mut ends = Vec::new();
            while begun.elapsed() < Duration::from_secs(2) {
                let report = tidelog::verify(&place.root, &options(backend));
                if !report.as_ref().is_ok_and(|report| report.is_sound()) {
                    stop.store(true, Ordering::Relaxed);
                }
                let report = report.unwrap();
                assert!(report.is_sound(), "{backend:?} {report:?}");
                let log = report.logs.iter().find(|log| log.topic == "t").unwrap();
                ends.push(log.end);
            }
            stop.store(true, Ordering::Relaxed);
            assert!(ends.is_sorted() && ends.len() > 2, "{ends:?}");
        });
        store.close().unwrap();
    }
}

/// A copy that may only be read can be verified: no file is opened for writing, and no byte changes.
#[test]
fn verifying_opens_no_file_for_writing() {
    for backend in BACKENDS {
        for how in [End::Close, End::Kill] {
            let place = Place::new();
            let store = place.open(backend);
            store.create_topic("t", segments_of(64 << 10)).unwrap();
            fill(&one(&store, "t"), 0..2000, 100);
            let place = end(place, store, how);
            let before = fingerprint(&place.root);
            let disk = Faulty::new(backend);
            let storage = Arc::new(disk.clone());
            let report =
                tidelog::verify(&place.root, &StoreOptions::new().storage(storage)).unwrap();
            assert!(report.is_sound());
            assert_eq!(report.logs[0].records, 2000);
            assert_eq!(disk.opened_for_writing(), 0);
            assert_eq!(fingerprint(&place.root), before);
        }
    }
}

/// A disk on which nothing can be mapped: a store there cannot be read as usual, and is verified all the same,
/// since verifying never asks for a mapping.
#[test]
fn verifying_maps_nothing() {
    let place = Place::new();
    let store = place.open(Backend::Mapped);
    store.create_topic("t", segments_of(64 << 10)).unwrap();
    fill(&one(&store, "t"), 0..2000, 100);
    store.close().unwrap();
    let disk = Faulty::new(Backend::Mapped);
    disk.answer(Call::Map, "", &[Some(libc::ENOMEM); 1000]);
    let options = StoreOptions::new().storage(Arc::new(disk.clone()));
    let report = tidelog::verify(&place.root, &options).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.logs[0].records, disk.failed()), (2000, 0));
    let reader = Store::open_read_only_with(&place.root, options).unwrap();
    let read = reader
        .topic("t")
        .and_then(|topic| topic.partition(0)?.read(0..1)?.next().unwrap());
    assert!(read.is_err() && disk.failed() > 0, "{read:?}");
}

/// A sector of a segment cannot be read: one with records, or that of a header. It is told with its file, and the
/// other topics are verified like ever.
#[test]
fn verifying_tells_the_file_that_cannot_be_read() {
    for place in [8192 + 3000, 0] {
        let machine = Machine::new(3);
        let store = machine.open();
        for name in ["t", "u"] {
            let topic = store.create_topic(name, segments_of(16 << 10)).unwrap();
            let partition = topic.partition(0).unwrap();
            (0..60).for_each(|number| fill(&partition, number..number + 1, 1000));
        }
        store.close().unwrap();
        let log = Path::new(ROOT).join("topics/t");
        let log = log.join(&machine.sim.list(&log).unwrap()[0].name);
        let name = &machine.sim.list(&log).unwrap()[1].name;
        machine.sim.spoil(&log.join(name), place).unwrap();
        let report = tidelog::verify(ROOT, &machine.options()).unwrap();
        let [t, u] = report.logs.as_slice() else {
            panic!("{report:?}")
        };
        assert_eq!((u.records, u.damage.len()), (60, 0));
        let [found] = t.damage.as_slice() else {
            panic!("{place}: {t:?}")
        };
        assert!(found.to_string().contains(name), "{place}: {found}");
        match found {
            // Of its segment the records before it count, and all of the other segments.
            Error::Unreadable { offset, next, .. } => {
                assert_eq!(t.records + (next - offset), 60, "{t:?}");
                assert!(*next - *offset < 15, "{found}");
            }
            // Without its header a segment is not known, and recovery refuses the log.
            other => assert!(place == 0, "{other:?}"),
        }
    }
}

/// The power fails, and a reader comes before the next owner does: the newest records are in the journal
/// only, and he sees them. Then an owner comes, puts them into their files, appends and rolls. The same
/// reader, who stood at the end all the time, sees every record once.
#[test]
fn a_reader_that_comes_before_the_owner_reads_what_the_journal_has_and_goes_on() {
    let machine = Machine::new(11);
    let store = machine.open();
    for name in ["t", "u"] {
        let topic = store.create_topic(name, segments_of(16 << 10)).unwrap();
        fill(&topic.partition(0).unwrap(), 0..30, 1000);
    }
    for name in ["t", "u"] {
        let topic = store.existing_topic(name).unwrap();
        drop(topic.append_nowait(Record::new(payload(30, 1000))).unwrap());
    }
    store.flush().unwrap();
    machine.sim.crash_after(0);
    drop(store);
    machine.sim.crash(Crash::Cut(Keep::Nothing)).unwrap();
    machine.sim.heal();
    let reader = Store::open_read_only_with(ROOT, machine.options()).unwrap();
    let topic = reader.topic("t").unwrap();
    let mut tail = topic.follow(Start::Earliest).unwrap();
    let mut reads = |from: u64, to: u64| {
        for offset in from..to {
            let record = tail.next_timeout(Duration::from_secs(60)).unwrap();
            let record = record.expect("it comes before the time is up");
            assert_eq!(record.offset(), offset);
            assert_eq!(record.payload(), payload(offset, 1000));
        }
    };
    reads(0, 31);
    let owner = machine.open();
    assert!(owner.health().unopened_redo > 0, "the journal alone has it");
    fill(&one(&owner, "t"), 31..100, 1000);
    reads(31, 100);
    owner.close().unwrap();
    assert_eq!(topic.partition(0).unwrap().end().unwrap(), 100);
}
