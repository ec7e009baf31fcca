//! Readers of written records: what they see, when, and what a crash tells them.

mod machine;

use std::thread;
use std::time::Duration;

use tidelog::sys::sim::{Call, Fault, Keep, When};
use tidelog::{Durability, Error, Record, Start, Store, Topic, TopicOptions, Visibility};

use machine::Machine;

const LIMIT: Duration = Duration::from_secs(60);

fn by_hand(store: &Store) -> Topic {
    let options = TopicOptions::new()
        .durability(Durability::Manual)
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(16 << 10);
    store.create_topic("ticks", options).unwrap()
}

fn send(topic: &Topic, count: u64) {
    for _ in 0..count {
        topic.append_nowait(Record::new(&[b'x'; 500])).unwrap();
    }
}

/// Prices are written and synced once a second. Who asks for written records has them at once, over the
/// ends of segments; who does not has none until they are flushed; and both have each once, in order.
#[test]
fn a_reader_of_written_records_does_not_wait_for_the_sync() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = by_hand(&store);
    let partition = topic.partition(0).unwrap();
    let cursor = || partition.cursor(Start::Earliest).unwrap();
    let mut written = cursor().visibility(Visibility::Written);
    let mut durable = cursor();
    for round in 0..20 {
        send(&topic, 10);
        for offset in round * 10..round * 10 + 10 {
            assert_eq!(written.next().unwrap().unwrap().offset(), offset);
        }
        assert!(written.next().unwrap().is_none());
        assert!(durable.next().unwrap().is_none());
        topic.flush().unwrap();
        for offset in round * 10..round * 10 + 10 {
            assert_eq!(durable.next().unwrap().unwrap().offset(), offset);
        }
        assert!(written.next().unwrap().is_none());
    }
}

/// A follower of written records sleeps until one is written, and one of durable records sleeps on.
#[test]
fn a_follower_of_written_records_is_woken_by_the_append() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = by_hand(&store);
    let follow = || topic.follow(Start::Earliest).unwrap();
    let (mut early, mut late) = (follow().visibility(Visibility::Written), follow());
    thread::scope(|scope| {
        let early = scope.spawn(move || {
            let record = early.next_timeout(LIMIT).unwrap();
            record.map(|record| record.offset())
        });
        send(&topic, 1);
        assert_eq!(early.join().unwrap(), Some(0));
        assert!(late.try_next().unwrap().is_none());
        let late = scope.spawn(move || {
            let record = late.next_timeout(LIMIT).unwrap();
            record.map(|record| record.offset())
        });
        topic.flush().unwrap();
        assert_eq!(late.join().unwrap(), Some(0));
    });
}

/// A reader has read ten records of which the last five were never synced. The power fails; he comes back
/// with his place, is told once what is not there, and goes on at the end with what is appended then. A
/// reader of durable records at the same place waits for it instead.
#[test]
fn a_reader_who_was_ahead_of_a_crash_is_told_what_is_gone() {
    let machine = Machine::new(1);
    let store = machine.open();
    let topic = by_hand(&store);
    send(&topic, 5);
    topic.flush().unwrap();
    send(&topic, 5);
    let cursor = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
    let mut cursor = cursor.visibility(Visibility::Written);
    while cursor.next().unwrap().is_some() {}
    let place = cursor.offset();
    assert_eq!(place, 10);
    drop((cursor, topic));

    let store = machine.cut(store, Keep::Nothing);
    let topic = store.topic("ticks").unwrap();
    let partition = topic.partition(0).unwrap();
    let mut patient = partition.cursor(Start::Offset(place)).unwrap();
    let cursor = partition.cursor(Start::Offset(place)).unwrap();
    let mut cursor = cursor.visibility(Visibility::Written);
    match cursor.next() {
        Err(Error::Truncated(span)) => assert_eq!(span.offsets, 5..10),
        other => panic!("{other:?}"),
    }
    assert!(cursor.next().unwrap().is_none());
    send(&topic, 1);
    assert_eq!(cursor.next().unwrap().unwrap().offset(), 5);
    topic.flush().unwrap();
    assert!(patient.next().unwrap().is_none());
    assert_eq!(patient.offset(), place);
}

/// A sync fails behind a reader of written records: what was written before it can still be read, then
/// he is told that the topic has failed.
#[test]
fn a_follower_of_written_records_is_told_of_a_failed_sync() {
    let machine = Machine::new(2);
    let store = machine.open();
    let topic = by_hand(&store);
    send(&topic, 1);
    topic.flush().unwrap();
    send(&topic, 1);
    let mut tail = topic.follow(Start::Earliest).unwrap();
    tail = tail.visibility(Visibility::Written);
    assert_eq!(tail.next().unwrap().unwrap().offset(), 0);
    assert_eq!(tail.next().unwrap().unwrap().offset(), 1);
    machine
        .sim
        .fail(Fault::new(Call::Sync, When::Nth(0), libc::EIO));
    topic.flush().unwrap_err();
    assert!(matches!(tail.next(), Err(Error::Failed { .. })));
}

/// Four threads append durably while somebody reads written records, and new readers begin at the latest
/// one again and again: each record comes once, in order, and nobody is told that anything was lost.
#[test]
fn readers_of_written_records_beside_busy_appenders_miss_nothing() {
    const EACH: u64 = 1500;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = store.topic("busy").unwrap();
    let partition = topic.partition(0).unwrap();
    thread::scope(|scope| {
        let appenders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        topic.append(Record::new("more")).unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let tail = topic.follow(Start::Earliest).unwrap();
            let mut tail = tail.visibility(Visibility::Written);
            for offset in 0..4 * EACH {
                let record = tail.next_timeout(LIMIT).unwrap().unwrap();
                assert_eq!(record.offset(), offset);
            }
        });
        while !appenders.iter().all(|it| it.is_finished()) {
            let cursor = partition.cursor(Start::Latest).unwrap();
            let mut cursor = cursor.visibility(Visibility::Written);
            let from = cursor.offset();
            if let Some(record) = cursor.next().unwrap() {
                assert_eq!(record.offset(), from);
            }
        }
    });
}
