//! What can still be read of a damaged store, into a new one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use super::backup::refuse_inside;
use super::inner::TopicInner;
use super::inspect::Place;
use super::log_cell::{log_of_folder, promises, refuse_links, site};
use super::open::{names, refuse_foreign};
use super::record::{Header, Record, Timestamp};
use super::store::Store;
use super::topic::Topic;
use crate::error::{Error, Flaw, Result};
use crate::format::{Frame, TopicName};
use crate::journal::{Fold, Pending, TopicState};
use crate::options::{
    Durability, MAX_PARTITIONS, MAX_RECORD_BYTES, Retention, StoreOptions, TopicOptions,
};
use crate::partition::{Damage, Site, Visitor, gather};
use crate::segment::{Page, read_page};
use crate::sys::{Access, Kind, Storage};

/// Records are appended when they would come to more bytes than this.
const BATCH: u64 = 1 << 20;

/// What [`salvage`] could read, and what it could not.
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let (damaged, new) = (dir.path().join("data"), dir.path().join("new"));
/// # let store = Store::open(&damaged)?;
/// # store.topic("quakes")?.append("M 4.6")?;
/// # store.close()?;
/// let report = tidelog::salvage(&damaged, &new, &StoreOptions::new())?;
/// assert!(report.is_whole());
/// assert_eq!(report.logs[0].records, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SalvageReport {
    /// A report for each partition, in the order of topics' names.
    pub logs: Vec<SalvagedLog>,
    /// Why the journal could not be read, if so: the topics are then those of the folders, with the
    /// settings of a new one.
    pub journal: Option<Error>,
    /// Records of the journal that cannot be read.
    pub journal_damaged: usize,
    /// Folders that cannot be looked at: topics and partitions in them that nothing else tells of are
    /// lost.
    pub folders: Vec<Error>,
}

/// What [`salvage`] could read of one partition.
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let (damaged, new) = (dir.path().join("data"), dir.path().join("new"));
/// # let store = Store::open(&damaged)?;
/// # store.topic("quakes")?.append("M 4.6")?;
/// # store.close()?;
/// for log in tidelog::salvage(&damaged, &new, &StoreOptions::new())?.logs {
///     println!("{}/{}: {} records, lost: {:?}", log.topic, log.partition, log.records, log.lost);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SalvagedLog {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// Records that are in the new store.
    pub records: u64,
    /// What could not be read: stretches of offsets, or files, or why there is no more to be had.
    pub lost: Vec<Error>,
}

impl SalvageReport {
    /// Whether everything could be read.
    pub fn is_whole(&self) -> bool {
        let sound = self.journal.is_none() && self.journal_damaged == 0;
        sound && self.folders.is_empty() && self.logs.iter().all(|log| log.lost.is_empty())
    }
}

/// A topic to be read.
#[derive(Default)]
struct Source {
    /// The log of each partition.
    logs: BTreeMap<u32, u64>,
    state: Option<TopicState>,
}

