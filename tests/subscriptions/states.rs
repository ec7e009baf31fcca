//! How subscriptions stand, and that they come and go.

use std::time::Duration;

use tidelog::sys::Clock;
use tidelog::sys::sim::Keep;
use tidelog::{Durability, Error, Record, Start, Store, SubscriptionStatus, Timestamp};

use crate::kit::{fill, offsets, small};
use crate::machine::{Machine, ROOT};

/// Records, bytes and age of what is not committed: over segments and partitions, and as the same for
/// who holds it, who lists it, and who only reads the store.
#[test]
fn lag_is_told_in_records_bytes_and_age() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small().partitions(2));
    let mut subscription = topic.subscribe("s").unwrap();
    assert_eq!(subscription.lag().unwrap(), Default::default());
    for number in 0..50 {
        let record = Record::new(vec![1; 968]).partition(number % 2);
        topic.append(record).unwrap();
        machine.clock.advance(Duration::from_secs(1));
    }
    let lag = subscription.lag().unwrap();
    // A frame is 32 bytes and the payload.
    assert_eq!((lag.records, lag.bytes), (50, 50_000));
    assert_eq!(lag.age, Some(Duration::from_secs(50)));
    for _ in 0..30 {
        subscription.next().unwrap().unwrap();
    }
    subscription.commit().unwrap();
    let lag = subscription.lag().unwrap();
    assert_eq!((lag.records, lag.bytes), (20, 20_000));
    assert_eq!(lag.age, Some(Duration::from_secs(20)));
    assert_eq!(store.subscriptions().unwrap()[0].lag, lag);
    let reader = Store::open_read_only_with(ROOT, machine.options().inline()).unwrap();
    let seen = reader.subscriptions().unwrap();
    assert_eq!(seen[0].lag, lag);
    assert_eq!((&*seen[0].topic, &*seen[0].name), ("t", "s"));
    reader.close().unwrap();
    // A record from the future is not old.
    offsets_of(&mut subscription);
    let later = Timestamp::from_nanos(machine.clock.now() + 1_000_000_000);
    topic.append(Record::new("x").at(later)).unwrap();
    assert_eq!(subscription.lag().unwrap().age, Some(Duration::ZERO));
    drop((subscription, topic));
    store.close().unwrap();
}

fn offsets_of(subscription: &mut tidelog::Subscription) {
    crate::kit::drain(subscription);
    subscription.commit().unwrap();
}

/// A paused one says so, to everybody and across restarts.
#[test]
fn a_paused_subscription_says_so() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    fill(&topic, 3);
    let mut subscription = topic.subscribe("s").unwrap();
    subscription.pause().unwrap();
    drop(subscription);
    let (store, topic) = machine.again((store, topic));
    let info = &store.subscriptions().unwrap()[0];
    assert_eq!(
        (info.status, info.paused),
        (SubscriptionStatus::Paused, true)
    );
    assert_eq!(info.lag.records, 3);
    let mut subscription = topic.subscribe("s").unwrap();
    assert!(matches!(
        subscription.next(),
        Err(Error::SubscriptionPaused { .. })
    ));
    subscription.resume().unwrap();
    assert_eq!(subscription.status().unwrap(), SubscriptionStatus::Active);
    drop((subscription, topic));
    store.close().unwrap();
}

/// All forms of a reset, durably.
#[test]
fn a_subscription_is_reset_to_wherever_it_is_wanted() {
    let machine = Machine::new(1);
    let (mut store, mut topic) = machine.topic(small());
    fill(&topic, 10);
    machine.clock.advance(Duration::from_secs(60));
    let noon = machine.clock.now();
    fill(&topic, 10);
    let starts = [
        (Start::Latest, 20),
        (Start::Earliest, 0),
        (Start::Offset(7), 7),
        (Start::At(Timestamp::from_nanos(noon)), 10),
    ];
    for (start, next) in starts {
        let mut subscription = topic.subscribe("s").unwrap();
        subscription.reset(start).unwrap();
        drop(subscription);
        (store, topic) = machine.again((store, topic));
        let mut subscription = topic.subscribe("s").unwrap();
        assert_eq!(subscription.committed(0).unwrap(), next);
        assert_eq!(offsets(&mut subscription), (next..20).collect::<Vec<_>>());
        let refused = subscription.reset(Start::Offset(21));
        assert!(matches!(refused, Err(Error::BeyondEnd { .. })));
    }
    drop(topic);
    store.close().unwrap();
}

