//! Figures of a store, as plain structs and through the `metrics` facade.
//!
//! What is counted on the way of a record is counted in atomics of the engine. Whoever wants to see the
//! figures collects them; no recorder is ever called on that way.

mod counts;
mod export;
mod latency;
mod waits;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::inner::{Inner, TopicInner};
use super::store::Store;
use super::subscription::SubscriptionInfo;
use crate::error::{Result, Span};
use crate::partition::Log;

pub(crate) use counts::Counters;
pub use counts::ProcessorCounts;
pub(super) use export::{Exporter, start, stop};
pub use latency::Latency;
pub use waits::AppendWaits;

/// Figures of a store at one moment, give or take what was appended meanwhile: [`Store::metrics`].
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// store.topic("quakes")?.append("M 4.6")?;
/// let metrics = store.metrics()?;
/// assert_eq!(metrics.topics[0].records_total, 1);
/// assert_eq!(metrics.topics[0].partitions[0].append_latency.count(), 1);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Metrics {
    /// Topics, sorted by name.
    pub topics: Vec<TopicMetrics>,
    /// Processors that were opened since the store was, sorted by name, each with what all who had the
    /// name have done together.
    pub processors: Vec<ProcessorMetrics>,
    /// Bytes that the file system of the store has left, where it says so.
    pub free_bytes: Option<u64>,
    /// Bytes of records that are not safe in their own segments yet; those that are durable are in the
    /// journal.
    pub unsettled_bytes: u64,
    /// The redo backlog: [`Health::redo_bytes`](crate::Health::redo_bytes).
    pub redo_bytes: u64,
    /// Records in doubt: how many are in [`Health::in_doubt`](crate::Health::in_doubt).
    pub in_doubt_records: u64,
    /// Partitions that take no appends since a failure.
    pub failed_partitions: u64,
    /// Partitions whose newest records are in the journal only, and that nobody has used since.
    pub unopened_redo: u64,
}

/// Figures of a topic: of those of its partitions that can be opened.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # store.topic("quakes")?.append("M 4.6")?;
/// let quakes = &store.metrics()?.topics[0];
/// assert_eq!((quakes.topic.as_str(), quakes.segments), ("quakes", 1));
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TopicMetrics {
    /// Its name.
    pub topic: String,
    /// Bytes of the records that are there.
    pub bytes: u64,
    /// Records ever appended, those that have gone among them.
    pub records_total: u64,
    /// Segments that are there.
    pub segments: u64,
    /// The age of the oldest record that is there, by its timestamp.
    pub oldest_record_age: Option<Duration>,
    /// The greatest offset of the next record, over its partitions.
    pub newest_offset: u64,
    /// How much of [`TopicOptions::max_total_bytes`](crate::TopicOptions::max_total_bytes) is used in the
    /// partition that is fullest, where there is that limit and that is known: 1 is full.
    pub fullness: Option<f64>,
    /// Those of its partitions that can be opened.
    pub partitions: Vec<PartitionMetrics>,
    /// Its subscriptions, sorted by name. Of a partition that cannot be opened the lag is not known, and
    /// the subscription tells why.
    pub subscriptions: Vec<SubscriptionMetrics>,
}

/// Figures of a subscription.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append("M 4.6")?;
/// let mut archive = topic.subscribe("archive")?;
/// assert!(archive.next()?.is_some());
/// archive.commit()?;
/// let told = &store.metrics()?.topics[0].subscriptions[0];
/// assert_eq!((told.reads_total, told.commits_total, told.info.lag.records), (1, 1, 0));
/// # drop(archive);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SubscriptionMetrics {
    /// How it stands.
    pub info: SubscriptionInfo,
    /// Records returned since the store was opened.
    pub reads_total: u64,
    /// Commits that moved something, since the store was opened.
    pub commits_total: u64,
    /// How often, since the store was opened, what it was to read next had expired.
    pub offset_expired_total: u64,
}

/// Figures of a processor.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// store.topic("quakes")?.append("M 4.6")?;
/// store.processor("silent").input("quakes").run_once(|_, _| Ok(()))?;
/// assert_eq!(store.metrics()?.processors[0].counts.records_in, 1);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessorMetrics {
    /// Its name.
    pub name: String,
    /// What it has done since the store was opened.
    pub counts: ProcessorCounts,
    /// The age of the oldest record that it has not committed; nothing if there is none, or if that is
    /// not known.
    pub checkpoint_lag: Option<Duration>,
}

/// Figures of a partition.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # store.topic("quakes")?.append("M 4.6")?;
/// assert_eq!(store.metrics()?.topics[0].partitions[0].offset, 1);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PartitionMetrics {
    /// Its number.
    pub partition: u32,
    /// The offset of the first record that is there.
    pub first_offset: u64,
    /// The offset of the next record.
    pub offset: u64,
    /// Bytes of the records that are there.
    pub bytes: u64,
    /// Segments that are there.
    pub segment_count: u64,
    /// Segments ever removed by retention, or by hand.
    pub retention_deletes_total: u64,
    /// How long durable appends took, since the store was opened.
    pub append_latency: Latency,
    /// What appends have waited for, in the order of [`Wait::ALL`](crate::Wait::ALL).
    pub append_waits: [AppendWaits; 5],
}

