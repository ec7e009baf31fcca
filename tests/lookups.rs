//! Looking up after crashes, restored files, and with thousands of topics.

mod common;

use std::fs;
use std::path::Path;

use common::copy;
use tidelog::{Error, OwnedRecord, Record, Start, Store, Timestamp, TopicOptions};

fn small() -> TopicOptions {
    TopicOptions::new()
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(64 << 10)
}

/// Compares every look-up, by offset and by time, with a plain scan.
fn lookups_agree_with_a_scan(store: &Store, count: u64) {
    let partition = store
        .existing_topic("quakes")
        .unwrap()
        .partition(0)
        .unwrap();
    let all: Vec<OwnedRecord> = partition
        .read(0..u64::MAX)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(all.len() as u64, count);
    for (offset, record) in (0..).zip(&all) {
        let found = partition
            .read(offset..offset + 1)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(&found, record);
        let first = all
            .iter()
            .position(|other| other.timestamp() >= record.timestamp());
        let time = record.timestamp();
        assert_eq!(
            partition.find(time).unwrap(),
            first.unwrap() as u64,
            "{time:?}"
        );
    }
}

/// D12: a thousand records, a kill, a reopen, three times over, with timestamps that jump about:
/// each time every look-up finds what a scan finds.
#[test]
fn lookups_agree_with_a_scan_after_each_of_several_kills() {
    let dir = tempfile::tempdir().unwrap();
    let mut path = dir.path().join("0");
    for life in 1..=3_u64 {
        let store = Store::open(&path).unwrap();
        let topic = store.create_topic("quakes", small()).unwrap();
        for batch in 0..100_u64 {
            let records = (0..10_u64).map(|n| {
                let time = (life * 7919 + batch * 31 + n * 104_729) % 5000;
                let time = i64::try_from(time).unwrap();
                let payload = "x".repeat(usize::try_from((batch * 13 + n) % 200).unwrap());
                Record::new(payload).at(Timestamp::from_millis(time))
            });
            topic.append_batch(records).unwrap();
        }
        let killed = dir.path().join(life.to_string());
        copy(&path, &killed).unwrap();
        store.close().unwrap();
        path = killed;
        let store = Store::open(&path).unwrap();
        assert!(!store.health().was_closed);
        lookups_agree_with_a_scan(&store, life * 1000);
        store.close().unwrap();
    }
}

/// D16: the segments are replaced by yesterday's copy while the journal is today's. Nothing is
/// deleted, it is said, and no offset that was given goes to another record.
#[test]
fn older_segments_under_a_newer_journal_are_told_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let append = |count: u64| {
        let store = Store::open(&path).unwrap();
        let topic = store.create_topic("quakes", small()).unwrap();
        for n in 0..count {
            topic.append(Record::new(n.to_string())).unwrap();
        }
        store.close().unwrap();
    };
    append(900);
    copy(&path.join("topics"), &dir.path().join("yesterday")).unwrap();
    append(300);
    fs::remove_dir_all(path.join("topics")).unwrap();
    copy(&dir.path().join("yesterday"), &path.join("topics")).unwrap();
    let names = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let log = path.join("topics/quakes/000000-1");
    let before = names(&log);

    let store = Store::open(&path).unwrap();
    let topic = store.topic("quakes").unwrap();
    match topic.append("today") {
        Err(Error::Failed { cause, .. }) => {
            assert!(matches!(*cause, Error::Mismatch { .. }), "{cause}");
        }
        Ok(at) => {
            assert!(at.offset() >= 1200, "{at} was another record's");
            let lost = topic.partition(0).unwrap().read(900..1201).unwrap();
            let lost: Vec<_> = lost.filter_map(Result::err).collect();
            let told = matches!(
                lost[..],
                [Error::Corrupt {
                    offset: 900,
                    next: 1200,
                    ..
                }]
            );
            assert!(told, "the loss is told to who reads: {lost:?}");
        }
        Err(other) => panic!("{other:?}"),
    }
    let after = names(&log);
    assert!(
        before.iter().all(|name| after.contains(name)),
        "{before:?} {after:?}"
    );
}

/// D28, as far as it goes before there is a budget of descriptors: opening a store of hundreds of
/// topics opens none of their files, and each can be read.
#[test]
fn opening_many_topics_opens_no_file_of_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let count = 300;
    let store = Store::open(&path).unwrap();
    for n in 0..count {
        store.create_topic(&format!("t{n}"), small()).unwrap();
    }
    for n in 0..count {
        store
            .topic(&format!("t{n}"))
            .unwrap()
            .append(Record::new(n.to_string()))
            .unwrap();
    }
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    let opens = store.io().opens.get();
    assert!(
        opens <= 10,
        "{opens} files, all of them the journal's, and the lock"
    );
    assert_eq!(store.topics().len(), count);
    for n in 0..count {
        let partition = store.topic(&format!("t{n}")).unwrap().partition(0).unwrap();
        let mut cursor = partition.cursor(Start::Earliest).unwrap();
        assert_eq!(
            cursor.next().unwrap().unwrap().payload(),
            n.to_string().as_bytes()
        );
    }
    store.close().unwrap();
}
