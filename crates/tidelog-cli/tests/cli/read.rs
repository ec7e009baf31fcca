//! Records out again.

use serde_json::{Value, json};
use tidelog::{Record, Store, Timestamp, TopicOptions};

use crate::Place;

/// Four events on two partitions, a minute apart, by their times; the library knows how to give
/// them.
fn minutes() -> Place {
    let place = Place::new();
    let store = Store::open(place.store()).unwrap();
    let topic = store
        .create_topic("t", TopicOptions::new().partitions(2))
        .unwrap();
    for minute in 0..4_u32 {
        let time = Timestamp::from_millis(1_517_702_400_000 + 60_000 * i64::from(minute));
        let record = Record::new(format!("m{minute}"))
            .at(time)
            .partition(minute % 2);
        topic.append(record).unwrap();
    }
    store.close().unwrap();
    place
}

/// A program reads the JSON of a record with everything: each field has its name and its form.
#[test]
fn a_record_as_json_has_every_field() {
    let place = Place::new();
    let store = Store::open(place.store()).unwrap();
    let time = Timestamp::from_millis(1_517_363_399_650);
    let record = Record::new("M 4.6")
        .key("hv")
        .header("source", "usgs")
        .event_id("us7000")
        .at(time);
    store.topic("t").unwrap().append(record).unwrap();
    store.close().unwrap();
    let expected = json!({
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": "2018-01-31T01:49:59.65Z",
        "event_id": "us7000",
        "key": "hv",
        "headers": [{"name": "source", "value": "usgs"}],
        "payload": "M 4.6",
    });
    assert_eq!(place.ok(&["read", "t", "--json"]).json(), [expected]);
}

/// Bytes that are not UTF-8 stand under another name, so that nobody takes base64 for text, or
/// text that looks like it for base64.
#[test]
fn what_is_not_text_is_base64_under_another_name() {
    let place = Place::new();
    let store = Store::open(place.store()).unwrap();
    let topic = store.topic("t").unwrap();
    let record = Record::new(b"\xff\x00").key(b"\xfe").header("h", b"\xfd");
    topic.append(record).unwrap();
    topic.append(Record::new("/wA=")).unwrap();
    topic.append(Record::tombstone("gone")).unwrap();
    store.close().unwrap();
    let records = place.ok(&["read", "t", "--json"]).json();
    assert_eq!(records[0]["payload_base64"], "/wA=");
    assert_eq!(records[0]["key_base64"], "/g==");
    assert_eq!(
        records[0]["headers"],
        json!([{"name": "h", "value_base64": "/Q=="}])
    );
    assert_eq!(
        (records[0].get("payload"), records[0].get("key")),
        (None, None)
    );
    assert_eq!(records[1]["payload"], "/wA=");
    assert_eq!(
        (records[1].get("payload_base64"), &records[1]["key"]),
        (None, &Value::Null)
    );
    assert_eq!(
        (&records[2]["key"], &records[2]["payload"]),
        (&json!("gone"), &Value::Null)
    );
}

/// A start can be an offset of one partition, a time in several forms, or one of the two ends.
#[test]
fn reading_starts_where_it_is_told_to() {
    let place = minutes();
    let cases: [(&[&str], &str); 9] = [
        (&[], "m0\nm1\nm2\nm3\n"),
        (&["--from", "earliest", "--limit", "3"], "m0\nm1\nm2\n"),
        (&["--from", "latest"], ""),
        (&["--limit", "0"], ""),
        (&["--from", "2018-02-04T00:02:00Z"], "m2\nm3\n"),
        (&["--from", "2018-02-04"], "m0\nm1\nm2\nm3\n"),
        (&["--from", "1517702580000ms"], "m3\n"),
        (&["--from", "1", "--partition", "1"], "m3\n"),
        (&["--from", "7", "--partition", "1"], ""),
    ];
    for (args, expected) in cases {
        let args = [&["read", "t"], args].concat();
        assert_eq!(place.ok(&args).text(), expected, "{args:?}");
    }
}

/// An offset without its partition could mean several records: it is refused as a matter of
/// usage. So is a start that cannot be read.
#[test]
fn a_start_that_cannot_be_meant_is_a_matter_of_usage() {
    let place = minutes();
    for args in [
        ["read", "t", "--from", "1"],
        ["read", "t", "--from", "yesterday"],
    ] {
        let done = place.run(&args);
        assert_eq!((done.code, done.text()), (Some(2), ""), "{args:?}");
        assert!(done.err.contains("--partition") || done.err.contains("expected earliest"));
    }
}

/// A name is mistyped, a partition is not there: not found, in words.
#[test]
fn an_unknown_topic_and_an_unknown_partition_are_not_found() {
    let place = minutes();
    for command in ["read", "tail"] {
        let done = place.run(&[command, "quaks"]);
        assert_eq!(done.code, Some(3));
        assert!(
            done.err.contains("there is no topic \"quaks\""),
            "{}",
            done.err
        );
        let done = place.run(&[command, "t", "--partition", "2"]);
        assert_eq!(done.code, Some(3));
        assert!(done.err.contains("no number 2"), "{}", done.err);
    }
    assert_eq!(place.ok(&["topics", "--json"]).json().len(), 1);
}
