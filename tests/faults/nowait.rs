//! What an append that does not wait for a sync may have to wait for, and for how long.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidelog::{Durability, Error, Record, Store, StoreOptions, Topic, TopicOptions, Wait};

use crate::faulty::{Call, Faulty};
use crate::kit::{BACKENDS, Place, one, payload, payloads, segments_of};
use crate::life;

const WITHIN: Duration = Duration::from_millis(30);

fn options(disk: &Faulty) -> StoreOptions {
    let options = StoreOptions::new().storage(Arc::new(disk.clone()));
    options.nowait_timeout(WITHIN)
}

fn open(place: &Place, disk: &Faulty) -> Store {
    Store::open_with(&place.root, options(disk)).unwrap()
}

/// Appends until it is told to come again later, which is for this reason and after that time; how many
/// records are written.
fn append_until_busy(topic: &Topic, mut number: u64, why: Wait) -> u64 {
    loop {
        let begun = Instant::now();
        match topic.append_nowait(Record::new(payload(number, 1000)).partition(0)) {
            Ok(_) => number += 1,
            Err(Error::Busy {
                topic,
                partition,
                wait,
                within,
            }) => {
                assert_eq!((&*topic, partition, wait, within), ("t", 0, why, WITHIN));
                assert!(begun.elapsed() >= WITHIN);
                return number;
            }
            Err(error) => panic!("{error:?}"),
        }
        assert!(number < 100_000, "it never waits");
    }
}

/// How often appends to the only topic's first partition waited for that.
fn waits(store: &Store, why: Wait) -> u64 {
    let metrics = store.metrics().unwrap();
    let mut all = metrics.topics[0].partitions[0].append_waits.iter();
    let told = all.find(|it| it.wait == why).unwrap();
    assert_eq!(told.times == 0, told.time.is_zero(), "{told:?}");
    told.times
}

/// The record that was refused is not there, and goes on behind those that were written.
fn goes_on(store: &Store, written: u64) {
    let topic = store.existing_topic("t").unwrap();
    let topic = || topic.append_nowait(Record::new(payload(written, 1000)).partition(0));
    life::until(|| topic().is_ok());
    store.flush().unwrap();
    let expected: Vec<_> = (0..=written).map(|number| payload(number, 1000)).collect();
    assert_eq!(payloads(&one(store, "t")), expected);
}

/// A sync takes very long, and what may be unsettled is. A producer that has other things to do is told
/// when his time is up, and comes again later.
#[test]
fn who_may_not_wait_for_a_sync_is_told_that_he_would_have_to() {
    for backend in BACKENDS {
        let (place, disk) = (Place::new(), Faulty::new(backend));
        let store = open(&place, &disk);
        let options = segments_of(1 << 20).unsettled_bytes(64 << 10);
        let topic = store.create_topic("t", options).unwrap();
        topic.append(payload(0, 1000)).unwrap();
        assert_eq!(waits(&store, Wait::Settling), 0);
        disk.hold(Call::Sync, "topics/t/", &[None]);
        let written = append_until_busy(&topic, 1, Wait::Settling);
        assert!(waits(&store, Wait::Settling) > 0);
        disk.release();
        goes_on(&store, written);
        store.close().unwrap();
    }
}

/// The next segment cannot be made yet.
#[test]
fn who_may_not_wait_for_a_segment_is_told_that_he_would_have_to() {
    for backend in BACKENDS {
        let (place, disk) = (Place::new(), Faulty::new(backend));
        let store = open(&place, &disk);
        let topic = store.create_topic("t", segments_of(64 << 10)).unwrap();
        topic.append(payload(0, 1000)).unwrap();
        disk.hold(Call::Create, "topics/t/", &[None, None]);
        let written = append_until_busy(&topic, 1, Wait::Segment);
        assert!(waits(&store, Wait::Segment) > 0);
        disk.release();
        goes_on(&store, written);
        store.close().unwrap();
    }
}

