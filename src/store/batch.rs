//! From the records of a call to what each partition gets.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::catalog;
use super::inner::Caps;
use super::offload::offload;
use super::position::Positions;
use super::record::Record;
use super::routing::partition_of;
use super::topic::Topic;
use super::transaction::{Part, commit};
use crate::error::{Error, Part as Limited, Result};
use crate::format::padded;
use crate::partition::{Log, Patience};
use crate::segment::Writable;

/// What was written, and to where.
#[derive(Debug, Clone)]
pub(super) enum Written {
    /// To one partition, and it is to become durable.
    To(u32, Range<u64>),
    /// To several, and it is durable.
    Durable(Positions),
}

/// Records with their lengths, mostly one.
type Batch<'r> = SmallVec<[Writable<'r>; 1]>;

/// Where a batch goes.
enum Route {
    /// To one partition.
    Together(u32),
    /// Each record to its own one.
    Spread(Vec<u32>),
}

/// A thread waits in the place of a future, until that is dropped.
struct Waiting<'a> {
    topic: Option<&'a Topic>,
    given_up: Arc<AtomicBool>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(topic) = self.topic else {
            return;
        };
        self.given_up.store(true, Ordering::Release);
        // In a forked child the thread is not there, nor anybody who would let go of a lock.
        if topic.store.shared().check_owner().is_ok() {
            topic.inner.open_logs().for_each(|log| log.ask_patience());
        }
    }
}

impl Topic {
    /// Writes a batch: to one partition, or to several as a transaction.
    pub(super) fn write(
        &self,
        records: &[Record<'_>],
        caps: Caps,
        mut patience: Patience,
    ) -> Result<Written> {
        let mut writable = Batch::new();
        let partition = match self.prepare(records, caps, &mut writable)? {
            Route::Together(partition) => partition,
            Route::Spread(partitions) => {
                let positions = self.write_spread(records, writable, &partitions, patience)?;
                return Ok(Written::Durable(positions));
            }
        };
        let opened;
        let log = match self.inner.log_if_open(partition) {
            Some(log) => log,
            None => {
                opened = self.log_within(partition, &mut patience)?;
                &opened
            }
        };
        let offsets = match records.is_empty() {
            true => nothing(log)?,
            false => {
                let stamp = |writable: &mut [Writable<'_>], now| stamp(writable, records, now);
                log.write_keeping(&mut writable, stamp, 0, patience)?
            }
        };
        Ok(Written::To(partition, offsets))
    }

    /// As [`Topic::write`], without blocking the thread.
    pub(super) async fn write_async(&self, records: &[Record<'_>], caps: Caps) -> Result<Written> {
        let mut writable = Batch::new();
        let partition = match self.prepare(records, caps, &mut writable)? {
            Route::Together(partition) => partition,
            Route::Spread(_) => return self.write_elsewhere(records, caps).await,
        };
        let log = self.log_async(partition).await?;
        if records.is_empty() {
            return Ok(Written::To(partition, nothing(&log)?));
        }
        let now = self.store.shared().options.clock.now();
        stamp(&mut writable, records, now);
        match log.write_async(&writable, now).await {
            Err(Error::TopicFull { .. }) if self.inner.limits().full_wait.is_some() => {
                self.write_elsewhere(records, caps).await
            }
            written => Ok(Written::To(partition, written?)),
        }
    }

    /// As [`Topic::write`], on a thread of its own; it does not wait for room any more when the future
    /// is dropped.
    async fn write_elsewhere(&self, records: &[Record<'_>], caps: Caps) -> Result<Written> {
        let owned = records.iter().cloned().map(Record::into_owned);
        let (topic, owned) = (self.clone(), owned.collect::<Vec<_>>());
        let mut waiting = Waiting {
            topic: Some(self),
            given_up: Arc::default(),
        };
        let patience = Patience::unless(Arc::clone(&waiting.given_up));
        let written = offload(move || topic.write(&owned, caps, patience)).await;
        waiting.topic = None;
        written
    }

    /// A partition's log, opened elsewhere if it is not open yet.
    async fn log_async(&self, partition: u32) -> Result<Arc<Log>> {
        if let Some(log) = self.inner.log_if_open(partition) {
            return Ok(Arc::clone(log));
        }
        let topic = self.clone();
        offload(move || topic.store.shared().log(&topic.inner, partition)).await
    }

    /// Refuses what cannot be appended, and says where the rest goes.
    fn prepare<'r>(
        &self,
        records: &'r [Record<'_>],
        caps: Caps,
        writable: &mut Batch<'r>,
    ) -> Result<Route> {
        let route = self.route(records)?;
        self.store.shared().check_open()?;
        self.inner.check_there()?;
        measure(records, caps, writable)?;
        Ok(route)
    }

    fn write_spread<'r>(
        &self,
        records: &'r [Record<'_>],
        mut writable: Batch<'r>,
        routes: &[u32],
        patience: Patience,
    ) -> Result<Positions> {
        let store = self.store.shared();
        let now = store.options.clock.now();
        stamp(&mut writable, records, now);
        let parts = self.parts(writable, routes)?;
        let offsets = commit(store, &parts, &[], now, patience)?;
        Ok(self.positions(&parts, offsets, routes))
    }

