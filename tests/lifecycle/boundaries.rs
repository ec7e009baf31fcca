//! Row D19: readers at the ends of segments. Elsewhere a writer that was restarted began a new file
//! without an end mark in the old one, and whoever stood at that file's end waited there for ever;
//! the same after files without a record.

use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidelog::{Error, Follow, Partition, Start, Store};

use crate::kit::{Place, number, numbered, one, payloads, small_segments};
use crate::process::{Other, part};

/// Nearly a whole segment: no second one fits behind it.
const LARGE: usize = 9000;

/// A follower in a thread of its own, which demands the records in order and says what it has got.
fn followed(mut tail: Follow, from: u64) -> (JoinHandle<u64>, Receiver<u64>) {
    let (say, said) = channel();
    let thread = thread::spawn(move || {
        let mut expected = from;
        // It may be closed meanwhile; nothing else may happen to it.
        while let Some(record) = tail.next().unwrap_or_else(|error| {
            assert!(matches!(error, Error::Closed), "{error:?}");
            None
        }) {
            let says: u64 = record.text().unwrap().parse().unwrap();
            assert_eq!((record.offset(), says), (expected, expected));
            expected += 1;
            // The test may have heard enough.
            say.send(expected).ok();
        }
        expected
    });
    (thread, said)
}

fn hears(said: &Receiver<u64>, end: u64) {
    while said.recv_timeout(Duration::from_secs(30)).unwrap() < end {}
}

/// Three kinds of readers go on to the end.
fn reads_on(partition: &Partition, mut cursor: tidelog::Cursor, said: &Receiver<u64>) {
    let end = partition.end().unwrap();
    hears(said, end);
    let mut expected = cursor.offset();
    while let Some(record) = cursor.next().unwrap() {
        assert_eq!(record.offset(), expected);
        expected += 1;
    }
    assert_eq!(expected, end);
}

/// The owner is killed at the end of segment 0, with nothing behind it. The next owner takes a new
/// segment at once, while readers stand at the end of the old one.
#[test]
fn readers_at_the_end_of_a_segment_follow_a_new_owner_into_the_next_one() {
    if let Some(root) = part() {
        let store = Store::open(root).unwrap();
        let topic = store.create_topic("t", small_segments()).unwrap();
        number(&one(&topic), 1, LARGE);
        println!("=> stands");
        loop {
            thread::park();
        }
    }
    let test = "boundaries::readers_at_the_end_of_a_segment_follow_a_new_owner_into_the_next_one";
    for _ in 0..5 {
        let place = Place::new();
        let mut other = Other::start(test, &place.root);
        other.says("=> stands");
        other.kill();
        let store = Store::open(&place.root).unwrap();
        let topic = store.existing_topic("t").unwrap();
        let partition = one(&topic);
        assert_eq!(partition.end().unwrap(), 1);
        // One that has read the old segment to its end, and one that only waits behind it.
        let mut cursor = partition.cursor(Start::Earliest).unwrap();
        assert!(cursor.next().unwrap().is_some());
        let (thread, said) = followed(partition.follow(Start::Earliest).unwrap(), 0);
        let (waiting, heard) = followed(partition.follow(Start::Latest).unwrap(), 1);
        hears(&said, 1);
        number(&partition, 1, LARGE);
        number(&partition, 1, LARGE);
        hears(&heard, 3);
        reads_on(&partition, cursor, &said);
        topic.finish().unwrap();
        assert_eq!((thread.join().unwrap(), waiting.join().unwrap()), (3, 3));
        assert_eq!(payloads(&store, "t").len(), 3);
        store.close().unwrap();
    }
}

/// Owners come and go and write nothing, killed or closing; then there is a record again, in
/// whichever segment that is.
#[test]
fn readers_cross_whatever_owners_leave_who_write_nothing() {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    number(
        &one(&store.create_topic("t", small_segments()).unwrap()),
        2,
        LARGE,
    );
    store.close().unwrap();
    for life in 0..8 {
        let store = Store::open(&place.root).unwrap();
        let topic = store.existing_topic("t").unwrap();
        let partition = one(&topic);
        let end = partition.end().unwrap();
        let cursor = partition.cursor(Start::Earliest).unwrap();
        let (_, said) = followed(partition.follow(Start::Earliest).unwrap(), 0);
        if life % 4 == 3 {
            number(&partition, 2, LARGE);
            assert_eq!(partition.end().unwrap(), end + 2);
        }
        reads_on(&partition, cursor, &said);
        store.clone().close().unwrap();
        assert_eq!(said.iter().count(), 0);
    }
}

/// Segments are as small as they can be and records come one by one, from several threads, while
/// readers are always right behind them: no boundary is an error to any of them.
#[test]
fn readers_right_behind_the_end_cross_every_boundary() {
    let place = Place::quick();
    let store = Store::open(&place.root).unwrap();
    let topic = store.create_topic("t", small_segments()).unwrap();
    let partition = one(&topic);
    let followers: Vec<_> = (0..3)
        .map(|_| followed(partition.follow(Start::Earliest).unwrap(), 0))
        .collect();
    for offset in 0..600 {
        partition.append(numbered(offset, 3000)).unwrap();
        let mut cursor = partition.cursor(Start::Offset(offset)).unwrap();
        assert!(cursor.next().unwrap().is_some());
    }
    topic.finish().unwrap();
    for (thread, _) in followers {
        assert_eq!(thread.join().unwrap(), 600);
    }
    store.close().unwrap();
}
