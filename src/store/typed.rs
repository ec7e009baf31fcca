//! Values in place of payloads: encoded where they are appended, decoded where they are read.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ack::Ack;
use super::follow::{Follow, Stopper};
use super::position::{Position, Positions};
use super::read::{Records, Start};
use super::record::Record;
use super::stored::{OwnedRecord, StoredRecord};
use super::subscription::Subscription;
use super::topic::Topic;
use crate::error::{Error, Result};

/// What a codec fails with.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Makes payloads of values, and values of payloads.
///
/// # Examples
///
/// ```
/// use tidelog::{Codec, Store};
///
/// /// Numbers as eight bytes.
/// #[derive(Debug, Clone, Copy)]
/// struct Fixed;
///
/// impl Codec<u64> for Fixed {
///     fn encode(&self, value: &u64) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
///         Ok(value.to_le_bytes().to_vec())
///     }
///     fn decode(&self, payload: &[u8]) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
///         Ok(u64::from_le_bytes(payload.try_into()?))
///     }
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let ticks = store.topic("ticks")?.typed_by(Fixed);
/// ticks.append(&7)?;
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Codec<T> {
    /// The payload that stands for a value.
    fn encode(&self, value: &T) -> std::result::Result<Vec<u8>, Failure>;

    /// The value that a payload stands for.
    fn decode(&self, payload: &[u8]) -> std::result::Result<T, Failure>;
}

/// Values as JSON, by serde.
///
/// # Examples
///
/// ```
/// use tidelog::{Codec, Json};
/// assert_eq!(Json.encode(&[4.6, 2.1]).expect("numbers are JSON"), b"[4.6,2.1]");
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn encode(&self, value: &T) -> std::result::Result<Vec<u8>, Failure> {
        Ok(serde_json::to_vec(value)?)
    }

    fn decode(&self, payload: &[u8]) -> std::result::Result<T, Failure> {
        Ok(serde_json::from_slice(payload)?)
    }
}

