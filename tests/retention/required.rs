//! Keeping what a required subscription has not committed, up to a limit.

use tidelog::{Reason, Retention, Topic};

use crate::kit::{HOUR, apply, fill, range, small};
use crate::machine::Machine;

fn read(topic: &Topic, name: &str, records: usize) {
    let mut subscription = topic.subscribe(name).unwrap();
    for _ in 0..records {
        subscription.next().unwrap().unwrap();
    }
    subscription.commit().unwrap();
}

/// What a required subscription has not committed stays, whatever the limits say, until it has. An
/// optional one keeps nothing.
#[test]
fn what_a_required_subscription_has_not_committed_stays() {
    let machine = Machine::new(1);
    let kept = Retention::age(HOUR).keep_required(10 << 20);
    let (store, topic) = machine.topic(small(kept));
    drop(topic.subscription("must").required().open().unwrap());
    drop(topic.subscribe("may").unwrap());
    fill(&topic, 60);
    read(&topic, "may", 60);
    machine.pass(2 * HOUR);
    assert!(apply(&topic).removals.is_empty());
    read(&topic, "must", 30);
    let done = apply(&topic);
    assert!(done.removals.iter().all(|it| it.reason == Reason::Age));
    assert!((15..=30).contains(&range(&topic).0), "{done:?}");
    // Across a restart, too.
    drop(topic);
    store.close().unwrap();
    let store = machine.open();
    let topic = store.existing_topic("t").unwrap();
    assert!(apply(&topic).removals.is_empty());
    read(&topic, "must", 30);
    apply(&topic);
    assert_eq!(range(&topic), (60, 60));
    store.close().unwrap();
}

/// It is not kept for ever: what has too many bytes behind it goes, and the reason says so.
#[test]
fn what_is_kept_for_a_subscription_has_a_limit() {
    let machine = Machine::new(1);
    let kept = Retention::bytes(0).keep_required(50_000);
    let (store, topic) = machine.topic(small(kept));
    drop(topic.subscription("must").required().open().unwrap());
    fill(&topic, 40);
    assert!(apply(&topic).removals.is_empty());
    fill(&topic, 60);
    let done = apply(&topic);
    assert!(!done.removals.is_empty());
    assert!(
        done.removals
            .iter()
            .all(|it| it.reason == Reason::HardLimit)
    );
    let (first, end) = range(&topic);
    assert!((50_000..68_000).contains(&((end - first) * 984)), "{first}");
    store.close().unwrap();
}

/// Without being told to keep for them, a topic does not mind its required subscriptions.
#[test]
fn a_topic_that_is_not_told_to_keeps_nothing_for_subscriptions() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::age(HOUR)));
    drop(topic.subscription("must").required().open().unwrap());
    fill(&topic, 20);
    machine.pass(HOUR);
    apply(&topic);
    assert_eq!(range(&topic), (20, 20));
    store.close().unwrap();
}
