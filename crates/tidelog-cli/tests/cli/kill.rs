//! The demo, killed in the middle.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::thread;

use crate::demo::assert_whole;
use crate::{Place, files, find};

const EVENTS: &str = include_str!("../../data/earthquakes.ndjson");
const SIGKILL: i32 = 9;

/// The id of the event on a line of the file.
fn id(line: usize) -> String {
    let event: serde_json::Value = serde_json::from_str(EVENTS.lines().nth(line).unwrap()).unwrap();
    event["id"].as_str().unwrap().to_owned()
}

/// Whether an event has reached a segment file, as the page cache shows it.
fn has_come(place: &Place, id: &str) -> bool {
    let folder = place.path().join("tidelog-demo/topics/quakes");
    let has = |path| fs::read(path).is_ok_and(|bytes| find(&bytes, id.as_bytes()).is_some());
    files(&folder).iter().any(has)
}

/// Kills the demo (SIGKILL) once an event has come. False if it was faster and has ended.
fn kill_at_event(place: &Place, line: usize) -> bool {
    let id = id(line);
    let mut child = place.spawn(&["demo"]);
    while !has_come(place, &id) && child.try_wait().unwrap().is_none() {
        thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap().signal() == Some(SIGKILL)
}

/// Again and again the demo is killed as it appends, each time further on in the week. Each next
/// run goes on where the last one was, and the last run ends with all events, none twice.
#[test]
fn a_demo_that_is_killed_again_and_again_ends_with_all_events_once() {
    let place = Place::new();
    let mut kills = 0;
    for line in [3, 150, 300, 450, 700, 1000, 1300, 1600] {
        kills += u32::from(kill_at_event(&place, line));
    }
    assert!(kills >= 3, "it was killed {kills} times only");
    let text = place.ok(&["demo"]).text().to_owned();
    assert!(text.contains("are there already"), "{text}");
    assert!(
        text.contains("check      1,707 events, none twice"),
        "{text}"
    );
    assert_whole(&place);
    place.ok(&["verify", "--store", "tidelog-demo"]);
}

/// It is killed early in the week: the next run says how much is there, and where it goes on. On a
/// busy machine the kill may come when all is appended; then it is staged anew.
#[test]
fn a_demo_that_was_killed_says_where_it_goes_on() {
    for _ in 0..20 {
        let place = Place::new();
        let killed = kill_at_event(&place, 3);
        let text = place.ok(&["demo"]).text().to_owned();
        assert!(
            text.contains("check      1,707 events, none twice"),
            "{text}"
        );
        assert_whole(&place);
        if killed && text.contains("are there already: goes on at 0@") {
            assert!(
                text.contains("a store whose last owner was killed"),
                "{text}"
            );
            return;
        }
    }
    panic!("it was never killed in the middle");
}

/// It is killed as soon as it has told of a step, whichever step that is.
#[test]
fn a_demo_that_is_killed_at_any_step_ends_with_all_events_once() {
    for step in [
        "open", "topic", "resume", "append", "archive", "close", "reopen", "check",
    ] {
        let place = Place::new();
        let mut child = place.spawn(&["demo"]);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = lines
            .map_while(Result::ok)
            .any(|line| line.trim_start().starts_with(step));
        assert!(told, "{step}");
        child.kill().unwrap();
        child.wait().unwrap();
        let text = place.ok(&["demo"]).text().to_owned();
        assert!(
            text.contains("check      1,707 events, none twice"),
            "{step}: {text}"
        );
        assert_whole(&place);
    }
}