/// A topic of values of one type.
///
/// # Examples
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tidelog::{Start, Store};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Quake {
///     place: String,
///     magnitude: f64,
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let quakes = store.topic("quakes")?.typed::<Quake>();
/// let quake = Quake { place: "Volcano, Hawaii".to_owned(), magnitude: 4.6 };
/// quakes.append(&quake)?;
/// quakes.topic().append(quakes.record(&quake)?.key("hv"))?; // with what goes with it
/// for quake in quakes.read(0, 0..10)? {
///     assert_eq!(quake?.value.magnitude, 4.6);
/// }
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedTopic<T, C = Json> {
    pub(super) topic: Topic,
    codec: C,
    values: PhantomData<fn() -> T>,
}

/// A value that was read, and the record that it stood in.
///
/// # Examples
///
/// ```
/// # use tidelog::{Start, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let ticks = store.topic("ticks")?.typed::<u64>();
/// ticks.append(&7)?;
/// let tick = ticks.follow(Start::Earliest)?.next().expect("it is there")?;
/// assert_eq!((tick.value, tick.record.offset()), (7, 0));
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed<T> {
    /// The value.
    pub value: T,
    /// The record: its position, key, headers and time.
    pub record: OwnedRecord,
}

impl Topic {
    /// The topic as one of values of this type, as JSON.
    pub fn typed<T: Serialize + DeserializeOwned>(&self) -> TypedTopic<T> {
        self.typed_by(Json)
    }

    /// The topic as one of values that this codec knows.
    pub fn typed_by<T, C: Codec<T>>(&self, codec: C) -> TypedTopic<T, C> {
        TypedTopic {
            topic: self.clone(),
            codec,
            values: PhantomData,
        }
    }
}

impl<T, C: Codec<T>> TypedTopic<T, C> {
    /// The topic itself.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// A record of a value, to be given a key or headers and appended to the topic.
    ///
    /// # Errors
    ///
    /// [`Error::NotEncoded`].
    pub fn record(&self, value: &T) -> Result<Record<'static>> {
        let encoded = self.codec.encode(value);
        encoded.map(Record::new).map_err(|error| Error::NotEncoded {
            topic: self.topic.name().to_owned(),
            reason: error.to_string(),
        })
    }

    /// The value of a record that was read elsewhere: by a cursor, a stream or a processor.
    ///
    /// # Errors
    ///
    /// [`Error::NotDecoded`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Start, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let ticks = store.topic("ticks")?.typed::<u64>();
    /// ticks.append(&7)?;
    /// let mut cursor = ticks.topic().partition(0)?.cursor(Start::Earliest)?;
    /// while let Some(record) = cursor.next()? {
    ///     assert_eq!(ticks.decode(&record.position(), record.payload())?, 7);
    /// }
    /// # drop(cursor);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decode(&self, position: &Position, payload: &[u8]) -> Result<T> {
        let decoded = self.codec.decode(payload);
        decoded.map_err(|error| Error::NotDecoded {
            topic: position.topic().to_owned(),
            partition: position.partition(),
            offset: position.offset(),
            reason: error.to_string(),
        })
    }

    /// Appends a value, as [`Topic::append`].
    ///
    /// # Errors
    ///
    /// [`Error::NotEncoded`], before anything is written; else as for [`Topic::append`].
    pub fn append(&self, value: &T) -> Result<Position> {
        self.topic.append(self.record(value)?)
    }

    /// Appends values as one commit, as [`Topic::append_batch`]. If one cannot be encoded, nothing is
    /// written.
    pub fn append_batch<'v>(&self, values: impl IntoIterator<Item = &'v T>) -> Result<Positions>
    where
        T: 'v,
    {
        self.topic.append_batch(self.records(values)?)
    }

    /// Appends a value and returns once it is written, as [`Topic::append_nowait`].
    pub fn append_nowait(&self, value: &T) -> Result<Ack> {
        self.topic.append_nowait(self.record(value)?)
    }

    /// The values of a range of a partition, as [`Partition::read`](super::Partition::read).
    ///
    /// # Errors
    ///
    /// What cannot be decoded is [`Error::NotDecoded`] in its place; the iterator goes on behind it.
    pub fn read(&self, partition: u32, offsets: Range<u64>) -> Result<TypedRecords<'_, T, C>> {
        let records = self.topic.partition(partition)?.read(offsets)?;
        Ok(TypedRecords {
            topic: self,
            records,
        })
    }

    /// Follows the values, as [`Topic::follow`].
    pub fn follow(&self, start: Start) -> Result<TypedFollow<'_, T, C>> {
        Ok(self.following(self.topic.follow(start)?))
    }

    pub(super) fn following(&self, follow: Follow) -> TypedFollow<'_, T, C> {
        TypedFollow {
            topic: self,
            follow,
        }
    }

    /// The named subscription, made if there is none, as [`Topic::subscribe`].
    pub fn subscribe(&self, name: &str) -> Result<TypedSubscription<'_, T, C>> {
        Ok(self.subscription(self.topic.subscribe(name)?))
    }

    /// A subscription of this topic that was opened with options, as one of values.
    pub fn subscription(&self, subscription: Subscription) -> TypedSubscription<'_, T, C> {
        TypedSubscription {
            topic: self,
            subscription,
        }
    }

    pub(super) fn records<'v>(
        &self,
        values: impl IntoIterator<Item = &'v T>,
    ) -> Result<Vec<Record<'static>>>
    where
        T: 'v,
    {
        let records = values.into_iter().map(|value| self.record(value));
        records.collect()
    }

    fn typed(&self, record: OwnedRecord) -> Result<Typed<T>> {
        let value = self.decode(record.position(), record.payload())?;
        Ok(Typed { value, record })
    }

    /// The value of a record, if there is one.
    pub(super) fn typed_if(&self, record: Option<StoredRecord<'_>>) -> Result<Option<Typed<T>>> {
        let record = record.map(|record| record.to_owned());
        record.map(|record| self.typed(record)).transpose()
    }
}

