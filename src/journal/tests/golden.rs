//! The journal's writer held to the payloads of version 1.

use super::*;
use crate::format::golden::{hold, journal_payloads};

/// One of each event, the parts of a snapshot, and redo.
fn encoded() -> Vec<(&'static str, Vec<u8>)> {
    let names = [
        "epoch",
        "topic",
        "topic-deleted",
        "subscription",
        "subscription-deleted",
        "checkpoint",
        "ends",
        "settled",
        "start",
        "closed",
        "snapshot",
        "redo",
    ];
    let seeds = fuzz_seeds();
    assert_eq!(names.len(), seeds.len());
    names.into_iter().zip(seeds).collect()
}

/// Known values become the payloads that version 1 wrote for them: each event, with every field, a
/// snapshot, and redo.
#[test]
fn known_values_are_written_as_version_1_wrote_them() {
    hold("journal", &encoded(), false);
}

#[test]
#[ignore = "golden files are made once, and never changed"]
fn make() {
    hold("journal", &encoded(), true);
}

/// What the golden journals say is read, and written again as the very same bytes.
#[test]
fn what_golden_journals_say_is_written_as_the_same_bytes() {
    let payloads = journal_payloads();
    assert!(payloads.len() > 50, "{}", payloads.len());
    for payload in &payloads {
        let again = Record::decode(payload).unwrap().encode();
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert_eq!(text(&again), text(payload));
    }
}
