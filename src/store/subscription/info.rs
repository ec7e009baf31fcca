//! How subscriptions stand, for who looks at them from outside.

use std::sync::Arc;
use std::time::Duration;

use super::builder::{OnExpiry, Stored};
use super::filter::Filter;
use super::sampling::Sampling;
use crate::error::{Error, Result, Span};
use crate::journal::SubscriptionState;
use crate::partition::Log;
use crate::store::store::Store;
use crate::store::topic::Topic;

/// How to come by the log of a partition.
type Logs<'a> = &'a dyn Fn(u32) -> Result<Arc<Log>>;

/// How far a subscription is behind.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append(Record::new("M 4.6"))?;
/// let archive = topic.subscribe("archive")?;
/// assert_eq!(archive.lag()?.records, 1);
/// # drop(archive);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// Durable records that are there and not committed, whether a filter lets them pass or not.
    pub records: u64,
    /// Their bytes, with keys, headers and what surrounds them.
    pub bytes: u64,
    /// The age of the oldest of them by its own time, in all partitions; nothing if there is none, or
    /// if it cannot be read.
    pub age: Option<Duration>,
}

/// Whether a subscription can be read.
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, SubscriptionStatus};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let mut archive = store.topic("quakes")?.subscribe("archive")?;
/// assert_eq!(archive.status()?, SubscriptionStatus::Active);
/// archive.pause()?;
/// assert_eq!(archive.status()?, SubscriptionStatus::Paused);
/// # drop(archive);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriptionStatus {
    /// It can.
    #[default]
    Active,
    /// Not until it is resumed.
    Paused,
    /// Retention has removed records that it has not committed: not until it is reset, unless it is
    /// told to do that by itself.
    OffsetExpired,
}

/// A subscription, as [`Topic::subscriptions`] and [`Store::subscriptions`] tell it.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append(Record::new("M 4.6"))?;
/// # topic.subscribe("archive")?;
/// for subscription in topic.subscriptions()? {
///     println!("{} lacks {} records", subscription.name, subscription.lag.records);
/// }
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionInfo {
    /// The topic that it reads.
    pub topic: String,
    /// Its name.
    pub name: String,
    /// Whether it can be read.
    pub status: SubscriptionStatus,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether retention may keep records for it.
    pub required: bool,
    /// The offset that it reads next, of each partition, as far as that is committed.
    pub committed: Vec<u64>,
    /// How far it is behind, as far as its partitions can be looked at.
    pub lag: Lag,
    /// What retention has removed that it had not committed, exactly.
    pub expired: Vec<Span>,
    /// Which records it is given, if not all.
    pub filter: Option<Filter>,
    /// How many of them, if not all.
    pub sampling: Option<Sampling>,
    /// What it does when records expire that it has not committed.
    pub on_expiry: OnExpiry,
    /// What could not be looked at, and why: a partition that failed.
    pub failed: Option<String>,
}

impl Store {
    /// The subscriptions of all topics, sorted by topic and name: also in a store that is only read, as
    /// far as its owner has committed them. What cannot be looked at of one is told there.
    pub fn subscriptions(&self) -> Result<Vec<SubscriptionInfo>> {
        let mut all = Vec::new();
        for info in self.topics() {
            match self
                .existing_topic(&info.name)
                .and_then(|it| it.subscriptions())
            {
                Ok(some) => all.extend(some),
                // It has gone meanwhile.
                Err(Error::TopicUnknown { .. } | Error::TopicDeleted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.shared().check_not_closed()?;
        Ok(all)
    }
}

impl Topic {
    /// The topic's subscriptions, sorted by name: also in a store that is only read, as far as its
    /// owner has committed them.
    pub fn subscriptions(&self) -> Result<Vec<SubscriptionInfo>> {
        self.subscriptions_by(&|partition| self.log(partition))
    }

    /// The same, for who comes by logs in a way of his own.
    pub(in crate::store) fn subscriptions_by(
        &self,
        log: Logs<'_>,
    ) -> Result<Vec<SubscriptionInfo>> {
        let store = self.store.shared();
        store.check_not_closed()?;
        if let Some(reading) = &store.reading {
            reading.refresh(store)?;
        }
        self.inner.check_there()?;
        let states: Vec<SubscriptionState> = store
            .journal
            .fold(|fold| fold.subscriptions_of(self.inner.id).cloned().collect());
        let infos = states.into_iter().map(|state| self.info(state, log));
        Ok(infos.collect())
    }

    fn info(&self, state: SubscriptionState, log: Logs<'_>) -> SubscriptionInfo {
        let mut failed = None;
        let mut keep = |error: Error| {
            failed.get_or_insert_with(|| error.to_string());
        };
        let stored = Stored::of(&state).unwrap_or_else(|error| {
            keep(error);
            Stored::default()
        });
        let committed = self.committed(&state);
        let expired = expired(log, &committed, &mut keep);
        let lag = self.lag_of(log, &committed, &mut keep);
        SubscriptionInfo {
            topic: self.name().to_owned(),
            status: status(state.paused, &expired),
            name: state.name,
            paused: state.paused,
            required: state.required,
            committed,
            lag,
            expired,
            filter: stored.filter,
            sampling: stored.sampling,
            on_expiry: stored.on_expiry,
            failed,
        }
    }

    /// The offset that a subscription reads next, of each partition.
    pub(super) fn committed(&self, state: &SubscriptionState) -> Vec<u64> {
        let journal = &self.store.shared().journal;
        let stored = |partition| journal.fold(|fold| fold.checkpoint(state.id, partition));
        let each = (0..self.partitions()).zip(&state.start);
        each.map(|(partition, start)| stored(partition).unwrap_or(*start))
            .collect()
    }

    pub(super) fn lag_of(
        &self,
        log: Logs<'_>,
        committed: &[u64],
        mut failed: impl FnMut(Error),
    ) -> Lag {
        let now = self.store.shared().options.clock.now();
        let mut lag = Lag::default();
        for (partition, next) in (0..).zip(committed) {
            match log(partition).and_then(|log| log.behind(*next)) {
                Ok(behind) => {
                    lag.records += behind.records;
                    lag.bytes += behind.bytes;
                    let age = behind.since.map(|since| now.saturating_sub(since).max(0));
                    let age = age.map(|age| Duration::from_nanos(age.unsigned_abs()));
                    lag.age = lag.age.max(age);
                }
                Err(error) => failed(error),
            }
        }
        lag
    }
}

/// What has expired below these checkpoints; what goes wrong with one partition is told.
pub(super) fn expired(
    log: Logs<'_>,
    committed: &[u64],
    mut failed: impl FnMut(Error),
) -> Vec<Span> {
    let each = (0..).zip(committed).filter_map(|(partition, next)| {
        let log = log(partition).map_err(&mut failed).ok()?;
        let first = log.first();
        (*next < first).then(|| log.site().span(*next..first))
    });
    each.collect()
}

/// Whether a subscription can be read, of which that has expired.
pub(super) fn status(paused: bool, expired: &[Span]) -> SubscriptionStatus {
    match paused {
        true => SubscriptionStatus::Paused,
        false if expired.is_empty() => SubscriptionStatus::Active,
        false => SubscriptionStatus::OffsetExpired,
    }
}