/// The values of a range, as [`TypedTopic::read`] returns them.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let ticks = store.topic("ticks")?.typed::<u64>();
/// ticks.append_batch(&[7, 8])?;
/// let values = ticks.read(0, 0..9)?.map(|it| Ok(it?.value));
/// assert_eq!(values.collect::<tidelog::Result<Vec<_>>>()?, [7, 8]);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedRecords<'t, T, C = Json> {
    topic: &'t TypedTopic<T, C>,
    records: Records,
}

impl<T, C: Codec<T>> Iterator for TypedRecords<'_, T, C> {
    type Item = Result<Typed<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.records.next()?;
        Some(record.and_then(|record| self.topic.typed(record)))
    }
}

/// A follower of values: it waits, and ends when the topic is finished and everything has been read.
///
/// # Examples
///
/// ```
/// # use tidelog::{Start, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let ticks = store.topic("ticks")?.typed::<u64>();
/// ticks.append(&7)?;
/// ticks.topic().finish()?;
/// for tick in ticks.follow(Start::Earliest)? {
///     assert_eq!(tick?.value, 7);
/// }
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedFollow<'t, T, C = Json> {
    pub(super) topic: &'t TypedTopic<T, C>,
    pub(super) follow: Follow,
}

impl<T, C: Codec<T>> TypedFollow<'_, T, C> {
    /// The next value, waiting so long at the most, as [`Follow::next_timeout`].
    ///
    /// # Errors
    ///
    /// As for [`Follow::next`]; [`Error::NotDecoded`], behind which it goes on.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Typed<T>>> {
        let record = self.follow.next_timeout(timeout)?;
        self.topic.typed_if(record)
    }

    /// A handle that stops this follower from another thread.
    pub fn stopper(&self) -> Stopper {
        self.follow.stopper()
    }
}

impl<T, C: Codec<T>> Iterator for TypedFollow<'_, T, C> {
    type Item = Result<Typed<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = Iterator::next(&mut self.follow)?;
        Some(record.and_then(|record| self.topic.typed(record)))
    }
}

/// A subscription of values.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let ticks = store.topic("ticks")?.typed::<u64>();
/// ticks.append(&7)?;
/// let mut sums = ticks.subscribe("sums")?;
/// while let Some(tick) = sums.next()? {
///     assert_eq!(tick.value, 7);
///     sums.commit()?;
/// }
/// # drop(sums);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedSubscription<'t, T, C = Json> {
    pub(super) topic: &'t TypedTopic<T, C>,
    pub(super) subscription: Subscription,
}

impl<T, C: Codec<T>> TypedSubscription<'_, T, C> {
    /// The next value, as [`Subscription::next`].
    ///
    /// # Errors
    ///
    /// As there; [`Error::NotDecoded`] of a record, which counts as returned.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is called as that of a subscription"
    )]
    pub fn next(&mut self) -> Result<Option<Typed<T>>> {
        let record = self.subscription.next()?;
        self.topic.typed_if(record)
    }

    /// The next value; waits for it, as [`Subscription::next_wait`].
    pub fn next_wait(&mut self) -> Result<Option<Typed<T>>> {
        let record = self.subscription.next_wait()?;
        self.topic.typed_if(record)
    }

    /// The next value, waiting so long at the most, as [`Subscription::next_timeout`].
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Typed<T>>> {
        let record = self.subscription.next_timeout(timeout)?;
        self.topic.typed_if(record)
    }

    /// A handle that ends waiting from another thread, as [`Subscription::stopper`].
    pub fn stopper(&self) -> Stopper {
        self.subscription.stopper()
    }

    /// Commits everything returned so far, as [`Subscription::commit`].
    pub fn commit(&mut self) -> Result<()> {
        self.subscription.commit()
    }

    /// The subscription itself, for everything else.
    pub fn subscription(&mut self) -> &mut Subscription {
        &mut self.subscription
    }
}

macro_rules! shown {
    ($($name:ident by $field:ident $($life:lifetime)?;)*) => {
        $(impl<T, C> fmt::Debug for $name<$($life,)? T, C> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.$field).finish()
            }
        })*
    };
}

shown! {
    TypedTopic by topic;
    TypedRecords by records '_;
    TypedFollow by follow '_;
    TypedSubscription by subscription '_;
}
