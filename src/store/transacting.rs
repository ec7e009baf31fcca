//! Transactions as a program fills them: kept in memory until they are committed, as one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalog::commit_ending;
use super::offload::offload_to_its_end;
use super::position::Position;
use super::record::Record;
use super::store::Store;
use super::subscription::Subscription;
use super::topic::Topic;
use super::transaction::Part;
use crate::error::{Error, Part as Limited, Result};
use crate::journal::Event;
use crate::segment::Writable;

/// A transaction may be so large in any store, in bytes.
const LEAST_LIMIT: u64 = 16 << 20;

/// What is to happen as one: records for topics, commits of subscriptions, ends of topics.
///
/// It is kept in memory, and nobody waits for it, until the closure that fills it returns. What one of
/// its calls refuses is not part of it; return the error to give all of it up.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let (orders, done) = (store.topic("orders")?, store.topic("done")?);
/// orders.append("two pounds of figs")?;
/// let mut inbox = orders.subscribe("clerk")?;
/// store.transaction(|tx| {
///     while let Some(order) = inbox.next()? {
///         tx.append(&done, order.to_record())?;
///     }
///     tx.commit_subscription(&mut inbox)
/// })?;
/// assert_eq!(inbox.committed(0)?, done.partition(0)?.end()?);
/// # drop(inbox);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Transaction<'a> {
    plan: Plan,
    commits: Vec<(&'a mut Subscription, Vec<(u32, u64)>)>,
}

/// What is committed, whoever is told of it afterwards.
#[derive(Debug)]
struct Plan {
    store: Store,
    topics: Vec<Touched>,
    records: Vec<Going>,
    /// Where subscriptions will stand: the topic, and the place in it, of which all below is durable first.
    reached: Vec<(Topic, u32, u64)>,
    facts: Vec<Event>,
    /// What its records weigh.
    bytes: u64,
    /// What its facts weigh.
    stated: u64,
}

/// A topic that gets records, or its end.
#[derive(Debug)]
struct Touched {
    topic: Topic,
    records: u64,
    bytes: u64,
    ends: bool,
}

/// A record on its way.
#[derive(Debug)]
struct Going {
    /// Which of the topics.
    topic: usize,
    partition: u32,
    record: Record<'static>,
}

impl Store {
    /// Does as one what the closure puts into the [`Transaction`]: appends to any topics and
    /// partitions, commits of subscriptions, ends of topics. After whatever crash all of it is there, or
    /// nothing; who sees one part finds the rest durable; and it costs one sync. It works in any
    /// [`Durability`](crate::Durability). The positions of the records, in the order of their calls.
    ///
    /// Until the closure returns nothing is written, held or promised: with an error from it, or a
    /// panic, everything is forgotten. [`Error::aborted`] is for reasons of the caller's own. A
    /// transaction without anything in it is none.
    ///
    /// A commit of a subscription covers what it has returned so far, which was durable before; so it can
    /// never cover records of its own transaction. Those can be read, and committed, afterwards.
    ///
    /// What a transaction appends to one topic may be as large as a batch of that topic. All its
    /// records together may be as large as the greatest batch of any of its topics, and 16 MiB at least; so
    /// may its commits and ends.
    ///
    /// # Errors
    ///
    /// [`Error::InDoubt`] with all spans if the sync failed, or without records
    /// [`Error::StoreFailed`] of this call: all of it may be there after a reopen, or nothing. The
    /// subscriptions' handles do not count it as committed. With any other error nothing was written:
    /// [`Error::TransactionTooLarge`], or what an append, a commit or a finish is refused with, be it of
    /// one of its topics only.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Record, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let (orders, audit) = (store.topic("orders")?, store.topic("audit")?);
    /// let went = store.transaction(|tx| {
    ///     tx.append(&orders, Record::new("two pounds of figs").key("ann"))?;
    ///     tx.append(&audit, "ann ordered")
    /// })?;
    /// assert_eq!(went[1].to_string(), "audit/0@0");
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transaction<'a>(
        &self,
        fill: impl FnOnce(&mut Transaction<'a>) -> Result<()>,
    ) -> Result<Vec<Position>> {
        let Transaction { plan, commits } = self.filled(fill)?;
        let positions = plan.commit()?;
        note(commits);
        Ok(positions)
    }

    /// [`Store::transaction`] as a future. The closure runs when it is first polled; what then waits for
    /// the disk does so elsewhere.
    ///
    /// A future that is dropped after that waits for the end of the transaction, as long as a sync takes: it
    /// is whole then, or nothing, and the handles of its subscriptions know. [`Error::ThreadEnded`] leaves
    /// it in doubt.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// # futures_lite::future::block_on(async {
    /// let (orders, audit) = (store.topic("orders")?, store.topic("audit")?);
    /// let went = store.transaction_async(|tx| {
    ///     tx.append(&orders, "two pounds of figs")?;
    ///     tx.append(&audit, "ann ordered")
    /// });
    /// assert_eq!(went.await?.len(), 2);
    /// # tidelog::Result::<()>::Ok(())
    /// # })?;
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn transaction_async<'a>(
        &self,
        fill: impl FnOnce(&mut Transaction<'a>) -> Result<()>,
    ) -> Result<Vec<Position>> {
        let Transaction { plan, commits } = self.filled(fill)?;
        let heard = |went: &Result<Vec<Position>>| {
            if went.is_ok() {
                note(commits);
            }
        };
        offload_to_its_end(move || plan.commit(), heard).await
    }

