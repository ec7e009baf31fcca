//! What all handles of a store share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use super::backup::Copying;
use super::budget::Budget;
use super::log_cell::LogCell;
use super::reading::Reading;
use super::subscription::Totals;
use crate::error::{Error, Result};
use crate::flush::Crew;
use crate::journal::{Journal, Pending, TopicSettings, TopicState};
use crate::options::{Durability, Retention, StoreOptions, TopicOptions};
use crate::partition::{Bells, Limits, Log, Setting};
use crate::sys::{Lock, Volume};

/// The store behind every handle.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(super) root: PathBuf,
    pub(super) id: [u8; 16],
    pub(super) options: StoreOptions,
    /// Nothing in a store that is only read.
    pub(super) lock: Option<Box<dyn Lock>>,
    /// How it is read, if it is only read.
    pub(super) reading: Option<Reading>,
    /// The disk that topics lie on.
    pub(super) files: Arc<Budget>,
    /// All of it, where one sync of it can stand for many.
    pub(super) volume: Option<Arc<dyn Volume>>,
    pub(super) journal: Journal,
    /// What logs are opened with, but for their limits.
    pub(super) setting: Setting,
    /// The last owner closed the store, so ends that the journal calls exact are so.
    pub(super) clean: bool,
    pub(super) topics: Mutex<BTreeMap<String, Arc<TopicInner>>>,
    /// Serialises what changes the catalog.
    pub(super) catalog: Mutex<Ids>,
    /// Held by each transaction while it is under way, and alone by who looks at the whole store.
    pub(super) whole: RwLock<()>,
    pub(super) copying: Copying,
    pub(super) closed: AtomicBool,
    /// What became of closing it.
    pub(super) ended: OnceLock<Result<()>>,
    pub(super) journal_damaged: usize,
    /// Redo of logs that have not been opened yet.
    pub(super) pending: Mutex<Pending>,
    /// Where processors count what they do, by their names.
    pub(super) processors: Mutex<BTreeMap<String, Arc<super::metrics::Counters>>>,
    /// The thread that tells figures.
    pub(super) exporting: Mutex<Option<super::metrics::Exporter>>,
    /// The thread that opens them.
    pub(super) recovering: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// The thread that removes what has expired, once there is a topic in which something can.
    pub(super) keeping: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// The next ids to give; none is ever given twice.
#[derive(Debug)]
pub(super) struct Ids {
    pub(super) topic: u64,
    pub(super) log: u64,
    pub(super) subscription: u64,
}

/// A topic behind every handle of it.
#[derive(Debug)]
pub(crate) struct TopicInner {
    pub(super) id: u64,
    pub(super) name: Arc<str>,
    pub(super) content_type: String,
    pub(super) created: i64,
    settings: RwLock<TopicSettings>,
    /// Those of the settings that each append is held against.
    caps: LiveCaps,
    pub(super) logs: Vec<LogCell>,
    /// Rung whenever something becomes durable in one of its partitions.
    pub(super) bells: Arc<Bells>,
    /// The next partition for a record without a key.
    pub(super) turn: AtomicU32,
    pub(super) finished: AtomicBool,
    pub(super) deleted: AtomicBool,
    /// Subscriptions that somebody holds.
    pub(super) held: Mutex<BTreeSet<u64>>,
    /// Held by who states where a log begins, and by who states that a subscription goes back, while he
    /// looks at what the other has stated.
    floors: Mutex<()>,
    /// What subscriptions have done, by their ids.
    totals: Mutex<BTreeMap<u64, Arc<Totals>>>,
}

/// What each append is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    /// Bytes of a record at most.
    pub(super) record: u64,
    /// Bytes of a batch at most.
    pub(super) batch: u64,
    pub(super) durability: Durability,
}

#[derive(Debug, Default)]
struct LiveCaps {
    record: AtomicU64,
    batch: AtomicU64,
    /// [`Durability::word`].
    durability: AtomicU64,
}

impl LiveCaps {
    fn new(settings: &TopicSettings) -> LiveCaps {
        let caps = LiveCaps::default();
        caps.set(settings);
        caps
    }

