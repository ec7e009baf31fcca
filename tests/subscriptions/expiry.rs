//! Records that expire before they were committed.

use tidelog::{Error, OnExpiry, Record, Span, Start, SubscriptionStatus};

use crate::kit::{fill, offsets, small};
use crate::machine::Machine;

fn span(partition: u32, offsets: std::ops::Range<u64>) -> Span {
    Span {
        topic: "t".to_owned(),
        partition,
        offsets,
    }
}

/// Retention passes the checkpoint of a subscription that nobody reads. What it has lost is told exactly,
/// also to who only lists it, and reading fails until it is reset, however often it is tried.
#[test]
fn a_subscription_that_was_passed_by_fails_until_it_is_reset() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    fill(&topic, 60);
    let mut subscription = topic.subscribe("s").unwrap();
    for _ in 0..5 {
        subscription.next().unwrap().unwrap();
    }
    subscription.commit().unwrap();
    drop(subscription);
    let first = topic.partition(0).unwrap().truncate_before(40).unwrap();
    assert!(first > 20);
    let (store, topic) = machine.again((store, topic));
    let lost = span(0, 5..first);
    let info = &topic.subscriptions().unwrap()[0];
    assert_eq!(info.status, SubscriptionStatus::OffsetExpired);
    assert_eq!(info.expired, std::slice::from_ref(&lost));
    assert_eq!(info.lag.records, 60 - first);
    let mut subscription = topic.subscribe("s").unwrap();
    assert_eq!(subscription.expired().unwrap(), [lost]);
    for _ in 0..3 {
        let told = subscription.next().unwrap_err();
        assert!(
            matches!(told, Error::OffsetExpired { asked: 5, first: now, .. } if now == first),
            "{told}"
        );
    }
    assert_eq!(
        subscription.status().unwrap(),
        SubscriptionStatus::OffsetExpired
    );
    subscription.reset(Start::Earliest).unwrap();
    assert_eq!(subscription.status().unwrap(), SubscriptionStatus::Active);
    assert!(subscription.expired().unwrap().is_empty());
    assert_eq!(offsets(&mut subscription), (first..60).collect::<Vec<_>>());
    assert!(subscription.lost().is_empty());
    drop((subscription, topic));
    store.close().unwrap();
}

/// Of several partitions one has expired: nothing is read before that is reset, and only that is.
#[test]
fn one_partition_that_was_passed_by_is_enough() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small().partitions(2));
    for partition in [0, 1] {
        for _ in 0..30 {
            let record = Record::new(vec![1; 950]).partition(partition);
            topic.append(record).unwrap();
        }
    }
    let mut subscription = topic.subscribe("s").unwrap();
    let first = topic.partition(1).unwrap().truncate_before(30).unwrap();
    let mut healthy = 0;
    let told = loop {
        match subscription.next() {
            Ok(Some(record)) => healthy += u64::from(record.partition() == 0),
            Ok(None) => panic!("it ends"),
            Err(error) => break error,
        }
    };
    assert!(healthy <= 1);
    assert!(
        matches!(told, Error::OffsetExpired { partition: 1, .. }),
        "{told}"
    );
    subscription.next().unwrap_err();
    assert_eq!(subscription.expired().unwrap(), [span(1, 0..first)]);
    subscription.reset_partition(1, Start::Earliest).unwrap();
    let mut rest = 0;
    while let Some(record) = subscription.next().unwrap() {
        rest += u64::from(record.partition() == 0);
    }
    assert_eq!(healthy + rest, 30);
    drop((subscription, topic));
    store.close().unwrap();
}

/// One that is told to goes on by itself, durably, and says exactly what it has passed over, whether it
/// was read meanwhile or not.
#[test]
fn a_subscription_goes_on_by_itself_where_it_is_told_to() {
    for (policy, reading) in [
        (OnExpiry::Earliest, false),
        (OnExpiry::Earliest, true),
        (OnExpiry::Latest, false),
        (OnExpiry::Latest, true),
    ] {
        let machine = Machine::new(1);
        let (store, topic) = machine.topic(small());
        fill(&topic, 60);
        let mut subscription = topic.subscription("s").on_expiry(policy).open().unwrap();
        let mut read = 0;
        if reading {
            assert_eq!(subscription.next().unwrap().unwrap().offset(), 0);
            read = 1;
        }
        let first = topic.partition(0).unwrap().truncate_before(40).unwrap();
        let mut got = offsets(&mut subscription);
        let held: Vec<u64> = got
            .iter()
            .copied()
            .take_while(|offset| *offset < first)
            .collect();
        assert_eq!(held, (read..read + held.len() as u64).collect::<Vec<_>>());
        assert!(reading != held.is_empty());
        got.drain(..held.len());
        let goes_on = match policy {
            OnExpiry::Latest => 60,
            _ => first,
        };
        assert_eq!(got, (goes_on..60).collect::<Vec<_>>());
        assert_eq!(
            subscription.lost(),
            [span(0, read + held.len() as u64..goes_on)]
        );
        drop(subscription);
        let (store, topic) = machine.again((store, topic));
        let info = &topic.subscriptions().unwrap()[0];
        assert_eq!(
            (info.status, info.on_expiry),
            (SubscriptionStatus::Active, policy)
        );
        assert_eq!(info.committed, [goes_on]);
        drop(topic);
        store.close().unwrap();
    }
}
