//! Configuration files: shown, applied, and refused.

use std::fs;

use serde_json::json;

use crate::Place;

const FILE: &str = r#"
[topics.quakes]
partitions = 2
retention = { age = "7d", bytes = "20GB" }

[[subscriptions]]
name = "archive"
topic = "quakes"
"#;

/// A file is shown in full, applied, and applied again: the store beside it has what it says.
#[test]
fn what_is_configured_is_shown_and_applied() {
    let place = Place::new();
    fs::write(place.path().join("tidelog.toml"), FILE).unwrap();
    let shown = place.ok(&["config", "tidelog.toml"]);
    assert!(
        shown.text().contains("bytes = \"20GB\""),
        "{}",
        shown.text()
    );
    assert!(!place.store().exists());
    for _ in 0..2 {
        let applied = place.ok(&["config", "tidelog.toml", "--apply"]);
        assert_eq!(applied.text(), "data: 1 topic, 1 subscription\n");
    }
    let topics = place.ok(&["topics", "--json"]).json();
    assert_eq!(topics[0]["partitions"].as_array().unwrap().len(), 2);
    let told = place.ok(&["config", "tidelog.toml", "--json"]).json();
    assert_eq!(
        told[0]["topics"]["quakes"]["retention"],
        json!({"age": "7days", "bytes": "20GB"})
    );
}

/// A mistake is told with file and key, a file that is not there as what cannot be found, and what the
/// store does not take as the store says it.
#[test]
fn mistakes_are_told_with_file_and_key() {
    let place = Place::new();
    fs::write(place.path().join("bad.toml"), "[topics.t]\npartition = 4\n").unwrap();
    let done = place.run(&["config", "bad.toml"]);
    assert_eq!(done.code, Some(2));
    assert!(
        done.err.contains("bad.toml: topics.t.partition: "),
        "{}",
        done.err
    );
    assert_eq!(place.run(&["config", "none.toml"]).code, Some(3));
    place.ok(&["create", "t", "--partitions", "3"]);
    fs::write(
        place.path().join("other.yaml"),
        "topics: {t: {partitions: 4}}",
    )
    .unwrap();
    let done = place.run(&["config", "other.yaml", "--apply"]);
    assert_eq!(done.code, Some(7));
    assert!(done.err.contains("topics.t: "), "{}", done.err);
}