/// A batch over two partitions waits for the journal, and has both of them.
#[test]
fn who_may_not_wait_for_a_transaction_is_told_that_he_would_have_to() {
    for backend in BACKENDS {
        let (place, disk) = (Place::new(), Faulty::new(backend));
        // Without threads of its own, so that what waits for the journal is the transaction.
        let store = Store::open_with(&place.root, options(&disk).inline()).unwrap();
        let options = TopicOptions::new()
            .partitions(2)
            .durability(Durability::Manual);
        let topic = store.create_topic("t", options).unwrap();
        topic
            .append_nowait(Record::new(payload(0, 1000)).partition(0))
            .unwrap();
        store.flush().unwrap();
        disk.hold(Call::Sync, "journal", &[None]);
        thread::scope(|scope| {
            let both = [(0, 1), (1, 0)];
            let both =
                both.map(|(part, number)| Record::new(payload(number, 1000)).partition(part));
            let together = scope.spawn(|| topic.append_batch_nowait(both).map(drop));
            life::until(|| disk.waiting() == 1);
            let written = append_until_busy(&topic, 2, Wait::Transaction);
            assert_eq!(written, 2, "the transaction goes before it");
            disk.release();
            together.join().unwrap().unwrap();
        });
        assert!(waits(&store, Wait::Transaction) > 0);
        goes_on(&store, 2);
        store.close().unwrap();
    }
}

/// The owner was killed, and recovering the partition takes very long. Many appends that may not wait for
/// that take one thread in all; the partition is there when it is there.
#[test]
fn who_may_not_wait_for_recovery_is_told_that_he_would_have_to() {
    for backend in BACKENDS {
        let (place, disk) = (Place::new(), Faulty::new(backend));
        let store = open(&place, &disk);
        let topic = store.create_topic("t", segments_of(64 << 10)).unwrap();
        topic.append(payload(0, 1000)).unwrap();
        let killed = place.killed();
        store.close().unwrap();

        let disk = Faulty::new(backend);
        let store = open(&killed, &disk);
        disk.hold(Call::Sync, "topics/t/", &[None, None, None]);
        let topic = store.existing_topic("t").unwrap();
        for _ in 0..3 {
            assert_eq!(append_until_busy(&topic, 1, Wait::Opening), 1);
        }
        assert_eq!(disk.waiting(), 1);
        disk.release();
        goes_on(&store, 1);
        assert_eq!(waits(&store, Wait::Opening), 1);
        store.close().unwrap();
    }
}

/// A full topic has appends wait an hour for room; who may not wait so long is told that it is full.
#[test]
fn who_may_not_wait_for_room_is_told_that_the_topic_is_full() {
    for backend in BACKENDS {
        let (place, disk) = (Place::new(), Faulty::new(backend));
        let store = open(&place, &disk);
        let options = segments_of(64 << 10).max_total_bytes(16 << 10);
        let options = options.wait_when_full(Duration::from_secs(3600));
        let topic = store.create_topic("t", options).unwrap();
        let mut appended = 0;
        let refused = loop {
            match topic.append_nowait(payload(appended, 1000)) {
                Ok(_) => appended += 1,
                Err(Error::Busy { .. }) => assert_eq!(appended, 0, "it has only to be opened"),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::TopicFull { .. }), "{refused:?}");
        assert!(appended > 10 && waits(&store, Wait::Room) == 1);
        store.close().unwrap();
    }
}

/// Who may not wait at all appends where nothing is in the way, as fast as ever.
#[test]
fn who_may_not_wait_at_all_appends_where_nothing_is_in_the_way() {
    let place = Place::new();
    let options = StoreOptions::new().nowait_timeout(Duration::ZERO);
    let store = Store::open_with(&place.root, options).unwrap();
    let topic = store.create_topic("t", segments_of(1 << 20)).unwrap();
    topic.append(payload(0, 1000)).unwrap();
    for number in 1..500 {
        topic.append_nowait(payload(number, 1000)).unwrap();
    }
    store.close().unwrap();
    let too_long = StoreOptions::new().nowait_timeout(Duration::from_secs(24 * 3600 + 1));
    let refused = Store::open_with(&place.root, too_long).unwrap_err();
    assert!(matches!(
        refused,
        Error::InvalidOption {
            option: "nowait_timeout",
            ..
        }
    ));
}
