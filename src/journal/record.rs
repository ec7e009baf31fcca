//! Payloads of journal records: one byte for the kind, then what that kind holds.
//!
//! An old library must not pass over what it does not know, so a flaw says which of two it is:
//! *unknown*, written by a newer library, or *malformed*, which is damage. serde tells them apart
//! when it raises an error, but `serde_json` keeps only the text of it. So a payload is first read
//! as plain JSON, and the values are then read from that by a deserializer whose error type is
//! [`EventFlaw`] itself. It also makes reading independent of the number features of `serde_json`
//! that another crate of the same program may have switched on.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::Value;
use thiserror::Error;

use super::event::Event;
use super::snapshot::Part;
use crate::error::Flaw;
use crate::format::Redo;

// Kinds. Stored, never reuse.
pub(super) const EVENT: u8 = 1;
pub(super) const REDO: u8 = 2;
pub(super) const TRANSACTION: u8 = 3;
pub(super) const PART: u8 = 4;

/// The kinds this version reads, as a flaw names them.
const KINDS: &[&str] = &["1", "2", "3", "4"];

/// What a journal record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// A fact.
    Event(Event),
    /// Frames of other logs.
    Redo(Vec<Redo>),
    /// Facts, and frames of other logs, of which all hold or none.
    Transaction(Vec<Event>, Vec<Redo>),
    /// A part of a snapshot.
    Part(Part),
}

/// Why a payload is not a record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum EventFlaw {
    /// A newer library wrote it: a kind, an event or a field this version does not know.
    #[error("{found} is unknown; known are {}", known.join(", "))]
    Unknown {
        /// What was found.
        found: String,
        /// What would have been known in its stead.
        known: &'static [&'static str],
    },
    /// Damage: of a known kind, but not readable as such.
    #[error("malformed: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// Damage: not even a kind.
    #[error("empty")]
    Empty,
}

impl Record {
    /// Reads the payload of a journal record.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, EventFlaw> {
        match payload.split_first() {
            None => Err(EventFlaw::Empty),
            Some((&EVENT, json)) => read(json).map(Self::Event),
            Some((&REDO, page)) => Redo::decode(page).map(Self::Redo).map_err(redo_flaw),
            Some((&TRANSACTION, rest)) => {
                let (events, page) = split(rest)?;
                let stretches = Redo::decode(page).map_err(redo_flaw)?;
                Ok(Self::Transaction(read(events)?, stretches))
            }
            Some((&PART, json)) => read(json).map(Self::Part),
            Some((kind, _)) => Err(EventFlaw::Unknown {
                found: format!("record kind {kind}"),
                known: KINDS,
            }),
        }
    }

    /// The payload that reads as this record.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Event(event) => event.encode(),
            Self::Redo(stretches) => {
                let mut page = vec![REDO];
                page_of(stretches, &mut page);
                page
            }
            Self::Transaction(events, stretches) => {
                let mut payload = transaction(events);
                page_of(stretches, &mut payload);
                payload
            }
            Self::Part(part) => part.encode(),
        }
    }
}

#[cfg(any(test, fuzzing))]
fn page_of(stretches: &[Redo], page: &mut Vec<u8>) {
    for stretch in stretches {
        let written = stretch.encode(page);
        written.expect("what was read can be written");
    }
}

/// A transaction that states these facts; a page of redo goes behind them.
pub(super) fn transaction(events: &[Event]) -> Vec<u8> {
    let mut payload = vec![TRANSACTION, 0, 0, 0, 0];
    write_json(&mut payload, &events);
    let length = payload.len() - 5;
    // A transaction has few facts, and a record of the journal is below 1 GiB.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    payload[1..5].copy_from_slice(&length.to_le_bytes());
    payload
}

/// The facts and the page of redo of a transaction.
fn split(rest: &[u8]) -> Result<(&[u8], &[u8]), EventFlaw> {
    let (length, rest) = rest.split_first_chunk().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    rest.split_at_checked(length).ok_or_else(short)
}

fn short() -> EventFlaw {
    de::Error::custom("a transaction that is cut short")
}

fn redo_flaw(flaw: Flaw) -> EventFlaw {
    if flaw.is_unsupported() {
        return EventFlaw::Unknown {
            found: format!("redo with {flaw}"),
            known: &["redo without flags"],
        };
    }
    EventFlaw::Malformed {
        reason: flaw.to_string(),
    }
}

/// A payload of this kind. The values of this folder have neither maps with keys that are not
/// text nor a `Serialize` of their own that fails, and writing to memory does not fail.
pub(super) fn encode(kind: u8, value: &impl Serialize) -> Vec<u8> {
    let mut payload = vec![kind];
    write_json(&mut payload, value);
    payload
}

fn write_json(payload: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(payload, value).expect("journal values are plain JSON");
}

fn read<T: for<'de> Deserialize<'de>>(json: &[u8]) -> Result<T, EventFlaw> {
    let document: Value = serde_json::from_slice(json).map_err(de::Error::custom)?;
    T::deserialize(Document(&document))
}

impl de::Error for EventFlaw {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::Malformed {
            reason: reason.to_string(),
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::Unknown {
            found: format!("event {variant:?}"),
            known: expected,
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::Unknown {
            found: format!("field {field:?}"),
            known: expected,
        }
    }
}

/// JSON to read values from, with errors that keep their sort.
#[derive(Clone, Copy)]
struct Document<'a>(&'a Value);

impl<'de> Deserializer<'de> for Document<'de> {
    type Error = EventFlaw;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, EventFlaw> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(n), _) => visitor.visit_u64(n),
                (None, Some(n)) => visitor.visit_i64(n),
                (None, None) => Err(de::Error::custom(format_args!("{number} is no integer"))),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.iter().map(Document));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| (name.as_str(), Document(value)));
                let mut fields = MapDeserializer::new(fields);
                let value = visitor.visit_map(&mut fields)?;
                fields.end()?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, EventFlaw> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, EventFlaw> for Document<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