    fn filled<'a>(
        &self,
        fill: impl FnOnce(&mut Transaction<'a>) -> Result<()>,
    ) -> Result<Transaction<'a>> {
        self.shared().check_open()?;
        let mut transaction = Transaction {
            plan: Plan::new(self),
            commits: Vec::new(),
        };
        fill(&mut transaction)?;
        Ok(transaction)
    }
}

/// The handles hear of it only when it is durable.
fn note(commits: Vec<(&mut Subscription, Vec<(u32, u64)>)>) {
    for (subscription, moved) in commits {
        subscription.note_committed(&moved);
    }
}

impl<'a> Transaction<'a> {
    /// Appends a record: to the partition it names, else to that of its key, else to the next in turn.
    /// What it borrows is copied.
    ///
    /// # Errors
    ///
    /// As for [`Topic::append`] what is refused; [`Error::TransactionTooLarge`];
    /// [`Error::Finished`], too, behind [`Transaction::finish`]; [`Error::TopicUnknown`] if the topic is
    /// of another store.
    pub fn append<'r>(&mut self, topic: &Topic, record: impl Into<Record<'r>>) -> Result<()> {
        self.plan.append(topic, record.into())
    }

    /// Commits everything that the subscription has returned so far; no more of it can be read until the
    /// transaction is over. Nothing of it is committed if the transaction is not.
    ///
    /// # Errors
    ///
    /// As for [`Subscription::commit`]; [`Error::TopicUnknown`] if it is of another store.
    pub fn commit_subscription(&mut self, subscription: &'a mut Subscription) -> Result<()> {
        let moved = subscription.moved();
        self.commit_moved(subscription, moved)
    }

    /// Commits that a subscription has moved so.
    pub(crate) fn commit_moved(
        &mut self,
        subscription: &'a mut Subscription,
        moved: Vec<(u32, u64)>,
    ) -> Result<()> {
        subscription.check_there()?;
        self.plan.move_to(subscription, &moved)?;
        self.commits.push((subscription, moved));
        Ok(())
    }

    /// Ends a topic for good, behind the records that this transaction has for it.
    ///
    /// # Errors
    ///
    /// As for [`Topic::finish`]; [`Error::TopicUnknown`] if it is of another store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let (answer, index) = (store.topic("answer.42")?, store.topic("answers")?);
    /// store.transaction(|tx| {
    ///     tx.append(&answer, "the last words")?;
    ///     tx.finish(&answer)?;
    ///     tx.append(&index, "answer.42 is complete")
    /// })?;
    /// assert!(answer.is_finished());
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn finish(&mut self, topic: &Topic) -> Result<()> {
        self.plan.end(topic)
    }
}

impl Plan {
    fn new(store: &Store) -> Plan {
        Plan {
            store: store.clone(),
            topics: Vec::new(),
            records: Vec::new(),
            reached: Vec::new(),
            facts: Vec::new(),
            bytes: 0,
            stated: 0,
        }
    }

    /// Where the topic stands in the list, if it can be part of this.
    fn touch(&mut self, topic: &Topic) -> Result<usize> {
        self.check_ours(topic)?;
        topic.inner.check_there()?;
        let found = self
            .topics
            .iter()
            .position(|it| it.topic.inner.id == topic.inner.id);
        if let Some(found) = found {
            return Ok(found);
        }
        self.topics.push(Touched {
            topic: topic.clone(),
            records: 0,
            bytes: 0,
            ends: false,
        });
        Ok(self.topics.len() - 1)
    }

    fn check_ours(&self, topic: &Topic) -> Result<()> {
        if Arc::ptr_eq(topic.store.shared(), self.store.shared()) {
            return Ok(());
        }
        Err(Error::TopicUnknown {
            topic: topic.name().to_owned(),
        })
    }

