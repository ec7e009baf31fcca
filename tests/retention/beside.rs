//! Readers of the owner's process, and of another one, beside what is removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tidelog::{Error, Partition, Retention, Start, Store, Timestamp, Topic};

use crate::kit::{fill, one, small};

/// Everything a reader can ask for; what has gone may only be called that.
fn ask(partition: &Partition, topic: &Topic) -> Result<u64, Error> {
    let first = partition.first()?;
    let mut seen = 0;
    for start in [
        Start::Earliest,
        Start::Offset(first),
        Start::At(Timestamp::from_nanos(1)),
    ] {
        let mut cursor = partition.cursor(start)?;
        while cursor.next()?.is_some() {
            seen += 1;
        }
    }
    partition.find(Timestamp::from_nanos(1))?;
    for record in partition.read(first..u64::MAX)? {
        record?;
    }
    for info in topic.subscriptions()? {
        assert_eq!(info.failed, None, "{info:?}");
    }
    Ok(seen)
}

/// Readers in the owner's process and in one that only reads look for offsets and times, read, and measure
/// lag, while segments go under them 200 times. Whatever they meet is a record, or the news that
/// it has expired, and never a file that is not there.
#[test]
fn readers_meet_records_or_are_told_that_they_have_expired() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let store = Store::open(&path).unwrap();
    let topic = store
        .create_topic("quakes", small(Retention::forever()))
        .unwrap();
    fill(&topic, 40);
    drop(topic.subscribe("behind").unwrap());
    let reading = Store::open_read_only(&path).unwrap();
    let others = [store.clone(), store.clone(), reading.clone()];
    let (over, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let readers = others.map(|store| {
        let (over, seen) = (Arc::clone(&over), Arc::clone(&seen));
        thread::spawn(move || {
            let topic = store.existing_topic("quakes").unwrap();
            let partition = one(&topic);
            while !over.load(Ordering::Acquire) {
                match ask(&partition, &topic) {
                    Ok(records) => drop(seen.fetch_add(records, Ordering::Relaxed)),
                    Err(Error::OffsetExpired { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        })
    });
    for _ in 0..200 {
        fill(&topic, 15);
        one(&topic)
            .truncate_before(one(&topic).end().unwrap() - 10)
            .unwrap();
    }
    over.store(true, Ordering::Release);
    for reader in readers {
        reader.join().unwrap();
    }
    assert!(one(&topic).first().unwrap() > 2900 && seen.load(Ordering::Relaxed) > 0);
    drop(reading);
    store.close().unwrap();
}
