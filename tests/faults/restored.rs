//! Files that are older than what the store knows of them.

use std::fs;

use tidelog::{Error, Record};

use crate::common::copy;
use crate::kit::{
    BACKENDS, End, Place, damaged, end, fill, fingerprint, one, payload, scan, segments_of,
};

/// Puts an older copy of a log in its place.
fn put_back(place: &Place, copied: &std::path::Path) {
    let log = place.log("t");
    fs::remove_dir_all(&log).unwrap();
    copy(copied, &log).unwrap();
}

/// D16 and D17. A log was restored from an older copy, and a checkpoint, or the end that a clean
/// close had recorded, lay beyond its new end: what came next was handed out under offsets that
/// the reader had already passed, and was never delivered. Lost offsets are told, and not given
/// again; the subscriber gets everything new. Where whole segments are missing, the log is refused
/// and everything kept.
#[test]
fn offsets_lost_with_a_restored_copy_are_told_and_never_given_again() {
    for backend in BACKENDS {
        for how in [End::Close, End::Kill] {
            // A copy of the same segment, or of one before the last.
            for old in [900, 100] {
                let place = Place::new();
                let store = place.open(backend);
                store.create_topic("t", segments_of(64 << 10)).unwrap();
                store.topic("other").unwrap().append("fine").unwrap();
                fill(&one(&store, "t"), 0..old, 100);
                let copied = tempfile::tempdir().unwrap();
                let copied = copied.path().join("log");
                copy(&place.log("t"), &copied).unwrap();
                fill(&one(&store, "t"), old..1000, 100);
                let mut archive = store
                    .existing_topic("t")
                    .unwrap()
                    .subscribe("archive")
                    .unwrap();
                while archive.next().unwrap().is_some() {}
                archive.commit().unwrap();
                drop(archive);
                let place = end(place, store, how);
                let told = place.segments("t").len();
                put_back(&place, &copied);
                let short = place.segments("t").len() < told;
                let before = fingerprint(&place.log("t"));

                let store = place.open(backend);
                let partition = one(&store, "t");
                match partition.append(Record::new(payload(1000, 100))) {
                    Ok(at) => assert!(at.offset() >= 1000, "{at} was given before"),
                    Err(Error::Failed { cause, .. }) => {
                        assert!(matches!(*cause, Error::Mismatch { .. }), "{cause:?}");
                        assert!(short, "{how:?} {old}: {cause:?}");
                        // Nothing is deleted, and nobody else notices.
                        assert_eq!(fingerprint(&place.log("t")), before);
                        one(&store, "other").append("fine").unwrap();
                        drop(partition);
                        store.close().unwrap();
                        continue;
                    }
                    Err(other) => panic!("{how:?} {old}: {other:?}"),
                }
                fill(&partition, 1001..1200, 100);
                let read = scan(&partition);
                let lost: u64 = damaged(&read).iter().map(|(from, to)| to - from).sum();
                let there = read.iter().filter(|record| record.is_ok()).count() as u64;
                assert_eq!((lost, there), (1000 - old, 200 + old), "{how:?}");
                let mut archive = store
                    .existing_topic("t")
                    .unwrap()
                    .subscribe("archive")
                    .unwrap();
                let mut delivered = 0;
                while let Some(record) = archive.next().unwrap() {
                    assert_eq!(record.payload(), payload(record.offset(), 100));
                    delivered += 1;
                }
                assert_eq!(delivered, 200, "{how:?}");
                drop((archive, partition));
                store.close().unwrap();
            }
        }
    }
}
