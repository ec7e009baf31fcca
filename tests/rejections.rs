//! Every way to be refused is an error of its own, and leaves the store as it was.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidelog::sys::sim::{Sim, SimClock};
use tidelog::{
    Durability, Error, Part, Position, Record, Start, Store, StoreOptions, Topic, TopicOptions,
};

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    (dir, store)
}

/// How many records each partition holds, and all names and bytes below a folder but the lock.
fn fingerprint(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files.insert(path.clone(), Vec::new());
                folders.push(path);
            } else {
                files.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn ends(topic: &Topic) -> Vec<u64> {
    let numbers = 0..topic.partitions();
    numbers
        .map(|number| topic.partition(number).unwrap().end().unwrap())
        .collect()
}

macro_rules! refused {
    ($call:expr, $pattern:pat) => {
        match $call {
            Err($pattern) => {}
            Err(other) => panic!("another error: {other:?}"),
            Ok(_) => panic!("not refused"),
        }
    };
}

/// D27, and behaviour.md on names: nothing that could leave its folder or collide becomes a topic
/// or a subscription.
#[test]
fn a_hostile_name_is_refused_everywhere_and_makes_nothing() {
    let (dir, store) = store();
    let topic = store.topic("quakes").unwrap();
    let long = "a".repeat(300);
    let before = fingerprint(dir.path());
    for name in [
        "../x", "a/b", "", ".", "..", "a\0b", "CON", "A", "x ", "é", "%2e", &long,
    ] {
        refused!(store.topic(name), Error::InvalidName { .. });
        refused!(store.existing_topic(name), Error::InvalidName { .. });
        refused!(
            store.create_topic(name, TopicOptions::new()),
            Error::InvalidName { .. }
        );
        refused!(store.delete_topic(name), Error::InvalidName { .. });
        refused!(topic.subscribe(name), Error::InvalidName { .. });
    }
    assert_eq!(fingerprint(dir.path()), before);
    assert_eq!(store.topics().len(), 1);
    store.close().unwrap();
}

#[test]
fn an_option_outside_its_limits_is_refused_and_named() {
    let (_dir, store) = store();
    let plain = TopicOptions::new;
    let interval = |secs| Durability::Interval(Duration::from_secs(secs));
    for (options, name) in [
        (plain().partitions(0), "partitions"),
        (plain().partitions(65_536), "partitions"),
        (plain().content_type(""), "content_type"),
        (plain().content_type("naïve"), "content_type"),
        (plain().max_record_bytes((1 << 30) + 1), "max_record_bytes"),
        (plain().max_batch_bytes(1), "max_batch_bytes"),
        (plain().max_segment_bytes(5 << 30), "max_segment_bytes"),
        (plain().first_segment_bytes(1 << 30), "first_segment_bytes"),
        (plain().unsettled_bytes(1), "unsettled_bytes"),
        (plain().max_total_bytes(0), "max_total_bytes"),
        (plain().durability(interval(0)), "durability"),
        (plain().durability(interval(24 * 3600 + 1)), "durability"),
    ] {
        match store.create_topic("quakes", options) {
            Err(Error::InvalidOption { option, .. }) => assert_eq!(option, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(store.topics().is_empty());
    store.close().unwrap();
}

/// A topic is made again with other settings: what is fixed is refused, the rest is taken.
#[test]
fn a_topic_keeps_its_partitions_and_its_content_type() {
    let (_dir, store) = store();
    let options = TopicOptions::new().partitions(4);
    store.create_topic("quakes", options.clone()).unwrap();
    store.create_topic("quakes", options.clone()).unwrap();
    let more = options.clone().partitions(5);
    let setting = Error::TopicMismatch {
        topic: "quakes".into(),
        setting: "partitions",
        existing: "4".into(),
        requested: "5".into(),
    };
    let error = store.create_topic("quakes", more).unwrap_err();
    assert_eq!(error.to_string(), setting.to_string());
    let json = options.clone().content_type("application/json");
    match store.create_topic("quakes", json) {
        Err(Error::TopicMismatch { setting, .. }) => assert_eq!(setting, "content type"),
        other => panic!("{other:?}"),
    }
    let larger = store
        .create_topic("quakes", options.max_record_bytes(1 << 20))
        .unwrap();
    assert_eq!(larger.max_record_bytes(), 1 << 20);
    refused!(store.existing_topic("other"), Error::TopicUnknown { .. });
    refused!(store.delete_topic("other"), Error::TopicUnknown { .. });
    store.close().unwrap();
}

/// D20: a record or batch over a limit is refused as a whole before a byte is written; one at the
/// limit is taken, also as the first of a segment and larger than any segment before.
#[test]
fn what_is_too_large_is_refused_whole_and_what_is_just_not_is_taken() {
    let (_dir, store) = store();
    let limit = 200_000;
    let options = TopicOptions::new()
        .max_record_bytes(limit)
        .max_batch_bytes(2 * limit)
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(32 << 10);
    let topic = store.create_topic("quakes", options).unwrap();
    let exact = vec![7; usize::try_from(limit).unwrap() - 32];
    let over = vec![7; exact.len() + 1];
    let too_large = |error, part| match error {
        Error::TooLarge { what, size, limit } => {
            assert_eq!(what, part);
            assert!(size > limit, "{size} {limit}");
        }
        other => panic!("{part}: {other:?}"),
    };
    too_large(topic.append(Record::new(&over)).unwrap_err(), Part::Record);
    let batch = [Record::new("fits"), Record::new(&over)];
    too_large(topic.append_batch(batch).unwrap_err(), Part::Record);
    let batch = [&exact, &exact, &exact].map(Record::new);
    too_large(topic.append_batch(batch).unwrap_err(), Part::Batch);
    let key = vec![7; 65_536];
    too_large(
        topic.append(Record::new("").key(&key)).unwrap_err(),
        Part::Key,
    );
    let many = (0..256).fold(Record::new(""), |record, _| record.header("a", "b"));
    too_large(topic.append(many).unwrap_err(), Part::Headers);
    let name = "n".repeat(65_536);
    too_large(
        topic.append(Record::new("").header(name, "")).unwrap_err(),
        Part::HeaderName,
    );
    for id in [String::new(), "i".repeat(256)] {
        match topic.append(Record::new("").event_id(id)) {
            Err(Error::TooLarge { what, .. }) => assert_eq!(what, Part::EventId),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ends(&topic), [0]);

    let key = &key[..65_535];
    for (offset, record) in [
        Record::new(&exact),
        Record::new("").key(key).event_id("i".repeat(255)),
        Record::new(&exact),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(topic.append(record).unwrap().offset(), offset as u64);
    }
    store.close().unwrap();
}

#[test]
fn a_partition_that_is_not_there_and_a_batch_over_several_are_refused() {
    let (_dir, store) = store();
    let topic = store
        .create_topic("quakes", TopicOptions::new().partitions(4))
        .unwrap();
    refused!(topic.partition(4), Error::PartitionUnknown { .. });
    refused!(
        topic.append(Record::new("").partition(4)),
        Error::PartitionUnknown { .. }
    );
    refused!(
        topic.follow(Start::Offset(0)),
        Error::PartitionNeeded { .. }
    );
    assert_eq!(ends(&topic), [0; 4]);
    let together = (0..3).map(|n| Record::new(n.to_string()).key("same"));
    assert_eq!(topic.append_batch(together).unwrap().iter().count(), 3);
    store.close().unwrap();
}

/// A topic ends for good, also across a reopen; another is deleted while it is in use, and one
/// made anew under its name shares nothing with it.
#[test]
fn a_finished_topic_takes_nothing_and_a_deleted_one_is_gone() {
    let (dir, store) = store();
    let topic = store.topic("quakes").unwrap();
    topic.append("one").unwrap();
    let mut tail = topic.follow(Start::Earliest).unwrap();
    topic.finish().unwrap();
    refused!(topic.append("two"), Error::Finished { .. });
    // A batch of nothing, too.
    let none: [Record<'_>; 0] = [];
    refused!(topic.append_batch(none.clone()), Error::Finished { .. });
    refused!(topic.append_batch_nowait(none), Error::Finished { .. });
    assert_eq!(tail.next().unwrap().unwrap().payload(), b"one");
    assert!(tail.next().unwrap().is_none(), "drained");
    drop(tail);
    store.close().unwrap();

    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = store.topic("quakes").unwrap();
    assert!(topic.is_finished());
    refused!(topic.append("two"), Error::Finished { .. });
    let mut cursor = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
    assert!(cursor.next().unwrap().is_some());
    let mut archive = topic.subscribe("archive").unwrap();
    store.delete_topic("quakes").unwrap();
    refused!(topic.append("two"), Error::TopicDeleted { .. });
    refused!(cursor.next(), Error::TopicDeleted { .. });
    refused!(
        archive.commit_to(&at("quakes", &store)),
        Error::TopicDeleted { .. }
    );
    drop(archive);
    let anew = store.topic("quakes").unwrap();
    assert_eq!(ends(&anew), [1], "only what `at` appended");
    assert_eq!(anew.subscribe("archive").unwrap().committed(0).unwrap(), 0);
    assert!(
        fs::read_dir(dir.path().join("data/trash"))
            .unwrap()
            .next()
            .is_none()
    );
    drop(cursor);
    store.close().unwrap();
}

/// The position of a record appended to a topic made for it.
fn at(name: &str, store: &Store) -> Position {
    store.topic(name).unwrap().append("x").unwrap()
}

#[test]
fn a_full_topic_refuses_and_stays_readable() {
    let (_dir, store) = store();
    let options = TopicOptions::new().max_total_bytes(10_000);
    let topic = store.create_topic("quakes", options).unwrap();
    let mut count = 0;
    let error = loop {
        match topic.append(Record::new(&[7; 100])) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    refused!(Err::<(), _>(error), Error::TopicFull { limit: 10_000, .. });
    assert_eq!((ends(&topic), count), (vec![10_000 / 136], 10_000 / 136));
    store.close().unwrap();
}

/// The disk fills up. What is refused was not written, reads go on, and the same handle appends
/// again once there is space.
#[test]
fn a_full_disk_refuses_and_the_same_handle_goes_on() {
    let sim = Sim::new(3);
    let options = StoreOptions::new()
        .storage(Arc::new(sim.clone()))
        .clock(Arc::new(SimClock::new(3, 1_000_000_000)))
        .inline();
    let store = Store::open_with("/data", options).unwrap();
    let topic = store.topic("quakes").unwrap();
    topic.append("one").unwrap();
    sim.set_capacity(Some(300 << 10));
    let mut count = 1;
    let error = loop {
        match topic.append(Record::new(&[7; 1000])) {
            Ok(at) => {
                assert_eq!(at.offset(), count);
                count += 1;
            }
            Err(error) => break error,
        }
        assert!(count < 1000);
    };
    refused!(Err::<(), _>(error), Error::StorageFull { .. });
    refused!(
        topic.append(Record::new(&[7; 1000])),
        Error::StorageFull { .. }
    );
    let read = topic.partition(0).unwrap().read(0..count).unwrap();
    assert_eq!(read.filter(Result::is_ok).count() as u64, count);
    topic.subscribe("archive").unwrap().commit().unwrap();
    sim.set_capacity(None);
    assert_eq!(
        topic.append(Record::new(&[7; 1000])).unwrap().offset(),
        count
    );
    store.close().unwrap();
}

/// Handles outlive the store's closing: each says so, and closing twice is no error.
#[test]
fn handles_of_a_closed_store_say_so() {
    let (dir, store) = store();
    let topic = store.topic("quakes").unwrap();
    topic.append("one").unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    let mut cursor = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
    let mut tail = topic.follow(Start::Latest).unwrap();
    let waiting = std::thread::spawn(move || tail.next().map(|record| record.is_some()));
    let second = store.clone();
    store.close().unwrap();
    second.clone().close().unwrap();
    refused!(topic.append("two"), Error::Closed);
    refused!(second.topic("other"), Error::Closed);
    refused!(cursor.next(), Error::Closed);
    refused!(archive.commit(), Error::Closed);
    refused!(waiting.join().unwrap(), Error::Closed);
    let reopened = Store::open(dir.path().join("data")).unwrap();
    assert_eq!(ends(&reopened.topic("quakes").unwrap()), [1]);
    reopened.close().unwrap();
}

/// D18: commits name the record to read next, never go back but by a reset, and never ahead of
/// what is there; a name has one live holder.
#[test]
fn commits_go_forward_and_one_holder_makes_them() {
    let (dir, store) = store();
    let topic = store.topic("quakes").unwrap();
    topic
        .append_batch((0..100).map(|n| Record::new(n.to_string())))
        .unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    refused!(topic.subscribe("archive"), Error::SubscriptionBusy { .. });
    let positions: Vec<Position> = topic
        .partition(0)
        .unwrap()
        .read(0..100)
        .unwrap()
        .map(|record| record.unwrap().position().next())
        .collect();
    for _ in 0..10 {
        archive.next().unwrap().unwrap();
    }
    archive.commit().unwrap();
    drop(archive);
    store.close().unwrap();

    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = store.topic("quakes").unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    assert_eq!(
        archive.next().unwrap().unwrap().offset(),
        10,
        "none twice, none left out"
    );
    for next in [60, 50] {
        archive.commit_to(&positions[next - 1]).unwrap();
    }
    assert_eq!(archive.committed(0).unwrap(), 60);
    refused!(
        archive.commit_to(&positions[99].next()),
        Error::BeyondEnd { end: 100, .. }
    );
    refused!(archive.reset(Start::Offset(101)), Error::BeyondEnd { .. });
    archive.reset(Start::Offset(5)).unwrap();
    assert_eq!(archive.committed(0).unwrap(), 5);
    archive.pause().unwrap();
    refused!(archive.next(), Error::SubscriptionPaused { .. });
    drop(archive);
    let mut archive = topic.subscribe("archive").unwrap();
    assert!(archive.is_paused());
    archive.resume().unwrap();
    assert_eq!(archive.next().unwrap().unwrap().offset(), 5);
    drop(archive);
    store.close().unwrap();
}

#[test]
fn bytes_that_are_no_text_say_from_where() {
    let (_dir, store) = store();
    let topic = store.topic("quakes").unwrap();
    topic.append(&b"ab\xffcd"[..]).unwrap();
    let mut cursor = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
    let record = cursor.next().unwrap().unwrap();
    refused!(record.text(), Error::NotText { valid_up_to: 2 });
    store.close().unwrap();
}

/// D26: a second owner in this process is told who the first one is. What stands in the lock file
/// of an owner that is gone never keeps the next one out.
#[test]
fn the_lock_decides_and_not_what_stands_in_its_file() {
    let (dir, store) = store();
    let path = dir.path().join("data");
    match Store::open(&path) {
        Err(Error::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    store.close().unwrap();
    let parent = std::os::unix::process::parent_id();
    for pid in [parent, std::process::id(), 1] {
        fs::write(path.join("LOCK"), format!("{pid}\n")).unwrap();
        Store::open(&path).unwrap().close().unwrap();
    }
}

/// D26 (b): a child started while the store is open does not inherit the lock.
#[test]
fn a_child_that_outlives_its_owner_keeps_nobody_out() {
    let (dir, store) = store();
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    store.close().unwrap();
    Store::open(dir.path().join("data"))
        .unwrap()
        .close()
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

/// D27: a link in the place of a folder or a segment is refused and not followed; nothing is
/// readable by others.
#[test]
fn links_below_the_root_are_refused_and_modes_are_private() {
    for inner in [
        "topics",
        "journal",
        "topics/quakes",
        "topics/quakes/000000-1",
    ] {
        let (dir, store) = store();
        store.topic("quakes").unwrap().append("one").unwrap();
        store.close().unwrap();
        let path = dir.path().join("data").join(inner);
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        let before = fingerprint(&elsewhere);
        let opened = Store::open(dir.path().join("data"));
        let refused = opened.and_then(|store| store.existing_topic("quakes")?.append("two"));
        refused!(refused, Error::Refused { .. });
        assert_eq!(fingerprint(&elsewhere), before, "{inner}");
    }
    let (dir, store) = store();
    store.topic("quakes").unwrap().append("one").unwrap();
    let segment = dir.path().join("data/topics/quakes/000000-1/00000000.seg");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (path, _) in fingerprint(dir.path()) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    store.close().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&segment, &elsewhere).unwrap();
    symlink(&elsewhere, &segment).unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    match store.topic("quakes").unwrap().append("two") {
        Err(Error::Failed { cause, .. }) => {
            refused!(Err::<(), _>((*cause).clone()), Error::Refused { .. })
        }
        other => panic!("{other:?}"),
    }
    store.topic("healthy").unwrap().append("one").unwrap();
}
