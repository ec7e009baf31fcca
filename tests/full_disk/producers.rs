//! Many who fill the disk at once.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tidelog::{Durability, Error, Record, Topic, TopicOptions};

use crate::book::{Book, is_full, payload};
use crate::volume::{Volume, everywhere};

const PRODUCERS: usize = 16;
const RECORD: usize = 20 << 10;

/// One producer, until it is refused. In a topic that is synced by hand it flushes every so many
/// records, and only what a flush has covered counts.
fn produce(topic: &Topic, durability: Durability, book: &mut Book) {
    let mut waiting = Vec::new();
    for count in 1.. {
        let payload = payload(RECORD);
        if durability != Durability::Manual {
            if !book.tell(topic.append(Record::new(&payload)), &payload) {
                return;
            }
            continue;
        }
        let answer = topic.append_nowait(Record::new(&payload));
        let over = answer.is_err();
        match answer {
            Ok(ack) => waiting.push((ack, payload)),
            Err(error) => assert!(is_full(&error), "an append said {error:?}"),
        }
        if over || count % 16 == 0 {
            topic.flush().expect("what was written has its room");
            for (ack, payload) in waiting.drain(..) {
                book.note(&ack.wait().expect("the flush has covered it"), &payload);
            }
        }
        if over {
            return;
        }
    }
}

fn sixteen_fill_the_disk(volume: &Volume, durability: Durability) {
    let ballast = volume.leave(8 << 20);
    let store = volume.open("data");
    let options = TopicOptions::new()
        .partitions(4)
        .max_segment_bytes(1 << 20)
        .durability(durability);
    let topic = store.create_topic("quakes", options).unwrap();
    let start = Barrier::new(PRODUCERS);
    let mut book = Book::default();
    thread::scope(|scope| {
        let one = || {
            let mut book = Book::default();
            start.wait();
            produce(&topic, durability, &mut book);
            book
        };
        let producers: Vec<_> = (0..PRODUCERS).map(|_| scope.spawn(one)).collect();
        for producer in producers {
            book.absorb(
                producer
                    .join()
                    .unwrap_or_else(|_| panic!("{volume}: a producer")),
            );
        }
    });
    assert!(book.len() > 50, "{volume}: {}", book.len());
    book.check(&store);
    drop(ballast);
    let payload = payload(RECORD);
    match topic
        .append_nowait(Record::new(&payload))
        .map(|ack| (topic.flush(), ack.wait()))
    {
        Ok((Ok(()), answer)) => book.note(&answer.unwrap(), &payload),
        other => panic!("{volume}: when there was room again: {other:?}"),
    }
    drop(topic);
    store
        .close()
        .unwrap_or_else(|error| panic!("{volume}: close: {error}"));
    book.check(&volume.open("data"));
}

/// Sixteen producers fill the disk, and each of them waits for its records. Others dropped what the
/// writing said on its way to who waited, and went on acknowledging what was nowhere. Each producer
/// is told of its own record, and no record that was refused is there.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn sixteen_producers_fill_the_disk_and_each_is_told_of_its_own_record() {
    everywhere(|volume| sixteen_fill_the_disk(volume, Durability::Commit));
}

/// The same, where one sync at an interval is waited for by all of them.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn sixteen_producers_fill_the_disk_at_intervals() {
    let often = Durability::Interval(Duration::from_millis(5));
    everywhere(|volume| sixteen_fill_the_disk(volume, often));
}

/// The same, where nobody waits and each flushes now and then: a flush that says yes has every
/// record that was written before it.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn sixteen_producers_fill_the_disk_and_flush_by_hand() {
    everywhere(|volume| sixteen_fill_the_disk(volume, Durability::Manual));
}

/// Batches whose keys lead to four partitions, until there is no room: each is there whole, or not at
/// all, on the full disk, when there is room again, and after a reopen.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn a_batch_over_four_partitions_is_whole_or_not_there_on_a_full_disk() {
    everywhere(|volume| {
        let ballast = volume.leave(6 << 20);
        let store = volume.open("data");
        let options = TopicOptions::new().partitions(4).max_segment_bytes(1 << 20);
        let topic = store.create_topic("quakes", options).unwrap();
        let mut book = Book::default();
        let mut refused = 0;
        for round in 0..4000_usize {
            // The next one is smaller, so that what is left is used up to the last bit.
            let length = (20 << 10) >> refused.min(7);
            if !spread(&topic, &mut book, length, round) {
                refused += 1;
            }
            if refused > 12 {
                break;
            }
        }
        assert!(refused > 12, "{volume}: the disk does not fill");
        book.check(&store);
        drop(ballast);
        assert!(
            (0..20).all(|round| spread(&topic, &mut book, 1000, round)),
            "{volume}"
        );
        drop(topic);
        store
            .close()
            .unwrap_or_else(|error| panic!("{volume}: close: {error}"));
        book.check(&volume.open("data"));
    });
}

/// Appends a batch of eight records that go to several partitions; whether it was taken.
fn spread(topic: &Topic, book: &mut Book, length: usize, round: usize) -> bool {
    let payloads: Vec<Vec<u8>> = (0..8).map(|_| payload(length)).collect();
    let keys: Vec<String> = (0..8).map(|key| format!("{round}-{key}")).collect();
    let records = payloads.iter().zip(&keys);
    let records = records.map(|(payload, key)| Record::new(payload).key(key.as_str()));
    book.batch(&payloads);
    match topic.append_batch(records) {
        Ok(positions) => {
            let placed = positions.iter().zip(&payloads);
            placed.for_each(|(at, payload)| book.note(&at, payload));
            true
        }
        Err(Error::StorageFull { .. }) => false,
        Err(error) => panic!("a batch over partitions said {error:?}"),
    }
}
