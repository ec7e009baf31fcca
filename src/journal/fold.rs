//! The state of a store: what the events of its journal add up to.
//!
//! Events come in the order of their offsets. Each states a fact absolutely and the last one about
//! a thing wins, so a fold does not remember how it came about: two journals that say the same in
//! the end fold to equal values, and a fold can be written down as events again ([`Fold::events`]).
//!
//! Three things last beyond what they came from. Ids are never used again, so the next ones lie
//! above any that was ever mentioned, in whatever event, also one that was refused. A log with a
//! deleted topic is forgotten with everything about it, and late facts about it are passed over.
//! And a record that could not be read leaves its mark for good: see [`Fold::lose`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::event::{Event, LogEnd, LogStart, Owner, RedoFiles, SubscriptionState, TopicState};
use super::flaw::FoldFlaw;

/// The greatest number of partitions of a topic.
const MAX_PARTITIONS: usize = 65_535;

/// The state of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fold {
    owner: Option<Owner>,
    closed: bool,
    topics: BTreeMap<u64, TopicState>,
    names: BTreeMap<String, u64>,
    subscriptions: BTreeMap<u64, Subscribed>,
    /// By topic, then by name; a topic without subscriptions is not in it.
    subscription_names: BTreeMap<u64, BTreeMap<String, u64>>,
    logs: BTreeMap<u64, LogState>,
    carried: Carried,
}

/// A subscription and its checkpoints by partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subscribed {
    state: SubscriptionState,
    checkpoints: BTreeMap<u32, u64>,
}

/// What is known of the log of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogState {
    /// The topic it belongs to.
    pub(crate) topic: u64,
    /// The partition of the topic that it is.
    pub(crate) partition: u32,
    /// Whether it was ever settled, so that its folder must exist.
    pub(crate) settled: bool,
    /// Where retention let it begin; `None` for segment 0 and offset 0.
    pub(crate) start: Option<LogStart>,
    /// Where it ended when that was last recorded.
    pub(crate) end: Option<LogEnd>,
    /// Which files have redo that it needs beyond that end, if there are any.
    pub(crate) redo_files: Option<RedoFiles>,
}

/// What a fold carries beyond the facts that still hold; the last part of a snapshot holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Carried {
    /// The id for the next new topic; from 1.
    pub(crate) next_topic: u64,
    /// The id for the next new subscription; from 1.
    pub(crate) next_subscription: u64,
    /// The id for the next new log; from 1, since 0 stands for the journal itself.
    pub(crate) next_log: u64,
    /// Whether a record was lost before it could be folded in.
    pub(crate) lost: bool,
}

/// What became of an event that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Folded {
    /// How many of its facts were about something that is gone, and so were passed over.
    pub(crate) ignored: u64,
}

impl Default for Carried {
    fn default() -> Self {
        Self {
            next_topic: 1,
            next_subscription: 1,
            next_log: 1,
            lost: false,
        }
    }
}

/// Reading.
impl Fold {
    /// The last owner; `None` before the first.
    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Whether the last owner left in good order and every recorded end can be taken at its word.
    pub(crate) fn closed(&self) -> bool {
        self.closed && !self.carried.lost
    }

