//! What can only be seen from inside.

use crate::flush::DirtyLog;
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

/// A spare waits while the preparer is asked for it again and again: it keeps its size, and
/// segments double as they should.
#[test]
fn a_spare_that_is_asked_for_again_does_not_grow() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let topic = store.topic("quakes").unwrap();
    let log = topic.log(0).unwrap();
    for n in 0..2000_u32 {
        topic
            .append(Record::new(vec![7; 200]).key(n.to_string()))
            .unwrap();
        log.make_ahead();
    }
    let folder = std::fs::read_dir(dir.path().join("topics/quakes")).unwrap();
    let folder = folder.flatten().next().unwrap().path();
    let mut sizes: Vec<u64> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    sizes.sort_unstable();
    let doubled: Vec<u64> = (0..)
        .map(|step| (64 << 10) << step)
        .take(sizes.len())
        .collect();
    assert_eq!(sizes, doubled);
    store.close().unwrap();
}

/// A thread that is about to make a segment is held up, and the store is closed meanwhile. Nothing is
/// made behind the close: the folder may have another owner by then, who has a file of that name.
#[test]
fn nothing_is_made_for_a_log_that_was_closed_or_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let log = |name: &str| {
        let topic = store.topic(name).unwrap();
        topic.append(Record::new("M 4.6")).unwrap();
        topic.log(0).unwrap()
    };
    let (deleted, closed) = (log("faults"), log("quakes"));
    store.delete_topic("faults").unwrap();
    store.clone().close().unwrap();
    let made = store.io().creates.get();
    deleted.prepare();
    closed.prepare();
    assert_eq!(store.io().creates.get(), made);
    assert!(!dir.path().join("topics/faults").exists());
}