/// Reads every record that can be read of a store, damaged or not, and appends them to a new one: in
/// the same topics and partitions, in their order, with their keys, headers, event ids and times. The
/// store that is read is not changed, and no lock on it is taken.
///
/// Topics have the settings that the journal tells, and how long they keep records counts from now on:
/// nothing expires before the new store has been closed. One topic, partition or file that cannot be read
/// does not keep the others. Where the journal is gone, too, the topics are found by their folders. Offsets are given anew from 0
/// on, so subscriptions, which name offsets, are not taken over; and what was acknowledged, and what
/// never was and lies behind it, can then not always be told apart, so both are read.
///
/// # Errors
///
/// [`Error::Refused`] if there is something at `target`, or it lies in a store; [`Error::Locked`] if the
/// store that is to be read has an owner; [`Error::NoStore`] if there is none; an error of the new store,
/// which then is there with what it has got so far. What cannot be read is not an error but in the
/// report.
pub fn salvage(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &StoreOptions,
) -> Result<SalvageReport> {
    let (root, target) = (source.as_ref(), target.as_ref());
    let _span = tracing::info_span!("salvage", root = %root.display()).entered();
    let storage = &options.storage;
    refuse_foreign(storage.as_ref(), root)?;
    let kind = storage.kind(target);
    if kind
        .map_err(|error| Error::io("inspect", target, error))?
        .is_some()
    {
        return Err(Error::Refused {
            path: target.to_owned(),
            reason: "a new store makes its own folder, and there is something",
        });
    }
    refuse_inside(storage.as_ref(), root, target)?;
    super::repair::refuse_owned(storage.as_ref(), root)?;
    let place = Place {
        storage,
        root,
        id: id_of(storage.as_ref(), root)?,
    };
    let mut report = SalvageReport {
        logs: Vec::new(),
        journal: None,
        journal_damaged: 0,
        folders: Vec::new(),
    };
    let (fold, pending) = match place.journal() {
        Ok(read) => {
            report.journal_damaged = read.damaged_records();
            (read.fold, read.pending)
        }
        Err(error @ Error::UnsupportedVersion { .. }) => return Err(error),
        Err(error) => {
            report.journal = Some(error);
            (Fold::default(), Pending::new())
        }
    };
    let known = fold.topics().next().is_some();
    if !known && report.journal.is_none() && !fold.closed() {
        report.journal = Some(Error::Mismatch {
            path: root.join("journal"),
            reason: "it knows of no topic".to_owned(),
        });
    }
    let trusted = report.journal.is_none() && !fold.carried().lost;
    let mut sources = stated(&fold);
    if !trusted {
        report.folders = found(storage.as_ref(), root, &mut sources);
    }
    let quiet = options.clone().background_retention(false);
    let store = Store::open_with(target, quiet)?;
    for (name, source) in sources {
        let logs = salvage_topic(&place, (&fold, &pending), &name, &source, &store)?;
        report.logs.extend(logs);
    }
    store.close()?;
    Ok(report)
}

/// The id of a store, in whatever header one can be read.
fn id_of(storage: &dyn Storage, root: &Path) -> Result<[u8; 16]> {
    let mut folders = vec![root.join("journal")];
    let topics = root.join("topics");
    for topic in names(storage, &topics).unwrap_or_default() {
        let topic = topics.join(topic);
        let logs = names(storage, &topic).unwrap_or_default();
        folders.extend(logs.into_iter().map(|log| topic.join(log)));
    }
    for folder in folders {
        for name in names(storage, &folder).unwrap_or_default() {
            let Ok(file) = storage.open(&folder.join(name), Access::Read) else {
                continue;
            };
            if let Ok(Page::Assigned(header)) = read_page(file.as_ref()) {
                return Ok(header.identity.store);
            }
        }
    }
    Err(Error::NoStore {
        path: root.to_owned(),
    })
}

/// The topics that the journal knows.
fn stated(fold: &Fold) -> BTreeMap<String, Source> {
    let source = |topic: &TopicState| Source {
        logs: (0..).zip(topic.logs.iter().copied()).collect(),
        state: Some(topic.clone()),
    };
    fold.topics()
        .map(|topic| (topic.name.clone(), source(topic)))
        .collect()
}

/// Adds the topics that have folders and that nobody knows; the folders that cannot be looked at.
fn found(storage: &dyn Storage, root: &Path, sources: &mut BTreeMap<String, Source>) -> Vec<Error> {
    let mut refused = Vec::new();
    let mut inside = |folder: &Path| {
        let listed = names(storage, folder);
        listed.unwrap_or_else(|error| {
            refused.push(error);
            Vec::new()
        })
    };
    let topics = root.join("topics");
    for name in inside(&topics) {
        let folder = topics.join(&name);
        let ours = storage.kind(&folder).ok().flatten() == Some(Kind::Folder);
        if sources.contains_key(&name) || !ours || TopicName::new(&name).is_err() {
            continue;
        }
        let mut source = Source::default();
        for (partition, id) in inside(&folder).iter().filter_map(|log| log_in(log)) {
            let newest = source.logs.entry(partition).or_insert(id);
            *newest = id.max(*newest);
        }
        if !source.logs.is_empty() {
            sources.insert(name, source);
        }
    }
    refused
}

/// The partition and the id of a log that has a folder of that name; none if no log can have it.
fn log_in(folder: &str) -> Option<(u32, u64)> {
    let (partition, _) = folder.split_once('-')?;
    let (partition, id) = (partition.parse().ok()?, log_of_folder(folder)?);
    (partition < MAX_PARTITIONS).then_some((partition, id))
}