    /// Whether a record was lost on the way here, by damage or because it was no longer kept.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn lost(&self) -> bool {
        self.carried.lost
    }

    /// The next ids, and what else no event states.
    pub(crate) fn carried(&self) -> &Carried {
        &self.carried
    }

    /// The live topics, sorted by id.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &TopicState> {
        self.topics.values()
    }

    /// The live topics, sorted by name.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn topics_by_name(&self) -> impl Iterator<Item = &TopicState> {
        self.names.values().filter_map(|id| self.topics.get(id))
    }

    /// A live topic by its id.
    pub(crate) fn topic(&self, id: u64) -> Option<&TopicState> {
        self.topics.get(&id)
    }

    /// A live topic by its name.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn topic_named(&self, name: &str) -> Option<&TopicState> {
        self.topic(*self.names.get(name)?)
    }

    /// The live subscriptions, sorted by id.
    pub(crate) fn subscriptions(&self) -> impl Iterator<Item = &SubscriptionState> {
        self.subscriptions.values().map(|held| &held.state)
    }

    /// The live subscriptions of a topic, sorted by name.
    pub(crate) fn subscriptions_of(&self, topic: u64) -> impl Iterator<Item = &SubscriptionState> {
        self.subscribed_to(topic).map(|held| &held.state)
    }

    /// A live subscription by its id.
    pub(crate) fn subscription(&self, id: u64) -> Option<&SubscriptionState> {
        self.subscriptions.get(&id).map(|held| &held.state)
    }

    /// A live subscription by its topic's id and its name.
    pub(crate) fn subscription_named(&self, topic: u64, name: &str) -> Option<&SubscriptionState> {
        self.subscription(*self.subscription_names.get(&topic)?.get(name)?)
    }

    /// Where a subscription stands; `None` before its first commit in that partition.
    pub(crate) fn checkpoint(&self, subscription: u64, partition: u32) -> Option<u64> {
        let held = self.subscriptions.get(&subscription)?;
        held.checkpoints.get(&partition).copied()
    }

    /// The logs of live topics, sorted by id.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn logs(&self) -> impl Iterator<Item = (u64, &LogState)> {
        self.logs.iter().map(|(id, log)| (*id, log))
    }

    /// A log of a live topic.
    pub(crate) fn log(&self, id: u64) -> Option<&LogState> {
        self.logs.get(&id)
    }

    /// The logs whose redo has files of its own, and which.
    pub(crate) fn redo_files(&self) -> impl Iterator<Item = &RedoFiles> {
        self.logs.values().filter_map(|log| log.redo_files.as_ref())
    }

    /// The offset below which all records of a log were once durable, as far as events say: what
    /// is missing below it is damage, and no offset below it is ever given again.
    pub(crate) fn promise(&self, log: u64) -> u64 {
        let Some(state) = self.logs.get(&log) else {
            return 0;
        };
        let end = state.end.as_ref().map_or(0, LogEnd::next);
        let start = state.start.as_ref().map_or(0, |start| start.offset);
        let redo = state.redo_files.as_ref().map_or(0, |files| files.next);
        self.subscribed_to(state.topic)
            .filter_map(|held| held.checkpoints.get(&state.partition).copied())
            .fold(end.max(start).max(redo), u64::max)
    }

    /// The facts that hold, as events from which an empty fold becomes this one again, but for
    /// what is [`Carried`]. None of them says more than one thing of one kind.
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> {
        let owner = self.owner.iter().cloned().map(Event::Epoch);
        let topics = self.topics().cloned().map(Event::Topic);
        let subscriptions = self.subscriptions().cloned().map(Event::Subscription);
        let checkpoints = self.subscriptions.values().flat_map(|held| {
            let subscription = held.state.id;
            let stands = held.checkpoints.iter();
            stands.map(move |(&partition, &next)| Event::Checkpoint {
                subscription,
                partition,
                next,
            })
        });
        let logs = self.logs.iter().flat_map(|(&log, state)| {
            let settled = state.settled.then_some(Event::Settled { log });
            let start = state.start.clone().map(Event::Start);
            let end = state.end.clone().map(|end| Event::Ends { ends: vec![end] });
            let redo_files = state.redo_files.clone().map(Event::RedoFiles);
            [settled, start, end, redo_files].into_iter().flatten()
        });
        let left = self.owner.iter().filter(|_| self.closed);
        let closed = left.map(|owner| Event::Closed { epoch: owner.epoch });
        owner
            .chain(topics)
            .chain(subscriptions)
            .chain(checkpoints)
            .chain(logs)
            .chain(closed)
    }

    fn subscribed_to(&self, topic: u64) -> impl Iterator<Item = &Subscribed> {
        let ids = self.subscription_names.get(&topic).into_iter().flatten();
        ids.filter_map(|(_, id)| self.subscriptions.get(id))
    }
}

