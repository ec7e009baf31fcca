//! The journal's writer held to the payloads of version 1.

use super::*;
use crate::format::golden::{hold, journal_payloads};

/// Events that a snapshot folds; what comes later is frozen by itself.
const FOLDED: [&str; 10] = [
    "epoch",
    "topic",
    "topic_deleted",
    "subscription",
    "subscription_deleted",
    "checkpoint",
    "ends",
    "settled",
    "start",
    "closed",
];

/// What a payload is called in the list: its event, or its kind.
fn name(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(payload);
    match payload[0] {
        EVENT => {
            let name = text.split('"').nth(3).unwrap();
            // What was added to an event since.
            let more = ["retention", "required"];
            let more = more.iter().find(|it| text.contains(&format!("\"{it}\":")));
            more.map_or_else(|| name.to_owned(), |more| format!("{name}-{more}"))
        }
        kind => format!("kind-{kind}"),
    }
}

/// One of each event and of every other kind.
fn encoded() -> Vec<(String, Vec<u8>)> {
    let mut fold = Fold::default();
    let mut made = Vec::new();
    for payload in fuzz_seeds() {
        let name = name(&payload);
        if FOLDED.contains(&name.as_str())
            && let Ok(Record::Event(event)) = Record::decode(&payload)
        {
            fold.apply(0, &event).unwrap();
        }
        // Snapshots are of whatever events there are.
        if payload[0] != PART {
            made.push((name, payload));
        }
    }
    let parts = Snapshot::of(&fold, 10);
    made.extend(parts.into_iter().map(|part| ("snapshot".to_owned(), part)));
    made
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
