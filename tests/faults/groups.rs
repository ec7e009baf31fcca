//! D33: what a group commit owes to those in the group, and to those who come while it is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelog::{Ack, Durability, Error, Record, Store, StoreOptions, Topic, TopicOptions};

use crate::faulty::{Call, Faulty, PANIC};
use crate::kit::{BACKENDS, Place, fill, one, payload, payloads, segments_of};
use crate::life;

const EIO: i32 = libc::EIO;

fn open(place: &Place, disk: &Faulty) -> Store {
    let storage = Arc::new(disk.clone());
    Store::open_with(&place.root, StoreOptions::new().storage(storage)).unwrap()
}

/// Two topics that are synced when somebody asks: so they ride together.
fn by_hand(store: &Store) -> [Topic; 2] {
    let by_hand = || TopicOptions::new().durability(Durability::Manual);
    let topics = ["a", "b"].map(|name| store.create_topic(name, by_hand()).unwrap());
    send(&topics, 1);
    store.flush().unwrap();
    topics
}

fn send(topics: &[Topic], count: usize) -> Vec<Ack> {
    let all = topics.iter().flat_map(|topic| vec![topic; count]);
    let send = |topic: &Topic| topic.append_nowait(Record::new("more")).unwrap();
    all.map(send).collect()
}

/// (a) While the journal is being synced for two records, a hundred more are written to each of the two
/// topics. That sync acknowledges the two and no other; the next ones fail, and the others are in doubt,
/// each of them.
#[test]
fn who_comes_while_the_journal_is_synced_is_not_acknowledged_by_that_sync() {
    for backend in BACKENDS {
        let place = Place::new();
        let disk = Faulty::new(backend);
        let store = open(&place, &disk);
        let topics = by_hand(&store);
        disk.hold(Call::Sync, "journal/", &[None]);
        disk.answer(Call::Sync, "topics/", &[Some(EIO); 2]);
        let early = send(&topics, 1);
        let late = thread::scope(|scope| {
            let flush = scope.spawn(|| store.flush());
            life::until(|| disk.waiting() == 1);
            let late = send(&topics, 100);
            disk.release();
            // It goes on until everything is durable, or cannot be.
            flush.join().unwrap().unwrap_err();
            late
        });
        assert!(early.iter().all(Ack::is_durable));
        for ack in &late {
            let answer = ack.wait();
            assert!(matches!(answer, Err(Error::InDoubt { .. })), "{answer:?}");
        }
        assert!(early.iter().all(|ack| ack.wait().is_ok()));
        drop((topics, early, late));
        store.close().unwrap_err();
    }
}

/// (b) The flusher panics in the sync of a topic that twenty wait for: all of them are told, soon, the
/// topic takes nothing more, health tells, and other topics do not notice.
#[test]
fn a_flusher_that_panics_answers_all_who_wait() {
    let place = Place::new();
    let disk = Faulty::new(BACKENDS[0]);
    let store = open(&place, &disk);
    for name in ["t", "other"] {
        store.topic(name).unwrap().append("first").unwrap();
    }
    disk.hold(Call::Sync, "topics/t/", &[Some(PANIC)]);
    thread::scope(|scope| {
        let append = || one(&store, "t").append("more");
        let mut running = vec![scope.spawn(append)];
        life::until(|| disk.waiting() == 1);
        running.extend((1..20).map(|_| scope.spawn(append)));
        thread::sleep(Duration::from_millis(100));
        let begin = Instant::now();
        disk.release();
        for thread in running {
            // One that came late is refused.
            match thread.join().unwrap() {
                Err(Error::InDoubt { cause, .. } | Error::Failed { cause, .. }) => {
                    assert!(matches!(*cause, Error::ThreadEnded { .. }), "{cause}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(begin.elapsed() < Duration::from_secs(5));
    });
    let health = store.health();
    assert!(matches!(health.failed.as_slice(), [Error::Failed { .. }]));
    assert!(health.journal.is_none());
    assert_eq!(one(&store, "t").end().unwrap(), 1);
    store.topic("other").unwrap().append("fine").unwrap();
    store.close().unwrap_err();
    let store = place.open(BACKENDS[0]);
    assert_eq!(
        store.topic("t").unwrap().append("on").unwrap().partition(),
        0
    );
    store.close().unwrap();
}

/// (b) The same in the sync of the journal, which topics ride with: they are in doubt, and the store
/// takes nothing more.
#[test]
fn a_flusher_that_panics_in_a_round_of_the_journal_answers_who_rode() {
    let place = Place::new();
    let disk = Faulty::new(BACKENDS[0]);
    let store = open(&place, &disk);
    let topics = by_hand(&store);
    let acks = send(&topics, 3);
    disk.answer(Call::Sync, "journal/", &[Some(PANIC)]);
    store.flush().unwrap_err();
    for ack in &acks {
        let answer = ack.wait();
        assert!(matches!(answer, Err(Error::InDoubt { .. })), "{answer:?}");
    }
    let failed = store.health().journal;
    assert!(
        matches!(failed, Some(Error::StoreFailed { .. })),
        "{failed:?}"
    );
    assert!(topics[0].append_nowait("more").is_err());
    for name in ["a", "b"] {
        assert_eq!(one(&store, name).end().unwrap(), 1);
    }
    drop((topics, acks));
    store.close().unwrap_err();
}

/// (c) One sync takes very long. Appends that do not wait are held up at the topic's bound, readers and
/// other topics are not; when it has ended everything goes on.
#[test]
fn a_slow_sync_bounds_what_is_appended_and_holds_up_nobody_else() {
    for backend in BACKENDS {
        let place = Place::new();
        let disk = Faulty::new(backend);
        let store = open(&place, &disk);
        let bound = 64 << 10;
        let options = segments_of(256 << 10).unsettled_bytes(bound);
        store.create_topic("t", options).unwrap();
        fill(&one(&store, "t"), 0..10, 1000);
        disk.hold(Call::Sync, "topics/t/", &[None]);
        let sent = AtomicU64::new(10);
        thread::scope(|scope| {
            let appending = scope.spawn(|| {
                let topic = store.existing_topic("t").unwrap();
                for number in 10..200 {
                    topic
                        .append_nowait(Record::new(payload(number, 1000)))
                        .unwrap();
                    sent.store(number + 1, Ordering::SeqCst);
                }
            });
            life::until(|| disk.waiting() == 1 && sent.load(Ordering::SeqCst) > 60);
            thread::sleep(Duration::from_millis(100));
            let held_up = sent.load(Ordering::SeqCst);
            assert!((held_up - 10) * 1000 <= bound, "{held_up}");
            assert!(!appending.is_finished());
            assert_eq!(one(&store, "t").end().unwrap(), 10);
            assert_eq!(payloads(&one(&store, "t")).len(), 10);
            store.topic("other").unwrap().append("fine").unwrap();
            disk.release();
            appending.join().unwrap();
        });
        store.flush().unwrap();
        let expected: Vec<_> = (0..200).map(|number| payload(number, 1000)).collect();
        assert_eq!(payloads(&one(&store, "t")), expected);
        store.close().unwrap();
    }
}
