//! How far subscriptions are behind.

use serde_json::json;

use crate::Place;

/// Two subscriptions were made by a file, of which one has records behind it: both are listed, as text and
/// as JSON; a topic that is not there is what cannot be found, and the live view needs a terminal.
#[test]
fn lag_is_listed_and_a_view_needs_a_terminal() {
    let place = Place::new();
    let file = "topics: {t: {}, u: {}}\nsubscriptions: [{name: a, topic: t}, {name: b, topic: u}]";
    std::fs::write(place.path().join("tidelog.yaml"), file).unwrap();
    place.ok(&["config", "tidelog.yaml", "--apply"]);
    place.feed(&["append", "t"], b"one\ntwo\n");
    let text = place.ok(&["lag"]).text().to_owned();
    assert!(
        text.contains("lagging") && text.contains("caught up"),
        "{text}"
    );
    let told = place.ok(&["lag", "--json"]).json();
    assert_eq!(told[0]["lag_records"], json!(2));
    assert_eq!(
        (&told[0]["status"], &told[1]["status"]),
        (&json!("lagging"), &json!("caught up"))
    );
    assert!(told[0]["oldest_uncommitted_age_seconds"].as_f64().unwrap() >= 0.0);
    assert_eq!(place.ok(&["lag", "u", "--json"]).json().len(), 1);
    assert_eq!(place.run(&["lag", "v"]).code, Some(3));
    let done = place.run(&["lag", "--watch"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("terminal"), "{}", done.err);
}
