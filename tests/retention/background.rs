//! What has expired goes by itself.

use std::thread;
use std::time::{Duration, Instant};

use tidelog::{Retention, Store, StoreOptions};

use crate::kit::{fill, range, small, until};

/// Segments go while others are written, by bytes, with nobody asking for it; so many at once are there
/// that it shows, and never many more.
#[test]
fn segments_go_in_the_background_when_others_have_been_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = store
        .create_topic("t", small(Retention::bytes(50_000)))
        .unwrap();
    for _ in 0..5 {
        fill(&topic, 100);
        until("it goes", || {
            let (first, end) = range(&topic);
            (end - first) * 984 < 70_000
        });
    }
    store.close().unwrap();
}

/// A topic that nobody uses expires when its time has come, also one that was there when the store was
/// opened, and one whose limit was set later.
#[test]
fn an_idle_topic_expires_when_its_time_has_come() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let store = Store::open(&path).unwrap();
    let second = Retention::age(Duration::from_millis(600));
    let early = store.create_topic("early", small(second)).unwrap();
    let late = store
        .create_topic("late", small(Retention::forever()))
        .unwrap();
    fill(&early, 30);
    fill(&late, 30);
    drop((early, late));
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    let early = store.existing_topic("early").unwrap();
    until("what was there", || range(&early) == (30, 30));
    let late = store.create_topic("late", small(second)).unwrap();
    until("what has a limit now", || range(&late) == (30, 30));
    // Nothing is there that could expire, and nobody looks.
    thread::sleep(Duration::from_millis(500));
    fill(&early, 3);
    until("what came later", || range(&early) == (33, 33));
    store.close().unwrap();
}

/// Closing does not wait for what will expire, and dropping the last handle is closing.
#[test]
fn a_store_in_which_something_will_expire_is_closed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    for close in [true, false] {
        let store = Store::open_with(&path, StoreOptions::new()).unwrap();
        let topic = store.create_topic("t", small(Retention::days(7))).unwrap();
        fill(&topic, 3);
        drop(topic);
        let begin = Instant::now();
        match close {
            true => store.close().unwrap(),
            false => drop(store),
        }
        assert!(begin.elapsed() < Duration::from_secs(5));
    }
    Store::open(&path).unwrap().close().unwrap();
}