    fn set(&self, settings: &TopicSettings) {
        let durability = Durability::from_nanos(settings.sync_after_nanos);
        self.record
            .store(settings.max_record_bytes, Ordering::Release);
        self.batch
            .store(settings.max_batch_bytes, Ordering::Release);
        self.durability.store(durability.word(), Ordering::Release);
    }
}

/// What settings say about how long records are kept.
fn retention(settings: &TopicSettings) -> Retention {
    let Some(stated) = &settings.retention else {
        return Retention::forever();
    };
    Retention {
        age: stated.age_nanos.map(Duration::from_nanos),
        bytes: stated.bytes,
        required: stated.required_bytes,
    }
}

impl Inner {
    pub(super) fn topics(&self) -> MutexGuard<'_, BTreeMap<String, Arc<TopicInner>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store is this process's own.
    pub(super) fn check_owner(&self) -> Result<()> {
        self.setting.parentage.check()
    }

    /// One change of the catalog at a time: whoever makes one does it under this lock.
    pub(super) fn catalog(&self) -> Result<MutexGuard<'_, Ids>> {
        // Before the lock: in a forked child nobody lets go of it.
        self.check_not_closed()?;
        self.check_writes()?;
        Ok(self.catalog.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn check_not_closed(&self) -> Result<()> {
        self.check_owner()?;
        match self.is_closed() {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// Whether this handle is one that writes.
    pub(super) fn check_writes(&self) -> Result<()> {
        match &self.reading {
            Some(_) => Err(Error::ReadOnly {
                path: self.root.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Whether anything may be written: the store is not closed, and its journal has not failed.
    pub(super) fn check_open(&self) -> Result<()> {
        self.check_not_closed()?;
        self.check_writes()?;
        match self.journal.failure() {
            Some(cause) => Err(Error::StoreFailed { cause }),
            None => Ok(()),
        }
    }

    /// The log of a partition, opened when it is first used.
    pub(super) fn log(&self, topic: &TopicInner, partition: u32) -> Result<Arc<Log>> {
        if let Some(log) = topic.log_if_open(partition) {
            return Ok(Arc::clone(log));
        }
        let cell = topic.logs.get(partition as usize);
        let cell = cell.ok_or_else(|| topic.partition_unknown(partition))?;
        cell.open(self, topic, partition)
    }

    /// The same, but one that could not be opened when that was last tried is not tried again.
    pub(super) fn log_once(&self, topic: &TopicInner, partition: u32) -> Result<Arc<Log>> {
        let cell = topic.logs.get(partition as usize);
        let unopened = cell.filter(|cell| cell.get().is_none());
        match unopened.and_then(|cell| cell.failure(topic, partition)) {
            Some(error) => Err(error),
            None => self.log(topic, partition),
        }
    }

    pub(super) fn crews(&self) -> [&Arc<Crew>; 2] {
        [&self.setting.flusher, &self.setting.preparer]
    }
}

impl TopicInner {
    pub(super) fn new(state: &TopicState) -> Arc<TopicInner> {
        Arc::new(TopicInner {
            id: state.id,
            name: state.name.as_str().into(),
            content_type: state.content_type.clone(),
            created: state.created,
            settings: RwLock::new(state.settings.clone()),
            caps: LiveCaps::new(&state.settings),
            logs: state.logs.iter().copied().map(LogCell::new).collect(),
            bells: Arc::new(Bells::new()),
            turn: AtomicU32::new(0),
            finished: AtomicBool::new(state.finished),
            deleted: AtomicBool::new(false),
            held: Mutex::new(BTreeSet::new()),
            floors: Mutex::default(),
            totals: Mutex::default(),
        })
    }

    pub(super) fn partitions(&self) -> u32 {
        u32::try_from(self.logs.len()).unwrap_or(u32::MAX)
    }

    /// What each append is held against: loads only.
    pub(super) fn caps(&self) -> Caps {
        Caps {
            record: self.caps.record.load(Ordering::Acquire),
            batch: self.caps.batch.load(Ordering::Acquire),
            durability: Durability::from_word(self.caps.durability.load(Ordering::Acquire)),
        }
    }

    /// From now on these settings hold.
    pub(super) fn set_settings(&self, settings: TopicSettings) {
        self.caps.set(&settings);
        *self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = settings;
    }

    pub(super) fn settings(&self) -> TopicSettings {
        self.settings
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The topic as the journal states it.
    pub(super) fn state(&self) -> TopicState {
        TopicState {
            id: self.id,
            name: self.name.to_string(),
            content_type: self.content_type.clone(),
            logs: self.logs.iter().map(LogCell::id).collect(),
            settings: self.settings(),
            finished: self.finished.load(Ordering::Acquire),
            created: self.created,
        }
    }

    pub(super) fn check_there(&self) -> Result<()> {
        if self.deleted.load(Ordering::Acquire) {
            return Err(Error::TopicDeleted {
                topic: self.name.to_string(),
            });
        }
        Ok(())
    }

    /// What a partition may hold, of what the topic may.
    pub(super) fn limits(&self) -> Limits {
        let settings = self.settings();
        let partitions = u64::from(self.partitions()).max(1);
        let retention = retention(&settings);
        let longest = retention.segment_bytes().unwrap_or(u64::MAX);
        let longest = longest.max(settings.first_segment_bytes);
        Limits {
            first_segment: settings.first_segment_bytes,
            max_segment: settings.max_segment_bytes.min(longest),
            unsettled: settings.unsettled_bytes,
            total: settings.max_total_bytes.map(|total| total / partitions),
            durability: Durability::from_nanos(settings.sync_after_nanos),
            full_wait: settings.full_wait_nanos.map(Duration::from_nanos),
            retained: retention.is_limited(),
            ahead: false,
        }
    }

    /// What makes the same topic elsewhere, with the settings of now.
    pub(super) fn options(&self) -> TopicOptions {
        let settings = self.settings();
        TopicOptions {
            partitions: self.partitions(),
            content_type: self.content_type.clone(),
            max_record_bytes: settings.max_record_bytes,
            max_batch_bytes: settings.max_batch_bytes,
            max_total_bytes: settings.max_total_bytes,
            first_segment_bytes: settings.first_segment_bytes,
            max_segment_bytes: settings.max_segment_bytes,
            unsettled_bytes: settings.unsettled_bytes,
            durability: Durability::from_nanos(settings.sync_after_nanos),
            retention: retention(&settings),
            full_wait: settings.full_wait_nanos.map(Duration::from_nanos),
        }
    }

    /// How long its records are kept.
    pub(super) fn retention(&self) -> Retention {
        retention(&self.settings())
    }

    /// Waits until everything written so far is durable. What goes wrong with one partition does
    /// not keep the others from it; the first such error is returned.
    pub(super) fn flush(&self, store: &Inner) -> Result<()> {
        let flushed = self.logs.iter().map(|cell| cell.flush(store));
        flushed.fold(Ok(()), Result::and)
    }

    /// A partition's log, if it is open.
    pub(super) fn log_if_open(&self, partition: u32) -> Option<&Arc<Log>> {
        self.logs.get(partition as usize)?.get()
    }

    pub(super) fn partition_unknown(&self, partition: u32) -> Error {
        Error::PartitionUnknown {
            topic: self.name.to_string(),
            partition,
            partitions: self.partitions(),
        }
    }

    /// What a subscription has done.
    pub(super) fn totals(&self, subscription: u64) -> Arc<Totals> {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(totals.entry(subscription).or_default())
    }

    pub(super) fn held(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn floors(&self) -> MutexGuard<'_, ()> {
        self.floors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every log that is open, and, once the store was marked closed or the topic deleted, every
    /// one that ever will be.
    pub(super) fn all_open_logs(&self) -> impl Iterator<Item = Arc<Log>> + '_ {
        self.logs.iter().filter_map(LogCell::get_settled).cloned()
    }

    /// Why partitions take no appends, of those that have failed or could not be opened.
    pub(super) fn failures(&self) -> impl Iterator<Item = Error> + '_ {
        let each = (0..).zip(&self.logs);
        each.filter_map(|(partition, cell)| cell.failure(self, partition))
    }

    /// Logs that are open now.
    pub(super) fn open_logs(&self) -> impl Iterator<Item = Arc<Log>> + '_ {
        self.logs.iter().filter_map(LogCell::get).cloned()
    }
}
