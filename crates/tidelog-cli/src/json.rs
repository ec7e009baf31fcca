//! A record as a JSON object.
//!
//! Keys, header values and payloads are any bytes, and JSON has only text. Each stands under its
//! plain name where it is UTF-8, and else under that name with `_base64` behind it (RFC 4648,
//! padded): which of the two is there says how to read it, never the value's looks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Serialize;
use tidelog::StoredRecord;

/// A record, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct RecordJson<'a> {
    topic: &'a str,
    partition: u32,
    offset: u64,
    /// RFC 3339, in UTC.
    timestamp: String,
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
        let (key, key_base64) = fields(record.key());
        let payload = (!record.is_tombstone()).then(|| record.payload());
        let (payload, payload_base64) = fields(payload);
        RecordJson {
            topic: record.topic(),
            partition: record.partition(),
            offset: record.offset(),
            timestamp: rfc3339(record.timestamp()),
            key,
            key_base64,
            headers: record.headers().map(header).collect(),
            payload,
            payload_base64,
        }
    }
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
}
