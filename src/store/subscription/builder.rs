//! Opening subscriptions, and removing them.

use super::filter::Filter;
use super::sampling::Sampling;
use super::{Held, Subscription};
use crate::error::{Error, Result};
use crate::journal::{Event, SubscriptionState};
use crate::store::name;
use crate::store::read::{Cursor, Start};
use crate::store::topic::Topic;

/// The longest filter, written down.
const LONGEST: usize = 64 << 10;

/// What a subscription does when retention has removed records that it has not committed.
///
/// # Examples
///
/// ```
/// use tidelog::{OnExpiry, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let ticks = store.topic("ticks")?;
/// let board = ticks.subscription("board").on_expiry(OnExpiry::Earliest).open()?;
/// # drop(board);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnExpiry {
    /// Reading is [`Error::OffsetExpired`] until somebody resets it.
    #[default]
    Fail,
    /// It goes on, durably, at the first record that is still there;
    /// [`Subscription::lost`](crate::Subscription::lost) tells what it has passed over.
    Earliest,
    /// It goes on, durably, behind the last record; the same tells what it has passed over, also of what
    /// is there still.
    Latest,
}

impl OnExpiry {
    /// As it is stored: never reuse a name.
    fn stored(self) -> Option<String> {
        match self {
            OnExpiry::Fail => None,
            OnExpiry::Earliest => Some("earliest".to_owned()),
            OnExpiry::Latest => Some("latest".to_owned()),
        }
    }
}

/// What is stored of how a subscription reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Stored {
    pub(super) filter: Option<Filter>,
    pub(super) sampling: Option<Sampling>,
    pub(super) on_expiry: OnExpiry,
}

impl Stored {
    /// What a state says. What a later version has stored, and this one does not know, is refused, and
    /// nothing is changed.
    pub(super) fn of(state: &SubscriptionState) -> Result<Stored> {
        fn read<T: serde::de::DeserializeOwned>(
            option: &'static str,
            text: Option<&String>,
        ) -> Result<Option<T>> {
            let read = text.map(|text| serde_json::from_str(text)).transpose();
            read.map_err(|error| Error::InvalidOption {
                option,
                reason: format!("what is stored is not known here: {error}"),
            })
        }
        let on_expiry = match state.on_expiry.as_deref() {
            None => OnExpiry::Fail,
            Some("earliest") => OnExpiry::Earliest,
            Some("latest") => OnExpiry::Latest,
            Some(other) => {
                return Err(Error::InvalidOption {
                    option: "on_expiry",
                    reason: format!("what is stored is not known here: {other:?}"),
                });
            }
        };
        Ok(Stored {
            filter: read("filter", state.filter.as_ref())?,
            sampling: read("sampling", state.sampling.as_ref())?,
            on_expiry,
        })
    }
}

/// How to open a subscription. What is not said of one that is there already stays as it is; what is
/// said holds from now on, and is stored with it.
///
/// # Examples
///
/// ```
/// # use tidelog::{Filter, Start, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let output = store.topic("agent.output")?;
/// let silver = output
///     .subscription("silver")
///     .start(Start::Earliest)
///     .required()
///     .filter(Filter::header("status").is_in(["no_parser", "parse_failed"]))
///     .open()?;
/// # drop(silver);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SubscriptionBuilder {
    topic: Topic,
    name: String,
    start: Start,
    required: Option<bool>,
    filter: Option<Option<Filter>>,
    sampling: Option<Option<Sampling>>,
    on_expiry: Option<OnExpiry>,
}

impl SubscriptionBuilder {
    pub(in crate::store) fn new(topic: Topic, name: &str) -> SubscriptionBuilder {
        SubscriptionBuilder {
            topic,
            name: name.to_owned(),
            start: Start::Earliest,
            required: None,
            filter: None,
            sampling: None,
            on_expiry: None,
        }
    }

    /// Where it starts the first time. A stored checkpoint always wins. A place is held to the rules of a
    /// [reset](crate::Subscription::reset).
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Retention may keep for it what it has not committed, where the topic is told to
    /// ([`Retention::keep_required`](crate::Retention::keep_required)).
    pub fn required(mut self) -> Self {
        self.required = Some(true);
        self
    }

    /// Nothing is kept for it: what a subscription is that was never called required.
    pub fn optional(mut self) -> Self {
        self.required = Some(false);
        self
    }

