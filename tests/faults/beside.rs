//! Verifying: beside an owner that writes, and without any right to write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidelog::{Record, Start, StoreOptions};

use crate::faulty::Faulty;
use crate::kit::{
    BACKENDS, End, Place, end, fill, fingerprint, one, options, payload, segments_of,
};

/// D16 in part. Verifying read the end of a log, and further on what its owner had written meanwhile,
/// and called what lay between damaged. An owner appends, alone and in batches, rolls, commits, and
/// makes and deletes topics, while the store is verified again and again: nothing is ever damaged.
#[test]
fn verifying_beside_a_live_owner_finds_no_damage() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        fill(&one(&store, "t"), 0..10, 100);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let topic = store.existing_topic("t").unwrap();
                let mut archive = topic.subscribe("archive").unwrap();
                let mut number = 10;
                while !stop.load(Ordering::Relaxed) {
                    topic.append(Record::new(payload(number, 300))).unwrap();
                    fill(&one(&store, "t"), number + 1..number + 40, 200);
                    number += 40;
                    archive.reset(Start::Latest).unwrap();
                    if number % 400 == 10 {
                        store.topic("passing").unwrap().append("one").unwrap();
                        store.delete_topic("passing").unwrap();
                    }
                }
            });
            let begun = Instant::now();
            let mut ends = Vec::new();
            while begun.elapsed() < Duration::from_secs(2) {
                let report = tidelog::verify(&place.root, &options(backend));
                if !report.as_ref().is_ok_and(|report| report.is_sound()) {
                    stop.store(true, Ordering::Relaxed);
                }
                let report = report.unwrap();
                assert!(report.is_sound(), "{backend:?} {report:?}");
                let log = report.logs.iter().find(|log| log.topic == "t").unwrap();
                ends.push(log.end);
            }
            stop.store(true, Ordering::Relaxed);
            assert!(ends.is_sorted() && ends.len() > 2, "{ends:?}");
        });
        store.close().unwrap();
    }
}

/// A copy that may only be read can be verified: no file is opened for writing, and no byte changes.
#[test]
fn verifying_opens_no_file_for_writing() {
    for backend in BACKENDS {
        for how in [End::Close, End::Kill] {
            let place = Place::new();
            let store = place.open(backend);
            store.create_topic("t", segments_of(64 << 10)).unwrap();
            fill(&one(&store, "t"), 0..2000, 100);
            let place = end(place, store, how);
            let before = fingerprint(&place.root);
            let disk = Faulty::new(backend);
            let storage = Arc::new(disk.clone());
            let report =
                tidelog::verify(&place.root, &StoreOptions::new().storage(storage)).unwrap();
            assert!(report.is_sound());
            assert_eq!(report.logs[0].records, 2000);
            assert_eq!(disk.opened_for_writing(), 0);
            assert_eq!(fingerprint(&place.root), before);
        }
    }
}
