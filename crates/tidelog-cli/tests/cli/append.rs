//! Lines into records.

use std::fs;

use serde_json::json;

use crate::Place;

/// Somebody pipes text whose last line has no end and one of whose lines is empty: each is a
/// record, none is dropped, and none is made up.
#[test]
fn the_last_line_without_an_end_and_an_empty_line_are_records() {
    let place = Place::new();
    let done = place.feed(&["append", "t"], b"one\n\ntwo\nlast");
    assert_eq!(
        (done.code, done.text(), done.err.as_str()),
        (Some(0), "", "")
    );
    let read = place.ok(&["read", "t", "--json"]);
    let payloads: Vec<_> = read
        .json()
        .iter()
        .map(|record| record["payload"].clone())
        .collect();
    assert_eq!(payloads, ["one", "", "two", "last"]);
    assert_eq!(place.ok(&["read", "t"]).text(), "one\n\ntwo\nlast\n");
}

/// Nothing is piped in at all: nothing is appended, and that is fine.
#[test]
fn an_empty_input_appends_nothing() {
    let place = Place::new();
    assert_eq!(place.feed(&["append", "t"], b"").code, Some(0));
    assert_eq!(place.ok(&["read", "t"]).text(), "");
}

/// A line of a foreign system holds bytes that are no text, carriage returns and zeroes: they
/// come out as they went in.
#[test]
fn bytes_that_are_no_text_come_out_as_they_went_in() {
    let place = Place::new();
    let input = b"\xff\xfe\x00\r\ncaf\xe9\n";
    assert_eq!(place.feed(&["append", "t"], input).code, Some(0));
    assert_eq!(place.ok(&["read", "t"]).out, input);
}

/// Two files and standard input in between are appended in the order they are named.
#[test]
fn files_and_standard_input_are_appended_in_their_order() {
    let place = Place::new();
    fs::write(place.path().join("a"), "a1\na2").unwrap();
    fs::write(place.path().join("b"), "b1\n").unwrap();
    let done = place.feed(&["append", "t", "a", "-", "b"], b"in\n");
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
    assert_eq!(place.ok(&["read", "t"]).text(), "a1\na2\nin\nb1\n");
}

/// One of the files is not there: that is found out before anything is appended.
#[test]
fn a_missing_file_is_told_before_anything_is_appended() {
    let place = Place::new();
    fs::write(place.path().join("a"), "a1\n").unwrap();
    let done = place.run(&["append", "t", "a", "missing"]);
    assert_eq!(done.code, Some(3));
    assert!(done.err.contains("missing"), "{}", done.err);
    assert!(!place.store().exists());
}

/// A key sends every line to its partition, as in Kafka, headers travel along, and `--json`
/// tells where each record went.
#[test]
fn a_key_and_headers_go_with_every_line() {
    let place = Place::new();
    place.ok(&["create", "t", "--partitions", "4"]);
    let args = [
        "append", "t", "--key", "hv", "--header", "a=1", "--header", "a=x=y", "--json",
    ];
    let acks = place.feed(&args, b"one\ntwo\n").json();
    let partition = acks[0]["partition"].clone();
    let ack = |offset| json!({"topic": "t", "partition": partition, "offset": offset});
    assert_eq!(acks, [ack(0), ack(1)]);
    let read = place.ok(&["read", "t", "--json"]).json();
    for record in &read {
        assert_eq!(record["key"], "hv");
        let headers = json!([{"name": "a", "value": "1"}, {"name": "a", "value": "x=y"}]);
        assert_eq!(record["headers"], headers);
    }
    assert_eq!(read.len(), 2);
}

/// A partition is named: that is where the lines go; one that is not there is refused.
#[test]
fn a_named_partition_takes_all_lines() {
    let place = Place::new();
    place.ok(&["create", "t", "--partitions", "3"]);
    assert_eq!(
        place
            .feed(&["append", "t", "--partition", "2"], b"x\ny\n")
            .code,
        Some(0)
    );
    assert_eq!(
        place.ok(&["read", "t", "--partition", "2"]).text(),
        "x\ny\n"
    );
    let done = place.feed(&["append", "t", "--partition", "3"], b"");
    assert_eq!(done.code, Some(3));
}

/// A hundred thousand lines come in one go: all are there, in order, and few syncs were waited
/// for, else this would take minutes.
#[test]
fn a_large_file_is_appended_whole_and_in_order() {
    let place = Place::new();
    let input: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
    fs::write(place.path().join("lines"), &input).unwrap();
    place.ok(&["append", "t", "lines"]);
    assert!(place.ok(&["read", "t"]).text() == input);
}

/// The topic's batches are small: what is ready together is appended in several.
#[test]
fn lines_go_in_several_batches_where_one_would_be_too_large() {
    let place = Place::new();
    place.ok(&["create", "t", "--max-batch", "1KiB"]);
    let input: String = (0..500).map(|n| format!("line {n}\n")).collect();
    assert_eq!(place.feed(&["append", "t"], input.as_bytes()).code, Some(0));
    assert_eq!(place.ok(&["read", "t"]).text(), input);
}

/// The third of four lines is over the topic's limit. It is told with its number; the two before
/// it are there, and the one behind it is not.
#[test]
fn a_line_over_the_limit_is_refused_by_its_number() {
    let place = Place::new();
    place.ok(&["create", "t", "--max-record", "100B"]);
    for length in [90, 200, 300_000] {
        let input = format!("one\ntwo\n{}\nfour\n", "x".repeat(length));
        let done = place.feed(&["append", "t"], input.as_bytes());
        assert_eq!(done.code, Some(7), "{length}");
        assert!(
            done.err.contains("standard input:3: a record of"),
            "{}",
            done.err
        );
        assert!(
            done.err.contains("2 lines before it are durable"),
            "{}",
            done.err
        );
    }
    assert_eq!(place.ok(&["read", "t"]).text(), "one\ntwo\n".repeat(3));
}

/// The topic may hold so much and no more: what fits is there, and the exit code says full.
#[test]
fn a_full_topic_has_its_own_exit_code() {
    let place = Place::new();
    place.ok(&["create", "t", "--max-total", "1KiB"]);
    let done = place.feed(&["append", "t"], "x".repeat(2000).as_bytes());
    assert_eq!(done.code, Some(6));
    assert!(done.err.contains("is full"), "{}", done.err);
}