    /// Only these records are returned; the others count as read. With `None` all are.
    pub fn filter(mut self, filter: impl Into<Option<Filter>>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    /// Of those that pass the filter only some are returned; the others count as read, and are
    /// [counted](crate::Subscription::counts). With `None` all are.
    pub fn sampling(mut self, sampling: impl Into<Option<Sampling>>) -> Self {
        self.sampling = Some(sampling.into());
        self
    }

    /// What it does when retention has removed what it has not committed.
    pub fn on_expiry(mut self, on_expiry: OnExpiry) -> Self {
        self.on_expiry = Some(on_expiry);
        self
    }

    /// Opens it, and makes it, durably, if there is none of that name on the topic.
    ///
    /// # Errors
    ///
    /// [`Error::SubscriptionBusy`] while another handle holds it; [`Error::InvalidOption`] for a
    /// sampling that keeps nothing, or a filter of more than 64 KiB. Where it is made,
    /// [`Error::BeyondEnd`] for an offset behind the last record, [`Error::OffsetExpired`] for one that
    /// retention has removed, [`Error::PartitionNeeded`] for one on a topic with several partitions.
    pub fn open(self) -> Result<Subscription> {
        name::check(&self.name)?;
        let store = self.topic.store.shared();
        let mut ids = store.catalog()?;
        store.check_open()?;
        self.topic.inner.check_there()?;
        let topic = self.topic.inner.id;
        let found = store
            .journal
            .fold(|fold| fold.subscription_named(topic, &self.name).cloned());
        let (state, held) = match found {
            Some(found) => {
                let held = Held::take(&self.topic, &found)?;
                let state = self.told(found.clone())?;
                if state != found {
                    store
                        .journal
                        .commit(&[Event::Subscription(state.clone())])?;
                    store.setting.retain.make();
                }
                (state, held)
            }
            None => {
                let cursors: Vec<_> = (0..).zip(self.topic.cursors(self.start)?).collect();
                let places = self.topic.checkpoints_at(&cursors)?;
                self.topic.flush_below(&places)?;
                let state = self.told(SubscriptionState {
                    id: ids.subscription,
                    topic,
                    name: self.name.clone(),
                    paused: false,
                    required: false,
                    filter: None,
                    sampling: None,
                    on_expiry: None,
                    start: places.iter().map(|(_, next)| *next).collect(),
                })?;
                ids.subscription += 1;
                store
                    .journal
                    .commit(&[Event::Subscription(state.clone())])?;
                let held = Held::take(&self.topic, &state)?;
                (state, held)
            }
        };
        drop(ids);
        Subscription::new(self.topic, state, held)
    }

    /// A state with what was said.
    fn told(&self, mut state: SubscriptionState) -> Result<SubscriptionState> {
        state.required = self.required.unwrap_or(state.required);
        if let Some(filter) = &self.filter {
            state.filter = filter
                .as_ref()
                .map(|it| written("filter", it))
                .transpose()?;
        }
        if let Some(sampling) = &self.sampling {
            sampling.iter().try_for_each(Sampling::check)?;
            let text = sampling.as_ref().map(|it| written("sampling", it));
            state.sampling = text.transpose()?;
        }
        if let Some(on_expiry) = self.on_expiry {
            state.on_expiry = on_expiry.stored();
        }
        Ok(state)
    }
}

fn written<T: serde::Serialize + serde::de::DeserializeOwned>(
    option: &'static str,
    value: &T,
) -> Result<String> {
    let invalid = |reason| Error::InvalidOption { option, reason };
    let text = serde_json::to_string(value).map_err(|error| invalid(error.to_string()))?;
    // What is written must be read again: that has a limit of its own, on what lies in what.
    let read = serde_json::from_str::<T>(&text);
    read.map_err(|error| invalid(error.to_string()))?;
    match text.len() {
        length if length > LONGEST => Err(invalid(format!("{length} bytes are more than 64 KiB"))),
        _ => Ok(text),
    }
}

impl Topic {
    /// The checkpoints of who reads on from where these cursors stand.
    pub(in crate::store) fn checkpoints_at(
        &self,
        cursors: &[(u32, Cursor)],
    ) -> Result<Vec<(u32, u64)>> {
        let each = cursors.iter().map(|(partition, cursor)| {
            let (log, asked) = (cursor.log(), cursor.offset());
            if asked > log.written() {
                return Err(Error::BeyondEnd {
                    topic: self.name().to_owned(),
                    partition: *partition,
                    asked,
                    end: log.written(),
                });
            }
            if asked < log.first() {
                return Err(log.expired(asked));
            }
            Ok((*partition, asked))
        });
        each.collect()
    }

    /// A checkpoint is durable only where its records are.
    pub(super) fn flush_below(&self, checkpoints: &[(u32, u64)]) -> Result<()> {
        for (partition, next) in checkpoints {
            self.log(*partition)?.flush_to(*next)?;
        }
        Ok(())
    }

    /// Removes a subscription with its checkpoints, durably. One made anew under the name begins as a
    /// new one does.
    ///
    /// # Errors
    ///
    /// [`Error::SubscriptionBusy`] while a handle holds it, [`Error::SubscriptionUnknown`] if there is
    /// none.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let quakes = store.topic("quakes")?;
    /// quakes.subscribe("archive")?;
    /// quakes.delete_subscription("archive")?;
    /// assert!(quakes.subscriptions()?.is_empty());
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_subscription(&self, name: &str) -> Result<()> {
        name::check(name)?;
        let store = self.store.shared();
        let _one = store.catalog()?;
        store.check_open()?;
        self.inner.check_there()?;
        let topic = self.inner.id;
        let found = store
            .journal
            .fold(|fold| fold.subscription_named(topic, name).cloned());
        let state = found.ok_or_else(|| Error::SubscriptionUnknown {
            topic: self.name().to_owned(),
            subscription: name.to_owned(),
        })?;
        let _held = Held::take(self, &state)?;
        let event = Event::SubscriptionDeleted { id: state.id };
        store.journal.commit(&[event])?;
        store.setting.retain.make();
        Ok(())
    }
}
