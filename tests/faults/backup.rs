//! Copies of a store that is at work: whole, of one moment, and never half of one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tidelog::sys::sim::{Call as Asked, Fault, Keep, When};
use tidelog::sys::{Backend, Storage};
use tidelog::{Error, Record, Start, Store, StoreOptions, TopicOptions};

use crate::faulty::{Call, Faulty};
use crate::kit::{
    BACKENDS, Place, fill, fingerprint, one, options, payload, payloads, segments_of,
};
use crate::machine::Machine;

/// One record in each of the four partitions of topic "t", as one.
fn spread(number: u64) -> Vec<Record<'static>> {
    let record = |partition| Record::new(payload(number, 700)).partition(partition);
    (0..4).map(record).collect()
}

fn small(partitions: u32) -> TopicOptions {
    segments_of(64 << 10).partitions(partitions)
}

fn ends(store: &Store, topic: &str) -> Vec<u64> {
    let topic = store.existing_topic(topic).unwrap();
    let end = |number| topic.partition(number).unwrap().end().unwrap();
    (0..topic.partitions()).map(end).collect()
}

fn sound(root: &Path, backend: Backend) {
    let report = tidelog::verify(root, &options(backend)).unwrap();
    assert!(report.is_sound() && report.was_closed, "{report:?}");
}

/// Somebody makes copies of a store while transactions, appends that do not wait, commits, rolls,
/// truncations, and topics that come and go are under way. Each copy is sound and was closed; what was
/// acknowledged before it began is in it; every transaction is in all of its partitions or in none; a
/// subscription stands at a record that is there.
#[test]
fn a_copy_made_under_load_is_of_one_moment() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        let topic = store.create_topic("t", small(4)).unwrap();
        store.create_topic("u", small(1)).unwrap();
        topic.append_batch(spread(0)).unwrap();
        let over = AtomicBool::new(false);
        let acknowledged = AtomicU64::new(0);
        let on = || !over.load(Ordering::Acquire);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in (1..).take_while(|_| on()) {
                    topic.append_batch(spread(number)).unwrap();
                    acknowledged.store(number, Ordering::Release);
                }
            });
            scope.spawn(|| {
                let other = one(&store, "u");
                while on() {
                    fill(&other, 0..40, 300);
                    other.append_nowait("more").unwrap();
                    other.truncate_before(other.end().unwrap()).unwrap();
                }
            });
            scope.spawn(|| {
                let mut reader = topic.subscribe("reader").unwrap();
                while on() {
                    while reader.next().unwrap().is_some() {}
                    reader.commit().unwrap();
                }
            });
            scope.spawn(|| {
                while on() {
                    store.topic("comes").unwrap().append("and goes").unwrap();
                    store.delete_topic("comes").unwrap();
                }
            });
            for number in 0..6 {
                let before = acknowledged.load(Ordering::Acquire);
                let target = place.root.with_file_name(format!("copy-{number}"));
                store.backup(&target).unwrap();
                sound(&target, backend);
                let copy = Store::open_with(&target, options(backend)).unwrap();
                assert!(copy.health().was_closed && copy.health().failed.is_empty());
                let ends = ends(&copy, "t");
                assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
                assert!(
                    ends[0] > before,
                    "{ends:?} after {before} were acknowledged"
                );
                for partition in 0..4 {
                    let partition = copy.topic("t").unwrap().partition(partition).unwrap();
                    let expected: Vec<_> = (0..ends[0]).map(|n| payload(n, 700)).collect();
                    assert_eq!(payloads(&partition), expected);
                }
                payloads(&one(&copy, "u"));
                if let Ok(mut reader) = copy.topic("t").unwrap().subscribe("reader") {
                    let committed = reader.lag().unwrap().records;
                    let mut left = 0;
                    while reader.next().unwrap().is_some() {
                        left += 1;
                    }
                    assert_eq!(left, committed);
                }
                copy.close().unwrap();
            }
            over.store(true, Ordering::Release);
        });
        store.close().unwrap();
        sound(&place.root, backend);
    }
}