/// Row D17: where one starts the first time is held to the rules of a reset, so nothing that will be
/// appended is ever passed by. Behind the end it is refused, and not made; what lies below it is durable
/// when it is; and what has expired is refused.
#[test]
fn a_first_start_is_held_to_the_rules_of_a_reset() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small().durability(Durability::Manual));
    for _ in 0..905 {
        drop(topic.append_nowait("x").unwrap());
    }
    let at = |offset| topic.subscription("s").start(Start::Offset(offset)).open();
    let refused = at(1000);
    assert!(
        matches!(
            refused,
            Err(Error::BeyondEnd {
                asked: 1000,
                end: 905,
                ..
            })
        ),
        "{refused:?}"
    );
    assert!(topic.subscriptions().unwrap().is_empty());
    drop(at(903).unwrap());
    drop(topic);
    // Nothing else has asked for a sync.
    let store = machine.cut(store, Keep::Nothing);
    let topic = store.existing_topic("t").unwrap();
    let end = topic.partition(0).unwrap().end().unwrap();
    assert!(end >= 903, "{end}");
    assert_eq!(topic.subscribe("s").unwrap().committed(0).unwrap(), 903);
    drop(topic.append_nowait("after").unwrap());
    topic.flush().unwrap();
    let mut subscription = topic.subscribe("s").unwrap();
    assert_eq!(offsets(&mut subscription), (903..=end).collect::<Vec<_>>());
    drop(subscription);

    let first = topic.partition(0).unwrap().truncate_before(800).unwrap();
    assert!(first > 0);
    let late = topic.subscription("late").start(Start::Offset(first - 1));
    let refused = late.open();
    assert!(
        matches!(refused, Err(Error::OffsetExpired { .. })),
        "{refused:?}"
    );
    assert_eq!(topic.subscriptions().unwrap().len(), 1);
    drop(topic);
    store.close().unwrap();
}

/// One that is deleted is gone, with its place, for good; not while somebody holds it.
#[test]
fn a_subscription_is_deleted_unless_somebody_holds_it() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    fill(&topic, 5);
    let mut held = topic.subscribe("s").unwrap();
    offsets(&mut held);
    held.commit().unwrap();
    let busy = topic.delete_subscription("s").unwrap_err();
    assert!(matches!(busy, Error::SubscriptionBusy { .. }), "{busy}");
    drop(held);
    topic.delete_subscription("s").unwrap();
    let unknown = topic.delete_subscription("s").unwrap_err();
    assert!(
        matches!(unknown, Error::SubscriptionUnknown { .. }),
        "{unknown}"
    );
    drop(topic);
    let store = machine.cut(store, Keep::Nothing);
    let topic = store.existing_topic("t").unwrap();
    assert!(store.subscriptions().unwrap().is_empty());
    let mut anew = topic.subscribe("s").unwrap();
    assert_eq!(offsets(&mut anew), [0, 1, 2, 3, 4]);
    drop((anew, topic));
    store.close().unwrap();
}

/// One that is paused, and one that nobody reads, hold back neither appends nor each other, nor what
/// expires.
#[test]
fn a_subscription_that_is_not_read_holds_nobody_back() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    topic.subscribe("paused").unwrap().pause().unwrap();
    drop(topic.subscribe("slow").unwrap());
    let mut live = topic.subscribe("live").unwrap();
    for _ in 0..5 {
        fill(&topic, 20);
        assert_eq!(offsets(&mut live).len(), 20);
        live.commit().unwrap();
    }
    assert!(topic.partition(0).unwrap().truncate_before(100).unwrap() > 80);
    let all = topic.subscriptions().unwrap();
    let told: Vec<_> = all
        .iter()
        .map(|it| (&*it.name, it.lag.records > 0))
        .collect();
    assert_eq!(told, [("live", false), ("paused", true), ("slow", true)]);
    drop((live, topic));
    store.close().unwrap();
}

/// A topic that cannot be opened is told with its subscriptions, beside the others.
#[test]
fn subscriptions_of_a_broken_topic_are_listed_with_the_reason() {
    use tidelog::sys::Storage;
    let machine = Machine::new(1);
    let store = machine.open();
    for name in ["a", "b"] {
        let topic = store.create_topic(name, small()).unwrap();
        fill(&topic, 3);
        drop(topic.subscribe("s").unwrap());
    }
    store.close().unwrap();
    let folder = std::path::Path::new(ROOT).join("topics/a/000000-1");
    for entry in machine.sim.list(&folder).unwrap() {
        machine.sim.remove_file(&folder.join(entry.name)).unwrap();
    }
    let store = machine.open();
    let all = store.subscriptions().unwrap();
    assert_eq!(all.len(), 2);
    assert!(
        all[0].failed.is_some() && all[1].failed.is_none(),
        "{all:?}"
    );
    assert_eq!(all[1].lag.records, 3);
    store.close().unwrap();
}
