//! Topics and subscriptions that come and go, and what a reader may not do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidelog::{Error, Start, Store, TopicOptions};

use crate::child::{Other, part};
use crate::kit::{append, asked, opened, reader, reads, tell};

/// The owner makes topics, deletes one and makes it anew, and commits; a reader that was there before
/// sees all of it.
#[test]
fn a_reader_sees_topics_and_subscriptions_come_and_go() {
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        append(&store.topic("old").unwrap(), 5, 5);
        println!("opened");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        store.delete_topic("old").unwrap();
        let anew = store
            .create_topic("old", TopicOptions::new().partitions(3))
            .unwrap();
        anew.partition(2).unwrap().append("anew").unwrap();
        let new = store.topic("new").unwrap();
        append(&new, 7, 7);
        let mut archive = new.subscribe("archive").unwrap();
        archive.next().unwrap();
        archive.commit().unwrap();
        println!("changed");
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "catalog::a_reader_sees_topics_and_subscriptions_come_and_go";
    let mut owner = Other::start(name, dir.path());
    owner.says("opened");
    let store = reader(&dir.path().join("store"));
    let old = opened(&store, "old");
    reads(&mut old.follow(Start::Earliest).unwrap(), 0, 5);
    assert!(matches!(
        store.topic("new"),
        Err(Error::TopicUnknown { .. })
    ));
    tell(&mut owner, "change");
    owner.says("changed");
    let gone = old.partition(0).unwrap().end();
    let topics = store.topics();
    let names: Vec<_> = topics
        .iter()
        .map(|topic| (topic.name.as_str(), topic.partitions))
        .collect();
    assert_eq!(names, [("new", 1), ("old", 3)]);
    let gone = gone.and_then(|_| old.partition(0).unwrap().end());
    assert!(matches!(gone, Err(Error::TopicDeleted { .. })), "{gone:?}");
    let anew = opened(&store, "old").partition(2).unwrap();
    assert_eq!(anew.end().unwrap(), 1);
    let new = opened(&store, "new");
    reads(&mut new.follow(Start::Earliest).unwrap(), 0, 7);
    let subscriptions = new.subscriptions().unwrap();
    assert_eq!(subscriptions[0].name, "archive");
    assert_eq!(
        (
            &subscriptions[0].committed[..],
            subscriptions[0].lag.records
        ),
        (&[1][..], 6)
    );
}

/// Nothing can be written through a store that is only read; each call says so, and the owner beside it
/// goes on. A second owner is told who the first one is.
#[test]
fn a_reader_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let owner = Store::open(&place).unwrap();
    let topic = owner.topic("quakes").unwrap();
    topic.append("M 4.6").unwrap();
    let store = reader(&place);
    let quakes = store.topic("quakes").unwrap();
    let partition = quakes.partition(0).unwrap();
    let refusals = [
        quakes.append("M 2.1").err(),
        quakes.append_batch(["M 2.1", "M 3.0"]).err(),
        quakes.append_nowait("M 2.1").err(),
        partition.append_batch_nowait(["M 2.1"]).err(),
        quakes.append_and_finish(["M 2.1"]).err(),
        quakes.finish().err(),
        quakes.flush().err(),
        partition.flush().err(),
        store.flush().err(),
        quakes.subscribe("archive").err(),
        partition.truncate_before(0).err(),
        store.create_topic("new", TopicOptions::new()).err(),
        store.delete_topic("quakes").err(),
    ];
    for (call, refusal) in refusals.into_iter().enumerate() {
        assert!(
            matches!(refusal, Some(Error::ReadOnly { .. })),
            "{call}: {refusal:?}"
        );
    }
    let locked = Store::open(&place);
    assert!(
        matches!(locked, Err(Error::Locked { pid: Some(_), .. })),
        "{locked:?}"
    );
    topic.append("M 2.1").unwrap();
    assert_eq!(partition.end().unwrap(), 2);
    store.close().unwrap();
    assert!(matches!(partition.end(), Err(Error::Closed)));
    owner.close().unwrap();
}

/// Topics are made and deleted without a pause, beside readers that open whatever they find. Nobody hangs,
/// and each finds what is there: a record, or that the topic is gone.
#[test]
fn topics_that_come_and_go_under_many_readers_leave_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let owner = Store::open(&place).unwrap();
    let lasts = owner.topic("lasts").unwrap();
    append(&lasts, 3, 3);
    let store = reader(&place);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    for name in ["one", "two", "lasts"] {
                        let read = store.topic(name).and_then(|topic| {
                            let partition = topic.partition(0)?;
                            partition.read(0..1)?.next().transpose()
                        });
                        match read {
                            Ok(Some(record)) => assert_eq!(record.offset(), 0),
                            Ok(None) => assert_ne!(name, "lasts"),
                            Err(error) => assert_ne!(name, "lasts", "{error}"),
                        }
                    }
                }
            });
        }
        for _ in 0..40 {
            for name in ["one", "two"] {
                append(&owner.topic(name).unwrap(), 2, 2);
            }
            for name in ["two", "one"] {
                owner.delete_topic(name).unwrap();
            }
        }
        ended.store(true, Ordering::Release);
    });
    assert_eq!(store.topics().len(), 1);
    append(&owner.topic("one").unwrap(), 2, 2);
    let mut tail = opened(&store, "one").follow(Start::Earliest).unwrap();
    reads(&mut tail, 0, 2);
    drop(lasts);
    owner.close().unwrap();
}
