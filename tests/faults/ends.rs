//! Ends that were recorded: which of them still hold.

use crate::kit::{BACKENDS, Place, fill, one, payload, payloads, segments_of};

/// An owner is killed with two topics. The next one uses one of them and closes; the end of the
/// other that had been recorded before was then taken at its word, or no store was ever closed
/// again as long as one topic stayed unused. The third owner finds the store closed, walks no
/// record of the first topic, and recovers the second.
#[test]
fn a_topic_that_nobody_opened_since_a_kill_is_recovered_though_the_store_was_closed() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        for topic in ["used", "left"] {
            store.create_topic(topic, segments_of(1 << 20)).unwrap();
            fill(&one(&store, topic), 0..1000, 100);
        }
        // Both ends are recorded.
        store.close().unwrap();
        let store = place.open(backend);
        for topic in ["used", "left"] {
            fill(&one(&store, topic), 1000..3000, 100);
        }
        let place = place.killed();

        let store = place.open(backend);
        assert!(!store.health().was_closed);
        fill(&one(&store, "used"), 3000..3001, 100);
        store.close().unwrap();
        let expected: Vec<_> = (0..3001).map(|number| payload(number, 100)).collect();

        for (round, read_of_left) in [(0, 2000 * 136), (1, 0)] {
            let store = place.open(backend);
            assert!(store.health().was_closed, "{round}");
            let reads = |topic: &str| {
                let before = store.io().bytes_read.get();
                let end = one(&store, topic).end().unwrap();
                (end, store.io().bytes_read.get() - before)
            };
            let (used, left) = (reads("used"), reads("left"));
            assert_eq!((used.0, left.0), (3001, 3000), "{round}");
            // Headers only.
            assert!(used.1 <= 3 * 2048, "{round}: {}", used.1);
            assert!(left.1 >= read_of_left, "{round}: {}", left.1);
            assert!(
                read_of_left > 0 || left.1 <= 3 * 2048,
                "{round}: {}",
                left.1
            );
            assert_eq!(payloads(&one(&store, "used")), expected);
            assert_eq!(payloads(&one(&store, "left")), expected[..3000]);
            store.close().unwrap();
        }
    }
}

/// A topic is recovered after a kill, and its owner is killed as well. The end that was found is
/// known: what was walked once is not walked again.
#[test]
fn what_was_recovered_once_is_not_walked_again_after_another_kill() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        store.create_topic("t", segments_of(1 << 20)).unwrap();
        fill(&one(&store, "t"), 0..5000, 100);
        let mut place = place.killed();
        let mut reads = Vec::new();
        for _ in 0..2 {
            let store = place.open(backend);
            let before = store.io().bytes_read.get();
            assert_eq!(one(&store, "t").end().unwrap(), 5000);
            reads.push(store.io().bytes_read.get() - before);
            place = place.killed();
        }
        assert!(reads[0] >= reads[1] + 5000 * 130, "{reads:?}");
        let store = place.open(backend);
        fill(&one(&store, "t"), 5000..5010, 100);
        let expected: Vec<_> = (0..5010).map(|number| payload(number, 100)).collect();
        assert_eq!(payloads(&one(&store, "t")), expected);
        store.close().unwrap();
    }
}
