//! Subscriptions, moved by hand.

use std::fs;

use serde_json::json;

use crate::Place;

/// A subscription is looked at, reset, paused, resumed and deleted; one that is not there is not made by
/// any of it.
#[test]
fn a_subscription_is_moved_by_hand_and_never_made() {
    let place = Place::new();
    let file = "topics: {t: {}}\nsubscriptions: [{name: s, topic: t, required: true}]";
    std::fs::write(place.path().join("tidelog.yaml"), file).unwrap();
    place.ok(&["config", "tidelog.yaml", "--apply"]);
    place.feed(&["append", "t"], b"one\ntwo\nthree\n");

    let list = place.ok(&["subscriptions", "list"]).text().to_owned();
    assert!(
        list.contains("required") && list.contains("active"),
        "{list}"
    );
    let reset = ["subscriptions", "reset", "t", "s", "--to", "2", "--json"];
    let told = &place.ok(&reset).json()[0];
    assert_eq!(
        (&told["committed"], &told["lag_records"]),
        (&json!([2]), &json!(1))
    );
    let told = &place
        .ok(&["subscriptions", "pause", "t", "s", "--json"])
        .json()[0];
    assert_eq!(told["status"], json!("paused"));
    let told = &place
        .ok(&["subscriptions", "resume", "t", "s", "--json"])
        .json()[0];
    assert_eq!(told["status"], json!("active"));
    let shown = place
        .ok(&["subscriptions", "show", "t", "s"])
        .text()
        .to_owned();
    assert!(shown.contains("lag records"), "{shown}");

    for args in [
        ["show", "t", "other"],
        ["pause", "t", "other"],
        ["delete", "t", "other"],
    ] {
        let done = place.run(&[&["subscriptions"][..], &args].concat());
        assert_eq!(done.code, Some(3), "{args:?}: {}", done.err);
    }
    assert_eq!(
        place
            .run(&["subscriptions", "reset", "t", "s", "--to", "9"])
            .code,
        Some(3)
    );
    place.ok(&["subscriptions", "delete", "t", "s"]);
    assert_eq!(place.ok(&["subscriptions", "list"]).text(), "");
}

/// One topic is broken: its subscription is told as failed with the reason, beside the others, by each
/// command that looks at it, and a script can tell.
#[test]
fn a_subscription_of_a_broken_topic_is_listed_with_the_reason() {
    let place = Place::new();
    let file = "topics: {a: {}, b: {}}\nsubscriptions: [{name: s, topic: a}, {name: s, topic: b}]";
    fs::write(place.path().join("tidelog.yaml"), file).unwrap();
    place.ok(&["config", "tidelog.yaml", "--apply"]);
    for topic in ["a", "b"] {
        place.feed(&["append", topic], b"one\n");
    }
    let broken = place.store().join("topics/b");
    fs::remove_dir_all(&broken).unwrap();
    fs::write(&broken, "not a folder").unwrap();
    for command in [&["subscriptions", "list"][..], &["lag"]] {
        let done = place.run(command);
        assert_eq!(done.code, Some(1), "{command:?}: {}", done.err);
        let lines: Vec<_> = done.text().lines().collect();
        assert!(lines[2].ends_with("failed"), "{lines:?}");
        assert!(lines[3].trim_start().starts_with("failed: "), "{lines:?}");
        assert!(lines[3].contains("must be a folder"), "{lines:?}");
        let done = place.run(&[command, &["--json"]].concat());
        assert_eq!(done.code, Some(1), "{command:?}");
        let told = done.json();
        assert_eq!(told[0]["lag_records"], json!(1));
        assert_eq!(told[0].get("failed"), None);
        assert_eq!(told[1]["status"], json!("failed"));
        let reason = told[1]["failed"].as_str().unwrap();
        assert!(reason.contains("must be a folder"), "{reason}");
    }
    let done = place.run(&["subscriptions", "show", "b", "s"]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    place.ok(&["subscriptions", "show", "a", "s"]);
}