    fn append(&mut self, topic: &Topic, record: Record<'_>) -> Result<()> {
        self.check_ours(topic)?;
        let (partition, bytes) = topic.weigh(&record)?;
        let index = self.touch(topic)?;
        let touched = &self.topics[index];
        if touched.ends {
            return Err(Error::Finished {
                topic: topic.name().to_owned(),
            });
        }
        let (size, limit) = (touched.bytes + bytes, topic.max_batch_bytes());
        if touched.records > 0 && size > limit {
            let what = Limited::Batch;
            return Err(Error::TooLarge { what, size, limit });
        }
        let batches = self.used().map(|it| it.topic.max_batch_bytes());
        // A record by itself is held to its own limit.
        let most = batches.fold(LEAST_LIMIT, u64::max).max(bytes).max(limit);
        self.bytes = within(self.bytes + bytes, most)?;
        let touched = &mut self.topics[index];
        touched.records += 1;
        touched.bytes = size;
        self.records.push(Going {
            topic: index,
            partition,
            record: record.into_owned(),
        });
        Ok(())
    }

    fn move_to(&mut self, subscription: &Subscription, moved: &[(u32, u64)]) -> Result<()> {
        let topic = &subscription.topic;
        self.check_ours(topic)?;
        let facts = subscription.checkpoints(moved);
        self.state(&facts)?;
        self.facts.extend(facts);
        let reached = moved.iter().map(|(at, next)| (topic.clone(), *at, *next));
        self.reached.extend(reached);
        Ok(())
    }

    fn end(&mut self, topic: &Topic) -> Result<()> {
        let index = self.touch(topic)?;
        if !self.topics[index].ends {
            self.state(&[Event::Topic(topic.inner.state())])?;
            self.topics[index].ends = true;
        }
        Ok(())
    }

    /// Makes room for facts.
    fn state(&mut self, facts: &[Event]) -> Result<()> {
        let bytes: u64 = facts.iter().map(|fact| fact.encode().len() as u64).sum();
        self.stated = within(self.stated + bytes, LEAST_LIMIT)?;
        Ok(())
    }

    fn commit(&self) -> Result<Vec<Position>> {
        let store = self.store.shared();
        let ending: Vec<_> = self.topics.iter().filter(|it| it.ends).collect();
        // Whatever is made, changed or deleted meanwhile waits.
        let _one = (!ending.is_empty()).then(|| store.catalog()).transpose()?;
        store.check_open()?;
        for touched in self.used() {
            touched.topic.inner.check_there()?;
        }
        for (topic, partition, next) in &self.reached {
            topic.inner.check_there()?;
            // A checkpoint is durable only where its records are.
            topic.log(*partition)?.flush_to(*next)?;
        }
        let now = store.options.clock.now();
        let parts = self.parts(now)?;
        if parts.is_empty() && self.facts.is_empty() {
            return Ok(Vec::new());
        }
        let ending: Vec<_> = ending.iter().map(|it| it.topic.inner.as_ref()).collect();
        let (ids, parts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let offsets = commit_ending(store, &ending, &parts, self.facts.clone(), now)?;
        let firsts = offsets.into_iter().map(|offsets| offsets.start);
        Ok(self.positions(ids.into_iter().zip(firsts).collect()))
    }

    /// The topics that are part of it: a call that was refused makes none so.
    fn used(&self) -> impl Iterator<Item = &Touched> {
        self.topics.iter().filter(|it| it.records > 0 || it.ends)
    }

    /// What each log gets, in the order of their ids.
    fn parts(&self, now: i64) -> Result<Vec<(u64, Part<'_>)>> {
        let mut dealt: BTreeMap<u64, (&Touched, u32, Vec<Writable<'_>>)> = BTreeMap::new();
        for touched in self.topics.iter().filter(|it| it.ends) {
            for (partition, cell) in (0..).zip(&touched.topic.inner.logs) {
                dealt.insert(cell.id(), (touched, partition, Vec::new()));
            }
        }
        for going in &self.records {
            let touched = &self.topics[going.topic];
            let log = touched.topic.inner.logs[going.partition as usize].id();
            let (_, _, records) =
                dealt
                    .entry(log)
                    .or_insert((touched, going.partition, Vec::new()));
            let parts = going.record.parts();
            records.push(Writable {
                length: parts.frame_len()?,
                parts,
                timestamp: going.record.timestamp.map_or(now, |time| time.as_nanos()),
            });
        }
        let part = |(id, (touched, partition, records)): (u64, (&Touched, u32, _))| {
            let log = self.store.shared().log(&touched.topic.inner, partition)?;
            let last = touched.ends;
            Ok((id, Part { log, records, last }))
        };
        dealt.into_iter().map(part).collect()
    }

    /// The position of each record, from the first offset in each log.
    fn positions(&self, mut next: BTreeMap<u64, u64>) -> Vec<Position> {
        let position = |going: &Going| {
            let topic = &self.topics[going.topic].topic;
            topic.note_settled(going.partition);
            let log = topic.inner.logs[going.partition as usize].id();
            let next = next.entry(log).or_default();
            *next += 1;
            Position::new(&topic.inner.name, going.partition, *next - 1)
        };
        self.records.iter().map(position).collect()
    }
}

fn within(size: u64, limit: u64) -> Result<u64> {
    if size > limit {
        return Err(Error::TransactionTooLarge { size, limit });
    }
    Ok(size)
}
