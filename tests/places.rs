//! Where records go, what they are called there, and who comes first of those that lie side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidelog::{Error, Record, Start, Store, Topic, TopicOptions};

/// A topic of three partitions in a folder of its own.
fn three() -> (tempfile::TempDir, Store, Topic) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = store
        .create_topic("t", TopicOptions::new().partitions(3))
        .unwrap();
    (dir, store, topic)
}

/// The event ids of all records of a topic, by partition and offset.
fn ids(topic: &Topic) -> BTreeMap<(u32, u64), Vec<u8>> {
    let mut found = BTreeMap::new();
    for number in 0..topic.partitions() {
        for record in topic.partition(number).unwrap().read(0..u64::MAX).unwrap() {
            let record = record.unwrap();
            found.insert((number, record.offset()), record.event_id().to_vec());
        }
    }
    found
}

/// The same of a store that is only read.
fn ids_below(root: &Path) -> BTreeMap<(u32, u64), Vec<u8>> {
    let store = Store::open_read_only(root).unwrap();
    let found = ids(&store.topic("t").unwrap());
    store.close().unwrap();
    found
}

/// A producer gives no event ids, and a consumer tells by them what it has had before: each record has one of its
/// own. It is the same for the owner, for who only reads, after the store was opened again, and in a copy; never
/// that of another place, of a topic made anew under the name, or of another store. One that is given is left as
/// it is.
#[test]
fn a_record_without_an_event_id_has_one_by_its_place() {
    let (dir, store, topic) = three();
    let root = dir.path().join("data");
    for number in 0..9 {
        topic.append(number.to_string()).unwrap();
    }
    let before = ids(&topic);
    assert_eq!(before.len(), 9);
    let mut all: BTreeSet<_> = before.values().cloned().collect();
    assert_eq!(all.len(), 9, "{before:?}");
    let mut tail = topic.follow(Start::Earliest).unwrap();
    while let Some(record) = tail.try_next().unwrap() {
        let place = (record.partition(), record.offset());
        assert_eq!(record.event_id(), before[&place].as_slice());
        assert_eq!(record.given_event_id(), None);
    }
    assert_eq!(ids_below(&root), before, "beside the owner");
    store.backup(dir.path().join("copy")).unwrap();
    drop((tail, topic));
    store.close().unwrap();
    assert_eq!(ids_below(&root), before, "without an owner");
    assert_eq!(ids_below(&dir.path().join("copy")), before, "in a copy");

    let store = Store::open(&root).unwrap();
    let topic = store.existing_topic("t").unwrap();
    assert_eq!(ids(&topic), before, "opened again");
    drop(topic);
    store.delete_topic("t").unwrap();
    let (_other_dir, other, elsewhere) = three();
    let anew = store.create_topic("t", elsewhere.options()).unwrap();
    for topic in [&anew, &elsewhere] {
        topic.append(Record::new("first").partition(0)).unwrap();
        let given = Record::new("second").partition(0).event_id("mine");
        topic.append(given).unwrap();
        let found = ids(topic);
        assert_eq!(found[&(0, 1)], b"mine");
        assert!(all.insert(found[&(0, 0)].clone()), "{found:?} {all:?}");
    }
    drop((anew, elsewhere));
    store.close().unwrap();
    other.close().unwrap();
}

/// Sensors send by key, a test sends to a partition whatever the key, and a bulk of lines has neither: the
/// partition that is named wins, then the key's; the others go round, a record at a time, or a batch, which stays
/// together.
#[test]
fn a_named_partition_wins_over_a_key_and_the_others_take_turns() {
    let (_dir, store, topic) = three();
    let went = |record: Record<'_>| topic.append(record).unwrap().partition();
    for key in ["hv", "nc", "us", "ci", "ak"] {
        let home = topic.partition_of(key);
        assert_eq!(went(Record::new("").key(key)), home);
        for named in 0..3 {
            assert_eq!(went(Record::new("").key(key).partition(named)), named);
        }
        // In a batch, too, beside others.
        let named = (home + 1) % 3;
        let batch = [
            Record::new("").key(key),
            Record::new("").key(key).partition(named),
        ];
        let at = topic.append_batch(batch).unwrap();
        let at: Vec<u32> = at.iter().map(|at| at.partition()).collect();
        assert_eq!(at, [home, named]);
    }
    let turns: Vec<u32> = (0..9).map(|_| went(Record::new(""))).collect();
    for window in turns.windows(3) {
        let three: BTreeSet<_> = window.iter().collect();
        assert_eq!(three.len(), 3, "{turns:?}");
    }
    let mut homes = Vec::new();
    for _ in 0..3 {
        let at = topic.append_batch(["a", "b", "c", "d", "e"]).unwrap();
        let at: BTreeSet<u32> = at.iter().map(|at| at.partition()).collect();
        assert_eq!(at.len(), 1, "a batch without keys is not spread");
        homes.extend(at);
    }
    homes.sort_unstable();
    assert_eq!(homes, [0, 1, 2]);
    store.close().unwrap();
}

