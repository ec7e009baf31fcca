//! Named readers whose place survives.

use std::sync::Arc;

use super::position::Position;
use super::read::{Cursor, Start};
use super::stored::StoredRecord;
use super::topic::Topic;
use crate::error::{Error, Result};
use crate::journal::{Event, SubscriptionState};

/// How to open a subscription.
///
/// # Examples
///
/// ```
/// # use tidelog::{Start, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let silver = store.topic("quakes")?.subscription("silver").start(Start::Latest).open()?;
/// # drop(silver);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SubscriptionBuilder {
    topic: Topic,
    name: String,
    start: Start,
}

impl SubscriptionBuilder {
    pub(super) fn new(topic: Topic, name: &str) -> SubscriptionBuilder {
        SubscriptionBuilder {
            topic,
            name: name.to_owned(),
            start: Start::Earliest,
        }
    }

    /// Where it starts the first time. A stored checkpoint always wins.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Opens it, and makes it, durably, if there is none of that name on the topic.
    ///
    /// # Errors
    ///
    /// [`Error::SubscriptionBusy`] while another handle holds it.
    pub fn open(self) -> Result<Subscription> {
        super::name::check(&self.name)?;
        let store = self.topic.store.shared();
        let mut ids = store.catalog()?;
        store.check_open()?;
        self.topic.inner.check_there()?;
        let topic = self.topic.inner.id;
        let found = store
            .journal
            .fold(|fold| fold.subscription_named(topic, &self.name).cloned());
        let state = match found {
            Some(state) => state,
            None => {
                let cursors = self.topic.cursors(self.start)?;
                let state = SubscriptionState {
                    id: ids.subscription,
                    topic,
                    name: self.name.clone(),
                    paused: false,
                    start: cursors.iter().map(Cursor::offset).collect(),
                };
                ids.subscription += 1;
                store
                    .journal
                    .commit(&[Event::Subscription(state.clone())])?;
                state
            }
        };
        drop(ids);
        let held = Held::take(&self.topic, &state)?;
        Subscription::new(self.topic, state, held)
    }
}

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// Durable records that are not committed.
    pub records: u64,
}

/// A subscription, as [`Topic::subscriptions`] tells it.
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
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionInfo {
    /// Its name.
    pub name: String,
    /// Whether it is paused.
    pub paused: bool,
    /// The offset that it reads next, of each partition, as far as that is committed.
    pub committed: Vec<u64>,
    /// How far it is behind.
    pub lag: Lag,
}

impl Topic {
    /// The topic's subscriptions, sorted by name: also in a store that is only read, as far as its
    /// owner has committed them.
    pub fn subscriptions(&self) -> Result<Vec<SubscriptionInfo>> {
        let store = self.store.shared();
        if let Some(reading) = &store.reading {
            reading.refresh(store)?;
        }
        self.inner.check_there()?;
        let states: Vec<SubscriptionState> = store
            .journal
            .fold(|fold| fold.subscriptions_of(self.inner.id).cloned().collect());
        let info = |state: SubscriptionState| {
            let committed = self.committed(&state);
            Ok(SubscriptionInfo {
                lag: self.lag_of(&committed)?,
                name: state.name,
                paused: state.paused,
                committed,
            })
        };
        states.into_iter().map(info).collect()
    }

    /// The offset that a subscription reads next, of each partition.
    fn committed(&self, state: &SubscriptionState) -> Vec<u64> {
        let journal = &self.store.shared().journal;
        let stored = |partition| journal.fold(|fold| fold.checkpoint(state.id, partition));
        let each = (0..self.partitions()).zip(&state.start);
        each.map(|(partition, start)| stored(partition).unwrap_or(*start))
            .collect()
    }

    fn lag_of(&self, committed: &[u64]) -> Result<Lag> {
        let mut records = 0;
        for (partition, committed) in (0..).zip(committed) {
            let log: Arc<_> = self.log(partition)?;
            records += log.durable().saturating_sub(*committed);
        }
        Ok(Lag { records })
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
    _held: Held,
}

impl Subscription {
    fn new(topic: Topic, state: SubscriptionState, held: Held) -> Result<Subscription> {
        let committed = topic.committed(&state);
        let cursors = (0..)
            .zip(&committed)
            .map(|(partition, next)| topic.partition(partition)?.cursor(Start::Offset(*next)))
            .collect::<Result<Vec<Cursor>>>()?;
        Ok(Subscription {
            topic,
            state,
            cursors,
            committed,
            turn: 0,
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

    /// The next durable record behind those returned before; `None` if there is none yet. Over
    /// several partitions the order is fair and not promised.
    ///
    /// # Errors
    ///
    /// [`Error::SubscriptionPaused`]; [`Error::OffsetExpired`], until it is reset, when retention
    /// has passed the checkpoint. A damaged stretch is an error once, and counts as returned.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends, which an Iterator cannot"
    )]
    pub fn next(&mut self) -> Result<Option<StoredRecord<'_>>> {
        if self.state.paused {
            return Err(Error::SubscriptionPaused {
                topic: self.topic.name().to_owned(),
                subscription: self.state.name.clone(),
            });
        }
        let count = self.cursors.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let Some(index) = in_turn
            .into_iter()
            .find(|index| self.cursors[*index].is_ready())
        else {
            self.cursors.iter_mut().for_each(Cursor::rest);
            return Ok(None);
        };
        self.turn = (index + 1) % count;
        self.cursors[index].next()
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

    /// Reads on from another place, durably: it becomes the committed one, also where that is a
    /// step back.
    ///
    /// # Errors
    ///
    /// [`Error::PartitionNeeded`] for an offset on a topic with several partitions,
    /// [`Error::BeyondEnd`] for one behind the last record, [`Error::OffsetExpired`] for
    /// one that retention has removed.
    pub fn reset(&mut self, start: Start) -> Result<()> {
        let cursors = self.topic.cursors(start)?;
        self.store_checkpoints(&self.reset_to(&cursors)?)?;
        self.cursors = cursors;
        Ok(())
    }

    /// The checkpoints of a reset to where these cursors stand.
    pub(super) fn reset_to(&self, cursors: &[Cursor]) -> Result<Vec<(u32, u64)>> {
        let mut moved = Vec::new();
        for (partition, cursor) in (0..).zip(cursors) {
            let (log, asked) = (cursor.log(), cursor.offset());
            if asked > log.written() {
                return Err(Error::BeyondEnd {
                    topic: self.topic.name().to_owned(),
                    partition,
                    asked,
                    end: log.written(),
                });
            }
            if asked < log.first() {
                return Err(log.expired(asked));
            }
            moved.push((partition, asked));
        }
        Ok(moved)
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
        self.topic.lag_of(&self.committed)
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
        for (partition, next) in moved {
            // A checkpoint is durable only where its records are.
            self.topic.log(*partition)?.flush_to(*next)?;
        }
        self.state_facts(&self.checkpoints(moved))?;
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
