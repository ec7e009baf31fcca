//! Files that are older than what the store knows of them.

use std::fs;

use tidelog::sys::Backend;
use tidelog::{Error, Partition, Record, Result, Store};

use crate::common::copy;
use crate::kit::{
    BACKENDS, End, Place, damaged, end, fill, fingerprint, one, options, payload, scan, segments_of,
};

/// Puts an older copy of a log in its place.
fn put_back(place: &Place, copied: &std::path::Path) {
    let log = place.log("t");
    fs::remove_dir_all(&log).unwrap();
    copy(copied, &log).unwrap();
}

/// Appends the record of the first offset that was not given yet.
fn next(partition: &Partition) -> Result<()> {
    let at = partition.append(Record::new(payload(1000, 100)))?;
    assert!(at.offset() >= 1000, "{at} was given before");
    Ok(())
}

/// Whole segments are missing, and the log was refused for it. A plan says which offsets are lost, and changes
/// nothing; the repair does what it says, and brings the log back without them.
fn repaired(place: &Place, backend: Backend, old: u64) -> Store {
    let before = fingerprint(&place.root);
    let plan = tidelog::repair_plan(&place.root, &options(backend)).unwrap();
    assert_eq!(fingerprint(&place.root), before);
    assert!(plan.is_complete(), "{plan:?}");
    let done = tidelog::repair(&place.root, &options(backend)).unwrap();
    assert!(done.is_complete(), "{done:?}");
    for report in [plan, done] {
        let [log] = report.logs.as_slice() else {
            panic!("{report:?}")
        };
        assert_eq!(log.topic, "t");
        assert!(matches!(log.why, Error::Mismatch { .. }), "{:?}", log.why);
        let mut from = old;
        for lost in &log.lost {
            let Error::Corrupt { offset, next, .. } = lost else {
                panic!("{lost:?}")
            };
            assert_eq!(*offset, from, "{:?}", log.lost);
            from = *next;
        }
        assert_eq!(from, 1000, "{:?}", log.lost);
    }
    place.open(backend)
}

/// D16 and D17. A log was restored from an older copy, and a checkpoint, or the end that a clean
/// close had recorded, lay beyond its new end: what came next was handed out under offsets that
/// the reader had already passed, and was never delivered. Lost offsets are told, and not given
/// again; the subscriber gets everything new. Where whole segments are missing, the log is refused
/// and everything kept; a repair tells what is lost, and then all of that is so, too.
#[test]
fn offsets_lost_with_a_restored_copy_are_told_and_never_given_again() {
    for backend in BACKENDS {
        for how in [End::Close, End::Kill] {
            // A copy of the same segment, or of one before the last.
            for old in [900, 100] {
                restored(backend, how, old);
            }
        }
    }
}

/// A log of a thousand records, all of them read and committed, of which only the first ones are put back; and
/// whether segments are missing now.
fn filled(backend: Backend, how: End, old: u64) -> (Place, bool) {
    let place = Place::new();
    let store = place.open(backend);
    store.create_topic("t", segments_of(64 << 10)).unwrap();
    store.topic("other").unwrap().append("fine").unwrap();
    fill(&one(&store, "t"), 0..old, 100);
    let copied = tempfile::tempdir().unwrap();
    let copied = copied.path().join("log");
    copy(&place.log("t"), &copied).unwrap();
    fill(&one(&store, "t"), old..1000, 100);
    let topic = store.existing_topic("t").unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    while archive.next().unwrap().is_some() {}
    archive.commit().unwrap();
    drop((archive, topic));
    let place = end(place, store, how);
    let told = place.segments("t").len();
    put_back(&place, &copied);
    let short = place.segments("t").len() < told;
    (place, short)
}

fn restored(backend: Backend, how: End, old: u64) {
    let (place, short) = filled(backend, how, old);
    let before = fingerprint(&place.log("t"));
    let mut store = place.open(backend);
    match next(&one(&store, "t")) {
        Ok(()) => {}
        Err(Error::Failed { cause, .. }) => {
            assert!(matches!(*cause, Error::Mismatch { .. }), "{cause:?}");
            assert!(short, "{how:?} {old}: {cause:?}");
            // Nothing is deleted, and nobody else notices.
            assert_eq!(fingerprint(&place.log("t")), before);
            one(&store, "other").append("fine").unwrap();
            store.close().unwrap();
            store = repaired(&place, backend, old);
            next(&one(&store, "t")).unwrap();
        }
        Err(other) => panic!("{how:?} {old}: {other:?}"),
    }
    let partition = one(&store, "t");
    fill(&partition, 1001..1200, 100);
    let read = scan(&partition);
    let lost: u64 = damaged(&read).iter().map(|(from, to)| to - from).sum();
    let there = read.iter().filter(|record| record.is_ok()).count() as u64;
    assert_eq!((lost, there), (1000 - old, 200 + old), "{how:?}");
    let topic = store.existing_topic("t").unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    let mut delivered = 0;
    while let Some(record) = archive.next().unwrap() {
        assert_eq!(record.payload(), payload(record.offset(), 100));
        delivered += 1;
    }
    assert_eq!(delivered, 200, "{how:?}");
    drop((archive, topic, partition));
    store.close().unwrap();
}
