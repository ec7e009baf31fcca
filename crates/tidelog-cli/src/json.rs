//! A record as a JSON object, and back: what `read --json` and `export` print, and `import` reads.
//!
//! Keys, header values and payloads are any bytes, and JSON has only text. Each stands under its
//! plain name where it is UTF-8, and else under that name with `_base64` behind it (RFC 4648,
//! padded): which of the two is there says how to read it, never the value's looks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use tidelog::{Record, StoredRecord};

/// A record, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct RecordJson<'a> {
    topic: &'a str,
    partition: u32,
    offset: u64,
    /// RFC 3339, in UTC.
    timestamp: String,
    /// Null where nobody gave one.
    #[serde(skip_serializing_if = "Plain::is_elsewhere")]
    event_id: Plain<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id_base64: Option<String>,
    /// Null where the record has none.
    #[serde(skip_serializing_if = "Plain::is_elsewhere")]
    key: Plain<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    headers: Vec<HeaderJson<'a>>,
    /// Null where the record is a tombstone.
    #[serde(skip_serializing_if = "Plain::is_elsewhere")]
    payload: Plain<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

#[derive(Debug, Serialize)]
struct HeaderJson<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Plain::is_elsewhere")]
    value: Plain<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

/// A text, null, or nothing because the field of the other name has it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Plain<T> {
    Text(T),
    Null,
    Elsewhere,
}

impl<T> Plain<T> {
    fn is_elsewhere(&self) -> bool {
        matches!(self, Plain::Elsewhere)
    }
}

/// Bytes as the two fields say them.
fn fields(bytes: Option<&[u8]>) -> (Plain<&str>, Option<String>) {
    let Some(bytes) = bytes else {
        return (Plain::Null, None);
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => (Plain::Text(text), None),
        Err(_) => (Plain::Elsewhere, Some(STANDARD.encode(bytes))),
    }
}

impl<'a> RecordJson<'a> {
    pub(crate) fn new(record: &StoredRecord<'a>) -> RecordJson<'a> {
        let header = |(name, value)| {
            let (value, value_base64) = fields(Some(value));
            HeaderJson {
                name,
                value,
                value_base64,
            }
        };
        let (event_id, event_id_base64) = fields(record.given_event_id());
        let (key, key_base64) = fields(record.key());
        let payload = (!record.is_tombstone()).then(|| record.payload());
        let (payload, payload_base64) = fields(payload);
        RecordJson {
            topic: record.topic(),
            partition: record.partition(),
            offset: record.offset(),
            timestamp: rfc3339(record.timestamp()),
            event_id,
            event_id_base64,
            key,
            key_base64,
            headers: record.headers().map(header).collect(),
            payload,
            payload_base64,
        }
    }
}

/// A line of NDJSON that is a record: the other way round. A field that is not known is refused, since
/// what it says would be lost. Only the payload has to be there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordLine {
    #[serde(default)]
    partition: Option<u32>,
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    event_id: Option<String>,
    #[serde(default)]
    event_id_base64: Option<String>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    key_base64: Option<String>,
    #[serde(default)]
    headers: Vec<HeaderLine>,
    /// Null, which says that it is a tombstone, is not the same as nothing.
    #[serde(default, deserialize_with = "said")]
    payload: Option<Option<String>>,
    #[serde(default)]
    payload_base64: Option<String>,
    /// Where it was: nothing comes of it.
    #[serde(default, rename = "topic")]
    _topic: Option<String>,
    #[serde(default, rename = "offset")]
    _offset: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderLine {
    name: String,
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    value_base64: Option<String>,
}

fn said<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(field).map(Some)
}

impl RecordLine {
    /// The record that a line holds, and the partition it was in, where that is said; or why it holds
    /// none.
    pub(crate) fn parse(line: &[u8]) -> Result<(Record<'static>, Option<u32>), String> {
        // serde would take an array for the fields in their order.
        if line.trim_ascii_start().first() == Some(&b'[') {
            return Err("it is no object".to_owned());
        }
        let line: RecordLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let partition = line.partition;
        Ok((line.record()?, partition))
    }

