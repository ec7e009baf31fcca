//! How records and reports are printed: payloads as they are, or JSON.

use std::io::{self, BufWriter, StdoutLock, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidelog::StoredRecord;

/// Standard output, buffered.
pub struct Output {
    json: bool,
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Prints JSON, or what people read.
    pub fn new(json: bool) -> Output {
        Output {
            json,
            out: BufWriter::new(io::stdout().lock()),
        }
    }

    /// Whether JSON is wanted.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// A record: its payload, or an object with everything.
    pub fn record(&mut self, record: &StoredRecord<'_>) -> io::Result<()> {
        if self.json {
            return self.value(&object(record));
        }
        self.out.write_all(record.payload())?;
        self.out.write_all(b"\n")
    }

    /// A JSON object on a line of its own.
    pub fn value(&mut self, value: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")
    }

    /// A line for people.
    pub fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.out.write_all(text.as_ref().as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// Everything printed so far leaves the process.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A record as an object: bytes that are not text stand under a name that says so.
fn object(record: &StoredRecord<'_>) -> Value {
    let mut object = Map::new();
    object.insert("topic".into(), record.topic().into());
    object.insert("partition".into(), record.partition().into());
    object.insert("offset".into(), record.offset().into());
    object.insert("timestamp".into(), time(record.timestamp()).into());
    match record.key() {
        Some(key) => bytes(&mut object, "key", key),
        None => object.insert("key".into(), Value::Null).map_or((), drop),
    }
    let header = |(name, value): (&str, &[u8])| {
        let mut header = Map::new();
        header.insert("name".into(), name.into());
        bytes(&mut header, "value", value);
        Value::Object(header)
    };
    object.insert("headers".into(), record.headers().map(header).collect());
    bytes(&mut object, "event_id", &record.event_id());
    if record.is_tombstone() {
        object.insert("tombstone".into(), true.into());
    }
    bytes(&mut object, "payload", record.payload());
    Value::Object(object)
}

fn bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

/// A time as people write it, in UTC; as nanoseconds where it lies outside the years that can be
/// written.
pub fn time(time: tidelog::Timestamp) -> String {
    match Timestamp::from_nanosecond(time.as_nanos().into()) {
        Ok(time) => time.to_string(),
        Err(_) => json!(time.as_nanos()).to_string(),
    }
}