/// A copy takes appends where the store stood, has its own life from there on, and can itself be
/// copied. Opening it reads headers and its journal, and no record.
#[test]
fn a_copy_of_a_copy_goes_on_and_the_store_does_not_notice() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        store.create_topic("t", small(1)).unwrap();
        store.create_topic("empty", small(2)).unwrap();
        let finished = store.create_topic("finished", small(1)).unwrap();
        finished.append("last").unwrap();
        finished.finish().unwrap();
        let partition = one(&store, "t");
        fill(&partition, 0..1000, 200);
        let mut reader = partition_reader(&store);
        for _ in 0..300 {
            reader.next().unwrap().unwrap();
        }
        reader.commit().unwrap();
        drop(reader);
        let first = place.root.with_file_name("first");
        let report = store.backup(&first).unwrap();
        assert_eq!((report.topics, report.partitions), (3, 4));
        assert!(report.bytes > 1000 * 200);

        let copy = Store::open_with(&first, options(backend)).unwrap();
        let read = copy.io().bytes_read.get();
        assert_eq!(one(&copy, "t").append("more").unwrap().offset(), 1000);
        let read = copy.io().bytes_read.get() - read;
        assert!(read <= 3 * 2048, "{read} bytes are more than headers");
        assert_eq!(partition_reader(&copy).lag().unwrap().records, 701);
        assert!(matches!(
            copy.topic("finished").unwrap().append("x"),
            Err(Error::Finished { .. })
        ));
        let second = place.root.with_file_name("second");
        copy.backup(&second).unwrap();
        assert_eq!(partition.append("other").unwrap().offset(), 1000);
        copy.close().unwrap();
        let again = Store::open_with(&second, options(backend)).unwrap();
        let mut expected: Vec<_> = (0..1000).map(|n| payload(n, 200)).collect();
        expected.push(b"more".to_vec());
        assert_eq!(payloads(&one(&again, "t")), expected);
        assert_eq!(again.topic("new").unwrap().append("x").unwrap().offset(), 0);
        again.close().unwrap();
        sound(&second, backend);
        store.close().unwrap();
    }
}

fn partition_reader(store: &Store) -> tidelog::Subscription {
    store.topic("t").unwrap().subscribe("reader").unwrap()
}

/// While the copy is being made, at its first file, records are appended, the segments that it needs
/// are truncated away and the topic is deleted: nobody has to wait, the copy is of the moment before,
/// and afterwards the space is free.
#[test]
fn what_a_copy_needs_stays_until_it_has_been_made() {
    let place = Place::new();
    let faulty = Faulty::new(Backend::Mapped);
    let store = StoreOptions::new().storage(Arc::new(faulty.clone()));
    let store = Store::open_with(&place.root, store).unwrap();
    for name in ["kept", "deleted"] {
        store.create_topic(name, small(1)).unwrap();
        fill(&one(&store, name), 0..500, 700);
    }
    store.flush().unwrap();
    let target = place.root.with_file_name("copy");
    faulty.hold(Call::Create, ".partial", &[None]);
    thread::scope(|scope| {
        let copying = scope.spawn(|| store.backup(&target));
        while faulty.waiting() == 0 {
            thread::yield_now();
        }
        let partition = one(&store, "kept");
        fill(&partition, 500..600, 700);
        assert!(partition.truncate_before(500).unwrap() > 0);
        store.delete_topic("deleted").unwrap();
        assert_eq!(
            store
                .topic("deleted")
                .unwrap()
                .append("new")
                .unwrap()
                .offset(),
            0
        );
        faulty.release();
        copying.join().unwrap().unwrap();
    });
    assert!(!place.segment("kept", 0).exists(), "removed afterwards");
    assert_eq!(place.segments("deleted").len(), 1);
    let copy = Store::open(&target).unwrap();
    let expected: Vec<_> = (0..500).map(|number| payload(number, 700)).collect();
    for name in ["kept", "deleted"] {
        assert_eq!(payloads(&one(&copy, name)), expected);
    }
    copy.close().unwrap();
    store.close().unwrap();
}

