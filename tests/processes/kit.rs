//! What the tests have in common.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tidelog::{Follow, Store, Topic, TopicOptions};

use crate::child::Other;

/// A hang is a failure, after a time that no machine is too slow for.
pub const HANG: Duration = Duration::from_secs(120);

/// Small segments, so that a test sees many of them.
pub fn small() -> TopicOptions {
    TopicOptions::new()
        .first_segment_bytes(64 << 10)
        .max_segment_bytes(64 << 10)
}

pub fn payload(offset: u64) -> String {
    format!("record {offset} {}", "x".repeat((offset % 97) as usize))
}

/// Appends `count` records behind what is there, in batches, and says so.
pub fn append(topic: &Topic, count: u64, batch: u64) {
    let mut at = topic.partition(0).unwrap().end().unwrap();
    let end = at + count;
    while at < end {
        let records: Vec<_> = (at..end.min(at + batch)).map(payload).collect();
        topic
            .append_batch(records.iter().map(String::as_str))
            .unwrap();
        at += records.len() as u64;
    }
}

/// Reads on to `end`: every record once, in order, and as it was written.
pub fn reads(tail: &mut Follow, from: u64, end: u64) {
    let begin = Instant::now();
    let mut next = from;
    while next < end {
        let record = tail.next_timeout(HANG.saturating_sub(begin.elapsed()));
        let record = record.unwrap().expect("it comes before the time is up");
        assert_eq!(record.offset(), next);
        assert_eq!(record.text().unwrap(), payload(next));
        next += 1;
    }
}

/// The reader's store, once there is one.
pub fn reader(folder: &Path) -> Store {
    let begin = Instant::now();
    loop {
        match Store::open_read_only(folder) {
            Ok(store) => return store,
            Err(error) if begin.elapsed() > HANG => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The other process lives on until it is asked to end.
pub fn asked() {
    let mut line = String::new();
    while std::io::stdin()
        .read_line(&mut line)
        .is_ok_and(|read| read > 0)
    {}
    std::thread::sleep(HANG);
}

/// A topic of the reader's store, once there is one of that name.
pub fn opened(store: &Store, name: &str) -> Topic {
    let begin = Instant::now();
    loop {
        match store.topic(name) {
            Ok(topic) => return topic,
            Err(error) if begin.elapsed() > HANG => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Looks again and again until it is so.
pub fn until(what: &str, so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < HANG, "{what}: it never came to that");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Hands the other process a line.
pub fn tell(other: &mut Other, line: &str) {
    writeln!(other.child.stdin.as_mut().unwrap(), "{line}").unwrap();
}
