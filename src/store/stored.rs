//! What a program reads.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::position::Position;
use super::record::{Record, Timestamp};
use crate::error::{Error, Result};
use crate::format::{Frame, Header};
use crate::segment::Segment;

/// From this length on an owned record's payload is not copied, but stays in its mapping.
const KEPT: usize = 64 << 10;

/// A record as a cursor lends it: borrowed from the mapped file, not copied.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Start, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append(Record::new("M 4.6 Volcano, Hawaii").key("hv").header("source", "usgs"))?;
/// let mut cursor = topic.partition(0)?.cursor(Start::Earliest)?;
/// let record = cursor.next()?.expect("one was appended");
/// assert_eq!(record.text()?, "M 4.6 Volcano, Hawaii");
/// assert_eq!(record.key(), Some(&b"hv"[..]));
/// assert_eq!(record.headers().next(), Some(("source", &b"usgs"[..])));
/// # drop(cursor);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct StoredRecord<'a> {
    pub(crate) topic: &'a Arc<str>,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    /// The store and the log, for the derived event id.
    pub(crate) origin: ([u8; 16], u64),
    pub(crate) frame: Frame<'a>,
    pub(crate) segment: &'a Segment,
    /// Nothing changes its bytes any more.
    pub(crate) durable: bool,
}

impl<'a> StoredRecord<'a> {
    /// Which record it is.
    pub fn position(&self) -> Position {
        Position::new(self.topic, self.partition, self.offset)
    }

    /// The position of the record that follows: what a commit behind this one names.
    pub fn next(&self) -> Position {
        Position::new(self.topic, self.partition, self.offset + 1)
    }

    /// The topic's name.
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// The partition's number.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// Its number in the partition.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its own time, or the wall clock at its append.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_nanos(self.frame.timestamp())
    }

    /// Its key.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.frame.key()
    }

    /// Its headers, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.frame.headers()
    }

    /// The value of the first header of that name.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }

    /// Its payload.
    pub fn payload(&self) -> &'a [u8] {
        self.frame.payload()
    }

    /// Its payload as text, or [`Error::NotText`].
    pub fn text(&self) -> Result<&'a str> {
        std::str::from_utf8(self.payload()).map_err(|error| Error::NotText {
            valid_up_to: error.valid_up_to(),
        })
    }

    /// Whether it says that its key's value is gone.
    pub fn is_tombstone(&self) -> bool {
        self.frame.is_tombstone()
    }

    /// Its event id; where the producer gave none, one made of store, log and offset, which no
    /// other record ever has.
    pub fn event_id(&self) -> Cow<'a, [u8]> {
        match self.given_event_id() {
            Some(id) => Cow::Borrowed(id),
            None => {
                let (store, log) = self.origin;
                let store = u128::from_be_bytes(store);
                Cow::Owned(format!("{store:032x}-{log}-{}", self.offset).into_bytes())
            }
        }
    }

    /// The event id that the producer gave, if it gave one.
    pub fn given_event_id(&self) -> Option<&'a [u8]> {
        self.frame.event_id()
    }

    /// A record that outlives the cursor. A durable payload of 64 KiB or more is not copied: it stays in
    /// its file's mapping, all of which it keeps alive, also when retention removes the file or the store
    /// is closed. As with a record that is lent, a file that somebody cuts short, or a sector that goes
    /// bad after it was read, is a signal to who touches it: copy what is to be kept for long.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord {
            position: self.position(),
            timestamp: self.timestamp(),
            key: self.key().map(<[u8]>::to_vec),
            headers: self
                .headers()
                .map(|(name, value)| (name.to_owned(), value.to_vec()))
                .collect(),
            payload: self.kept_payload(),
            event_id: self.event_id().into_owned(),
            tombstone: self.is_tombstone(),
        }
    }

    fn kept_payload(&self) -> Bytes {
        let payload = self.payload();
        let kept = (payload.len() >= KEPT && self.durable).then(|| self.segment.keep(payload));
        match kept {
            Some(Ok(kept)) => Bytes::from_owner(kept),
            // What has been lent can be copied, whatever says no now.
            Some(Err(_)) | None => Bytes::copy_from_slice(payload),
        }
    }

    /// The same key, headers, time and payload, to be appended elsewhere.
    pub fn to_record(&self) -> Record<'a> {
        Record {
            payload: Cow::Borrowed(self.payload()),
            key: self.key().map(Cow::Borrowed),
            headers: self
                .headers()
                .map(|(name, value)| Header::new(name, value))
                .collect(),
            event_id: self.given_event_id().map(Cow::Borrowed),
            timestamp: Some(self.timestamp()),
            partition: None,
            tombstone: self.is_tombstone(),
        }
    }
}

/// A record that stands by itself.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append(Record::new("M 4.6 Volcano, Hawaii"))?;
/// let records = topic.partition(0)?.read(0..10)?.collect::<tidelog::Result<Vec<_>>>()?;
/// assert_eq!(records[0].text()?, "M 4.6 Volcano, Hawaii");
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    position: Position,
    timestamp: Timestamp,
    key: Option<Vec<u8>>,
    headers: Vec<(String, Vec<u8>)>,
    payload: Bytes,
    event_id: Vec<u8>,
    tombstone: bool,
}

impl OwnedRecord {
    /// Which record it is.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Its number in the partition.
    pub fn offset(&self) -> u64 {
        self.position.offset()
    }

    /// Its own time, or the wall clock at its append.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Its key.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Its headers, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Its payload.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Its payload, to be kept or sent: nothing is copied.
    pub fn payload_bytes(&self) -> Bytes {
        self.payload.clone()
    }

    /// The value of the first header of that name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }

    /// Its payload as text, or [`Error::NotText`].
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.payload).map_err(|error| Error::NotText {
            valid_up_to: error.valid_up_to(),
        })
    }

    /// Its event id.
    pub fn event_id(&self) -> &[u8] {
        &self.event_id
    }

    /// Whether it says that its key's value is gone.
    pub fn is_tombstone(&self) -> bool {
        self.tombstone
    }
}
