//! The loop: read, process, put out, and now and then commit.
//!
//! A record that is not done with is never behind the subscription's place when that is committed: the
//! subscription is sent back to it first. So a commit always means all that was returned.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Processor;
use super::output::Output;
use super::policy::{OnError, Retry, letter};
use crate::error::{Error, Result};
use crate::flush::panic_message;
use crate::store::{Counters, ProcessorCounts};
use crate::store::{Record, Store, StoredRecord, Subscription, Topic};

/// What was done waits so long for more to share its commit.
const GATHER: Duration = Duration::from_millis(100);
/// A transaction of several records is about so large at the most, in bytes.
const GATHER_BYTES: u64 = 1 << 20;

/// A processor with all that it works on.
#[derive(Debug)]
pub(super) struct Engine<P> {
    pub(super) store: Store,
    pub(super) name: String,
    pub(super) input: Topic,
    pub(super) subscription: Subscription,
    /// The outputs, and behind them the topic for dead letters, if there is one.
    pub(super) topics: Vec<Topic>,
    pub(super) outputs: usize,
    pub(super) on_error: OnError,
    pub(super) retry: Retry,
    pub(super) transactional: bool,
    pub(super) batch: u32,
    pub(super) pending: Pending,
    pub(super) counters: Arc<Counters>,
    pub(super) processor: P,
}

/// What is done and not committed.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Records of the input.
    inputs: u32,
    /// Since when.
    since: Option<Instant>,
    /// What goes into the transaction: which of the topics, and what.
    records: Vec<(usize, Record<'static>)>,
    bytes: u64,
}

/// A record, or a place where one should be.
#[derive(Debug, Clone, Copy)]
struct Place {
    partition: u32,
    offset: u64,
    /// Where reading goes on behind it.
    next: u64,
}