/// Folding.
impl Fold {
    /// Folds in the event of the journal record at `offset`.
    pub(crate) fn apply(&mut self, offset: u64, event: &Event) -> Result<Folded, FoldFlaw> {
        let was_closed = self.closed;
        if !matches!(event, Event::Closed { .. }) {
            self.closed = false;
        }
        self.carried.see(event);
        let ignored = match event {
            Event::Epoch(owner) => self.epoch(offset, owner, was_closed)?,
            Event::Topic(topic) => self.put_topic(offset, topic)?,
            Event::TopicDeleted { id } => self.remove_topic(*id),
            Event::Subscription(state) => self.put_subscription(offset, state)?,
            Event::SubscriptionDeleted { id } => self.remove_subscription(*id),
            Event::Checkpoint {
                subscription,
                partition,
                next,
            } => self.put_checkpoint(*subscription, *partition, *next),
            Event::Ends { ends } => ends
                .iter()
                .map(|end| self.on_log(end.log, |log| log.ends(end)))
                .sum(),
            Event::RedoFiles(files) => {
                self.on_log(files.log, |log| log.redo_files = Some(files.clone()))
            }
            Event::Settled { log } => self.on_log(*log, |log| log.settled = true),
            Event::Start(start) => self.on_log(start.log, |log| log.start = Some(start.clone())),
            Event::Closed { epoch } => self.close(*epoch),
        };
        Ok(Folded { ignored })
    }

    /// Notes that a record which belongs here could not be read. What is known stays, but no end
    /// recorded so far can be taken for the last one any more, so the store no longer counts as
    /// closed cleanly, now or after any close to come: its logs are walked when first used.
    pub(crate) fn lose(&mut self) {
        self.carried.lost = true;
    }

    /// Takes over what the fold that a snapshot was made of carried.
    pub(super) fn carry(&mut self, from: &Carried) {
        let mine = &mut self.carried;
        mine.next_topic = mine.next_topic.max(from.next_topic);
        mine.next_subscription = mine.next_subscription.max(from.next_subscription);
        mine.next_log = mine.next_log.max(from.next_log);
        mine.lost |= from.lost;
    }

    fn epoch(&mut self, offset: u64, owner: &Owner, closed: bool) -> Result<u64, FoldFlaw> {
        if let Some(last) = &self.owner
            && owner.epoch < last.epoch
        {
            return Err(FoldFlaw::EpochFell {
                offset,
                stated: owner.epoch,
                current: last.epoch,
            });
        }
        // Stated again it is the same owner still.
        let new = self.owner.as_ref().map(|last| last.epoch) != Some(owner.epoch);
        if new && !closed {
            // The one before may have used any log without telling where it ends now.
            let ends = self.logs.values_mut().filter_map(|log| log.end.as_mut());
            ends.for_each(|end| end.exact = false);
        }
        self.owner = Some(owner.clone());
        Ok(0)
    }

    fn close(&mut self, epoch: u32) -> u64 {
        if self.owner.as_ref().is_some_and(|last| last.epoch == epoch) {
            self.closed = true;
            0
        } else {
            1
        }
    }

    fn put_topic(&mut self, offset: u64, topic: &TopicState) -> Result<u64, FoldFlaw> {
        let id = topic.id;
        if let Some(known) = self.topics.get_mut(&id) {
            if known.name != topic.name || known.logs != topic.logs {
                return Err(FoldFlaw::TopicChanged { offset, id });
            }
            known.clone_from(topic);
            return Ok(0);
        }
        if topic.logs.is_empty() || topic.logs.len() > MAX_PARTITIONS {
            let stated = topic.logs.len();
            return Err(FoldFlaw::Partitions { offset, id, stated });
        }
        if let Some(&holder) = self.names.get(&topic.name) {
            let name = topic.name.clone();
            return Err(FoldFlaw::NameTaken {
                offset,
                id,
                name,
                holder,
            });
        }
        let mut fresh = BTreeSet::new();
        for &log in &topic.logs {
            if self.logs.contains_key(&log) || !fresh.insert(log) {
                return Err(FoldFlaw::LogTaken { offset, id, log });
            }
        }
        for (&log, partition) in topic.logs.iter().zip(0..) {
            let state = LogState {
                topic: id,
                partition,
                settled: false,
                start: None,
                end: None,
                redo_files: None,
            };
            self.logs.insert(log, state);
        }
        self.names.insert(topic.name.clone(), id);
        self.topics.insert(id, topic.clone());
        Ok(0)
    }

