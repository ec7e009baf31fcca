//! The demo, when nothing happens to it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::Place;

const EVENTS: &str = include_str!("../../data/earthquakes.ndjson");

/// Checks what the demo leaves, without the demo's own code: each of the 1,707 events once, and
/// those of each network in the order of the file.
pub(crate) fn assert_whole(place: &Place) {
    let by_network = |events: &mut dyn Iterator<Item = Value>| {
        let mut networks: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for event in events {
            let text = |field: &str| event[field].as_str().unwrap().to_owned();
            networks.entry(text("net")).or_default().push(text("id"));
        }
        networks
    };
    let read = place.ok(&["read", "quakes", "--store", "tidelog-demo"]);
    let parse = |line: &str| serde_json::from_str(line).unwrap();
    let found = by_network(&mut read.text().lines().map(parse));
    let ids: BTreeSet<_> = found.values().flatten().collect();
    assert_eq!((read.text().lines().count(), ids.len()), (1707, 1707));
    assert_eq!(found, by_network(&mut EVENTS.lines().map(parse)));
}

/// The README's first command, twice on the same folder: the second time all is there already.
#[test]
fn the_demo_runs_twice_on_one_folder() {
    let place = Place::new();
    let first = place.ok(&["demo"]).text().to_owned();
    assert!(
        first.contains("a new store") && first.contains("nothing is there yet"),
        "{first}"
    );
    assert!(
        first.contains("check      1,707 events, none twice"),
        "{first}"
    );
    assert!(first.lines().count() <= 24, "one screen:\n{first}");
    assert_whole(&place);
    let second = place.ok(&["demo"]).text().to_owned();
    assert!(
        second.contains("all 1,707 events are there already"),
        "{second}"
    );
    assert!(
        second.contains("0 events in 0 commits, 1,707 committed before"),
        "{second}"
    );
    assert!(
        second.contains("check      1,707 events, none twice"),
        "{second}"
    );
    assert_whole(&place);
    place.ok(&["verify", "--store", "tidelog-demo"]);
}

/// A script wants the figures only.
#[test]
fn the_demo_tells_its_figures_as_json() {
    let place = Place::new();
    let figures = place.ok(&["demo", "--store", "elsewhere", "--json"]).json();
    assert_eq!(figures.len(), 1);
    for field in ["events", "appended", "archived", "followed"] {
        assert_eq!(figures[0][field], 1707, "{field}");
    }
    assert!(figures[0]["append_median_us"].as_u64().is_some());
}

/// Somebody else's topic has the demo's name: the demo says so, and adds nothing to it.
#[test]
fn the_demo_leaves_a_topic_alone_that_is_not_its_own() {
    let place = Place::new();
    place.ok(&[
        "create",
        "quakes",
        "--partitions",
        "4",
        "--content-type",
        "application/json",
    ]);
    place.feed(&["append", "quakes"], b"mine\n");
    let done = place.run(&["demo", "--store", "data"]);
    assert_eq!(done.code, Some(7));
    assert!(done.err.contains("holds something else"), "{}", done.err);
    assert_eq!(place.ok(&["read", "quakes"]).text(), "mine\n");
}
