//! Rows D32 and D40: a store is closed, or its last handle dropped, in the middle of everything.
//!
//! Elsewhere dropping a database hung while a transaction was alive, or a message that said "stop"
//! waited behind a full queue; and a store that was shut down under a live producer returned
//! success, let go of its lock without having synced, and a second owner gave the same offsets
//! again.

use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tidelog::sys::Stats;
use tidelog::{Cursor, Error, Start, Store, Subscription, Topic};

use crate::kit::{Place, one};
use crate::load::{Acknowledged, COMMIT, Load, TOPICS, topics};
use crate::process::{Other, Watch, alone, descriptors, mappings, part, store_threads, until_none};

/// How often each way to the end is gone.
const ROUNDS: usize = 50;

/// Goes one way to the end again and again, half of them on a disk and half in memory.
fn rounds(test: &str, round: impl Fn(&Place, usize, &Arc<Mutex<Acknowledged>>)) {
    if let Some(root) = part() {
        own(&root, 0);
        println!("=> owned");
        return;
    }
    alone(test, || {
        for place in [Place::new(), Place::quick()] {
            let noted = Arc::default();
            for life in 0..ROUNDS / 2 {
                let _watch = Watch::over(format!("{test}, round {life}"));
                round(&place, life, &noted);
                nothing_is_left(&place);
                let next = Store::open(&place.root).unwrap();
                noted.lock().unwrap().check(&next);
                next.close().unwrap();
                nothing_is_left(&place);
            }
        }
    });
}

/// Time for a load to get under way, more or less.
fn a_while(life: usize) {
    thread::sleep(Duration::from_micros(life as u64 % 25 * 400));
}

/// A round in which `close` closes the store, while all of its handles live on.
fn closed(
    test: &str,
    (place, life, noted): (&Place, usize, &Arc<Mutex<Acknowledged>>),
    close: impl Fn(&Store),
) {
    let store = Store::open(&place.root).unwrap();
    topics(&store);
    let commit = store.existing_topic(COMMIT).unwrap();
    let kept = commit.append(format!("{life}.kept")).unwrap();
    let mut cursor = one(&commit).cursor(Start::Offset(kept.offset())).unwrap();
    let mut held = commit.subscribe("archive").unwrap();
    while held.next().unwrap().is_some() {}
    let mut load = Load::start(&store, life, noted);
    let view = cursor.next().unwrap().unwrap();
    let owned = view.to_owned();
    a_while(life);

    close(&store);
    let done = changes(store.io());
    // The lock is free, for this process and for any other, whoever still holds what of the old
    // store.
    match life % 10 {
        9 => drop(Other::start(test, &place.root).says("=> owned")),
        _ => own(&place.root, life),
    }
    load.join();
    load.settle();
    assert_eq!(view.text().unwrap(), format!("{life}.kept"));
    assert_eq!(owned.payload(), view.payload());
    refused(&store, &commit, cursor, held);
    assert_eq!(
        changes(store.io()),
        done,
        "changed behind its next owner's back"
    );
}

/// What has been changed on the disk.
fn changes(io: &Stats) -> [u64; 4] {
    [&io.writes, &io.creates, &io.syncs, &io.dir_syncs].map(|count| count.get())
}

/// Owns the store for a moment, behind another owner: it goes on where that one ended.
fn own(root: &Path, life: usize) {
    let store = Store::open(root).unwrap();
    assert!(store.health().was_closed);
    let me = std::process::id();
    for name in TOPICS {
        let partition = one(&store.existing_topic(name).unwrap());
        let before = partition.end().unwrap();
        let ack = partition.append_nowait(format!("{life}.{me}.{name}.next"));
        assert_eq!(ack.unwrap().position().offset(), before);
    }
    store.close().unwrap();
}

