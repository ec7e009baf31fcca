//! Retention by hand: what would go, what goes, and trimming.

use std::io::{BufRead as _, BufReader, Read as _};

use serde_json::{Value, json};
use tidelog::Store;

use crate::{Place, files};

/// A topic keeps 64 KiB. What an audit says would go then goes, and a partition is trimmed further by hand;
/// a store in which nothing expires says so.
#[test]
fn what_an_audit_says_goes_then() {
    let place = Place::new();
    place.ok(&["create", "plain"]);
    assert!(
        place
            .ok(&["retention", "audit"])
            .text()
            .contains("nothing ever expires")
    );
    expire(&place);
    let first = |told: &Value| told["first"].as_u64().unwrap();
    let audit = &place.ok(&["retention", "audit", "t", "--json"]).json()[0];
    let done = &place.ok(&["retention", "apply", "t", "--json"]).json()[0];
    assert!(
        first(done) == first(audit) && first(done) > 0,
        "{audit} {done}"
    );
    let args = ["retention", "truncate", "t", "--before", "200", "--json"];
    let told = &place.ok(&args).json()[0];
    assert!(first(told) > first(done), "{told}");
    assert_eq!(told["topic"], json!("t"));
    assert_eq!(
        place
            .run(&["retention", "truncate", "t", "--before", "999"])
            .code,
        Some(3)
    );
}

/// The owner of the store is at work: an audit tells from beside it what would go, and to apply is refused.
#[test]
fn an_audit_needs_no_store_for_itself() {
    let place = Place::new();
    let store = tidelog::Store::open(place.store()).unwrap();
    let week = tidelog::TopicOptions::new().retention(tidelog::Retention::days(7));
    let topic = store.create_topic("t", week).unwrap();
    topic.append("one").unwrap();
    let audit = &place.ok(&["retention", "audit", "--json"]).json()[0];
    assert_eq!(
        (&audit["topic"], &audit["records"]),
        (&json!("t"), &json!(0))
    );
    assert_eq!(audit["first"], json!(0));
    assert_eq!(place.run(&["retention", "apply"]).code, Some(4));
    drop(topic);
    store.close().unwrap();
}

/// A topic of 200 records, most of which have expired by now, and a subscription.
fn expire(place: &Place) {
    let file = "topics: {t: {first_segment: 16KiB, max_segment: 16KiB, max_batch: 8KiB}}\n\
                subscriptions: [{name: s, topic: t}]";
    std::fs::write(place.path().join("tidelog.yaml"), file).unwrap();
    place.ok(&["config", "tidelog.yaml", "--apply"]);
    let lines = [&[b'x'; 1000][..], b"\n"].concat().repeat(200);
    place.feed(&["append", "t"], &lines);
    let file = "topics: {t: {retention: {bytes: 64KiB}}}";
    std::fs::write(place.path().join("tidelog.yaml"), file).unwrap();
    place.ok(&["config", "tidelog.yaml", "--apply"]);
}

/// A store has been stopped for a month. Whoever makes a copy of it first, or moves a subscription, changes
/// nothing about what is in it: the copy has all of it, and so has the store until somebody says so.
#[test]
fn what_has_expired_stays_until_somebody_applies_that() {
    let place = Place::new();
    expire(&place);
    let before = files(&place.store().join("topics"));
    place.ok(&["backup", "data", "copy"]);
    place.ok(&["subscriptions", "pause", "t", "s"]);
    place.ok(&["subscriptions", "reset", "t", "s", "--to", "earliest"]);
    place.ok(&["create", "other"]);
    place.ok(&["retention", "audit"]);
    let after = files(&place.store().join("topics"));
    assert!(before.iter().all(|path| after.contains(path)), "{after:?}");
    for store in ["data", "copy"] {
        let told = &place.ok(&["stats", "t", "--json", "--store", store]).json()[0];
        assert_eq!(
            (&told["first"], &told["end"]),
            (&json!(0), &json!(200)),
            "{store}"
        );
    }
    place.ok(&["retention", "apply"]);
    let told = &place.ok(&["stats", "t", "--json"]).json()[0];
    assert!(told["first"].as_u64().unwrap() > 0, "{told}");
}

/// Where there are several partitions the one to be trimmed has to be named: none was, and the first one
/// was trimmed.
#[test]
fn of_several_partitions_the_one_to_be_trimmed_is_named() {
    let place = Place::new();
    place.ok(&["create", "t", "--partitions", "2"]);
    place.feed(&["append", "t", "--partition", "0"], b"one\n");
    let refused = place.run(&["retention", "truncate", "t", "--before", "1"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("--partition N"), "{}", refused.err);
    place.ok(&[
        "retention",
        "truncate",
        "t",
        "--partition",
        "0",
        "--before",
        "1",
    ]);
}

/// A slow export runs beside an owner that lets go of what it has not come to: that is told, with its
/// offsets, the export goes on where the topic does, and its exit code says that something is missing.
#[test]
fn an_export_goes_on_behind_what_expires_meanwhile() {
    let place = Place::new();
    expire(&place);
    let owner = Store::open_with(
        place.store(),
        tidelog::StoreOptions::new().background_retention(false),
    );
    let owner = owner.unwrap();
    let mut export = place.spawn(&["export", "t"]);
    let mut out = BufReader::with_capacity(1 << 10, export.stdout.take().unwrap());
    let mut text = String::new();
    // By now it stands in a pipe that is full.
    out.read_line(&mut text).unwrap();
    let partition = owner.topic("t").unwrap().partition(0).unwrap();
    let first = partition.truncate_before(190).unwrap();
    assert!(first > 150, "{first}");
    out.read_to_string(&mut text).unwrap();
    let done = export.wait_with_output().unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(5), "{err}");
    assert!(
        err.contains(&format!("..{first} have expired meanwhile")),
        "{err}"
    );
    let offset = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["offset"].as_u64().unwrap()
    };
    let offsets: Vec<u64> = text.lines().map(offset).collect();
    assert!(offsets.len() < 200 && offsets.is_sorted());
    assert!(
        offsets.ends_with(&(first..200).collect::<Vec<_>>()),
        "{offsets:?}"
    );
    owner.close().unwrap();
}
