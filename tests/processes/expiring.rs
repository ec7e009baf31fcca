//! D14: what an owner lets go of by itself, beside those who read it.

use std::time::{Duration, Instant};

use tidelog::{Error, Retention, Start, Store};

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
