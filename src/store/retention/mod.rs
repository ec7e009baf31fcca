//! Letting go of what is old: by hand, when it is asked for, and in the background.

mod keeper;
mod plan;

use std::sync::Arc;

use super::inner::{Inner, TopicInner};
use super::record::Timestamp;
use super::store::Store;
use super::topic::{Partition, Topic};
use crate::error::{Error, Result};
use crate::journal::{Event, LogStart};
use crate::options::Retention;
use crate::partition::Log;

pub(super) use keeper::{start as keep, stop};
use plan::{Facts, Plan, before, plan};
pub use plan::{Reason, Removal};

/// What retention would do now, or has just done: see [`Topic::audit`].
///
/// # Examples
///
/// ```
/// use tidelog::{Retention, Store, TopicOptions};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let week = TopicOptions::new().retention(Retention::days(7));
/// store.create_topic("quakes", week)?.append("M 4.6")?;
/// for partition in store.audit()?.partitions {
///     println!("{}/{}: {} go", partition.topic, partition.partition, partition.records());
/// }
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// The partitions of topics in which anything can expire, sorted by topic and number.
    pub partitions: Vec<PartitionAudit>,
}

/// The same of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionAudit {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// What goes, oldest first.
    pub removals: Vec<Removal>,
    /// Whether another segment takes over from the one that is written to, since the first record in
    /// that is old.
    pub rolls: bool,
    /// The first offset that is there afterwards, where that is known.
    pub first: Option<u64>,
    /// When there is more to do, if nothing is appended or committed until then.
    pub due: Option<Timestamp>,
    /// What cannot be done, or could not be found out.
    pub failed: Option<String>,
}

impl PartitionAudit {
    /// How many records go.
    pub fn records(&self) -> u64 {
        let counts = self.removals.iter();
        counts.map(|it| it.offsets.end - it.offsets.start).sum()
    }

    /// How many bytes of records go.
    pub fn bytes(&self) -> u64 {
        self.removals.iter().map(|removal| removal.bytes).sum()
    }

    fn of(topic: &TopicInner, partition: u32, plan: Plan, first: u64) -> PartitionAudit {
        PartitionAudit {
            topic: topic.name.to_string(),
            partition,
            rolls: plan.rolls.is_some(),
            first: Some(plan.start.map_or(first, |(_, base)| base)),
            removals: plan.removals,
            due: plan.due.map(Timestamp::from_nanos),
            failed: None,
        }
    }

    fn failed(topic: &TopicInner, partition: u32, error: &Error) -> PartitionAudit {
        PartitionAudit {
            topic: topic.name.to_string(),
            partition,
            removals: Vec::new(),
            rolls: false,
            first: None,
            due: None,
            failed: Some(error.to_string()),
        }
    }
}

impl Store {
    /// What [`Store::apply_retention`] would do now, to all topics. In a store that is only read it is
    /// what its owner would do, as far as that shows from outside: of a segment that is not settled yet,
    /// and of which nothing tells when it was last appended to, it says that it stays.
    pub fn audit(&self) -> Result<Audit> {
        self.retained(audit)
    }

    /// Removes what has expired by the [`Retention`] of each topic, durably, and tells what that was.
    /// It is done in the background, too: a program need not call this. What goes wrong with one
    /// partition is told there, beside what went all the same, and does not keep the others.
    ///
    /// A crash at any moment leaves each partition as it was, or as it will be.
    pub fn apply_retention(&self) -> Result<Audit> {
        self.shared().check_open()?;
        self.retained(apply)
    }

    fn retained(&self, look: Look) -> Result<Audit> {
        refresh(self.shared())?;
        let topics: Vec<_> = self.shared().topics().values().cloned().collect();
        let each = topics
            .iter()
            .flat_map(|topic| each(self.shared(), topic, look));
        let partitions = each.collect();
        Ok(Audit { partitions })
    }
}

impl Topic {
    /// What [`Topic::apply_retention`] would do now: exactly that, if nothing is appended, committed or
    /// set in between. Nothing is changed. A store that is only read tells it, too, as [`Store::audit`]
    /// does.
    pub fn audit(&self) -> Result<Audit> {
        self.retained(audit)
    }

    /// As [`Store::apply_retention`], for this topic.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Retention, Store, TopicOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let week = TopicOptions::new().retention(Retention::days(7));
    /// let quakes = store.create_topic("quakes", week)?;
    /// quakes.append("M 4.6")?;
    /// let would = quakes.audit()?;
    /// assert_eq!(quakes.apply_retention()?, would);
    /// assert_eq!(would.partitions[0].records(), 0); // it is no week old
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply_retention(&self) -> Result<Audit> {
        self.store.shared().check_open()?;
        self.retained(apply)
    }

    /// How long its records are kept.
    pub fn retention(&self) -> Retention {
        self.inner.retention()
    }

    fn retained(&self, look: Look) -> Result<Audit> {
        refresh(self.store.shared())?;
        self.inner.check_there()?;
        let partitions = each(self.store.shared(), &self.inner, look).collect();
        Ok(Audit { partitions })
    }
}

/// What is done with a partition.
type Look = fn(&Inner, &TopicInner, u32) -> Result<PartitionAudit>;

/// The partitions of a topic in which anything can expire.
fn each<'a>(
    store: &'a Inner,
    topic: &'a TopicInner,
    look: Look,
) -> impl Iterator<Item = PartitionAudit> + 'a {
    let partitions = match topic.retention().is_limited() {
        true => 0..topic.partitions(),
        false => 0..0,
    };
    partitions.map(move |partition| {
        look(store, topic, partition)
            .unwrap_or_else(|error| PartitionAudit::failed(topic, partition, &error))
    })
}

