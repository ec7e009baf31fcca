//! D14: what an owner lets go of by itself, beside those who read it.

use std::time::{Duration, Instant};

use tidelog::{Error, Retention, Start, Store, StoreOptions};

use crate::kit::{append, opened, reader, reads, small};

/// A topic expires to its last record while one reader has read all of it and waits, and another one
/// stands in the middle. The first one gets what comes next; the other one reads the segment that it holds
/// to its end and is told what has gone; both do so as often as it happens.
#[test]
fn readers_of_a_topic_that_expires_go_on_where_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let owner = Store::open(dir.path().join("store")).unwrap();
    let short = small().retention(Retention::age(Duration::from_millis(200)));
    let quakes = owner.create_topic("quakes", short).unwrap();
    append(&quakes, 100, 100);
    let store = reader(&dir.path().join("store"));
    let topic = opened(&store, "quakes");
    let mut waits = topic.follow(Start::Latest).unwrap();
    let mut from = 100;
    for _ in 0..5 {
        let mut stands = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
        let first = stands.next().unwrap().map(|record| record.offset());
        let begin = Instant::now();
        while quakes.partition(0).unwrap().first().unwrap() < from {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "it never expires"
            );
            assert!(
                waits
                    .next_timeout(Duration::from_millis(20))
                    .unwrap()
                    .is_none()
            );
        }
        append(&quakes, 100, 100);
        reads(&mut waits, from, from + 100);
        let mut next = first.map_or(from, |first| first + 1);
        loop {
            match stands.next() {
                Ok(Some(record)) => next = record.offset() + 1,
                Ok(None) => break assert_eq!(next, from + 100),
                Err(Error::OffsetExpired { asked, first, .. }) => {
                    assert!(asked == next && first > next, "{asked} {next} {first}");
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        from += 100;
    }
    drop((quakes, waits, topic, store));
    owner.close().unwrap();
}

/// Beside a live owner a reader is told what would go, as it grows older, without stopping anybody: nothing
/// at first, then exactly what the owner lets go of, the last segment included.
#[test]
fn a_reader_audits_beside_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions::new().retention_interval(Duration::from_secs(3600));
    let owner = Store::open_with(dir.path().join("store"), options).unwrap();
    let days = small().retention(Retention::days(1));
    let quakes = owner.create_topic("quakes", days).unwrap();
    append(&quakes, 5000, 100);
    let store = reader(&dir.path().join("store"));
    let topic = opened(&store, "quakes");
    let young = topic.audit().unwrap();
    assert_eq!(young.partitions[0].records(), 0, "{young:?}");
    assert_eq!(young.partitions[0].first, Some(0));
    append(&quakes, 5000, 100);
    let few = Retention::bytes(100_000).keep_required(1 << 30);
    let kept = quakes.options().retention(few);
    let mut must = quakes.subscription("must").required().open().unwrap();
    for _ in 0..6000 {
        must.next().unwrap().unwrap();
    }
    must.commit().unwrap();
    drop(owner.create_topic("quakes", kept).unwrap());
    let begin = Instant::now();
    let mut audits = Vec::new();
    while quakes.partition(0).unwrap().first().unwrap() < 5000 {
        audits.push(store.audit().unwrap());
        assert!(begin.elapsed() < Duration::from_secs(60), "it never goes");
    }
    let first = quakes.partition(0).unwrap().first().unwrap();
    assert!((5000..=6000).contains(&first), "{first}");
    for audit in audits {
        let told: Vec<_> = audit.partitions.iter().map(|it| &*it.topic).collect();
        assert!(told.contains(&"quakes"));
        let quakes = audit.partitions.iter().find(|it| it.topic == "quakes");
        assert!(quakes.is_some_and(|it| it.failed.is_none() && it.first.unwrap() <= first));
    }
    let refused = topic.apply_retention().unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
    drop((topic, store, must, quakes));
    owner.close().unwrap();
}