    /// Appends records, or none, and ends the topic with them.
    pub(super) fn finish_with(&self, records: &[Record<'_>]) -> Result<Positions> {
        let store = self.store.shared();
        let routes = match self.route(records)? {
            Route::Together(partition) => vec![partition; records.len()],
            Route::Spread(partitions) => partitions,
        };
        let now = store.options.clock.now();
        let mut writable = Batch::new();
        measure(records, self.inner.caps(), &mut writable)?;
        stamp(&mut writable, records, now);
        let all = (0..self.partitions()).map(|partition| (partition, Vec::new()));
        let mut parts = all.collect::<BTreeMap<_, _>>();
        deal(writable, &routes, &mut parts);
        let offsets = catalog::finish(store, &self.inner, parts, now)?;
        let mut taken: Vec<_> = (0..).zip(offsets).collect();
        taken.retain(|(_, offsets)| !offsets.is_empty());
        let order = order_of(&taken, &routes);
        Ok(Positions::spread(&self.inner.name, taken, order))
    }

    /// Where these records go. Those without a preference go with the first one that has one, else
    /// to the next partition in turn.
    fn route(&self, records: &[Record<'_>]) -> Result<Route> {
        let partitions = self.partitions();
        let wanted = |record: &Record<'_>| match (record.partition, &record.key) {
            (Some(number), _) if number >= partitions => Err(self.inner.partition_unknown(number)),
            (Some(number), _) => Ok(Some(number)),
            (None, Some(key)) => Ok(Some(partition_of(key, partitions))),
            (None, None) => Ok(None),
        };
        let mut home = None;
        let mut spread = false;
        for record in records {
            let wanted = wanted(record)?;
            home = home.or(wanted);
            spread |= wanted.is_some() && wanted != home;
        }
        let in_turn = || match partitions {
            1 => 0,
            _ => self.inner.turn.fetch_add(1, Ordering::Relaxed) % partitions,
        };
        let home = home.unwrap_or_else(in_turn);
        if !spread {
            return Ok(Route::Together(home));
        }
        let each = records.iter().map(|it| Ok(wanted(it)?.unwrap_or(home)));
        Ok(Route::Spread(each.collect::<Result<_>>()?))
    }

    /// What each partition gets, in the order of their numbers, which is that of their logs' ids.
    fn parts<'r>(&self, writable: Batch<'r>, routes: &[u32]) -> Result<Vec<Part<'r>>> {
        let mut dealt = BTreeMap::new();
        deal(writable, routes, &mut dealt);
        let part = |(partition, records)| {
            let log = self.store.shared().log(&self.inner, partition)?;
            let last = false;
            Ok(Part { log, records, last })
        };
        dealt.into_iter().map(part).collect()
    }

    fn positions(&self, parts: &[Part<'_>], offsets: Vec<Range<u64>>, routes: &[u32]) -> Positions {
        for part in parts {
            self.note_settled(part.log.site().partition);
        }
        let partitions = parts.iter().map(|part| part.log.site().partition);
        let taken: Vec<_> = partitions.zip(offsets).collect();
        let order = order_of(&taken, routes);
        Positions::spread(&self.inner.name, taken, order)
    }
}

/// The offsets of an empty batch, which is refused where one with records would be.
fn nothing(log: &Log) -> Result<Range<u64>> {
    log.gate().appends(log.site())?;
    let end = log.durable();
    Ok(end..end)
}

impl Topic {
    /// What one record weighs, and to which partition it goes: for who keeps it until later. Refuses
    /// what could never be appended.
    pub(crate) fn weigh(&self, record: &Record<'_>) -> Result<(u32, u64)> {
        let one = std::slice::from_ref(record);
        let mut writable = Batch::new();
        let route = self.prepare(one, self.inner.caps(), &mut writable)?;
        if self.is_finished() {
            return Err(Error::Finished {
                topic: self.name().to_owned(),
            });
        }
        let bytes = writable.iter().map(|it| padded(it.length) as u64).sum();
        match route {
            Route::Together(partition) => Ok((partition, bytes)),
            Route::Spread(_) => Ok((0, bytes)),
        }
    }
}

/// Deals records out to their partitions; those of one partition stay in order.
fn deal<'r>(writable: Batch<'r>, routes: &[u32], parts: &mut BTreeMap<u32, Vec<Writable<'r>>>) {
    for (record, partition) in writable.into_iter().zip(routes) {
        parts.entry(*partition).or_default().push(record);
    }
}

/// In which of the parts each record is.
fn order_of(taken: &[(u32, Range<u64>)], routes: &[u32]) -> Vec<usize> {
    let part = |route| taken.partition_point(|(partition, _)| *partition < route);
    routes.iter().copied().map(part).collect()
}

fn stamp(writable: &mut [Writable<'_>], records: &[Record<'_>], now: i64) {
    for (writable, record) in writable.iter_mut().zip(records) {
        writable.timestamp = record.timestamp.map_or(now, |time| time.as_nanos());
    }
}

/// Measures records against all limits, before anything is written.
fn measure<'r>(records: &'r [Record<'_>], caps: Caps, writable: &mut Batch<'r>) -> Result<()> {
    let mut total = 0;
    writable.reserve(records.len());
    for record in records {
        let parts = record.parts();
        let length = parts.frame_len()?;
        limit(Limited::Record, u64::from(length), caps.record)?;
        total += padded(length) as u64;
        writable.push(Writable {
            parts,
            length,
            timestamp: 0,
        });
    }
    if records.len() > 1 {
        limit(Limited::Batch, total, caps.batch)?;
    }
    Ok(())
}

fn limit(what: Limited, size: u64, limit: u64) -> Result<()> {
    if size > limit {
        return Err(Error::TooLarge { what, size, limit });
    }
    Ok(())
}