/// A copy would overwrite something, lie in the store that it is of, or in another one, also by way of
/// a link; the name of an unfinished one is taken; the store is only read. Each is refused, nothing is
/// made, and nothing that was there is touched.
#[test]
fn a_place_where_no_copy_can_lie_is_refused() {
    let place = Place::new();
    let store = place.open(Backend::Mapped);
    store.topic("t").unwrap().append("one").unwrap();
    let beside = |name: &str| place.root.with_file_name(name);
    std::fs::create_dir(beside("there")).unwrap();
    std::fs::write(beside("file"), "x").unwrap();
    std::fs::create_dir(beside("cut.partial")).unwrap();
    let link = beside("link");
    std::os::unix::fs::symlink(place.root.join("topics"), &link).unwrap();
    let before = fingerprint(place.root.parent().unwrap());
    for target in [
        beside("there"),
        beside("file"),
        beside("cut"),
        place.root.clone(),
        place.root.join("copy"),
        place.root.join("topics/t/copy"),
        link.join("copy"),
        place.root.join("../data/copy"),
        beside(""),
    ] {
        let refused = store.backup(&target);
        assert!(
            matches!(refused, Err(Error::Refused { .. })),
            "{target:?}: {refused:?}"
        );
    }
    let nowhere = store.backup(beside("missing").join("copy"));
    assert!(matches!(nowhere, Err(Error::Io { .. })), "{nowhere:?}");
    let reader = Store::open_read_only(&place.root).unwrap();
    let refused = reader.backup(beside("copy"));
    assert!(
        matches!(refused, Err(Error::ReadOnly { .. })),
        "{refused:?}"
    );
    reader.close().unwrap();
    assert_eq!(fingerprint(place.root.parent().unwrap()), before);
    store.backup(beside("copy")).unwrap();
    // That was never opened.
    let inside = store.backup(beside("copy").join("topics/x"));
    assert!(matches!(inside, Err(Error::Refused { .. })), "{inside:?}");
    store.close().unwrap();
}

fn simulated(machine: &Machine) -> Store {
    let store = machine.open();
    let topic = store
        .create_topic("t", segments_of(16 << 10).partitions(2))
        .unwrap();
    for number in 0..20 {
        topic
            .append(Record::new(payload(number, 1000)).partition(0))
            .unwrap();
    }
    let pair = [0, 1].map(|partition| Record::new("pair").partition(partition));
    topic.append_batch(pair).unwrap();
    store
}

/// There is no room for the copy, or the disk fails, at any of its calls: it is an error, what was made
/// of the copy is gone, and the store goes on.
#[test]
fn a_copy_that_fails_anywhere_leaves_nothing() {
    for (call, errno) in [
        (Asked::CreateDir, libc::EIO),
        (Asked::Create, libc::ENOSPC),
        (Asked::Write, libc::EIO),
        (Asked::Sync, libc::EIO),
        (Asked::SyncDir, libc::EIO),
        (Asked::Rename, libc::EIO),
    ] {
        for nth in 0.. {
            let machine = Machine::new(nth);
            let store = simulated(&machine);
            machine.sim.create_dir(Path::new("/backups")).unwrap();
            machine
                .sim
                .fail(Fault::new(call, When::Nth(nth), errno).on("/backups"));
            let failed = store.backup("/backups/copy");
            machine.sim.heal();
            if failed.is_ok() {
                assert!(nth > 0, "{call:?}");
                break;
            }
            let full = matches!(failed, Err(Error::StorageFull { .. }));
            assert_eq!(full, errno == libc::ENOSPC, "{failed:?}");
            let left = machine.sim.list(Path::new("/backups")).unwrap();
            assert!(left.is_empty(), "{call:?} {nth}: {left:?}");
            store.backup("/backups/copy").unwrap();
            store.topic("t").unwrap().append("goes on").unwrap();
            store.close().unwrap();
        }
    }
}