impl Store {
    /// The store's figures now.
    ///
    /// Partitions that nobody has used since the store was opened are opened for this, one after
    /// another, so that a consumer that stands still is seen after a restart, too: the first call may
    /// take long in a store of many topics. Their files are let go of again within
    /// [`StoreOptions::max_open_files`](crate::StoreOptions::max_open_files). One that cannot be opened
    /// is not tried again by the next call, but when it is used.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`](crate::Error::ReadOnly) in a store that is only read;
    /// [`Error::Closed`](crate::Error::Closed).
    pub fn metrics(&self) -> Result<Metrics> {
        let store = self.shared();
        store.check_not_closed()?;
        store.check_writes()?;
        let inners: Vec<_> = store.topics().values().cloned().collect();
        let topics: Vec<TopicMetrics> = inners
            .iter()
            .filter_map(|topic| self.topic_metrics(topic))
            .collect();
        store.check_not_closed()?;
        let free = store.options.storage.free(&store.root);
        let count = |span: Span| span.offsets.end - span.offsets.start;
        let open = || inners.iter().flat_map(|topic| topic.open_logs());
        Ok(Metrics {
            free_bytes: free.ok(),
            unsettled_bytes: open().map(|log| log.unsettled_bytes()).sum(),
            redo_bytes: store.redo_bytes(),
            in_doubt_records: open().filter_map(|log| log.in_doubt()).map(count).sum(),
            failed_partitions: inners.iter().map(|it| it.failures().count() as u64).sum(),
            unopened_redo: store.pending().len() as u64,
            processors: self.processor_metrics(&topics),
            topics,
        })
    }

    /// Where a processor of that name counts what it does.
    pub(crate) fn counted(&self, processor: &str) -> Arc<Counters> {
        let mut all = self.processors();
        Counters::of(all.entry(processor.to_owned()).or_default())
    }

    fn processors(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Counters>>> {
        let all = self.shared().processors.lock();
        all.unwrap_or_else(PoisonError::into_inner)
    }

    fn processor_metrics(&self, topics: &[TopicMetrics]) -> Vec<ProcessorMetrics> {
        let subscriptions = || topics.iter().flat_map(|topic| &topic.subscriptions);
        let told = |(name, counters): (&String, &Arc<Counters>)| {
            let subscription = format!("processor.{name}");
            let of_it = subscriptions().filter(|it| it.info.name == subscription);
            ProcessorMetrics {
                name: name.clone(),
                counts: counters.now(),
                checkpoint_lag: of_it.filter_map(|it| it.info.lag.age).max(),
            }
        };
        self.processors().iter().map(told).collect()
    }

    /// Nothing of a topic that is deleted meanwhile.
    fn topic_metrics(&self, topic: &Arc<TopicInner>) -> Option<TopicMetrics> {
        let handle = super::topic::Topic {
            store: self.clone(),
            inner: Arc::clone(topic),
        };
        let store = self.shared();
        let log = |partition| store.log_once(topic, partition);
        let each = (0..topic.partitions()).filter_map(|number| log(number).ok());
        let partitions: Vec<_> = each.filter_map(|log| of_partition(&log)).collect();
        let infos = handle.subscriptions_by(&log).ok()?;
        let told = |info: SubscriptionInfo| {
            let named = |fold: &crate::journal::Fold| {
                let state = fold.subscription_named(topic.id, &info.name);
                state.map(|state| state.id)
            };
            let totals = topic.totals(store.journal.fold(named)?);
            Some(SubscriptionMetrics {
                info,
                reads_total: totals.reads.get(),
                commits_total: totals.commits.get(),
                offset_expired_total: totals.expired.get(),
            })
        };
        let subscriptions = infos.into_iter().filter_map(told).collect();
        let limit = topic.limits().total;
        let fullest = partitions.iter().map(|it| it.bytes).max();
        let full = |(limit, fullest): (u64, u64)| fullest as f64 / limit.max(1) as f64;
        Some(TopicMetrics {
            topic: topic.name.to_string(),
            bytes: partitions.iter().map(|it| it.bytes).sum(),
            records_total: partitions.iter().map(|it| it.offset).sum(),
            segments: partitions.iter().map(|it| it.segment_count).sum(),
            oldest_record_age: oldest_age(store, topic),
            newest_offset: partitions.iter().map(|it| it.offset).max().unwrap_or(0),
            fullness: limit.zip(fullest).map(full),
            partitions,
            subscriptions,
        })
    }
}

/// Nothing of a partition that is gone or closed, or cannot be looked at.
fn of_partition(log: &Log) -> Option<PartitionMetrics> {
    let pieces = log.pieces().ok()?;
    Some(PartitionMetrics {
        partition: log.site().partition,
        first_offset: log.first(),
        offset: log.written(),
        bytes: pieces.iter().map(|piece| piece.bytes).sum(),
        segment_count: pieces.len() as u64,
        retention_deletes_total: pieces.first().map_or(0, |it| u64::from(it.number)),
        append_latency: Latency::new(log.append_times().counts()),
        append_waits: AppendWaits::of(log),
    })
}

/// The age of the oldest record of the partitions that are open.
fn oldest_age(store: &Inner, topic: &TopicInner) -> Option<Duration> {
    let oldest = topic.logs.iter().filter_map(|cell| cell.oldest()).min()?;
    let age = store.options.clock.now().saturating_sub(oldest);
    Some(Duration::from_nanos(u64::try_from(age).unwrap_or(0)))
}
