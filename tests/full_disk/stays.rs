//! Disks that are full and stay so, while nothing that is removed can be had again.

use std::path::Path;

use tidelog::{Start, Store, Subscription, Topic, TopicOptions, verify};

use crate::book::{Book, is_full};
use crate::child::{self, Other};
use crate::volume::{Volume, everywhere, open_part};

const RECORD: usize = 24 << 10;
const NAME: &str = "stays::a_store_whose_owner_is_killed_on_a_full_disk_is_opened_there";

/// The greatest number of a segment of the journal: how many it has had.
fn segments(volume: &Volume) -> u32 {
    let names = std::fs::read_dir(volume.dir().join("data/journal")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let numbers = names.filter_map(|name| name.strip_suffix(".seg")?.parse().ok());
    numbers.max().unwrap()
}

fn quakes(store: &Store) -> Topic {
    let options = TopicOptions::new()
        .first_segment_bytes(256 << 10)
        .max_segment_bytes(1 << 20);
    store.create_topic("quakes", options).unwrap()
}

fn reader(store: &Store) -> Subscription {
    store
        .existing_topic("quakes")
        .unwrap()
        .subscribe("reader")
        .unwrap()
}

/// Commits so many times, back and forth, and takes what space there is as soon as there is any.
fn commit(volume: &Volume, reader: &mut Subscription, times: u64) {
    let mut taken = Vec::new();
    for time in 0..times {
        let committed = match reader.next().unwrap().is_some() {
            true => reader.commit(),
            false => reader.reset(Start::Earliest),
        };
        committed.unwrap_or_else(|error| panic!("{volume}: commit {time}: {error}"));
        if time % 200 == 0 && volume.free() > 0 {
            taken.push(volume.leave(0));
        }
    }
    drop(taken);
}

/// The disk is full and stays so: what is removed is somebody else's at once. A subscription commits ten
/// thousand times, by which the journal goes through several segments and snapshots, and each of
/// them is what the one before it but one was. So it goes on through a close and an opening on the
/// full disk, and all is there in the end.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn thousands_of_commits_go_on_while_the_disk_stays_full() {
    everywhere(|volume| {
        let ballast = volume.leave(4 << 20);
        let mut book = Book::default();
        let store = volume.open("data");
        let topic = quakes(&store);
        let first = reader(&store);
        book.fill(&topic, RECORD);
        drop((first, topic));
        let rest = volume.leave(0);
        let before = segments(volume);
        let mut store = store;
        for _ in 0..4 {
            let mut reader = reader(&store);
            commit(volume, &mut reader, 2500);
            let at = reader.committed(0).unwrap();
            drop(reader);
            store
                .close()
                .unwrap_or_else(|error| panic!("{volume}: close: {error}"));
            store = volume.open("data");
            assert_eq!(self::reader(&store).committed(0).unwrap(), at, "{volume}");
            book.check(&store);
        }
        let gone = segments(volume) - before;
        eprintln!("{volume}: {gone} segments of the journal");
        assert!(gone >= 4, "{volume}: only {gone}");
        drop((rest, ballast));
        let topic = quakes(&store);
        assert!((0..20).all(|_| book.append(&topic, RECORD)), "{volume}");
        commit(volume, &mut reader(&store), 500);
        book.check(&store);
        drop(topic);
        store.close().unwrap();
        let root = volume.dir().join("data");
        assert!(verify(&root, &volume.options()).unwrap().is_sound());
    });
}

/// The other process: fills the disk that it finds, and commits on it until it is killed.
fn fill_and_wait(folder: &Path) {
    let store = open_part(folder);
    let topic = quakes(&store);
    let mut reader = reader(&store);
    let mut book = Book::default();
    book.fill(&topic, RECORD);
    let more = TopicOptions::new().partitions(4);
    let wide = store.create_topic("wide", more);
    for round in 0..300 {
        match reader.next().unwrap().is_some() {
            true => reader.commit().unwrap(),
            false => reader.reset(Start::Earliest).unwrap(),
        }
        if let Ok(wide) = &wide {
            // What rides, is refused, and must not be there in part.
            let answer = wide.append_batch(
                (0..4_u8)
                    .map(|key| tidelog::Record::new(vec![key; 500]).key(vec![key, round as u8])),
            );
            assert!(answer.is_ok() || is_full(&answer.unwrap_err()));
        }
    }
    let end = topic.partition(0).unwrap().end().unwrap();
    println!("FULL {end}/{}", reader.committed(0).unwrap());
    std::thread::sleep(std::time::Duration::from_secs(100));
}

/// The owner is killed on a full disk, as its system does when a limit is reached, and started again there:
/// the store opens without any new space, everything can be read and committed to, and again
/// after another kill. When there is room it is appended to.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn a_store_whose_owner_is_killed_on_a_full_disk_is_opened_there() {
    if let Some(folder) = child::part() {
        return fill_and_wait(&folder);
    }
    everywhere(|volume| {
        let ballast = volume.leave(6 << 20);
        let mut held = Vec::new();
        for round in 0..3 {
            let mut other = Other::start(NAME, &volume.part());
            let said = other.says("FULL ");
            other.kill();
            held.push(volume.leave(0));
            let (end, committed) = said.split_once('/').unwrap();
            let store = volume.try_open("data");
            let store = store.unwrap_or_else(|error| panic!("{volume}: {round}: {error}"));
            let topic = quakes(&store);
            let partition = topic.partition(0).unwrap();
            assert!(partition.end().unwrap() >= end.parse().unwrap(), "{volume}");
            let read = partition.read(0..u64::MAX).unwrap();
            read.for_each(|record| drop(record.unwrap()));
            let mut reader = reader(&store);
            let found = reader.committed(0).unwrap();
            assert_eq!(found, committed.parse::<u64>().unwrap(), "{volume}");
            commit(volume, &mut reader, 300);
            assert!(store.health().journal.is_none() && store.health().failed.is_empty());
            drop((reader, partition, topic));
            store
                .close()
                .unwrap_or_else(|error| panic!("{volume}: close: {error}"));
        }
        drop((held, ballast));
        let store = volume.open("data");
        let mut book = Book::default();
        let other = store.topic("other").unwrap();
        assert!((0..20).all(|_| book.append(&other, RECORD)), "{volume}");
        assert!(quakes(&store).append("more").is_ok());
        drop(other);
        store.close().unwrap();
        let root = volume.dir().join("data");
        assert!(verify(&root, &volume.options()).unwrap().is_sound());
    });
}
