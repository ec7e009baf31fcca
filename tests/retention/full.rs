//! A topic that is full: appends are refused, or wait for room.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tidelog::sys::{Access, Storage};
use tidelog::{Error, Record, Retention, Store, TopicOptions};

use crate::kit::{HOUR, fill, one, range, small, until};
use crate::machine::{Machine, ROOT};

fn narrow() -> TopicOptions {
    small(Retention::forever()).max_total_bytes(40_000)
}

/// What is removed makes room, on the same handle and across restarts, however often.
#[test]
fn what_goes_makes_room_in_a_full_topic() {
    let machine = Machine::new(1);
    let options = small(Retention::age(HOUR)).max_total_bytes(40_000);
    let (mut store, mut topic) = machine.topic(options);
    for round in 0..6 {
        let mut taken = 0;
        let full = loop {
            match topic.append(Record::new(vec![7; 950])) {
                Ok(_) => taken += 1,
                Err(error) => break error,
            }
        };
        assert!(
            matches!(full, Error::TopicFull { limit: 40_000, .. }),
            "{full}"
        );
        assert_eq!(taken, 40, "round {round}");
        machine.pass(HOUR);
        store.apply_retention().unwrap();
        if round % 2 == 1 {
            drop(topic);
            store.close().unwrap();
            store = machine.open();
            topic = store.existing_topic("t").unwrap();
        }
    }
    drop(topic);
    store.close().unwrap();
}

/// Where the topic says so an append waits for room, and goes on when somebody makes it: alone, in a
/// batch over several partitions, and as a future.
#[test]
fn an_append_to_a_full_topic_waits_for_room() {
    for way in ["alone", "spread", "future"] {
        let machine = Machine::new(1);
        let store = tidelog::Store::open_with(crate::machine::ROOT, machine.options()).unwrap();
        let patient = narrow().wait_when_full(Duration::from_secs(60));
        let patient = patient.partitions(2).max_total_bytes(80_000);
        let topic = store.create_topic("t", patient).unwrap();
        let first = topic.partition(0).unwrap();
        for _ in 0..40 {
            first.append(Record::new(vec![7; 950])).unwrap();
        }
        let waits = topic.clone();
        let writer = thread::spawn(move || match way {
            "alone" => waits.partition(0).unwrap().append(vec![7; 950]).map(drop),
            "future" => {
                let part = waits.partition(0).unwrap();
                futures_lite::future::block_on(part.append_async(vec![7; 950])).map(drop)
            }
            _ => {
                let batch = [0, 1].map(|part| Record::new(vec![7; 950]).partition(part));
                waits.append_batch(batch).map(drop)
            }
        });
        thread::sleep(Duration::from_millis(100));
        assert!(!writer.is_finished(), "{way}");
        assert!(first.truncate_before(20).unwrap() > 0);
        writer.join().unwrap().unwrap();
        assert_eq!(first.end().unwrap(), 41, "{way}");
        store.close().unwrap();
    }
}

/// It waits no longer than it is told to, and is refused then; what can never fit is refused at once,
/// and so is everything where the topic is closed or the limit is not to be waited for.
#[test]
fn an_append_to_a_full_topic_waits_no_longer_than_it_is_told_to() {
    let machine = Machine::new(1);
    let store = tidelog::Store::open_with(crate::machine::ROOT, machine.options()).unwrap();
    let patient = narrow().wait_when_full(Duration::from_millis(200));
    let topic = store.create_topic("t", patient).unwrap();
    fill(&topic, 40);
    let begin = Instant::now();
    let refused = topic.append(Record::new(vec![7; 950])).unwrap_err();
    assert!(matches!(refused, Error::TopicFull { .. }), "{refused}");
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert_eq!(range(&topic), (0, 40));
    let begin = Instant::now();
    let refused = topic.append(Record::new(vec![7; 50_000])).unwrap_err();
    assert!(matches!(refused, Error::TopicFull { .. }), "{refused}");
    assert!(begin.elapsed() < Duration::from_millis(150));
    let patient = narrow().wait_when_full(Duration::from_secs(600));
    let topic = store.create_topic("t", patient).unwrap();
    let waits = topic.clone();
    let writer = thread::spawn(move || waits.append(Record::new(vec![7; 950])));
    thread::sleep(Duration::from_millis(50));
    let reads = one(&topic);
    store.close().unwrap();
    assert!(matches!(writer.join().unwrap(), Err(Error::Closed)));
    drop(reads);
}

/// The header of a segment rots. What is in it counts for as long as it is there, also when the store is
/// opened again, and no longer.
#[test]
fn a_segment_with_a_rotted_header_counts_until_it_goes() {
    for reopened in [false, true] {
        let machine = Machine::new(1);
        let options = small(Retention::age(HOUR)).max_total_bytes(40_000);
        let (mut store, mut topic) = machine.topic(options);
        fill(&topic, 40);
        let file = Path::new(ROOT).join("topics/t/000000-1/00000001.seg");
        let rots = || {
            let file = machine.sim.open(&file, Access::Write).unwrap();
            file.write_at(&[0x5a; 600], 0).unwrap();
        };
        if reopened {
            drop(topic);
            store.close().unwrap();
            rots();
            store = machine.open();
            topic = store.existing_topic("t").unwrap();
        } else {
            rots();
        }
        let full = topic.append(vec![7; 950]).unwrap_err();
        assert!(matches!(full, Error::TopicFull { .. }), "{full}");
        machine.pass(HOUR);
        let done = topic.apply_retention().unwrap();
        assert_eq!(done.partitions[0].failed, None);
        assert_eq!(range(&topic), (40, 40));
        fill(&topic, 40);
        let full = topic.append(vec![7; 950]).unwrap_err();
        assert!(matches!(full, Error::TopicFull { .. }), "{full}");
        drop(topic);
        store.close().unwrap();
    }
}

/// A future that waits ten minutes for room is dropped: who waits in its place ends, and lets go of the
/// store, at once, and nothing of it is written.
#[test]
fn a_future_that_waits_for_room_and_is_dropped_leaves_nothing_behind() {
    for spread in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let store = Store::open(&path).unwrap();
        let patient = narrow().partitions(2).max_total_bytes(80_000);
        let patient = patient.wait_when_full(Duration::from_secs(600));
        let topic = store.create_topic("t", patient).unwrap();
        let first = topic.partition(0).unwrap();
        for _ in 0..40 {
            first.append(Record::new(vec![7; 950])).unwrap();
        }
        {
            let mut context = Context::from_waker(Waker::noop());
            let parts = if spread { vec![0, 1] } else { vec![0] };
            let batch = parts.into_iter();
            let batch = batch.map(|part| Record::new(vec![7; 950]).partition(part));
            let mut append = pin!(topic.append_batch_async(batch));
            assert!(append.as_mut().poll(&mut context).is_pending());
            thread::sleep(Duration::from_millis(100));
            assert!(append.as_mut().poll(&mut context).is_pending());
        }
        drop((first, topic, store));
        // The last handle goes, and the store is closed by that.
        until("it can be opened", || Store::open(&path).is_ok());
        let store = Store::open(&path).unwrap();
        let first = store.existing_topic("t").unwrap().partition(0).unwrap();
        assert_eq!(first.end().unwrap(), 40);
        drop(first);
        store.close().unwrap();
    }
}