    fn record(self) -> Result<Record<'static>, String> {
        let key = bytes("key", self.key, self.key_base64)?;
        let payload = match (self.payload, self.payload_base64) {
            (Some(None), None) => None,
            (payload, base64) => {
                let payload = bytes("payload", payload.flatten(), base64)?;
                Some(payload.ok_or("it has no payload")?)
            }
        };
        let mut record = match (payload, key) {
            (Some(payload), Some(key)) => Record::new(payload).key(key),
            (Some(payload), None) => Record::new(payload),
            (None, Some(key)) => Record::tombstone(key),
            (None, None) => return Err("a tombstone, whose payload is null, needs a key".into()),
        };
        for header in self.headers {
            let value = bytes("value", header.value, header.value_base64)?;
            let value = value.ok_or_else(|| format!("header {:?} has no value", header.name))?;
            record = record.header(header.name, value);
        }
        if let Some(id) = bytes("event_id", self.event_id, self.event_id_base64)? {
            record = record.event_id(id);
        }
        if let Some(time) = self.timestamp {
            record = record.at(timestamp(&time)?);
        }
        Ok(record)
    }
}

/// What the two fields say.
fn bytes(
    name: &str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(format!("it has both {name} and {name}_base64")),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(base64)) => {
            let decoded = STANDARD.decode(base64);
            let decoded = decoded.map_err(|error| format!("{name}_base64: {error}"))?;
            Ok(Some(decoded))
        }
        (None, None) => Ok(None),
    }
}

fn timestamp(text: &str) -> Result<tidelog::Timestamp, String> {
    let time: Timestamp = text
        .parse()
        .map_err(|error| format!("timestamp: {error}"))?;
    let nanos = i64::try_from(time.as_nanosecond());
    let nanos = nanos.map_err(|_| format!("timestamp: {text} is not between 1677 and 2262"))?;
    Ok(tidelog::Timestamp::from_nanos(nanos))
}

/// A time as RFC 3339, in UTC, with as many decimals as it has.
pub(crate) fn rfc3339(time: tidelog::Timestamp) -> String {
    // Nanoseconds in 64 bits end in 2262, which is well within what can be said.
    let stamp = Timestamp::from_nanosecond(i128::from(time.as_nanos()));
    stamp.unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last time that a record can have are dates like any other.
    #[test]
    fn the_ends_of_time_can_be_said() {
        for (nanos, text) in [
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
            (0, "1970-01-01T00:00:00Z"),
            (1_517_363_399_650_000_000, "2018-01-31T01:49:59.65Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
        ] {
            assert_eq!(rfc3339(tidelog::Timestamp::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn what_is_not_text_goes_under_the_other_name() {
        assert!(matches!(fields(Some(b"abc")), (Plain::Text("abc"), None)));
        assert!(matches!(fields(None), (Plain::Null, None)));
        let (text, base64) = fields(Some(b"\xff\x00"));
        assert!(text.is_elsewhere());
        assert_eq!(base64.as_deref(), Some("/wA="));
    }

    /// What a line may not be: each is told with what is wrong with it.
    #[test]
    fn a_line_that_is_no_record_says_why() {
        for (line, why) in [
            ("", "EOF"),
            ("{}", "no payload"),
            ("[]", "no object"),
            (" [null]", "no object"),
            (r#"{"payload":null}"#, "needs a key"),
            (r#"{"payload":"a","payload_base64":"YQ=="}"#, "both payload"),
            (r#"{"payload_base64":"?"}"#, "payload_base64"),
            (r#"{"payload":"a","extra":1}"#, "extra"),
            (r#"{"payload":"a","timestamp":"noon"}"#, "timestamp"),
            (
                r#"{"payload":"a","timestamp":"9999-01-01T00:00:00Z"}"#,
                "2262",
            ),
            (r#"{"payload":"a","headers":[{"name":"h"}]}"#, "no value"),
            (r#"{"payload":"a","partition":-1}"#, "integer"),
        ] {
            let error = RecordLine::parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    /// A program that has only payloads need not say more; null says what leaving out says.
    #[test]
    fn a_line_with_a_payload_is_a_record() {
        for line in [
            r#"{"payload":"a"}"#,
            r#"{"payload_base64":"YQ==","key":null,"headers":[],"event_id":null,"offset":7}"#,
        ] {
            let record = RecordLine::parse(line.as_bytes());
            assert_eq!(record, Ok((Record::new("a"), None)), "{line}");
        }
    }
}