fn salvage_topic(
    place: &Place<'_>,
    (fold, pending): (&Fold, &Pending),
    name: &str,
    source: &Source,
    store: &Store,
) -> Result<Vec<SalvagedLog>> {
    let partitions = source.logs.keys().next_back().map_or(1, |last| last + 1);
    let state = source.state.as_ref();
    let settled = match state {
        Some(state) => TopicInner::new(state).options(),
        None => TopicOptions::new(),
    };
    let settled = settled.partitions(partitions);
    let most = state.map_or(MAX_RECORD_BYTES, |state| state.settings.reach_bytes);
    let most = most.min(MAX_RECORD_BYTES);
    let topic = store.create_topic(name, open_to_all(settled.clone(), most))?;
    let mut logs = Vec::new();
    for (partition, log) in &source.logs {
        let at = site(
            place.storage,
            place.root,
            place.id,
            (name, *partition, *log),
        )?;
        let promises = promises(fold, *log, fold.closed(), pending);
        let mut taker = Taker {
            topic: &topic,
            site: &at,
            partition: *partition,
            batch: Vec::new(),
            bytes: 0,
            most: most.min(BATCH),
            records: 0,
            failed: false,
            lost: Vec::new(),
        };
        let gathered = match refuse_links(&at) {
            Ok(()) => gather(&at, &promises, &mut taker),
            Err(error) => Ok(vec![error]),
        };
        match gathered {
            Ok(refused) => taker.lost.extend(refused),
            Err(error) if taker.failed => return Err(error),
            Err(error) => taker.lost.push(error),
        }
        taker.append()?;
        logs.push(SalvagedLog {
            topic: name.to_owned(),
            partition: *partition,
            records: taker.records,
            lost: taker.lost,
        });
    }
    store.create_topic(name, settled)?;
    if source.state.as_ref().is_some_and(|state| state.finished) {
        topic.finish()?;
    }
    Ok(logs)
}

/// What was taken once is taken again, whatever the limits are by now, and nothing expires meanwhile.
fn open_to_all(settled: TopicOptions, most: u64) -> TopicOptions {
    let mut open = settled
        .durability(Durability::Commit)
        .retention(Retention::forever())
        .max_record_bytes(most)
        .max_batch_bytes(most);
    open.max_total_bytes = None;
    open.full_wait = None;
    open
}

/// Appends what comes to the new store.
struct Taker<'a> {
    topic: &'a Topic,
    site: &'a Site,
    partition: u32,
    batch: Vec<Record<'static>>,
    bytes: u64,
    /// Bytes of a batch of several records at most.
    most: u64,
    records: u64,
    /// The new store has failed.
    failed: bool,
    lost: Vec<Error>,
}

impl Taker<'_> {
    fn append(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let records = batch.len() as u64;
        self.bytes = 0;
        let appended = self.topic.append_batch(batch);
        self.failed |= appended.is_err();
        self.records += appended.map(|_| records)?;
        Ok(())
    }
}

impl Visitor for Taker<'_> {
    fn record(&mut self, _: u32, _: u64, frame: &Frame<'_>) -> Result<()> {
        let owned = |bytes: &[u8]| Cow::Owned(bytes.to_vec());
        let bytes = frame.padded_len() as u64;
        if !self.batch.is_empty() && self.bytes + bytes > self.most {
            self.append()?;
        }
        self.bytes += bytes;
        self.batch.push(Record {
            payload: owned(frame.payload()),
            key: frame.key().map(owned),
            headers: frame
                .headers()
                .map(|(name, value)| Header::new(name.to_owned(), value.to_vec()))
                .collect(),
            event_id: frame.event_id().map(owned),
            timestamp: Some(Timestamp::from_nanos(frame.timestamp())),
            partition: Some(self.partition),
            tombstone: frame.is_tombstone(),
        });
        Ok(())
    }

    fn damage(&mut self, damage: Damage, flaw: Flaw) -> Result<()> {
        self.lost.push(self.site.corrupt(damage, flaw));
        Ok(())
    }
}
