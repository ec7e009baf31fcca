//! Stores in folders of their own, and what the tests ask of them.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidelog::{Partition, Record, Result, Store, Topic, TopicOptions};

use crate::memory;

/// A folder of its own, in which a store may lie.
#[derive(Debug)]
pub struct Place {
    _dir: TempDir,
    pub root: PathBuf,
}

impl Place {
    pub fn new() -> Place {
        Place::below(&std::env::temp_dir())
    }

    /// The same in memory, where there is a folder for that: syncs cost nothing there.
    pub fn quick() -> Place {
        Place::below(&memory::folder())
    }

    fn below(folder: &Path) -> Place {
        let dir = tempfile::tempdir_in(folder).unwrap();
        let root = dir.path().join("data");
        Place { _dir: dir, root }
    }

    /// The folder of a log of a topic with one partition.
    pub fn log(&self, topic: &str) -> PathBuf {
        let inside = fs::read_dir(self.root.join("topics").join(topic)).unwrap();
        let mut logs: Vec<PathBuf> = inside.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(logs.len(), 1, "{logs:?}");
        logs.remove(0)
    }
}

/// Segments of one size, the smallest there are.
pub fn small_segments() -> TopicOptions {
    TopicOptions::new()
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(16 << 10)
}

pub fn one(topic: &Topic) -> Partition {
    topic.partition(0).unwrap()
}

/// Every payload of a topic with one partition, of which no record is damaged or missing.
pub fn payloads(store: &Store, topic: &str) -> Vec<Vec<u8>> {
    let partition = one(&store.existing_topic(topic).unwrap());
    let records: Result<Vec<_>> = partition.read(0..u64::MAX).unwrap().collect();
    let records = records.unwrap();
    for (expected, record) in (0..).zip(&records) {
        assert_eq!(record.offset(), expected);
    }
    assert_eq!(partition.end().unwrap(), records.len() as u64);
    records.iter().map(|it| it.payload().to_vec()).collect()
}

/// Appends records that say their own offsets, in batches.
pub fn number(partition: &Partition, count: u64, length: usize) {
    let from = partition.end().unwrap();
    for first in (from..from + count).step_by(100) {
        let batch = (first..(first + 100).min(from + count)).map(|n| numbered(n, length));
        partition.append_batch(batch).unwrap();
    }
}

/// A record that says its own offset.
pub fn numbered(offset: u64, length: usize) -> Record<'static> {
    Record::new(format!("{offset:0length$}"))
}
