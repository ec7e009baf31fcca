//! Segments larger and smaller than what is left.

use std::time::Duration;

use tidelog::{Result, Start, Store, Subscription, Topic, TopicOptions, verify};

use crate::book::{Book, is_full};
use crate::volume::{Volume, everywhere};

const RECORD: usize = 24 << 10;

/// A topic whose segments are so long from the first one on.
fn topic(store: &Store, segment: u64) -> Topic {
    let options = TopicOptions::new()
        .first_segment_bytes(segment)
        .max_segment_bytes(segment);
    store.create_topic("quakes", options).unwrap()
}

/// Commits so many times, going back and forth; where that ends.
fn commit_often(reader: &mut Subscription, times: u64) -> Result<u64> {
    let mut committed = 0;
    for _ in 0..times {
        if reader.next()?.is_some() {
            committed += 1;
            reader.commit()?;
        } else {
            committed = 0;
            reader.reset(Start::Earliest)?;
        }
    }
    Ok(committed)
}

/// A store on a disk with 24 MiB, of a topic with segments of that size and one of small ones.
/// Everything is appended until there is no room; reading, following and committing go on; when
/// there is room again the same handles append, and all of it is there after a reopen.
fn fill_and_go_on(volume: &Volume, segment: u64) {
    let ballast = volume.leave(24 << 20);
    let mut book = Book::default();
    let store = volume.open("data");
    let (large, small) = (topic(&store, segment), store.topic("notes").unwrap());
    assert!(book.append(&small, 100), "{volume}");
    let mut reader = small.subscribe("reader").unwrap();
    let mut tail = small.follow(Start::Earliest).unwrap();
    book.fill(&large, RECORD);
    book.fill(&small, RECORD);
    // Once more, since a refusal must leave things as they were.
    assert!(!book.append(&large, RECORD) && !book.append(&small, RECORD));
    book.check(&store);

    let mut followed = 0;
    while tail.next_timeout(Duration::ZERO).unwrap().is_some() {
        followed += 1;
    }
    let end = small.partition(0).unwrap().end().unwrap();
    assert_eq!(followed, end, "{volume}");
    // Hundreds of commits, on the full disk: the journal's next segment was made before.
    let end = commit_often(&mut reader, 400).unwrap_or_else(|error| panic!("{volume}: {error}"));
    assert!(store.health().failed.is_empty() && store.health().journal.is_none());

    drop(ballast);
    let more = [&small, &large].map(|topic| (0..20).all(|_| book.append(topic, 1000)));
    let fits = segment < volume.free();
    assert_eq!(more, [true, fits || more[1]], "{volume}");
    assert!(tail.next().unwrap().is_some());
    book.check(&store);
    drop((large, small, reader, tail));
    store
        .close()
        .unwrap_or_else(|error| panic!("{volume}: close: {error}"));

    let store = volume.open("data");
    book.check(&store);
    let reader = store.topic("notes").unwrap().subscribe("reader").unwrap();
    assert_eq!(reader.committed(0).unwrap(), end, "{volume}");
    drop(reader);
    store.close().unwrap();
    assert!(
        verify(volume.dir().join("data"), &volume.options())
            .unwrap()
            .is_sound()
    );
}

/// A program asks for segments of 64 MiB on a disk with 24 MiB left. Others mapped such a file
/// without having its space, and died of a signal in the middle of a store: here the topic is
/// refused, record by record, and everything else goes on.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn a_segment_larger_than_what_is_left_is_refused_and_everything_else_goes_on() {
    everywhere(|volume| fill_and_go_on(volume, 64 << 20));
}

/// Segments of 8 MiB fit three times or less into what is left, and are filled; then there is no room
/// for another one.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn segments_smaller_than_what_is_left_are_filled_and_appending_goes_on_when_there_is_room() {
    everywhere(|volume| fill_and_go_on(volume, 8 << 20));
}

/// The disk is full and the program is started again, after a close: the
/// store opens, everything can be read, appends are refused or find what room there is, and when
/// there is room they are taken again.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn a_store_is_opened_read_and_committed_to_on_a_full_disk() {
    everywhere(|volume| {
        let ballast = volume.leave(8 << 20);
        let mut book = Book::default();
        let store = volume.open("data");
        let quakes = topic(&store, 1 << 20);
        book.fill(&quakes, RECORD);
        let rest = volume.leave(0);
        drop(quakes);
        store
            .close()
            .unwrap_or_else(|error| panic!("{volume}: close: {error}"));
        for _ in 0..3 {
            let store = volume.open("data");
            book.check(&store);
            let quakes = store.existing_topic("quakes").unwrap();
            book.fill(&quakes, RECORD);
            match quakes.subscribe("reader") {
                Ok(mut reader) => {
                    while reader.next().unwrap().is_some() {}
                    reader.commit().unwrap();
                }
                Err(error) => assert!(is_full(&error), "{volume}: {error}"),
            }
            book.check(&store);
            drop(quakes);
            store
                .close()
                .unwrap_or_else(|error| panic!("{volume}: close: {error}"));
        }
        let store = volume.open("data");
        drop((rest, ballast));
        let quakes = store.existing_topic("quakes").unwrap();
        assert!((0..20).all(|_| book.append(&quakes, RECORD)), "{volume}");
        drop(quakes);
        store.close().unwrap();
        book.check(&volume.open("data"));
    });
}