/// One partition has far more than the others. Whoever reads all of them is given each one's records in their
/// order, and those of the short ones as soon as those of the long one, not behind all of them.
#[test]
fn a_long_partition_does_not_keep_the_others_waiting() {
    let (_dir, store, topic) = three();
    for (number, count) in [(0, 1000), (1, 50), (2, 50)] {
        let records = (0..count).map(|n: u64| Record::new(n.to_string()).partition(number));
        topic.append_batch(records).unwrap();
    }
    let mut tail = topic.follow(Start::Earliest).unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    let mut seen = [[0_u64; 3]; 2];
    for step in 0..1100 {
        let records = [tail.try_next().unwrap(), archive.next().unwrap()];
        for (record, seen) in records.into_iter().zip(&mut seen) {
            let record = record.unwrap();
            let seen = &mut seen[record.partition() as usize];
            assert_eq!(record.offset(), *seen);
            *seen += 1;
        }
        if step < 150 {
            let behind = step / 3;
            assert!(
                seen.iter().flatten().all(|seen| *seen >= behind),
                "{seen:?}"
            );
        }
    }
    assert_eq!(seen, [[1000, 50, 50]; 2]);
    drop((tail, archive, topic));
    store.close().unwrap();
}

/// An offset is one of a partition: whoever names one for a topic of several is told to name the partition.
#[test]
fn a_start_by_offset_needs_one_partition() {
    let (_dir, store, topic) = three();
    topic.append(Record::new("").partition(1)).unwrap();
    let needed = |error: Error| matches!(error, Error::PartitionNeeded { .. });
    assert!(needed(topic.follow(Start::Offset(0)).unwrap_err()));
    let begun = topic.subscription("s").start(Start::Offset(0)).open();
    assert!(needed(begun.unwrap_err()));
    let mut archive = topic.subscribe("archive").unwrap();
    assert!(needed(archive.reset(Start::Offset(0)).unwrap_err()));
    let mut one = topic
        .partition(1)
        .unwrap()
        .follow(Start::Offset(0))
        .unwrap();
    assert_eq!(one.try_next().unwrap().unwrap().offset(), 0);
    drop((one, archive, topic));
    store.close().unwrap();
}

/// A program reads on and on, with its subscription and beside it, and never commits: the checkpoint stays where it
/// was, and the next program is given the same records.
#[test]
fn reading_moves_no_checkpoint() {
    let (dir, store, topic) = three();
    let batch = (0..100).map(|n: u64| Record::new(n.to_string()).partition(0));
    topic.append_batch(batch).unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    for _ in 0..10 {
        archive.next().unwrap().unwrap();
    }
    archive.commit().unwrap();
    let partition = topic.partition(0).unwrap();
    while archive.next().unwrap().is_some() {}
    let mut cursor = partition.cursor(Start::Earliest).unwrap();
    while cursor.next().unwrap().is_some() {}
    assert_eq!(partition.read(0..100).unwrap().count(), 100);
    let mut tail = topic.follow(Start::Earliest).unwrap();
    while tail.try_next().unwrap().is_some() {}
    assert_eq!(topic.subscriptions().unwrap()[0].committed, [10, 0, 0]);
    assert_eq!(archive.committed(0).unwrap(), 10);
    drop((archive, cursor, partition, tail, topic));
    store.close().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = store.existing_topic("t").unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    assert_eq!(archive.next().unwrap().unwrap().offset(), 10);
    drop((archive, topic));
    store.close().unwrap();
}
