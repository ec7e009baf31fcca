//! Syncs that fail, or take long.

use std::sync::Arc;
use std::thread;

use tidelog::{Error, Position, Record, Result, Start, Store, StoreOptions};

use crate::faulty::{Call, Faulty};
use crate::kit::{BACKENDS, Place, fill, one, options, payload, payloads, segments_of};
use crate::life;
use crate::segment::Segment;

const EIO: i32 = libc::EIO;

fn open(place: &Place, disk: &Faulty) -> Store {
    let storage = Arc::new(disk.clone());
    Store::open_with(&place.root, StoreOptions::new().storage(storage)).unwrap()
}

/// D07. After a sync had failed once, the next one succeeded, though the kernel had thrown the
/// bytes away. So let twenty appenders wait while one sync fails, at once or after one that still
/// succeeds: who was not covered by a good one is in doubt for good, and nothing is acknowledged
/// any more until the store has been opened again.
#[test]
fn one_failed_sync_ends_acknowledging_for_all_who_wait_and_for_good() {
    for backend in BACKENDS {
        for (errno, good) in [(EIO, 0), (EIO, 1), (libc::ENOSPC, 0), (libc::EINTR, 1)] {
            let place = Place::new();
            let disk = Faulty::new(backend);
            let store = open(&place, &disk);
            store.create_topic("t", segments_of(64 << 10)).unwrap();
            store.create_topic("other", segments_of(64 << 10)).unwrap();
            fill(&one(&store, "t"), 0..10, 100);
            let mut answers = vec![None; good];
            answers.push(Some(errno));
            disk.hold(Call::Sync, "topics/t/", &answers);
            let results = twenty(&place, &store, &disk);

            let (kept, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
            // The good sync began when one record was written, and covers no more.
            assert_eq!(kept.len(), good, "{kept:?}");
            let end = 10 + kept.len() as u64;
            assert_eq!(one(&store, "t").end().unwrap(), end);
            assert!(kept.iter().flatten().all(|at| at.offset() < end));
            for lost in lost {
                match lost {
                    Err(Error::InDoubt { spans, .. }) => assert!(spans[0].offsets.start >= end),
                    other => panic!("{other:?}"),
                }
            }
            no_acknowledgement_any_more(&store, end);
            store.clone().close().unwrap_err();
            drop(store);

            // The next owner looks at what there is.
            let store = place.open(backend);
            let found = payloads(&one(&store, "t"));
            assert!(
                (end..=30).contains(&(found.len() as u64)),
                "{}",
                found.len()
            );
            fill(&one(&store, "t"), 100..105, 100);
            store.close().unwrap();
            assert!(
                tidelog::verify(&place.root, &options(backend))
                    .unwrap()
                    .is_sound()
            );
        }
    }
}

/// Twenty threads append a record each. The first sync is under way when one is written, and gets
/// its answer when all are.
fn twenty(place: &Place, store: &Store, disk: &Faulty) -> Vec<Result<Position>> {
    thread::scope(|scope| {
        let append = |number| move || one(store, "t").append(Record::new(payload(number, 100)));
        let mut running = vec![scope.spawn(append(10))];
        life::until(|| disk.waiting() == 1);
        running.extend((11..30).map(|number| scope.spawn(append(number))));
        life::until(|| Segment::read(place.segment("t", 0)).frames().len() == 30);
        disk.release();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn no_acknowledgement_any_more(store: &Store, end: u64) {
    let syncs = store.io().syncs.get();
    for _ in 0..3 {
        let refused = one(store, "t").append(Record::new("later"));
        assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
        let nothing = one(store, "t").append_batch::<[Record<'_>; 0]>([]);
        assert!(matches!(nothing, Err(Error::Failed { .. })), "{nothing:?}");
    }
    assert!(store.flush().is_err());
    assert_eq!(
        store.io().syncs.get(),
        syncs,
        "a failed sync is not tried again"
    );
    assert_eq!(one(store, "t").end().unwrap(), end);
    // What was durable before stays readable, and health tells.
    let read: Vec<_> = one(store, "t")
        .read(0..end)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read.len() as u64, end);
    let health = store.health();
    assert!(
        matches!(health.failed.as_slice(), [Error::Failed { .. }]),
        "{health:?}"
    );
    assert!(health.journal.is_none());
    // A follower gets everything durable, and then the failure; it does not hang.
    let mut follow = one(store, "t").follow(Start::Earliest).unwrap();
    for _ in 0..end {
        follow.next().unwrap().unwrap();
    }
    assert!(matches!(follow.next(), Err(Error::Failed { .. })));
    // So does a subscription, in each call.
    let topic = store.existing_topic("t").unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    for _ in 0..end {
        archive.next().unwrap().unwrap();
    }
    assert!(matches!(archive.next(), Err(Error::Failed { .. })));
    assert!(matches!(archive.next(), Err(Error::Failed { .. })));
    assert!(matches!(archive.next_wait(), Err(Error::Failed { .. })));
    archive.commit().unwrap();
    // Other topics do not notice.
    one(store, "other").append(Record::new("fine")).unwrap();
}

/// One of two partitions fails: a subscription is given what the other one has, is told of the failure
/// when there is nothing else, and goes on with what comes to the other one.
#[test]
fn a_subscription_is_told_of_a_failed_partition_and_goes_on_with_the_others() {
    let place = Place::new();
    let disk = Faulty::new(BACKENDS[0]);
    let store = open(&place, &disk);
    let two = segments_of(64 << 10).partitions(2);
    let topic = store.create_topic("t", two).unwrap();
    let partitions = [0, 1].map(|number| topic.partition(number).unwrap());
    partitions.iter().for_each(|it| fill(it, 0..3, 100));
    disk.answer(Call::Sync, "topics/t/000000", &[Some(EIO)]);
    let lost = partitions[0].append("lost");
    assert!(matches!(lost, Err(Error::InDoubt { .. })), "{lost:?}");
    let mut archive = topic.subscribe("archive").unwrap();
    (0..6).for_each(|_| assert!(archive.next().unwrap().is_some()));
    for _ in 0..2 {
        let told = archive.next().unwrap_err();
        assert!(matches!(told, Error::Failed { partition: 0, .. }), "{told}");
    }
    partitions[1].append("more").unwrap();
    let more = archive.next_wait().unwrap().unwrap();
    assert_eq!((more.partition(), more.offset()), (1, 3));
    let told = archive.next_wait().unwrap_err();
    assert!(matches!(told, Error::Failed { partition: 0, .. }), "{told}");
    archive.commit().unwrap();
    assert_eq!(archive.committed(1).unwrap(), 4);
}

/// D07. The same for the journal: the store takes no facts and no records any more, and reads on.
#[test]
fn one_failed_sync_of_the_journal_ends_writing_for_the_whole_store() {
    for backend in BACKENDS {
        let place = Place::new();
        let disk = Faulty::new(backend);
        let store = open(&place, &disk);
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        fill(&one(&store, "t"), 0..10, 100);
        let mut archive = store
            .existing_topic("t")
            .unwrap()
            .subscribe("archive")
            .unwrap();
        archive.next().unwrap();
        disk.answer(Call::Sync, "journal/", &[Some(EIO)]);
        let failed = |error: Error| matches!(error, Error::StoreFailed { .. });
        assert!(failed(archive.commit().unwrap_err()));
        assert!(failed(archive.commit().unwrap_err()));
        assert!(failed(
            store.create_topic("u", segments_of(64 << 10)).unwrap_err()
        ));
        assert!(failed(one(&store, "t").append("more").unwrap_err()));
        assert!(failed(store.delete_topic("t").unwrap_err()));
        assert!(store.health().journal.is_some_and(failed));
        assert_eq!(archive.committed(0).unwrap(), 0);
        assert_eq!(one(&store, "t").read(0..99).unwrap().count(), 10);
        drop(archive);
        store.close().unwrap_err();
        let store = place.open(backend);
        assert_eq!(payloads(&one(&store, "t")).len(), 10);
        store.close().unwrap();
    }
}

/// D07. The sync of a segment that is being made, or of its folder, fails: that call is refused
/// and nothing else; the half-made file is not used.
#[test]
fn a_failed_sync_of_a_segment_to_come_refuses_one_append() {
    for backend in BACKENDS {
        for (call, part) in [
            (Call::Sync, "00000001.seg"),
            (Call::SyncDir, "topics/t/000000"),
        ] {
            let place = Place::new();
            let disk = Faulty::new(backend);
            let store = open(&place, &disk);
            store.create_topic("t", segments_of(64 << 10)).unwrap();
            let partition = one(&store, "t");
            fill(&partition, 0..1, 100);
            disk.answer(call, part, &[Some(EIO); 10_000]);
            for number in 1.. {
                match partition.append(Record::new(payload(number, 1000))) {
                    Ok(at) => assert_eq!(at.offset(), number),
                    Err(Error::Io { .. }) => break,
                    Err(other) => panic!("{other:?}"),
                }
            }
            let refused = partition.end().unwrap();
            assert!(refused < 60, "{refused} records of a kilobyte in 64");
            disk.heal();
            // An attempt that was under way before may still refuse the next one.
            let next = payload(refused, 100);
            life::until(|| partition.append(Record::new(&next)).is_ok());
            fill(&partition, refused + 1..1500, 100);
            let length = |number| {
                if (1..refused).contains(&number) {
                    1000
                } else {
                    100
                }
            };
            let expected: Vec<_> = (0..1500).map(|n| payload(n, length(n))).collect();
            assert_eq!(payloads(&partition), expected);
            assert!(store.health().failed.is_empty());
            drop(partition);
            store.close().unwrap();
            assert!(
                tidelog::verify(&place.root, &options(backend))
                    .unwrap()
                    .is_sound()
            );
        }
    }
}

/// D07. The kernel tells a failed write-back once for each descriptor: of two syncs under way on one the
/// wrong one may hear it, and the other acknowledges. So let appenders, flushes, transactions and a
/// store that is short of files ask for syncs of the same logs at once: no file has two at a time.
#[test]
fn no_file_is_synced_by_two_at_once() {
    for backend in BACKENDS {
        let place = Place::new();
        let disk = Faulty::new(backend);
        let storage = Arc::new(disk.clone());
        let options = StoreOptions::new().storage(storage).max_open_files(24);
        let store = Store::open_with(&place.root, options).unwrap();
        let small = segments_of(64 << 10);
        let topics = ["t", "u"].map(|name| {
            let options = small.clone().partitions(2);
            store.create_topic(name, options).unwrap()
        });
        thread::scope(|scope| {
            for topic in &topics {
                scope.spawn(|| (0..200).for_each(|n| drop(topic.append(payload(n, 300)).unwrap())));
                scope.spawn(|| (0..200).for_each(|_| topic.flush().unwrap()));
                scope.spawn(|| {
                    for number in 0..100 {
                        let record = |to| Record::new(payload(number, 300)).partition(to);
                        topic.append_batch([record(0), record(1)]).unwrap();
                    }
                });
            }
            scope.spawn(|| {
                for number in 0..60 {
                    let other = store.topic(&format!("other.{number}")).unwrap();
                    other.append("crowds out").unwrap();
                }
            });
        });
        assert_eq!(disk.syncs_at_once(), 1, "{backend:?}");
        drop(topics);
        store.close().unwrap();
    }
}
