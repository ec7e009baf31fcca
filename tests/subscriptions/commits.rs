//! Row D18: commits that come in another order than they were meant.

use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use tidelog::{Position, Record, Store};

/// Records 0 to 9 are read, and committed; the next owner is given 10 first. Then two threads commit 50
/// and 60 through one handle, in either order: 60 stays, also for the next owner, who is given 60 first.
#[test]
fn of_two_commits_the_greater_one_stays_in_either_order() {
    for order in [[50, 60], [60, 50]] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        let store = Store::open(&root).unwrap();
        let topic = store.topic("quakes").unwrap();
        let records = (0..100).map(|n: u32| Record::new(n.to_string()));
        let positions: Vec<Position> = topic.append_batch(records).unwrap().iter().collect();
        let mut archive = topic.subscribe("archive").unwrap();
        (0..10).for_each(|_| assert!(archive.next().unwrap().is_some()));
        archive.commit().unwrap();
        drop((archive, topic));
        store.close().unwrap();

        let store = Store::open(&root).unwrap();
        let topic = store.topic("quakes").unwrap();
        let mut archive = topic.subscribe("archive").unwrap();
        assert_eq!(archive.next().unwrap().unwrap().offset(), 10);
        let archive = Arc::new(Mutex::new(archive));
        let turn = Arc::new(Barrier::new(2));
        let committer = |next: usize, first: bool| {
            let (archive, turn) = (Arc::clone(&archive), Arc::clone(&turn));
            let next = positions[next - 1].next();
            thread::spawn(move || {
                if !first {
                    turn.wait();
                }
                archive.lock().unwrap().commit_to(&next).unwrap();
                if first {
                    turn.wait();
                }
            })
        };
        let both = [committer(order[0], true), committer(order[1], false)];
        for committer in both {
            committer.join().unwrap();
        }
        assert_eq!(archive.lock().unwrap().committed(0).unwrap(), 60);
        drop((archive, topic));
        store.close().unwrap();

        let store = Store::open(&root).unwrap();
        let topic = store.topic("quakes").unwrap();
        let mut archive = topic.subscribe("archive").unwrap();
        assert_eq!(archive.next().unwrap().unwrap().offset(), 60);
        drop((archive, topic));
        store.close().unwrap();
    }
}
