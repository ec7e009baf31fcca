//! Retention beside what others do at the same moment.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures_lite::Stream;
use tidelog::{Durability, Error, Retention, Start, Store, StoreOptions, Topic};

use crate::faulty::{Call, Faulty};
use crate::kit::{BACKENDS, End, Place, end, one, payloads, segments_of};
use crate::life::until;

fn open(place: &Place, disk: &Faulty) -> Store {
    let options = StoreOptions::new().storage(Arc::new(disk.clone()));
    // The thread that applies retention shall not be faster than the test.
    let options = options.retention_interval(Duration::from_secs(3600));
    Store::open_with(&place.root, options).unwrap()
}

/// Appends records of which a dozen fill a segment.
fn append(topic: &Topic, records: u64) {
    for _ in 0..records {
        topic.append(vec![7; 1000]).unwrap();
    }
}

/// A topic of some segments that keeps all of them for its subscription, which has read everything.
fn kept(store: &Store) -> Topic {
    let kept = Retention::bytes(1 << 30).keep_required(10 << 20);
    let topic = segments_of(16 << 10).retention(kept);
    let topic = store.create_topic("t", topic).unwrap();
    let mut must = topic.subscription("must").required().open().unwrap();
    append(&topic, 60);
    while must.next().unwrap().is_some() {}
    must.commit().unwrap();
    topic
}

/// A subscription is reset to its beginning while the records there are being removed: that was stated
/// before, so the reset is refused, with what is gone, and the subscription stays where it was. Once
/// everything is done it reads on there.
#[test]
fn a_reset_behind_a_removal_that_is_under_way_is_refused() {
    let place = Place::new();
    let disk = Faulty::new(BACKENDS[0]);
    let store = open(&place, &disk);
    let topic = kept(&store);
    let mut must = topic.subscribe("must").unwrap();
    let later = one(&store, "t");
    disk.hold(Call::Sync, "journal/", &[None]);
    let removes = thread::spawn(move || later.truncate_before(50).unwrap());
    until(|| disk.waiting() == 1);
    let resets = thread::spawn(move || {
        let refused = must.reset(Start::Offset(0));
        (refused, must)
    });
    thread::sleep(Duration::from_millis(100));
    disk.release();
    let first = removes.join().unwrap();
    let (refused, mut must) = resets.join().unwrap();
    assert!(first > 30, "{first}");
    assert!(
        matches!(&refused, Err(Error::OffsetExpired { asked: 0, first: at, .. }) if *at == first),
        "{refused:?} {first}"
    );
    assert_eq!(must.committed(0).unwrap(), 60);
    must.reset(Start::Offset(first)).unwrap();
    assert_eq!(must.next().unwrap().unwrap().offset(), first);
    drop(must);
    store.close().unwrap();
}

/// A subscription goes back and forth while retention removes whatever it has committed, as fast as both
/// can: where it was told that it has gone back, what it went back to is there.
#[test]
fn what_a_required_subscription_has_gone_back_to_stays() {
    let place = Place::new();
    let store = open(&place, &Faulty::new(BACKENDS[0]));
    let topic = kept(&store);
    let all = Retention::bytes(0).keep_required(10 << 20);
    let topic = store
        .create_topic("t", topic.options().retention(all))
        .unwrap();
    let mut must = topic.subscribe("must").unwrap();
    let (mut stayed, mut went) = (0, 0);
    for round in 0..60 {
        let first = topic.partition(0).unwrap().first().unwrap();
        let end = topic.partition(0).unwrap().end().unwrap();
        append(&topic, 40);
        let commit = must.topic().clone();
        // In front of what it commits, and that is let go of.
        let target = first + 1;
        let removes = thread::spawn(move || commit.apply_retention().unwrap());
        must.reset(Start::Offset(end + 20)).unwrap();
        if round % 2 == 0 {
            thread::yield_now();
        }
        let reset = must.reset(Start::Offset(target));
        removes.join().unwrap();
        topic.apply_retention().unwrap();
        match reset {
            Ok(()) => {
                stayed += 1;
                assert!(must.expired().unwrap().is_empty(), "round {round}");
                assert_eq!(must.next().unwrap().unwrap().offset(), target);
            }
            Err(Error::OffsetExpired { first, .. }) => {
                went += 1;
                assert!(first > target);
                assert_eq!(must.committed(0).unwrap(), end + 20);
            }
            Err(error) => panic!("{error}"),
        }
        must.reset(Start::Latest).unwrap();
    }
    println!("{stayed} stayed, {went} had gone");
    drop(must);
    store.close().unwrap();
}

/// The thread that applies retention recovers a topic, which takes long: topics are made and deleted
/// meanwhile.
#[test]
fn a_recovery_by_retention_keeps_nobody_from_making_topics() {
    let place = Place::new();
    let store = place.open(BACKENDS[0]);
    let week = segments_of(16 << 10).retention(Retention::days(7));
    let topic = store.create_topic("t", week).unwrap();
    append(&topic, 60);
    drop(topic);
    let place = end(place, store, End::Kill);
    let disk = Faulty::new(BACKENDS[0]);
    disk.hold(Call::Sync, "topics/t/", &[None]);
    let store = open(&place, &disk);
    until(|| disk.waiting() == 1);
    store.topic("other").unwrap().append("it is there").unwrap();
    store.delete_topic("other").unwrap();
    assert_eq!(disk.waiting(), 1);
    disk.release();
    assert_eq!(payloads(&one(&store, "t")).len(), 60);
    store.close().unwrap();
}

/// Records that nobody has synced yet become durable since those in front of them are to go, and who
/// follows them closes the store as soon as he is woken, on the very thread that applies retention: neither
/// waits for the other.
#[test]
fn a_waker_may_close_the_store_while_retention_syncs_a_log() {
    struct Closes(Mutex<Option<Store>>);
    impl Wake for Closes {
        fn wake(self: Arc<Self>) {
            if let Some(store) = self.0.lock().unwrap().take() {
                store.close().unwrap();
            }
        }
    }
    let place = Place::new();
    let store = open(&place, &Faulty::new(BACKENDS[0]));
    let manual = segments_of(16 << 10).durability(Durability::Manual);
    let topic = store.create_topic("t", manual.clone()).unwrap();
    for _ in 0..60 {
        drop(topic.append_nowait(vec![7; 1000]).unwrap());
    }
    let mut follows = pin!(topic.follow(Start::Latest).unwrap().into_stream());
    let closes = Arc::new(Closes(Mutex::new(Some(store.clone()))));
    let waker = Waker::from(Arc::clone(&closes));
    let mut context = Context::from_waker(&waker);
    assert!(follows.as_mut().poll_next(&mut context).is_pending());
    let few = manual.retention(Retention::bytes(20_000));
    drop(store.create_topic("t", few));
    until(|| closes.0.lock().is_ok_and(|store| store.is_none()));
    drop(store);
    let mut again = None;
    until(|| {
        again = Store::open(&place.root).ok();
        again.is_some()
    });
    let again = again.unwrap();
    assert_eq!(one(&again, "t").end().unwrap(), 60);
    again.close().unwrap();
}
