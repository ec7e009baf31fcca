//! Records that outlive their cursor.

use std::fs;

use tidelog::{OwnedRecord, Record, Start, Store, TopicOptions};

const LARGE: usize = 200_000;

fn payload(number: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| number ^ (at % 251) as u8).collect()
}

/// An image server hands payloads of 200 kB on. They are the bytes of the mapping, not copies; small ones
/// are copied, so that they pin no segment.
#[test]
fn a_large_payload_is_kept_where_it_lies_and_a_small_one_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = store.topic("images").unwrap();
    topic.append(payload(1, LARGE)).unwrap();
    topic.append(payload(2, 100)).unwrap();
    let mut cursor = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
    let lent = cursor.next().unwrap().unwrap();
    let (place, owned) = (lent.payload().as_ptr(), lent.to_owned());
    assert_eq!(owned.payload().as_ptr(), place);
    assert_eq!(owned.payload_bytes().as_ptr(), place);
    assert_eq!(owned.payload(), payload(1, LARGE));
    let lent = cursor.next().unwrap().unwrap();
    let (place, owned) = (lent.payload().as_ptr(), lent.to_owned());
    assert_ne!(owned.payload().as_ptr(), place);
    assert_eq!(owned.payload(), payload(2, 100));
}

/// Owned records of a hundred segments are held while their topic is deleted, the store closed and the
/// folder removed: they can be read as before, and hold no descriptor.
#[test]
fn kept_payloads_outlive_topic_and_store_and_hold_no_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    let store = Store::open(&root).unwrap();
    let segments = TopicOptions::new()
        .first_segment_bytes(LARGE as u64)
        .max_segment_bytes(LARGE as u64);
    let topic = store.create_topic("images", segments).unwrap();
    let held: Vec<OwnedRecord> = (0..100)
        .map(|number| {
            let at = topic.append(Record::new(payload(number, LARGE))).unwrap();
            let mut record = topic
                .partition(0)
                .unwrap()
                .read(at.offset()..at.offset() + 1);
            record.as_mut().unwrap().next().unwrap().unwrap()
        })
        .collect();
    drop(topic);
    store.delete_topic("images").unwrap();
    store.close().unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    assert_eq!(open.filter(|path| path.starts_with(&root)).count(), 0);
    fs::remove_dir_all(&root).unwrap();
    for (number, record) in (0..).zip(&held) {
        assert_eq!(record.payload(), payload(number, LARGE));
    }
    let maps = || fs::read_to_string("/proc/self/maps").unwrap();
    let root = root.to_str().unwrap();
    assert_eq!(maps().matches(root).count(), 100);
    drop(held);
    assert_eq!(maps().matches(root).count(), 0);
}
