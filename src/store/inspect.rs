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

/// How often a log is looked at again, beside an owner that is writing to it.
const LOOKS: usize = 16;

/// Reads every frame of a store and checks it. It maps nothing, so that a bad sector is an error
/// and not a signal, takes no lock, writes nothing, and opens no file for writing.
///
/// Beside a live owner it sees a store that changes while it is being read, and each log as it was
/// at some moment of that. What looks damaged is read once more, from the log's promises on, and
/// counts if it is found a second time in the same place: where an owner was in the middle of
/// writing there is a sound record by then, since looking further had shown one behind it.
///
/// # Errors
///
/// [`Error::NoStore`] if there is none; what is damaged is not an error but in the report.
pub fn verify(path: impl AsRef<Path>, options: &crate::StoreOptions) -> Result<VerifyReport> {
    let _span = tracing::info_span!("verify", root = %path.as_ref().display()).entered();
    let (root, storage) = (path.as_ref(), &options.storage);
    super::open::refuse_foreign(storage.as_ref(), root)?;
    let store = Place {
        storage,
        root,
        id: super::open::existing_id(storage, root)?,
    };
    let read = store.journal()?;
    let mut topics: Vec<_> = read.fold.topics().collect();
    topics.sort_by(|one, other| one.name.cmp(&other.name));
    let mut logs = Vec::new();
    for topic in topics {
        for (partition, log) in (0..).zip(&topic.logs) {
            let place = (topic.name.as_str(), partition, *log);
            logs.extend(store.log(&read, place)?);
        }
    }
    Ok(VerifyReport {
        logs,
        journal_damaged: read.damaged_records(),
        was_closed: read.fold.closed(),
    })
}

/// Where a store lies.
pub(super) struct Place<'a> {
    pub(super) storage: &'a Arc<dyn Storage>,
    pub(super) root: &'a Path,
    pub(super) id: [u8; 16],
}

impl Place<'_> {
    /// What the journal says. What cannot be read in it counts if it cannot be read twice.
    pub(super) fn journal(&self) -> Result<Read> {
        let site = journal::site(self.storage, self.root, self.id);
        let mut read = journal::peek(&site);
        for _ in 0..LOOKS {
            if matches!(&read, Ok(read) if read.damaged.is_empty()) {
                break;
            }
            let again = journal::peek(&site);
            let stands = match (&read, &again) {
                (Ok(before), Ok(now)) => now.damaged.iter().all(|at| before.damaged.contains(at)),
                (Err(before), Err(now)) => same(before, now),
                _ => false,
            };
            read = again;
            if stands {
                break;
            }
        }
        read
    }

    /// What a log holds. What is wrong with it counts if it is found twice; `None` if the topic was
    /// deleted meanwhile.
    fn log(&self, read: &Read, place: (&str, u32, u64)) -> Result<Option<LogReport>> {
        let mut report = self.look(read, place)?;
        let mut before: Vec<Error> = Vec::new();
        let stands = |found: &Error, before: &[Error]| before.iter().any(|it| same(it, found));
        for _ in 0..LOOKS {
            if report.damage.iter().all(|found| stands(found, &before)) {
                return Ok(Some(report));
            }
            let read = self.journal()?;
            if read.fold.log(place.2).is_none() {
                return Ok(None);
            }
            before = std::mem::take(&mut report.damage);
            report = self.look(&read, place)?;
        }
        report.damage.retain(|found| stands(found, &before));
        Ok(Some(report))
    }

    fn look(&self, read: &Read, (topic, partition, log): (&str, u32, u64)) -> Result<LogReport> {
        let place = (topic, partition, log);
        let site = super::log_cell::site(self.storage, self.root, self.id, place)?;
        let promises =
            super::log_cell::promises(&read.fold, log, read.fold.closed(), &read.pending);
        let unread = super::log_cell::unread(&read.pending, log);
        let inspected = unread
            .map_or(Ok(()), |cause| Err(Error::clone(&cause)))
            .and_then(|()| super::log_cell::refuse_links(&site))
            .and_then(|()| partition::inspect(&site, &promises));
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
}

/// Whether two findings are the same one: a damaged stretch by where it begins.
fn same(one: &Error, other: &Error) -> bool {
    let begins = |error: &Error| match error {
        Error::Corrupt { file, place, .. } => Some((file.clone(), *place)),
        _ => None,
    };
    match (begins(one), begins(other)) {
        (None, None) => one.to_string() == other.to_string(),
        (one, other) => one == other,
    }
}
