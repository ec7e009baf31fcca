//! One bad file, one full disk, one failed topic: the rest is removed all the same.

use std::path::Path;

use tidelog::sys::sim::{Call, Fault, When};
use tidelog::sys::{Access, Storage};
use tidelog::{Error, Retention, Start, Store};

use crate::common;
use crate::kit::{HOUR, apply, fill, one, range, small};
use crate::machine::{Machine, ROOT};

/// A file that cannot be removed keeps no other one: the topic begins behind it, the others are gone,
/// and the next time it goes, too.
#[test]
fn a_file_that_cannot_be_removed_keeps_no_other() {
    for reopened in [false, true] {
        let machine = Machine::new(1);
        let (mut store, mut topic) = machine.topic(small(Retention::age(HOUR)));
        fill(&topic, 60);
        machine.pass(HOUR);
        let stuck = "00000001.seg";
        machine
            .sim
            .fail(Fault::new(Call::Remove, When::From(0), 13).on(stuck));
        let done = store.apply_retention().unwrap();
        let failed = done.partitions[0].failed.as_deref().unwrap_or_default();
        assert!(failed.contains(stuck), "{done:?}");
        // It tells what has gone, beside that.
        assert_eq!(done.partitions[0].records(), 60);
        assert_eq!(done.partitions[0].first, Some(60));
        assert_eq!(range(&topic), (60, 60));
        assert_eq!(
            machine.segments("t").len(),
            2,
            "{:?}",
            machine.segments("t")
        );
        if reopened {
            drop(topic);
            store.close().unwrap();
            store = machine.open();
            topic = store.existing_topic("t").unwrap();
            // Still not, and the topic is as good as any.
            assert_eq!(range(&topic), (60, 60));
            assert_eq!(machine.segments("t").len(), 2);
            drop(topic);
            store.close().unwrap();
            machine.sim.heal();
            store = machine.open();
            topic = store.existing_topic("t").unwrap();
        }
        machine.sim.heal();
        assert_eq!(topic.apply_retention().unwrap().partitions[0].failed, None);
        assert_eq!(machine.segments("t").len(), 1);
        drop(topic);
        store.close().unwrap();
    }
}

/// A segment whose header has rotted goes with those around it.
#[test]
fn a_segment_with_a_rotted_header_expires_like_the_others() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::bytes(25_000)));
    fill(&topic, 60);
    let log = Path::new(ROOT).join("topics/t/000000-1");
    drop(topic);
    store.close().unwrap();
    let file = machine
        .sim
        .open(&log.join("00000002.seg"), Access::Write)
        .unwrap();
    file.write_at(&[0x5a; 600], 0).unwrap();
    let store = machine.open();
    let topic = store.existing_topic("t").unwrap();
    let done = apply(&topic);
    let first = range(&topic).0;
    assert!(first > 25, "{first}");
    assert_eq!(done.failed, None);
    assert!(!machine.segments("t").contains(&"00000002.seg".to_owned()));
    let mut cursor = one(&topic).cursor(Start::Earliest).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().offset(), first);
    drop(cursor);
    drop(topic);
    store.close().unwrap();
}

/// D34: a topic that cannot be opened is told beside the others, which expire.
#[test]
fn a_topic_that_failed_keeps_no_other_from_expiring() {
    let machine = Machine::new(1);
    let store = machine.open();
    for name in ["a", "b", "c"] {
        let topic = store
            .create_topic(name, small(Retention::age(HOUR)))
            .unwrap();
        fill(&topic, 20);
    }
    store.close().unwrap();
    let folder = Path::new(ROOT).join("topics/b/000000-2");
    for entry in machine.sim.list(&folder).unwrap() {
        machine.sim.remove_file(&folder.join(entry.name)).unwrap();
    }
    let store = machine.open();
    machine.pass(HOUR);
    let done = store.apply_retention().unwrap();
    let told: Vec<_> = done
        .partitions
        .iter()
        .map(|it| (&*it.topic, it.failed.is_some()))
        .collect();
    assert_eq!(told, [("a", false), ("b", true), ("c", false)]);
    for name in ["a", "c"] {
        assert_eq!(range(&store.existing_topic(name).unwrap()), (20, 20));
    }
    store.close().unwrap();
}

/// On a full disk no segment can take over from the one that is written to; all others go, and then it
/// can.
#[test]
fn on_a_full_disk_what_is_old_goes_but_for_the_last_segment() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::age(HOUR)));
    fill(&topic, 46);
    machine.pass(HOUR);
    machine
        .sim
        .fail(Fault::new(Call::Create, When::From(0), 28));
    let done = store.apply_retention().unwrap();
    let (first, end) = range(&topic);
    assert!(first > 30 && end == 46, "{first}");
    assert_eq!(done.partitions[0].failed.is_some(), first < 46);
    machine.sim.heal();
    apply(&topic);
    assert_eq!(range(&topic), (46, 46));
    store.close().unwrap();
}

/// A finished topic that has let go of its files takes them up to expire to its last record.
#[test]
fn a_finished_topic_without_open_files_expires() {
    let machine = Machine::new(1);
    let tight = machine.options().inline().max_open_files(1);
    let store = Store::open_with(ROOT, tight).unwrap();
    let topics = ["a", "b"].map(|name| {
        let topic = store
            .create_topic(name, small(Retention::age(HOUR)))
            .unwrap();
        fill(&topic, 20);
        topic.finish().unwrap();
        topic
    });
    machine.pass(HOUR);
    for done in store.apply_retention().unwrap().partitions {
        assert_eq!(
            (done.failed, done.first),
            (None, Some(20)),
            "{}",
            done.topic
        );
    }
    for topic in &topics {
        assert_eq!(range(topic), (20, 20));
    }
    drop(topics);
    store.close().unwrap();
}

/// D16: the files of a log are replaced by an older copy, from before retention moved its start. Nothing
/// of it is removed or taken for the log, and no offset is given again; with the right files it is the log
/// again.
#[test]
fn older_files_than_where_a_log_begins_are_told_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let log = path.join("topics/t/000000-1");
    let [aside, older] = ["aside", "older"].map(|name| dir.path().join(name));
    let names = || {
        let names = std::fs::read_dir(&log).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let store = Store::open(&path).unwrap();
    let topic = store
        .create_topic("t", small(Retention::forever()))
        .unwrap();
    fill(&topic, 20);
    drop(topic);
    store.close().unwrap();
    common::copy(&log, &older).unwrap();
    let store = Store::open(&path).unwrap();
    let topic = store.existing_topic("t").unwrap();
    fill(&topic, 60);
    let first = one(&topic).truncate_before(70).unwrap();
    assert!(first > 40);
    drop(topic);
    store.close().unwrap();
    std::fs::rename(&log, &aside).unwrap();
    std::fs::rename(&older, &log).unwrap();
    let before = names();
    let store = Store::open(&path).unwrap();
    let topic = store.existing_topic("t").unwrap();
    let refused = topic.append("x").unwrap_err();
    assert!(
        matches!(&refused, Error::Failed { cause, .. } if matches!(**cause, Error::Mismatch { .. })),
        "{refused}"
    );
    assert!(store.apply_retention().unwrap().partitions.is_empty());
    drop(topic);
    store.close().unwrap();
    assert_eq!(names(), before);
    std::fs::remove_dir_all(&log).unwrap();
    std::fs::rename(&aside, &log).unwrap();
    let store = Store::open(&path).unwrap();
    let topic = store.existing_topic("t").unwrap();
    assert_eq!(range(&topic), (first, 80));
    drop(topic);
    store.close().unwrap();
}
