//! A topic out as NDJSON, and in again.

use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidelog::{Record, Store, Timestamp, TopicOptions};

use crate::Place;

/// Any bytes, text as often as not.
fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let text = proptest::collection::vec(any::<char>(), 0..most / 4);
    let text = text.prop_map(|chars| chars.into_iter().collect::<String>().into_bytes());
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..most), text]
}

fn record() -> impl Strategy<Value = Record<'static>> {
    let header = ("[a-z]{1,3}", bytes(24));
    (
        proptest::option::weighted(0.9, bytes(200)),
        proptest::option::of(bytes(40)),
        proptest::collection::vec(header, 0..4),
        proptest::option::of(proptest::collection::vec(any::<u8>(), 1..40)),
        any::<i64>(),
        0..3_u32,
    )
        .prop_map(|(payload, key, headers, event_id, nanos, partition)| {
            let mut record = match (payload, key) {
                (Some(payload), Some(key)) => Record::new(payload).key(key),
                (Some(payload), None) => Record::new(payload),
                (None, key) => Record::tombstone(key.unwrap_or_default()),
            };
            for (name, value) in headers {
                record = record.header(name, value);
            }
            if let Some(id) = event_id {
                record = record.event_id(id);
            }
            record.at(Timestamp::from_nanos(nanos)).partition(partition)
        })
}

/// Every record of a topic, as it could be appended elsewhere, with its partition.
fn all(place: &Place, topic: &str) -> Vec<Record<'static>> {
    let store = Store::open_read_only(place.store()).unwrap();
    let topic = store.existing_topic(topic).unwrap();
    let mut records = Vec::new();
    for number in 0..topic.partitions() {
        let partition = topic.partition(number).unwrap();
        let mut cursor = partition.cursor(tidelog::Start::Earliest).unwrap();
        while let Some(record) = cursor.next().unwrap() {
            records.push(record.to_record().partition(number).into_owned());
        }
    }
    store.close().unwrap();
    records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a record is made of, it is the same one, at the same place, after it was exported and
    /// imported; and exported again it is the same line.
    #[test]
    fn what_is_exported_and_imported_is_the_same(records in proptest::collection::vec(record(), 1..40)) {
        let place = Place::new();
        let store = Store::open(place.store()).unwrap();
        for name in ["from", "to"] {
            store.create_topic(name, TopicOptions::new().partitions(3)).unwrap();
        }
        let topic = store.topic("from").unwrap();
        for record in records {
            topic.append(record).unwrap();
        }
        store.close().unwrap();
        let lines = place.ok(&["export", "from"]).out;
        let done = place.feed(&["import", "to", "--keep-partitions"], &lines);
        prop_assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
        prop_assert_eq!(all(&place, "from"), all(&place, "to"));
        let again = place.ok(&["export", "to"]).text().replace(r#""topic":"to""#, r#""topic":"from""#);
        prop_assert_eq!(std::str::from_utf8(&lines).unwrap(), again);
    }
}

fn ten() -> Place {
    let place = Place::new();
    place.ok(&["create", "t", "--partitions", "2"]);
    for partition in ["0", "1"] {
        let lines = format!("a{partition}\nb{partition}\nc{partition}\n");
        place.feed(&["append", "t", "--partition", partition], lines.as_bytes());
    }
    place
}

fn payloads(lines: &[Value]) -> Vec<&str> {
    let payload = |line: &Value| line["payload"].as_str().unwrap().to_owned();
    let all: Vec<String> = lines.iter().map(payload).collect();
    all.leak().iter().map(String::as_str).collect()
}

/// All of a topic comes partition by partition; a part of one by its offsets.
#[test]
fn a_range_of_a_partition_can_be_exported_alone() {
    let place = ten();
    let all = place.ok(&["export", "t"]).json();
    assert_eq!(payloads(&all), ["a0", "b0", "c0", "a1", "b1", "c1"]);
    let args = [
        "export",
        "t",
        "--partition",
        "1",
        "--from",
        "1",
        "--to",
        "2",
    ];
    let some = place.ok(&args).json();
    assert_eq!(payloads(&some), ["b1"]);
    assert_eq!(
        (&some[0]["partition"], &some[0]["offset"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(place.run(&["export", "t", "--to", "2"]).code, Some(2));
    assert_eq!(place.run(&["export", "other"]).code, Some(3));
}

/// A store is exported while its owner is at work.
#[test]
fn an_export_works_beside_a_live_owner() {
    let place = Place::new();
    let store = Store::open(place.store()).unwrap();
    store.topic("t").unwrap().append("one").unwrap();
    assert_eq!(payloads(&place.ok(&["export", "t"]).json()), ["one"]);
    store.close().unwrap();
}

/// A file has a line in its middle that is no record: the lines before it are appended, nothing
/// behind it is, and the message says which line it is.
#[test]
fn a_line_that_is_no_record_is_told_by_its_number() {
    let place = Place::new();
    let text = "{\"payload\":\"one\"}\n{\"payload\":\"two\"}\nthree\n{\"payload\":\"four\"}\n";
    fs::write(place.path().join("in"), text).unwrap();
    let done = place.run(&["import", "t", "in"]);
    assert_eq!(done.code, Some(7));
    assert!(done.err.contains("in:3: "), "{}", done.err);
    assert!(
        done.err.contains("2 lines before it are durable"),
        "{}",
        done.err
    );
    assert_eq!(place.ok(&["read", "t"]).text(), "one\ntwo\n");
}

/// A line names a partition that the topic has not: it is refused by its number, and so is one that
/// names none where they are to be kept. The lines before it are durable, those of its batch, too.
#[test]
fn a_partition_that_cannot_be_kept_is_refused() {
    let place = Place::new();
    for line in [
        "{\"payload\":\"a\",\"partition\":7}\n",
        "{\"payload\":\"a\",\"partition\":1}\n",
        "{\"payload\":\"a\"}\n",
    ] {
        let sound = "{\"payload\":\"b\",\"partition\":0}\n";
        let lines = [sound, sound, line, sound].concat();
        let done = place.feed(&["import", "t", "--keep-partitions"], lines.as_bytes());
        assert_eq!(done.code, Some(7), "{}", done.err);
        assert!(done.err.contains("standard input:3"), "{}", done.err);
        assert!(
            done.err.contains("2 lines before it are durable"),
            "{}",
            done.err
        );
    }
    assert_eq!(place.ok(&["read", "t"]).text(), "b\n".repeat(6));
}

/// Without the flag the partitions of the lines are passed over, and each acknowledgement says where
/// its record went.
#[test]
fn records_go_where_their_keys_say_unless_partitions_are_kept() {
    let place = Place::new();
    place.ok(&["create", "t", "--partitions", "4"]);
    let line = "{\"payload\":\"a\",\"partition\":9,\"key\":\"hv\"}\n";
    let imported = place
        .feed(&["import", "t", "--json"], line.as_bytes())
        .json();
    let appended = place
        .feed(&["append", "t", "--key", "hv", "--json"], b"b\n")
        .json();
    assert_eq!(imported[0]["partition"], appended[0]["partition"]);
    assert_eq!(appended[0]["offset"], 1);
}
