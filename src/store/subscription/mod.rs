//! Named readers whose place survives.

mod builder;
mod filter;
mod info;
mod reset;
mod sampling;
mod sieve;
mod totals;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::follow::{Found, look};
use super::position::Position;
use super::read::{Cursor, Start};
use super::stored::StoredRecord;
use super::topic::Topic;
use crate::error::{Error, Result, Span};
use crate::journal::{Event, SubscriptionState};

use builder::Stored;
pub use builder::{OnExpiry, SubscriptionBuilder};
pub use filter::{Filter, FilterOn};
use info::status;
pub use info::{Lag, SubscriptionInfo, SubscriptionStatus};
pub use sampling::Sampling;
pub use sieve::Counts;
use sieve::Sieve;
pub(in crate::store) use totals::Totals;

/// That a subscription is held: one at a time.
#[derive(Debug)]
struct Held {
    topic: Topic,
    id: u64,
}

impl Held {
    fn take(topic: &Topic, state: &SubscriptionState) -> Result<Held> {
        if !topic.inner.held().insert(state.id) {
            return Err(Error::SubscriptionBusy {
                topic: topic.name().to_owned(),
                subscription: state.name.clone(),
            });
        }
        Ok(Held {
            topic: topic.clone(),
            id: state.id,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.topic.store.shared().check_owner().is_ok() {
            self.topic.inner.held().remove(&self.id);
        }
    }
}

/// A named reader of a topic whose place is durable. It delivers at least once: a crash before a
/// commit delivers again, one after it does not.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let quakes = store.topic("quakes")?;
/// # quakes.append(Record::new("M 4.6 Volcano, Hawaii"))?;
/// let mut archive = quakes.subscribe("archive")?;
/// while let Some(record) = archive.next()? {
///     println!("{} {}", record.position(), record.text()?);
///     archive.commit()?;
/// }
/// assert_eq!(archive.committed(0)?, 1);
/// # drop(archive);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Subscription {
    pub(super) topic: Topic,
    pub(super) state: SubscriptionState,
    pub(super) cursors: Vec<Cursor>,
    committed: Vec<u64>,
    pub(super) turn: usize,
    /// What is returned, where that is not everything.
    sieve: Option<Sieve>,
    on_expiry: OnExpiry,
    lost: Vec<Span>,
    totals: Arc<Totals>,
    /// That it has expired is counted.
    told: bool,
    /// Nobody waits for its records any more.
    pub(super) stop: Arc<AtomicBool>,
    _held: Held,
}

impl Subscription {
    fn new(topic: Topic, state: SubscriptionState, held: Held) -> Result<Subscription> {
        let committed = topic.committed(&state);
        let cursors = (0..)
            .zip(&committed)
            .map(|(partition, next)| topic.partition(partition)?.cursor(Start::Offset(*next)))
            .collect::<Result<Vec<Cursor>>>()?;
        let Stored {
            filter,
            sampling,
            on_expiry,
        } = Stored::of(&state)?;
        let sieve = Sieve::new(filter, sampling, &committed);
        Ok(Subscription {
            cursors,
            committed,
            turn: 0,
            sieve,
            on_expiry,
            lost: Vec::new(),
            totals: topic.inner.totals(state.id),
            told: false,
            stop: Arc::new(AtomicBool::new(false)),
            topic,
            state,
            _held: held,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The topic it reads.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// The next durable record behind those returned before that its filter and its sampling keep;
    /// `None` if there is none yet: [`Subscription::next_wait`] and its like wait for one. Over
    /// several partitions the order is fair and not promised.
    ///
    /// # Errors
    ///
    /// [`Error::SubscriptionPaused`]; [`Error::OffsetExpired`], until it is reset, when retention
    /// has removed the next record, unless it goes on by itself ([`OnExpiry`]). A damaged stretch is
    /// an error once, and counts as returned. [`Error::Failed`], in place of `None`, when everything
    /// durable has been read of a partition that failed: so each call returns what the other
    /// partitions have first, and who calls again after the error gets what comes to them.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends, which an Iterator cannot"
    )]
    pub fn next(&mut self) -> Result<Option<StoredRecord<'_>>> {
        let found = self.find(false)?;
        self.lend(found)
    }

    /// In which partition the next record is; none if there is none yet, or, where it `stops`, if nobody
    /// waits for it any more.
    pub(super) fn find(&mut self, stops: bool) -> Result<Option<usize>> {
        if self.state.paused {
            return Err(Error::SubscriptionPaused {
                topic: self.topic.name().to_owned(),
                subscription: self.state.name.clone(),
            });
        }
        let found = match self.picks() {
            true => self.pick(stops)?,
            false => self.ready()?,
        };
        if found.is_none() {
            self.cursors.iter_mut().for_each(Cursor::rest);
        }
        Ok(found)
    }

