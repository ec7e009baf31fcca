//! What the rows share: stores on both back ends, images of killed stores, and the standing checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::common::copy;
use tidelog::sys::{Backend, Disk, Mode};
use tidelog::{Error, OwnedRecord, Partition, Record, Result, Store, StoreOptions, TopicOptions};

pub const BACKENDS: [Backend; 2] = [Backend::Mapped, Backend::Pwrite];

/// How an owner ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Close,
    Kill,
}

pub const ENDS: [End; 2] = [End::Close, End::Kill];

/// A folder of its own, with a store in it.
#[derive(Debug)]
pub struct Place {
    _dir: TempDir,
    pub root: PathBuf,
}

impl Place {
    pub fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        Place { _dir: dir, root }
    }

    /// The store as the killing of its owner at this moment would leave it: page cache and all
    /// files stay, and nothing was closed. So a copy of a live store's folder is what is found.
    pub fn killed(&self) -> Place {
        let image = Place::new();
        copy(&self.root, &image.root).unwrap();
        image
    }

    pub fn open(&self, backend: Backend) -> Store {
        Store::open_with(&self.root, options(backend)).unwrap()
    }

    /// The folder of a log: of a topic with one partition.
    pub fn log(&self, topic: &str) -> PathBuf {
        let folder = self.root.join("topics").join(topic);
        let mut logs: Vec<PathBuf> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(logs.len(), 1, "{logs:?}");
        logs.remove(0)
    }

    /// A segment file of that log.
    pub fn segment(&self, topic: &str, number: u32) -> PathBuf {
        self.log(topic).join(format!("{number:08}.seg"))
    }

    /// The segment files of that log that have been taken over, in order.
    pub fn segments(&self, topic: &str) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = fs::read_dir(self.log(topic))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                // Of a spare that was being made when its owner was killed there may be nothing.
                let bytes = fs::read(path).unwrap();
                bytes.get(..8).is_some_and(|magic| magic != [0; 8])
            })
            .collect();
        paths.sort();
        paths
    }
}

/// Ends the owner; the place where the store then lies.
pub fn end(place: Place, store: Store, how: End) -> Place {
    match how {
        End::Close => {
            store.close().unwrap();
            place
        }
        End::Kill => {
            let image = place.killed();
            store.close().unwrap();
            image
        }
    }
}

pub fn options(backend: Backend) -> StoreOptions {
    StoreOptions::new().storage(Arc::new(Disk::with_backend(Mode::Private, backend)))
}

/// Segments of one size.
pub fn segments_of(bytes: u64) -> TopicOptions {
    TopicOptions::new()
        .first_segment_bytes(bytes)
        .max_segment_bytes(bytes)
}

/// All files below a folder with what is in them: equal where no byte was changed.
pub fn fingerprint(root: &Path) -> Vec<(PathBuf, u32)> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        files.push((folder.clone(), 0));
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.is_file() && path.file_name().is_some_and(|name| name != "LOCK") {
                let sum = crc32c::crc32c(&fs::read(&path).unwrap());
                files.push((path, sum));
            }
        }
    }
    files.sort();
    files
}

/// A record's payload, all of it determined by its number.
pub fn payload(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = format!("{number:08}").into_bytes();
    bytes.extend(
        (0..)
            .map(|at: u64| (number.wrapping_mul(31) + at) as u8)
            .take(length),
    );
    bytes.truncate(length);
    bytes
}

pub fn one(store: &Store, topic: &str) -> Partition {
    store.existing_topic(topic).unwrap().partition(0).unwrap()
}

/// Every record of a partition, and every error in its place.
pub fn scan(partition: &Partition) -> Vec<Result<OwnedRecord>> {
    let first = partition.first().unwrap();
    partition.read(first..u64::MAX).unwrap().collect()
}

/// The payloads of a partition without damage. Offsets follow one another from the first on.
pub fn payloads(partition: &Partition) -> Vec<Vec<u8>> {
    let first = partition.first().unwrap();
    let records: Vec<OwnedRecord> = scan(partition).into_iter().map(Result::unwrap).collect();
    for (expected, record) in (first..).zip(&records) {
        assert_eq!(record.offset(), expected);
    }
    assert_eq!(partition.end().unwrap(), first + records.len() as u64);
    records
        .iter()
        .map(|record| record.payload().to_vec())
        .collect()
}

/// The offsets of damaged stretches.
pub fn damaged(records: &[Result<OwnedRecord>]) -> Vec<(u64, u64)> {
    let stretch = |record: &Result<OwnedRecord>| match record {
        Ok(_) => None,
        Err(Error::Corrupt { offset, next, .. }) => Some((*offset, *next)),
        Err(other) => panic!("{other}"),
    };
    records.iter().filter_map(stretch).collect()
}

/// Appends records numbered from `from`, in batches, all of one length.
pub fn fill(partition: &Partition, numbers: std::ops::Range<u64>, length: usize) {
    let numbers: Vec<u64> = numbers.collect();
    for numbers in numbers.chunks(200) {
        let batch = numbers.iter().map(|n| Record::new(payload(*n, length)));
        partition.append_batch(batch).unwrap();
    }
}