    fn remove_topic(&mut self, id: u64) -> u64 {
        let Some(topic) = self.topics.remove(&id) else {
            return 1;
        };
        self.names.remove(&topic.name);
        for log in &topic.logs {
            self.logs.remove(log);
        }
        for (_, subscription) in self.subscription_names.remove(&id).into_iter().flatten() {
            self.subscriptions.remove(&subscription);
        }
        0
    }

    fn put_subscription(
        &mut self,
        offset: u64,
        state: &SubscriptionState,
    ) -> Result<u64, FoldFlaw> {
        let (id, topic) = (state.id, state.topic);
        if let Some(held) = self.subscriptions.get(&id)
            && (held.state.topic != topic || held.state.name != state.name)
        {
            return Err(FoldFlaw::SubscriptionChanged { offset, id });
        }
        let Some(read) = self.topics.get(&topic) else {
            return Ok(1);
        };
        let stated = state.start.len();
        if stated != read.logs.len() {
            return Err(FoldFlaw::Partitions { offset, id, stated });
        }
        if let Some(held) = self.subscriptions.get_mut(&id) {
            held.state.clone_from(state);
            return Ok(0);
        }
        let names = self.subscription_names.entry(topic).or_default();
        if let Some(&holder) = names.get(&state.name) {
            let name = state.name.clone();
            return Err(FoldFlaw::SubscriptionTaken {
                offset,
                id,
                topic,
                name,
                holder,
            });
        }
        names.insert(state.name.clone(), id);
        let held = Subscribed {
            state: state.clone(),
            checkpoints: BTreeMap::new(),
        };
        self.subscriptions.insert(id, held);
        Ok(0)
    }

    fn remove_subscription(&mut self, id: u64) -> u64 {
        let Some(Subscribed { state, .. }) = self.subscriptions.remove(&id) else {
            return 1;
        };
        if let Some(names) = self.subscription_names.get_mut(&state.topic) {
            names.remove(&state.name);
            if names.is_empty() {
                self.subscription_names.remove(&state.topic);
            }
        }
        0
    }

    fn put_checkpoint(&mut self, subscription: u64, partition: u32, next: u64) -> u64 {
        let Some(held) = self.subscriptions.get_mut(&subscription) else {
            return 1;
        };
        // One start is stated for each partition of the topic.
        if usize::try_from(partition).map_or(true, |p| p >= held.state.start.len()) {
            return 1;
        }
        held.checkpoints.insert(partition, next);
        0
    }

    fn on_log(&mut self, id: u64, change: impl FnOnce(&mut LogState)) -> u64 {
        match self.logs.get_mut(&id) {
            Some(log) => {
                change(log);
                0
            }
            None => 1,
        }
    }
}

impl LogState {
    /// Whoever states an end has made everything below it safe in the log's own files.
    fn ends(&mut self, end: &LogEnd) {
        self.end = Some(end.clone());
        self.redo_files = None;
    }
}

impl Carried {
    /// Lifts the next ids above all that an event mentions, in whatever role: where the event that
    /// made a thing was lost, a later one about it still keeps its id from being used again.
    fn see(&mut self, event: &Event) {
        match event {
            Event::Epoch(_) | Event::Closed { .. } => {}
            Event::Topic(topic) => {
                self.topic(topic.id);
                topic.logs.iter().for_each(|&log| self.log(log));
            }
            Event::TopicDeleted { id } => self.topic(*id),
            Event::Subscription(state) => {
                self.subscription(state.id);
                self.topic(state.topic);
            }
            Event::SubscriptionDeleted { id } => self.subscription(*id),
            Event::Checkpoint { subscription, .. } => self.subscription(*subscription),
            Event::Ends { ends } => ends.iter().for_each(|end| self.log(end.log)),
            Event::Settled { log } => self.log(*log),
            Event::RedoFiles(files) => self.log(files.log),
            Event::Start(start) => self.log(start.log),
        }
    }

    fn topic(&mut self, id: u64) {
        self.next_topic = self.next_topic.max(id.saturating_add(1));
    }

    fn subscription(&mut self, id: u64) {
        self.next_subscription = self.next_subscription.max(id.saturating_add(1));
    }

    fn log(&mut self, id: u64) {
        self.next_log = self.next_log.max(id.saturating_add(1));
    }
}