/// The power fails at any call while a copy is made. Afterwards there is no store under its name, or it
/// is the whole copy; the store itself has everything.
#[test]
fn a_copy_that_is_cut_anywhere_is_whole_or_not_there() {
    let mut both = [0, 0];
    for calls in 0.. {
        let machine = Machine::new(calls);
        let store = simulated(&machine);
        machine.sim.crash_after(calls);
        let done = store.backup("/copy");
        let ended = !machine.sim.has_stopped();
        let store = machine.cut(store, Keep::Half);
        assert_eq!(ends(&store, "t"), [21, 1]);
        store.close().unwrap();
        let there = machine.sim.kind(Path::new("/copy")).unwrap().is_some();
        assert!(there || done.is_err());
        let partial = Path::new("/copy.partial");
        let names = machine.sim.list(partial).unwrap_or_default();
        if names.iter().any(|entry| entry.name == "journal") {
            // The last moment, in which it has everything.
            let report = tidelog::verify(partial, &machine.options()).unwrap();
            let records: u64 = report.logs.iter().map(|log| log.records).sum();
            assert!(report.is_sound() && records == 22, "{calls}: {report:?}");
        } else if !names.is_empty() {
            let opened = Store::open_with(partial, machine.options().inline());
            assert!(
                matches!(opened, Err(Error::Refused { .. } | Error::Mismatch { .. })),
                "{calls}: {opened:?}"
            );
        }
        both[usize::from(there)] += 1;
        if there {
            let copy = Store::open_with("/copy", machine.options().inline()).unwrap();
            assert!(copy.health().was_closed);
            assert_eq!(ends(&copy, "t"), [21, 1]);
            let mut cursor = one(&copy, "t").cursor(Start::Earliest).unwrap();
            for number in 0..20 {
                let record = cursor.next().unwrap().unwrap();
                assert_eq!(record.payload(), payload(number, 1000));
            }
            drop(cursor);
            copy.close().unwrap();
        }
        if ended {
            break;
        }
    }
    assert!(both.iter().all(|seen| *seen > 0), "{both:?}");
}

/// A partition has failed: nobody knows what its files hold, so there is no copy, and the error names
/// it.
#[test]
fn a_partition_that_has_failed_is_not_copied() {
    let machine = Machine::new(1);
    let store = simulated(&machine);
    machine
        .sim
        .fail(Fault::new(Asked::Sync, When::From(0), libc::EIO).on("/topics/t/000000"));
    store
        .topic("t")
        .unwrap()
        .partition(0)
        .unwrap()
        .append("x")
        .unwrap_err();
    machine.sim.heal();
    let refused = store.backup("/copy");
    let named = matches!(&refused, Err(Error::Failed { topic, partition: 0, .. }) if topic == "t");
    assert!(named, "{refused:?}");
    assert_eq!(machine.sim.kind(Path::new("/copy.partial")).unwrap(), None);
}

/// A sector of a segment cannot be read, or the file was cut short: there is no copy, and the error names
/// that file, and not the one that it was to be copied to.
#[test]
fn a_source_that_cannot_be_read_is_named() {
    for short in [false, true] {
        let machine = Machine::new(1);
        let store = simulated(&machine);
        let topic = Path::new("/store/topics/t");
        let log = topic.join(&machine.sim.list(topic).unwrap()[0].name);
        let segment = log.join("00000000.seg");
        if short {
            let bytes = machine.sim.bytes(&segment).unwrap();
            machine.sim.truncate(&segment, bytes.len() / 2).unwrap();
        } else {
            machine.sim.spoil(&segment, 8192 + 3000).unwrap();
        }
        let failed = store.backup("/copy").unwrap_err().to_string();
        assert!(failed.contains("/store/topics/t/000000"), "{failed}");
        assert!(!failed.contains("/copy"), "{failed}");
        let left = machine.sim.kind(Path::new("/copy.partial")).unwrap();
        assert_eq!(left, None);
    }
}
