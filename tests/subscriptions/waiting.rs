//! A subscription that is waited at.

use std::pin::pin;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use tidelog::{Error, Filter, Record, Sampling, Stopper, Store, Subscription, Topic};

const HANG: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(50);

fn store() -> (tempfile::TempDir, Store, Topic) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = store.topic("quakes").unwrap();
    (dir, store, topic)
}

fn record(kind: &str) -> Record<'static> {
    Record::new(kind.to_owned()).header("kind", kind.to_owned())
}

/// Only those that are large.
fn large(topic: &Topic) -> Subscription {
    let filter = Filter::header("kind").equals("large");
    topic.subscription("s").filter(filter).open().unwrap()
}

type Told = Result<Option<u64>, Error>;

/// Waits at a subscription on a thread of its own: what it is given first.
fn waiting(mut subscription: Subscription) -> (Stopper, Receiver<Told>) {
    let (say, said) = channel();
    let stopper = subscription.stopper();
    thread::spawn(move || {
        let next = subscription.next_wait();
        say.send(next.map(|record| record.map(|record| record.offset())))
            .unwrap();
    });
    // Most likely it sleeps by now; if not the test says less, and nothing wrong.
    thread::sleep(SOON);
    (stopper, said)
}

/// Somebody waits for what passes his filter: records that do not pass wake him and do not end the wait,
/// and count as read.
#[test]
fn who_waits_is_given_what_passes_and_nothing_else() {
    let (_dir, store, topic) = store();
    let mut subscription = large(&topic);
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let record = subscription.next_wait().unwrap().unwrap();
            assert_eq!((record.offset(), record.text().unwrap()), (20, "large"));
            let counts = subscription.counts();
            assert_eq!((counts.kept, counts.filtered), (1, 20));
            subscription.commit().unwrap();
        });
        for _ in 0..20 {
            topic.append(record("small")).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        topic.append(record("large")).unwrap();
        waits.join().unwrap();
    });
    assert_eq!(subscription.committed(0).unwrap(), 21);
    drop((subscription, topic));
    store.close().unwrap();
}

/// A wait with a deadline lasts until then though records come that are dropped, looks through what is
/// there even where there is no time at all, and ends at once with what there is to return.
#[test]
fn a_wait_ends_at_its_deadline_and_not_with_what_is_dropped() {
    let (_dir, store, topic) = store();
    let sampling = Sampling::per_minute(1).source("kind");
    let builder = topic.subscription("s").sampling(sampling);
    let mut subscription = builder.open().unwrap();
    let minute = tidelog::Timestamp::from_nanos(0);
    let append = |kind| topic.append(record(kind).at(minute)).unwrap();
    append("a");
    let first = subscription.next_timeout(HANG).unwrap().unwrap();
    assert_eq!(first.offset(), 0);
    thread::scope(|scope| {
        scope.spawn(|| (0..10).for_each(|_| drop(append("a"))));
        let begin = Instant::now();
        assert!(subscription.next_timeout(SOON).unwrap().is_none());
        assert!(begin.elapsed() >= SOON);
    });
    (0..100).for_each(|_| drop(append("a")));
    append("b");
    let next = subscription.next_timeout(Duration::ZERO).unwrap().unwrap();
    assert_eq!(next.offset(), 111);
    let counts = subscription.counts();
    assert_eq!((counts.kept, counts.surplus), (2, 110));
    assert!(!subscription.is_ended());
    drop((subscription, topic));
    store.close().unwrap();
}

/// Whatever ends: the topic, which is finished or deleted, the store, or the patience of somebody else.
#[test]
fn a_wait_ends_when_nothing_can_come_any_more() {
    let (_dir, store, topic) = store();
    topic.append(record("small")).unwrap();
    let (stopper, said) = waiting(large(&topic));
    stopper.stop();
    assert!(matches!(said.recv_timeout(HANG).unwrap(), Ok(None)));

    // Once stopped it waits no more; but it can be read.
    let mut all = topic.subscribe("all").unwrap();
    all.stopper().stop();
    assert!(all.next_wait().unwrap().is_none() && all.is_ended());
    assert!(block_on(all.next_async()).unwrap().is_none());
    assert!(all.next().unwrap().is_some());
    drop(all);

    let mut paused = topic.subscribe("paused").unwrap();
    paused.pause().unwrap();
    let refused = paused.next_wait();
    assert!(matches!(refused, Err(Error::SubscriptionPaused { .. })));
    paused.resume().unwrap();
    assert!(paused.next_wait().unwrap().is_some());
    drop(paused);

    let (_, said) = waiting(large(&topic));
    topic.append_and_finish([record("small")]).unwrap();
    assert!(matches!(said.recv_timeout(HANG).unwrap(), Ok(None)));
    let mut drained = topic.subscribe("all").unwrap();
    assert!(!drained.is_ended());
    assert!(drained.next_wait().unwrap().is_some() && drained.next_wait().unwrap().is_some());
    assert!(drained.next_wait().unwrap().is_none() && drained.is_ended());
    drop(drained);

    let gone = store.topic("gone").unwrap();
    let (_, said) = waiting(large(&gone));
    store.delete_topic("gone").unwrap();
    let ended = said.recv_timeout(HANG).unwrap();
    assert!(
        matches!(ended, Err(Error::TopicDeleted { .. })),
        "{ended:?}"
    );

    let open = store.topic("open").unwrap();
    let (_, said) = waiting(large(&open));
    store.close().unwrap();
    let ended = said.recv_timeout(HANG).unwrap();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
}

/// Somebody awaits a record, gives up, and comes again: nothing was passed by. What is dropped resolves
/// nothing, and a typed subscription does the same.
#[test]
fn a_subscription_is_awaited() {
    let (_dir, store, topic) = store();
    let mut subscription = large(&topic);
    topic.append(record("small")).unwrap();
    {
        let mut waits = pin!(subscription.next_async());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        topic.append(record("small")).unwrap();
        assert!(waits.as_mut().poll(&mut context).is_pending());
        topic.append(record("large")).unwrap();
        // Given up: it is not asked any more.
    }
    let next = block_on(subscription.next_async()).unwrap().unwrap();
    assert_eq!(next.offset(), 2);
    assert_eq!(subscription.counts().filtered, 2);

    let ticks = store.topic("ticks").unwrap().typed::<u64>();
    block_on(async {
        ticks.append_batch_async(&[1, 2]).await.unwrap();
        ticks.append_nowait_async(&3).await.unwrap().await.unwrap();
        let mut sums = ticks.subscribe_async("sums").await.unwrap();
        assert_eq!(sums.next_async().await.unwrap().unwrap().value, 1);
        assert_eq!(sums.next_wait().unwrap().unwrap().value, 2);
        assert_eq!(sums.next_timeout(HANG).unwrap().unwrap().value, 3);
        assert!(sums.next_timeout(Duration::ZERO).unwrap().is_none());
        sums.commit_async().await.unwrap();
        assert_eq!(sums.subscription().committed(0).unwrap(), 3);
        let start = tidelog::Start::Offset(2);
        let mut tail = ticks.follow_async(start).await.unwrap();
        assert_eq!(tail.next_async().await.unwrap().unwrap().value, 3);
    });
    drop((subscription, topic));
    store.close().unwrap();
}
