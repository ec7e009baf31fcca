//! Pipes whose reader has seen enough.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;

use crate::Place;

/// More lines than any pipe holds.
const LINES: usize = 100_000;

fn filled() -> Place {
    let place = Place::new();
    let input: String = (0..LINES)
        .map(|n| format!("a line with the number {n}\n"))
        .collect();
    assert_eq!(place.feed(&["append", "t"], input.as_bytes()).code, Some(0));
    place
}

/// Reads one line, as `head -1` does, and closes the pipe.
fn head(child: &mut Child) -> String {
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    line
}

/// `tidelog read t | head -1`: one line, no panic, no complaint, success. The same for a follower.
#[test]
fn a_reader_that_has_seen_enough_is_success() {
    let place = filled();
    for args in [
        &["read", "t"][..],
        &["read", "t", "--json"],
        &["tail", "t", "--from", "earliest"],
    ] {
        let mut child = place.spawn(args);
        assert!(head(&mut child).contains("a line with the number 0"));
        let mut complaint = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut complaint)
            .unwrap();
        assert_eq!(
            (child.wait().unwrap().code(), complaint.as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

/// Whoever watches the acknowledgements leaves after the first: everything is appended all the
/// same.
#[test]
fn appending_goes_on_when_nobody_reads_the_acknowledgements() {
    let place = Place::new();
    let input: String = (0..LINES).map(|n| format!("{n}\n")).collect();
    std::fs::write(place.path().join("lines"), &input).unwrap();
    let mut child = place.spawn(&["append", "t", "lines", "--json"]);
    assert!(head(&mut child).contains("\"offset\":0"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(place.ok(&["read", "t"]).text() == input);
}
