//! Following a topic.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use tidelog::Store;

use crate::Place;

/// A topic that was finished ends its follower.
#[test]
fn a_finished_topic_ends_its_follower() {
    let place = Place::new();
    let store = Store::open(place.store()).unwrap();
    let topic = store.topic("t").unwrap();
    topic.append("one").unwrap();
    topic.append("two").unwrap();
    topic.finish().unwrap();
    store.close().unwrap();
    assert_eq!(
        place.ok(&["tail", "t", "--from", "earliest"]).text(),
        "one\ntwo\n"
    );
    assert_eq!(place.ok(&["tail", "t"]).text(), "");
    let done = place.feed(&["append", "t"], b"three\n");
    assert_eq!(done.code, Some(7));
    assert!(done.err.contains("is finished"), "{}", done.err);
}

/// A follower that was asked for two records ends behind them.
#[test]
fn a_limit_ends_a_follower() {
    let place = Place::new();
    place.feed(&["append", "t"], b"one\ntwo\nthree\n");
    let args = ["tail", "t", "--from", "1", "--limit", "2", "--json"];
    let records = place.ok(&args).json();
    assert_eq!(
        (&records[0]["payload"], &records[1]["payload"]),
        (&"two".into(), &"three".into())
    );
    assert_eq!(place.ok(&["tail", "t", "--limit", "0"]).text(), "");
}

/// A follower has shown what is there and waits. It kept nothing in a buffer; Ctrl-C ends it,
/// and the store is none the worse.
#[test]
fn a_waiting_follower_has_shown_everything_and_ends_with_an_interrupt() {
    let place = Place::new();
    place.feed(&["append", "t"], b"one\ntwo\n");
    let mut child = place.spawn(&["tail", "t", "--from", "earliest"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "one");
    assert_eq!(lines.next().unwrap().unwrap(), "two");
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    assert!(lines.next().is_none());
    assert_eq!(place.ok(&["read", "t"]).text(), "one\ntwo\n");
}
