//! What can only be seen from inside.

use crate::{Record, Store};

/// A subscription is paused and resumed for months. The journal snapshots and lets go of its old
/// segments, and what it says stays the same across a reopen.
#[test]
fn a_journal_with_many_events_stays_short() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let topic = store.topic("quakes").unwrap();
    topic.append(Record::new("M 4.6")).unwrap();
    let name = "a".repeat(200);
    let mut archive = topic.subscribe(&name).unwrap();
    archive.next().unwrap().unwrap();
    archive.commit().unwrap();
    for _ in 0..2500 {
        archive.pause().unwrap();
        archive.resume().unwrap();
    }
    archive.pause().unwrap();
    assert!(store.shared().journal.first() > 0, "segments were let go");
    drop(archive);
    store.close().unwrap();

    let store = Store::open(dir.path()).unwrap();
    let archive = store.topic("quakes").unwrap().subscribe(&name).unwrap();
    assert!(archive.is_paused());
    assert_eq!(archive.committed(0).unwrap(), 1);
    drop(archive);
    store.close().unwrap();
}
