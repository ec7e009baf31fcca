//! Subscriptions, moved by hand.

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
