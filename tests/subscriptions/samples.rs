//! Sampling: some of each minute, the same ones however often a program is started anew.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidelog::{Error, Filter, Record, Sampling, Start, Timestamp, Topic};

use crate::kit::{drain, offsets, small};
use crate::machine::Machine;

const SECOND: i64 = 1_000_000_000;

/// A record of a source, at a second, with a mark.
type Told = (u8, i64, u8);

fn append(topic: &Topic, (source, second, mark): Told) {
    let record = Record::new("x")
        .header("source", vec![source])
        .header("mark", vec![mark])
        .at(Timestamp::from_nanos(second * SECOND));
    topic.append(record).unwrap();
}

fn sampling(most: u32) -> Sampling {
    Sampling::per_minute(most).source("source").unique("mark")
}

/// What must be kept, by counting all of it.
fn kept(records: &[Told], most: u32) -> Vec<u64> {
    let mut counts: BTreeMap<(i64, u8), u32> = BTreeMap::new();
    let mut marks = BTreeSet::new();
    let mut kept = Vec::new();
    for (offset, (source, second, mark)) in (0..).zip(records) {
        let minute = second.div_euclid(60);
        let count = counts.entry((minute, *source)).or_default();
        if *count < most && marks.insert((minute, *mark)) {
            *count += 1;
            kept.push(offset);
        }
    }
    kept
}

/// Ten records a second of two sources: so many of each are kept in each minute, those come first, and
/// what was dropped is counted.
#[test]
fn so_many_of_each_source_are_kept_in_each_minute() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    let records: Vec<Told> = (0..300).map(|n| (n as u8 % 2, n / 2, n as u8)).collect();
    records.iter().for_each(|record| append(&topic, *record));
    let plain = Sampling::per_minute(3).source("source");
    let mut subscription = topic.subscription("s").sampling(plain).open().unwrap();
    let got = offsets(&mut subscription);
    assert_eq!(
        got,
        [
            0, 1, 2, 3, 4, 5, 120, 121, 122, 123, 124, 125, 240, 241, 242, 243, 244, 245
        ]
    );
    let counts = subscription.counts();
    assert_eq!(
        (counts.kept, counts.surplus, counts.duplicates),
        (18, 282, 0)
    );
    drop((subscription, topic));
    store.close().unwrap();
}

/// Those with a mark that was kept in the minute are dropped as such; without the header every record is
/// its own, and one source.
#[test]
fn of_those_with_one_mark_one_is_kept_in_a_minute() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    for record in [(1, 0, 7), (1, 1, 7), (2, 2, 7), (1, 3, 8), (1, 61, 7)] {
        append(&topic, record);
    }
    for _ in 0..3 {
        let at = Timestamp::from_nanos(62 * SECOND);
        topic.append(Record::new("bare").at(at)).unwrap();
    }
    let mut subscription = topic
        .subscription("s")
        .sampling(sampling(2))
        .open()
        .unwrap();
    assert_eq!(offsets(&mut subscription), [0, 3, 4, 5, 6]);
    let counts = subscription.counts();
    assert_eq!((counts.kept, counts.duplicates, counts.surplus), (5, 2, 1));
    drop((subscription, topic));
    store.close().unwrap();
}

/// A record of the far future, and records out of order, do no harm to the minutes of the others, and
/// minutes that have been forgotten are found again.
#[test]
fn records_out_of_order_are_counted_in_their_minutes() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    let mut records: Vec<Told> = vec![(1, 1 << 33, 0)];
    for round in 0..3 {
        records.extend((0..100).map(|minute| (1, minute * 60, round)));
        records.extend((0..100).rev().map(|minute| (1, minute * 60, 10 + round)));
    }
    records.iter().for_each(|record| append(&topic, *record));
    let mut subscription = topic
        .subscription("s")
        .sampling(sampling(3))
        .open()
        .unwrap();
    assert_eq!(offsets(&mut subscription), kept(&records, 3));
    drop((subscription, topic));
    store.close().unwrap();
}

/// The filter comes first: what it does not let pass takes nobody's place.
#[test]
fn what_is_filtered_out_is_not_sampled() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    (0..20).for_each(|n| append(&topic, (n % 2, 0, n)));
    let builder = topic.subscription("s").sampling(Sampling::per_minute(2));
    let mut subscription = builder
        .filter(Filter::header("source").equals([1]))
        .open()
        .unwrap();
    assert_eq!(offsets(&mut subscription), [1, 3]);
    let counts = subscription.counts();
    assert_eq!((counts.kept, counts.filtered, counts.surplus), (2, 10, 8));
    // Also when the minute is read again from its beginning.
    subscription.reset(Start::Offset(2)).unwrap();
    assert_eq!(offsets(&mut subscription), [3]);
    drop((subscription, topic));
    store.close().unwrap();
}

/// None a minute is refused.
#[test]
fn a_sampling_that_keeps_nothing_is_refused() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    let refused = topic
        .subscription("s")
        .sampling(Sampling::per_minute(0))
        .open();
    assert!(matches!(
        refused,
        Err(Error::InvalidOption {
            option: "sampling",
            ..
        })
    ));
    drop((refused, topic));
    store.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Wherever a program stops, with or without a commit, and starts anew: what is kept is the same, in
    /// each partition, and nothing is returned that would not have been.
    #[test]
    fn a_restart_anywhere_changes_nothing_of_what_is_kept(
        records in proptest::collection::vec((0_u8..3, -200_i64..200, 0_u8..20), 1..120),
        stops in proptest::collection::vec((1_usize..15, any::<bool>()), 0..8),
        most in 1_u32..5,
    ) {
        let machine = Machine::new(1);
        let (mut store, mut topic) = machine.topic(small());
        records.iter().for_each(|record| append(&topic, *record));
        drop(topic.subscription("s").sampling(sampling(most)).open().unwrap());
        let all = kept(&records, most);
        let mut got = BTreeSet::new();
        for (some, commits) in stops {
            let mut subscription = topic.subscribe("s").unwrap();
            for _ in 0..some {
                match subscription.next().unwrap() {
                    Some(record) => got.insert(record.offset()),
                    None => break,
                };
            }
            if commits {
                subscription.commit().unwrap();
            }
            drop(subscription);
            (store, topic) = machine.again((store, topic));
        }
        let mut subscription = topic.subscribe("s").unwrap();
        let rest = drain(&mut subscription);
        got.extend(rest.into_iter().map(|(_, offset)| offset));
        prop_assert_eq!(got.into_iter().collect::<Vec<_>>(), all);
        drop((subscription, topic));
        store.close().unwrap();
    }
}
