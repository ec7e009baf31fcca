//! What a program appends, and where it went.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use crate::format::Header;
use crate::format::Parts;

/// A record to append: a payload, and what goes with it.
///
/// # Examples
///
/// ```
/// use tidelog::Record;
/// let record = Record::new(r#"{"mag":4.6}"#).key("hv").header("source", "usgs");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    pub(crate) payload: Cow<'a, [u8]>,
    pub(crate) key: Option<Cow<'a, [u8]>>,
    pub(crate) headers: Vec<Header<'a>>,
    pub(crate) event_id: Option<Cow<'a, [u8]>>,
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) partition: Option<u32>,
    pub(crate) tombstone: bool,
}

impl<'a> Record<'a> {
    /// A record with this payload, of 0 bytes up to the topic's limit.
    pub fn new(payload: impl IntoBytes<'a>) -> Record<'a> {
        Record {
            payload: payload.into_bytes(),
            key: None,
            headers: Vec::new(),
            event_id: None,
            timestamp: None,
            partition: None,
            tombstone: false,
        }
    }

    /// A record without payload that says: the key's value is gone. It is for keyed topics.
    pub fn tombstone(key: impl IntoBytes<'a>) -> Record<'a> {
        Record {
            tombstone: true,
            ..Record::new("").key(key)
        }
    }

    /// The key, up to 65,535 bytes. Records of one key go to one partition and stay in order.
    pub fn key(mut self, key: impl IntoBytes<'a>) -> Self {
        self.key = Some(key.into_bytes());
        self
    }

    /// Adds a header. Up to 255, in this order; names may repeat.
    pub fn header(mut self, name: impl Into<Cow<'a, str>>, value: impl IntoBytes<'a>) -> Self {
        self.headers.push(Header::new(name, value.into_bytes()));
        self
    }

    /// The event's own id, 1 to 255 bytes. Without one, the record's place in the store stands
    /// in for it.
    pub fn event_id(mut self, id: impl IntoBytes<'a>) -> Self {
        self.event_id = Some(id.into_bytes());
        self
    }

    /// The event's own time, past or future. Without one, the wall clock at the append.
    pub fn at(mut self, timestamp: impl Into<Timestamp>) -> Self {
        self.timestamp = Some(timestamp.into());
        self
    }

    /// The partition it must go to, whatever its key.
    pub fn partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Record<'static> {
        let owned = |bytes: Cow<'a, [u8]>| Cow::Owned(bytes.into_owned());
        let header =
            |header: Header<'a>| Header::new(header.name.into_owned(), header.value.into_owned());
        Record {
            payload: owned(self.payload),
            key: self.key.map(owned),
            headers: self.headers.into_iter().map(header).collect(),
            event_id: self.event_id.map(owned),
            timestamp: self.timestamp,
            partition: self.partition,
            tombstone: self.tombstone,
        }
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            key: self.key.as_deref(),
            tombstone: self.tombstone,
            event_id: self.event_id.as_deref(),
            producer: None,
            headers: &self.headers,
            payload: &self.payload,
        }
    }
}

impl<'a> From<&'a str> for Record<'a> {
    fn from(payload: &'a str) -> Self {
        Record::new(payload)
    }
}

impl<'a> From<&'a [u8]> for Record<'a> {
    fn from(payload: &'a [u8]) -> Self {
        Record::new(payload)
    }
}

impl From<Vec<u8>> for Record<'_> {
    fn from(payload: Vec<u8>) -> Self {
        Record::new(payload)
    }
}

impl From<String> for Record<'_> {
    fn from(payload: String) -> Self {
        Record::new(payload)
    }
}

/// Text or bytes, borrowed or owned.
///
/// # Examples
///
/// ```
/// use tidelog::IntoBytes;
/// assert_eq!("abc".into_bytes(), b"abc".into_bytes());
/// ```
pub trait IntoBytes<'a> {
    /// The bytes.
    fn into_bytes(self) -> Cow<'a, [u8]>;
}

macro_rules! into_bytes {
    ($($from:ty => |$it:ident| $to:expr;)*) => {
        $(impl<'a> IntoBytes<'a> for $from {
            fn into_bytes(self) -> Cow<'a, [u8]> {
                let $it = self;
                $to
            }
        })*
    };
}

into_bytes! {
    &'a str => |it| Cow::Borrowed(it.as_bytes());
    &'a String => |it| Cow::Borrowed(it.as_bytes());
    &'a [u8] => |it| Cow::Borrowed(it);
    &'a Vec<u8> => |it| Cow::Borrowed(it);
    String => |it| Cow::Owned(String::into_bytes(it));
    Vec<u8> => |it| Cow::Owned(it);
    Cow<'a, [u8]> => |it| it;
}

impl<'a, const N: usize> IntoBytes<'a> for &'a [u8; N] {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(self)
    }
}

/// A point in time: nanoseconds since the Unix epoch, years 1677 to 2262.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use tidelog::Timestamp;
/// let time = Timestamp::from(UNIX_EPOCH + Duration::from_millis(1_517_363_399_650));
/// assert_eq!(time.as_millis(), 1_517_363_399_650);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time so many nanoseconds after the Unix epoch, or before.
    pub const fn from_nanos(nanos: i64) -> Timestamp {
        Timestamp(nanos)
    }

    /// The time so many milliseconds after the Unix epoch, or before; the nearest that can be
    /// said.
    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the Unix epoch, rounded down.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let nanos = |gap: Duration| i64::try_from(gap.as_nanos()).unwrap_or(i64::MAX);
        Timestamp(match time.duration_since(UNIX_EPOCH) {
            Ok(after) => nanos(after),
            Err(before) => -nanos(before.duration()),
        })
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let gap = Duration::from_nanos(time.0.unsigned_abs());
        match time.0 {
            0.. => UNIX_EPOCH + gap,
            _ => UNIX_EPOCH - gap,
        }
    }
}
