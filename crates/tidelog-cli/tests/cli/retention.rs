//! Retention by hand: what would go, what goes, and trimming.

use serde_json::{Value, json};

use crate::Place;

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
    let file = "topics: {t: {first_segment: 16KiB, max_segment: 16KiB, max_batch: 8KiB}}";
    std::fs::write(place.path().join("tidelog.yaml"), file).unwrap();
    place.ok(&["config", "tidelog.yaml", "--apply"]);
    let lines = [&[b'x'; 1000][..], b"\n"].concat().repeat(200);
    place.feed(&["append", "t"], &lines);
    let file = "topics: {t: {retention: {bytes: 64KiB}}}";
    std::fs::write(place.path().join("tidelog.yaml"), file).unwrap();
    place.ok(&["config", "tidelog.yaml", "--apply"]);
    let first = |told: &Value| told["first"].as_u64().unwrap();
    let audit = &place.ok(&["retention", "audit", "t", "--json"]).json()[0];
    let done = &place.ok(&["retention", "apply", "t", "--json"]).json()[0];
    // The thread of any of these owners may have been faster.
    assert!(
        first(done) >= first(audit) && first(done) > 0,
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
