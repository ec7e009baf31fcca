//! Looking at a store from outside: every frame of every log, without mapping and without
//! changing a byte.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{self, Read};
use crate::partition::{self, Inspected};
use crate::sys::Storage;

/// What [`verify`] found in a store.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # let store = Store::open(&path)?;
/// # store.topic("quakes")?.append(Record::new("M 4.6"))?;
/// # store.close()?;
/// let report = tidelog::verify(&path, &StoreOptions::new())?;
/// assert!(report.is_sound());
/// assert_eq!(report.logs[0].records, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VerifyReport {
    /// A report for each partition, in the order of topics' names.
    pub logs: Vec<LogReport>,
    /// Records of the journal that cannot be read.
    pub journal_damaged: usize,
    /// Whether the last owner closed the store.
    pub was_closed: bool,
}

/// What [`verify`] found in one partition.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # let store = Store::open(&path)?;
/// # store.topic("quakes")?.append(Record::new("M 4.6"))?;
/// # store.close()?;
/// for log in tidelog::verify(&path, &StoreOptions::new())?.logs {
///     println!("{}/{}: {}..{}", log.topic, log.partition, log.first, log.end);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogReport {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// Its folder.
    pub path: PathBuf,
    /// The first offset that is still there.
    pub first: u64,
    /// The offset that follows the last record.
    pub end: u64,
    /// Records that are sound.
    pub records: u64,
    /// Segment files of the log.
    pub segments: u32,
    /// Damaged stretches, with coordinates; or why the log cannot be read at all.
    pub damage: Vec<Error>,
    /// Bytes that are not zero beyond the last record: what a crash cut off.
    pub beyond: u64,
}

impl VerifyReport {
    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.journal_damaged == 0 && self.logs.iter().all(|log| log.damage.is_empty())
    }
}

/// Reads every frame of a store and checks it. It maps nothing, so that a bad sector is an error
/// and not a signal, takes no lock and writes nothing; beside a live owner it sees the store as
/// that owner's killing at this moment would leave it.
///
/// # Errors
///
/// [`Error::NoStore`] if there is none; what is damaged is not an error but in the report.
pub fn verify(path: impl AsRef<Path>, options: &crate::StoreOptions) -> Result<VerifyReport> {
    let (root, storage) = (path.as_ref(), &options.storage);
    super::open::refuse_foreign(storage.as_ref(), root)?;
    let id = super::open::existing_id(storage, root)?;
    let read = journal::peek(&journal::site(storage, root, id))?;
    let mut topics: Vec<_> = read.fold.topics().collect();
    topics.sort_by(|one, other| one.name.cmp(&other.name));
    let mut logs = Vec::new();
    for topic in topics {
        for (partition, log) in (0..).zip(&topic.logs) {
            logs.push(check(
                storage,
                root,
                id,
                &read,
                (&topic.name, partition, *log),
            )?);
        }
    }
    Ok(VerifyReport {
        logs,
        journal_damaged: read.damaged,
        was_closed: read.fold.closed(),
    })
}

fn check(
    storage: &Arc<dyn Storage>,
    root: &Path,
    store: [u8; 16],
    read: &Read,
    (topic, partition, log): (&str, u32, u64),
) -> Result<LogReport> {
    let site = super::log_cell::site(storage, root, store, (topic, partition, log))?;
    let promises = super::log_cell::promises(&read.fold, log, read.fold.closed(), &read.pending);
    let inspected =
        super::log_cell::refuse_links(&site).and_then(|()| partition::inspect(&site, &promises));
    let (found, error) = match inspected {
        Ok(found) => (found, None),
        Err(error) => (Inspected::default(), Some(error)),
    };
    Ok(LogReport {
        topic: topic.to_owned(),
        partition,
        path: site.dir,
        first: found.first,
        end: found.end,
        records: found.records,
        segments: found.segments,
        damage: found.damage.into_iter().chain(error).collect(),
        beyond: found.beyond,
    })
}