/// Old handles get `Closed`, all of them.
fn refused(store: &Store, topic: &Topic, mut cursor: Cursor, mut held: Subscription) {
    let partition = one(topic);
    let answers = [
        ("a topic asked for", store.existing_topic(COMMIT).map(drop)),
        ("a topic made", store.topic("new").map(drop)),
        ("a topic deleted", store.delete_topic(COMMIT)),
        ("a topic finished", topic.finish()),
        ("everything flushed", store.flush()),
        ("a topic flushed", topic.flush()),
        ("a partition flushed", partition.flush()),
        ("appended", topic.append("late").map(drop)),
        (
            "appended, not waiting",
            topic.append_nowait("late").map(drop),
        ),
        ("a batch", topic.append_batch(["late"; 3]).map(drop)),
        ("a last batch", topic.append_and_finish(["late"]).map(drop)),
        ("the end", partition.end().map(drop)),
        ("a range", partition.read(0..9).map(drop)),
        ("a cursor made", partition.cursor(Start::Earliest).map(drop)),
        ("a cursor moved on", cursor.next().map(drop)),
        ("followed", topic.follow(Start::Earliest).map(drop)),
        ("subscribed", topic.subscribe("late").map(drop)),
        ("a subscription moved on", held.next().map(drop)),
        ("committed", held.commit()),
        ("paused", held.pause()),
        ("reset", held.reset(Start::Earliest)),
        ("lag", held.lag().map(drop)),
    ];
    for (what, answer) in answers {
        assert!(matches!(answer, Err(Error::Closed)), "{what}: {answer:?}");
    }
    store.health();
    store.topics();
}

/// No thread, no descriptor and no mapping of a store in that folder.
fn nothing_is_left(place: &Place) {
    until_none("threads", store_threads);
    until_none("descriptors", || descriptors(&place.root));
    until_none("mappings", || mappings(&place.root));
}

/// Another thread closes it.
#[test]
fn a_store_that_is_closed_under_load_is_closed_for_all_and_loses_nothing() {
    let test = "close::a_store_that_is_closed_under_load_is_closed_for_all_and_loses_nothing";
    rounds(test, |place, life, noted| {
        closed(test, (place, life, noted), |store| {
            let store = store.clone();
            let closer = thread::spawn(move || store.close());
            closer.join().unwrap().unwrap();
        });
    });
}

/// Two threads close it at the same time: when either call has returned, it is closed. The second
/// one used to return at once, while the store still held its lock.
#[test]
fn a_store_that_is_closed_twice_at_once_is_closed_when_either_call_returns() {
    let test = "close::a_store_that_is_closed_twice_at_once_is_closed_when_either_call_returns";
    rounds(test, |place, life, noted| {
        closed(test, (place, life, noted), |store| {
            let both = Arc::new(Barrier::new(2));
            let (other, there) = (store.clone(), Arc::clone(&both));
            let closer = thread::spawn(move || {
                there.wait();
                other.close()
            });
            both.wait();
            store.clone().close().unwrap();
            own(&place.root, 1 << 20 | life);
            closer.join().unwrap().unwrap();
            store.clone().close().unwrap();
        });
    });
}

/// A follower closes it between two records, holding one of them.
#[test]
fn a_store_that_is_closed_inside_a_followers_loop_is_closed() {
    let test = "close::a_store_that_is_closed_inside_a_followers_loop_is_closed";
    rounds(test, |place, life, noted| {
        closed(test, (place, life, noted), |store| {
            let topic = store.existing_topic(COMMIT).unwrap();
            let mut tail = topic.follow(Start::Earliest).unwrap();
            let record = tail.next().unwrap().unwrap();
            store.clone().close().unwrap();
            assert_eq!(record.text().unwrap(), "0.kept");
            let end = tail.next().map(drop);
            assert!(matches!(end, Err(Error::Closed)), "{end:?}");
        });
    });
}

/// Nobody closes it: the last handle goes, in whichever thread and of whichever kind it is, with
/// syncs and acks pending.
#[test]
fn a_store_whose_last_handle_goes_under_load_is_closed() {
    let test = "close::a_store_whose_last_handle_goes_under_load_is_closed";
    rounds(test, |place, life, noted| {
        let store = Store::open(&place.root).unwrap();
        topics(&store);
        let mut load = Load::start(&store, life, noted);
        let acks = Arc::clone(&load.acks);
        a_while(life);
        load.stop();
        match life % 3 {
            // One of the threads, or an ack, is the last one.
            0 => drop(store),
            1 => {
                load.join();
                acks.lock().unwrap().clear();
                drop(store);
            }
            _ => {
                drop(store);
                load.join();
                let acks = Arc::clone(&acks);
                let last = thread::spawn(move || acks.lock().unwrap().clear());
                last.join().unwrap();
            }
        }
        load.join();
        drop((load, acks));
        // No handle is left, so the store is closed or about to be.
        nothing_is_left(place);
        own(&place.root, life);
    });
}