/// What became of an attempt.
enum Attempt {
    /// There is nothing to read.
    Nothing,
    /// What it put out, and how much that is.
    Done(Place, Vec<(usize, Record<'static>)>, u64),
    /// It failed, and may be tried again after a pause.
    Again(Place, Duration),
    /// It failed for the last time.
    Failed(Place, String, Option<Record<'static>>),
}

impl<P: Processor> Engine<P> {
    /// Runs until all records below these ends are processed, or for as long as any can come.
    pub(super) fn run(&mut self, ends: Option<&[u64]>) -> Result<ProcessorCounts> {
        let worked = self.work(ends);
        // What was done stays done, whatever ended it.
        let committed = self.commit();
        worked.and(committed)?;
        Ok(self.counters.now())
    }

    fn work(&mut self, ends: Option<&[u64]>) -> Result<()> {
        loop {
            if ends.is_some_and(|ends| !self.subscription.is_before(ends)) {
                return Ok(());
            }
            if self.subscription.is_stopped() {
                return Ok(());
            }
            if self.one()? {
                if self.is_due() {
                    self.commit()?;
                }
                continue;
            }
            self.commit()?;
            if ends.is_some() {
                return Ok(());
            }
            if !self.subscription.wait(None) {
                return Ok(());
            }
        }
    }

    fn is_due(&self) -> bool {
        let pending = &self.pending;
        pending.inputs >= self.batch
            || pending.bytes >= GATHER_BYTES
            || pending.since.is_some_and(|since| since.elapsed() >= GATHER)
    }

    /// Takes the next record, until it is done with or the processor is stopped; false if there is none.
    fn one(&mut self) -> Result<bool> {
        for attempts in 1.. {
            match self.attempt(attempts)? {
                Attempt::Nothing => return Ok(false),
                Attempt::Done(place, put, bytes) => {
                    let many = put.len() as u64;
                    self.put_out(place, put, bytes)?;
                    self.counters.count(|it| &it.records_out, many);
                    break;
                }
                Attempt::Again(place, pause) => {
                    self.back_to(place)?;
                    self.commit()?;
                    self.subscription.sleep(Instant::now().checked_add(pause));
                    if self.subscription.is_stopped() {
                        return Ok(true);
                    }
                    self.counters.count(|it| &it.retries, 1);
                }
                Attempt::Failed(place, reason, record) => {
                    self.give_up(place, (attempts, reason), record)?;
                    break;
                }
            }
        }
        self.counters.count(|it| &it.records_in, 1);
        Ok(true)
    }

    /// Reads a record and calls the function with it.
    fn attempt(&mut self, attempts: u32) -> Result<Attempt> {
        let limit = self.transactional.then(|| most(&self.topics));
        let mut output = Output::new(&self.name, &self.topics[..self.outputs], limit);
        let record = match self.subscription.next() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(Attempt::Nothing),
            Err(error) => {
                let place = damaged(&error).ok_or(error.clone())?;
                self.counters.count(|it| &it.failures, 1);
                return Ok(Attempt::Failed(place, error.to_string(), None));
            }
        };
        let (partition, offset) = (record.partition(), record.offset());
        let place = Place {
            partition,
            offset,
            next: offset + 1,
        };
        let Err(reason) = call(&mut self.processor, record, &mut output) else {
            return Ok(Attempt::Done(place, output.put, output.bytes));
        };
        self.counters.count(|it| &it.failures, 1);
        tracing::warn!(processor = self.name, record = %record.position(), attempts, reason, "failed");
        Ok(match self.retry.pause_after(attempts) {
            Some(pause) => Attempt::Again(place, pause),
            None => Attempt::Failed(place, reason, Some(record.to_record().into_owned())),
        })
    }

    /// Does with a record that has failed for good what the policy says.
    fn give_up(
        &mut self,
        place: Place,
        (attempts, reason): (u32, String),
        record: Option<Record<'static>>,
    ) -> Result<()> {
        match self.on_error {
            OnError::Stop => {
                self.back_to(place)?;
                Err(Error::ProcessorFailed {
                    processor: self.name.clone(),
                    topic: self.input.name().to_owned(),
                    partition: place.partition,
                    offset: place.offset,
                    attempts,
                    reason,
                })
            }
            OnError::Skip => {
                self.put_out(place, Vec::new(), 0)?;
                self.counters.count(|it| &it.skipped, 1);
                Ok(())
            }
            OnError::DeadLetter(_) => {
                let (topic, partition, offset) = (self.input.name(), place.partition, place.offset);
                let origin = format!("{topic}/{partition}@{offset}");
                let attempts = if record.is_some() { attempts } else { 0 };
                let letter = letter(record, (&self.name, &origin), (attempts, &reason));
                let bytes = match self.topics[self.outputs].weigh(&letter) {
                    Ok((_, bytes)) => bytes,
                    Err(error) => {
                        self.back_to(place)?;
                        return Err(error);
                    }
                };
                self.put_out(place, vec![(self.outputs, letter)], bytes)?;
                self.counters.count(|it| &it.dead_lettered, 1);
                Ok(())
            }
        }
    }

    /// Puts out what a record led to: at once, or into the next transaction. Where that fails the record
    /// is not done with.
    fn put_out(
        &mut self,
        place: Place,
        put: Vec<(usize, Record<'static>)>,
        bytes: u64,
    ) -> Result<()> {
        if self.transactional {
            let room = GATHER_BYTES.min(most(&self.topics));
            if !self.pending.records.is_empty() && self.pending.bytes + bytes > room {
                self.back_to(place)?;
                self.commit()?;
                self.subscription.stand_at(place.partition, place.next)?;
            }
            self.pending.records.extend(put);
            self.pending.bytes += bytes;
        } else {
            let appended = put
                .into_iter()
                .try_for_each(|(topic, record)| self.topics[topic].append_nowait(record).map(drop));
            if appended.is_err() {
                self.back_to(place)?;
                return appended;
            }
        }
        self.pending.inputs += 1;
        self.pending.since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn back_to(&mut self, place: Place) -> Result<()> {
        self.subscription.stand_at(place.partition, place.offset)
    }

    /// Makes what was done durable, and then, or with it, how far that is.
    fn commit(&mut self) -> Result<()> {
        if self.pending.inputs == 0 {
            // What was read and filtered out counts when something is committed anyway.
            return Ok(());
        }
        if self.transactional {
            let (pending, topics) = (&self.pending.records, &self.topics);
            let subscription = &mut self.subscription;
            self.store.transaction(|tx| {
                for (topic, record) in pending {
                    tx.append(&topics[*topic], record.clone())?;
                }
                tx.commit_subscription(subscription)
            })?;
        } else {
            self.topics.iter().try_for_each(Topic::flush)?;
            self.subscription.commit()?;
        }
        self.pending = Pending::default();
        Ok(())
    }
}

/// What one record may put out, in bytes, where it goes to all topics as one.
fn most(topics: &[Topic]) -> u64 {
    let limits = topics.iter().map(Topic::max_batch_bytes);
    limits.min().unwrap_or(u64::MAX)
}

/// Calls the function. A panic is a failure like others.
fn call(
    processor: &mut impl Processor,
    record: StoredRecord<'_>,
    output: &mut Output<'_>,
) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| processor.process(record, output))) {
        Ok(done) => done.map_err(|failure| failure.to_string()),
        Err(panic) => Err(format!("it panicked: {}", panic_message(panic.as_ref()))),
    }
}

/// The place of a stretch that cannot be read, behind which reading goes on.
fn damaged(error: &Error) -> Option<Place> {
    match error {
        Error::Corrupt {
            partition,
            offset,
            next,
            ..
        }
        | Error::Unreadable {
            partition,
            offset,
            next,
            ..
        } => Some(Place {
            partition: *partition,
            offset: *offset,
            next: *next,
        }),
        _ => None,
    }
}