    /// The record that was found.
    pub(super) fn lend(&mut self, found: Option<usize>) -> Result<Option<StoredRecord<'_>>> {
        let Some(index) = found else {
            return Ok(None);
        };
        self.totals.reads.add(1);
        match self.picks() {
            true => self.cursors[index].again(),
            false => self.cursors[index].next(),
        }
    }

    /// Whether it goes past a record to find out what becomes of it.
    fn picks(&self) -> bool {
        self.sieve.is_some() || self.on_expiry != OnExpiry::Fail
    }

    /// The partition whose turn it is; none if none has anything. One of which the next record has
    /// expired keeps its turn.
    fn ready(&mut self) -> Result<Option<usize>> {
        let index = match look(&self.cursors, self.turn) {
            Found::Ready(index) => index,
            Found::Failed(error) => return Err(error),
            Found::Ended | Found::Nothing => return Ok(None),
        };
        self.turn = index;
        if let Err(error) = self.cursors[index].check_expiry() {
            if !std::mem::replace(&mut self.told, true) {
                self.totals.expired.add(1);
            }
            return Err(error);
        }
        self.told = false;
        self.turn = (index + 1) % self.cursors.len();
        Ok(Some(index))
    }

    /// Goes past the next record that is to be returned: in which partition it is. Of what nobody is
    /// given it goes past no more than was there when it began, so that it comes back.
    fn pick(&mut self, stops: bool) -> Result<Option<usize>> {
        let mut ends = None;
        loop {
            let index = match self.ready() {
                Ok(Some(index)) => index,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.expire(error)?;
                    continue;
                }
            };
            let cursor = &mut self.cursors[index];
            let kept = match (cursor.next(), &mut self.sieve) {
                (Ok(None), _) => return Ok(None),
                (Ok(Some(_)), None) => true,
                (Ok(Some(record)), Some(sieve)) => match sieve.keeps(&self.topic, &record) {
                    Ok(kept) => kept,
                    Err(error) => {
                        // It was not judged.
                        cursor.step_back();
                        return Err(error);
                    }
                },
                (Err(error), _) => {
                    self.expire(error)?;
                    false
                }
            };
            if kept {
                return Ok(Some(index));
            }
            let ends = ends.get_or_insert_with(|| self.ends());
            if !self.is_before(ends) || stops && self.stop.load(Ordering::Acquire) {
                return Ok(None);
            }
        }
    }

    /// Goes on, durably, behind what has expired, if it is to do that by itself; it keeps what it has
    /// passed over. Another error is returned.
    fn expire(&mut self, error: Error) -> Result<()> {
        let Error::OffsetExpired {
            partition, asked, ..
        } = error
        else {
            return Err(error);
        };
        let start = match self.on_expiry {
            OnExpiry::Fail => return Err(error),
            OnExpiry::Earliest => Start::Earliest,
            OnExpiry::Latest => Start::Latest,
        };
        let cursor = self.topic.partition(partition)?.cursor(start)?;
        let next = cursor.offset();
        if next > self.committed(partition)? {
            self.store_checkpoints(&[(partition, next)])?;
        }
        let span = cursor.log().site().span(asked..next);
        tracing::warn!(subscription = self.name(), lost = %span, "records have expired, it goes on");
        self.go_to(vec![(partition, cursor)]);
        self.lost.push(span);
        Ok(())
    }

    /// What has expired before it was committed: exactly that, by partition. Reading is
    /// [`Error::OffsetExpired`] until it is reset, or it is reset by itself ([`OnExpiry`]).
    pub fn expired(&self) -> Result<Vec<Span>> {
        let mut failed = Ok(());
        let log = |partition| self.topic.log(partition);
        let expired = info::expired(&log, &self.committed, |error| failed = Err(error));
        failed.map(|()| expired)
    }

    /// What this handle has passed over since it was told to by [`OnExpiry`], oldest first.
    pub fn lost(&self) -> &[Span] {
        &self.lost
    }

    /// What became of the records it has read, if it has a filter or a sampling; else nothing is
    /// counted.
    pub fn counts(&self) -> Counts {
        self.sieve
            .as_ref()
            .map_or_else(Counts::default, |sieve| sieve.counts)
    }

    /// Whether it can be read.
    pub fn status(&self) -> Result<SubscriptionStatus> {
        Ok(status(self.state.paused, &self.expired()?))
    }

    /// Whether retention may keep for it what it has not committed.
    pub fn is_required(&self) -> bool {
        self.state.required
    }

    /// Commits everything returned so far; returns once that is durable.
    pub fn commit(&mut self) -> Result<()> {
        self.store_checkpoints(&self.moved())
    }

    /// Commits one partition: `next` names the record to read next, as
    /// [`StoredRecord::next`](crate::StoredRecord::next) gives it. A place before the committed
    /// one changes nothing. Records below it that are not durable yet are synced first, in every
    /// [`Durability`](crate::Durability).
    ///
    /// # Errors
    ///
    /// [`Error::BeyondEnd`] for a place behind the last record.
    pub fn commit_to(&mut self, next: &Position) -> Result<()> {
        match self.moves_to(next)? {
            Some(moved) => self.store_checkpoints(&[moved]),
            None => Ok(()),
        }
    }

    /// Where the cursors stand beyond what is committed.
    pub(super) fn moved(&self) -> Vec<(u32, u64)> {
        (0..)
            .zip(self.cursors.iter().map(Cursor::offset).zip(&self.committed))
            .filter(|(_, (next, committed))| next > committed)
            .map(|(partition, (next, _))| (partition, next))
            .collect()
    }

    /// The checkpoint that a commit up to this position moves; none if that changes nothing.
    pub(super) fn moves_to(&self, next: &Position) -> Result<Option<(u32, u64)>> {
        let (partition, offset) = (next.partition(), next.offset());
        let committed = self.committed(partition)?;
        if next.topic() != self.topic.name() {
            return Err(Error::TopicUnknown {
                topic: next.topic().to_owned(),
            });
        }
        let end = self.topic.log(partition)?.written();
        if offset > end {
            return Err(Error::BeyondEnd {
                topic: self.topic.name().to_owned(),
                partition,
                asked: offset,
                end,
            });
        }
        if offset <= committed {
            self.topic.store.shared().check_open()?;
            return Ok(None);
        }
        Ok(Some((partition, offset)))
    }

    /// The committed offset of a partition: the one to read next after a restart.
    pub fn committed(&self, partition: u32) -> Result<u64> {
        let committed = self.committed.get(partition as usize).copied();
        committed.ok_or_else(|| self.topic.inner.partition_unknown(partition))
    }

    /// Reads these partitions from there on.
    pub(super) fn go_to(&mut self, cursors: Vec<(u32, Cursor)>) {
        for (partition, cursor) in cursors {
            self.cursors[partition as usize] = cursor;
        }
        if let Some(sieve) = &mut self.sieve {
            sieve.stand_at(self.cursors.iter().map(Cursor::offset).collect());
        }
    }

    /// Stops delivery, durably, until it is resumed.
    pub fn pause(&mut self) -> Result<()> {
        self.set_paused(true)
    }

    /// Goes on with delivery.
    pub fn resume(&mut self) -> Result<()> {
        self.set_paused(false)
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.state.paused
    }

    /// How far it is behind.
    pub fn lag(&self) -> Result<Lag> {
        let mut failed = Ok(());
        let log = |partition| self.topic.log(partition);
        let keep = |error| failed = Err(error);
        let lag = self.topic.lag_of(&log, &self.committed, keep);
        failed.map(|()| lag)
    }

    fn set_paused(&mut self, paused: bool) -> Result<()> {
        self.state_facts(&[self.pausing(paused)])?;
        self.state.paused = paused;
        Ok(())
    }

    pub(super) fn pausing(&self, paused: bool) -> Event {
        Event::Subscription(SubscriptionState {
            paused,
            ..self.state.clone()
        })
    }

    fn store_checkpoints(&mut self, moved: &[(u32, u64)]) -> Result<()> {
        self.store(moved, false)
    }

    fn store(&mut self, moved: &[(u32, u64)], resets: bool) -> Result<()> {
        self.topic.flush_below(moved)?;
        self.check_there()?;
        if !moved.is_empty() {
            let stated = self.state_checkpoints(moved, resets)?;
            self.topic.store.shared().journal.wait(stated)?;
        }
        self.note_committed(moved);
        Ok(())
    }

    pub(super) fn checkpoints(&self, moved: &[(u32, u64)]) -> Vec<Event> {
        let checkpoint = |(partition, next): &(u32, u64)| Event::Checkpoint {
            subscription: self.state.id,
            partition: *partition,
            next: *next,
        };
        moved.iter().map(checkpoint).collect()
    }

    pub(super) fn note_committed(&mut self, moved: &[(u32, u64)]) {
        for (partition, next) in moved {
            self.committed[*partition as usize] = *next;
        }
        if !moved.is_empty() {
            self.totals.commits.add(1);
        }
        if self.state.required && !moved.is_empty() {
            // Retention may have waited for it.
            self.topic.store.shared().setting.retain.make();
        }
    }

    fn state_facts(&self, events: &[Event]) -> Result<()> {
        self.check_there()?;
        self.topic.store.shared().journal.commit(events)
    }

    pub(super) fn check_there(&self) -> Result<()> {
        self.topic.store.shared().check_open()?;
        self.topic.inner.check_there()
    }
}