/// A store that is only read sees what its owner has changed.
fn refresh(store: &Inner) -> Result<()> {
    match &store.reading {
        Some(reading) => {
            store.check_not_closed()?;
            reading.refresh(store)
        }
        None => store.check_open(),
    }
}

/// Tells what would be done.
fn audit(store: &Inner, topic: &TopicInner, partition: u32) -> Result<PartitionAudit> {
    let log = store.log(topic, partition)?;
    let plan = planned(store, topic, &log, true)?;
    Ok(PartitionAudit::of(topic, partition, plan, log.first()))
}

/// Does it. Nothing is held while a log is opened, or ends a segment.
fn apply(store: &Inner, topic: &TopicInner, partition: u32) -> Result<PartitionAudit> {
    let _span = tracing::debug_span!("retain", topic = &*topic.name, partition).entered();
    store.check_open()?;
    let log = store.log(topic, partition)?;
    let rolls = planned(store, topic, &log, true)?.rolls;
    let ended = rolls.map_or(Ok(false), |number| log.end_segment(number));
    if let Some(number) = rolls {
        log.settle_below(number.saturating_add(1))?;
    }
    // What was appended meanwhile lies in the segment that has ended, or behind it.
    let again = || match planned(store, topic, &log, rolls.is_none())? {
        plan if plan.rolls.is_none() => Ok(plan),
        // It has become old just now.
        Plan { .. } => Ok(Plan {
            due: Some(store.options.clock.now()),
            ..planned(store, topic, &log, false)?
        }),
    };
    let (plan, removed) = begin(store, topic, &log, again)?;
    let plan = Plan {
        rolls: rolls.filter(|_| matches!(ended, Ok(true))),
        ..plan
    };
    let failed = ended.map(drop).and(removed).err();
    Ok(PartitionAudit {
        failed: failed.map(|error| error.to_string()),
        ..PartitionAudit::of(topic, partition, plan, log.first())
    })
}

/// The plan for a log as it is now; `rolls` if its last segment may be ended.
fn planned(store: &Inner, topic: &TopicInner, log: &Log, rolls: bool) -> Result<Plan> {
    let retention = topic.retention();
    let required = retention
        .required
        .and_then(|_| required(store, topic, log.site().partition));
    let holding = log.holding()?;
    Ok(plan(Facts {
        holding: &holding,
        retention,
        required,
        rolls,
        now: store.options.clock.now(),
    }))
}

/// What the required subscription that is behind most reads next.
fn required(store: &Inner, topic: &TopicInner, partition: u32) -> Option<u64> {
    store.journal.fold(|fold| {
        let required = fold.subscriptions_of(topic.id).filter(|it| it.required);
        let next = required.filter_map(|state| {
            let start = state.start.get(partition as usize).copied();
            fold.checkpoint(state.id, partition).or(start)
        });
        next.min()
    })
}

/// Lets a log begin where a plan says: first that is stated, durably, then files go. The plan that was
/// made, and what became of the files.
fn begin(
    store: &Inner,
    topic: &TopicInner,
    log: &Arc<Log>,
    plan: impl Fn() -> Result<Plan>,
) -> Result<(Plan, Result<()>)> {
    loop {
        // Before anything is held: it may take long, and whoever is woken by it may close the store.
        if let Some((segment, _)) = plan()?.start {
            log.settle_below(segment)?;
        }
        // One at a time: the journal never says that a log begins before where it began.
        let _one = store.catalog()?;
        store.check_open()?;
        topic.check_there()?;
        let floors = topic.floors();
        let plan = plan()?;
        let Some((segment, offset)) = plan.start else {
            let stuck = log.has_stuck().then(|| log.start_at(0, 0));
            return Ok((plan, stuck.unwrap_or(Ok(()))));
        };
        if !log.is_settled_below(segment) {
            // More has to go by now.
            continue;
        }
        let stated = store.journal.state(&[Event::Start(LogStart {
            log: log.site().log,
            segment,
            offset,
        })])?;
        drop(floors);
        store.journal.wait(stated)?;
        tracing::info!(log = log.site().log, segment, offset, "begins there");
        return Ok((plan, log.start_at(segment, offset)));
    }
}

impl Partition {
    /// Removes what lies below an offset, as far as whole segments do; the first offset that is still
    /// there. The last segment always stays. Offsets are not given anew.
    ///
    /// It is durable when it returns. A crash before that leaves the partition as it was, or as it will
    /// be. Who stands in what is removed reads that segment to its end, and is then told
    /// [`Error::OffsetExpired`]; the space is free when he has moved on.
    ///
    /// # Errors
    ///
    /// [`Error::BeyondEnd`] for an offset behind the last durable record. Where a file cannot be removed
    /// the partition begins behind it all the same, and the next call, or the next opening, tries again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// # let topic = store.topic("quakes")?;
    /// # topic.append("M 4.6")?;
    /// let partition = topic.partition(0)?;
    /// // All of it is in one segment, which stays.
    /// assert_eq!(partition.truncate_before(1)?, 0);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn truncate_before(&self, offset: u64) -> Result<u64> {
        let store = self.topic.store.shared();
        store.check_open()?;
        let log = self.topic.log(self.number)?;
        let end = log.durable();
        if offset > end {
            return Err(Error::BeyondEnd {
                topic: self.topic.name().to_owned(),
                partition: self.number,
                asked: offset,
                end,
            });
        }
        let (_, removed) = begin(store, &self.topic.inner, &log, || {
            let start = before(&log.holding()?, offset);
            Ok(Plan {
                start,
                ..Plan::default()
            })
        })?;
        removed.map(|()| log.first())
    }
}
