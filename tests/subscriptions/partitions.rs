//! Sampling over several partitions: their records count together.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidelog::{Record, Sampling, Start, Store, Subscription, Timestamp, Topic};

use crate::kit::{drain, small};
use crate::machine::Machine;

const SECOND: i64 = 1_000_000_000;
const PARTITIONS: u32 = 4;

/// A record of a source, at a second, with a mark, in a partition.
type Told = (u8, i64, u8, u32);

fn filled(machine: &Machine, records: &[Told]) -> (Store, Topic) {
    let (store, topic) = machine.topic(small().partitions(PARTITIONS));
    for (source, second, mark, partition) in records {
        let record = Record::new("x")
            .header("source", vec![*source])
            .header("mark", vec![*mark])
            .at(Timestamp::from_nanos(second * SECOND))
            .partition(*partition);
        topic.append(record).unwrap();
    }
    (store, topic)
}

fn plain(most: u32) -> Sampling {
    Sampling::per_minute(most).source("source")
}

/// How many of each minute and source are among these.
fn counted(records: impl IntoIterator<Item = Told>) -> BTreeMap<(i64, u8), u32> {
    let mut counts = BTreeMap::new();
    for (source, second, ..) in records {
        *counts.entry((second.div_euclid(60), source)).or_default() += 1;
    }
    counts
}

/// What was told of the record at each place.
fn placed(records: &[Told]) -> BTreeMap<(u32, u64), Told> {
    let mut next = [0; PARTITIONS as usize];
    let place = |record: &Told| {
        let offset: &mut u64 = &mut next[record.3 as usize];
        *offset += 1;
        ((record.3, *offset - 1), *record)
    };
    records.iter().map(place).collect()
}

/// Records without keys are spread over four partitions: ten of a source are kept in each minute, not ten
/// of each partition; and of those with one mark one, wherever they lie.
#[test]
fn as_many_of_a_source_are_kept_over_all_partitions_as_of_one() {
    let machine = Machine::new(1);
    let records: Vec<Told> = (0..400_u32)
        .map(|n| (0, i64::from(n) / 2, (n / 8) as u8, n % PARTITIONS))
        .collect();
    let (store, topic) = filled(&machine, &records);
    let mut subscription = topic.subscription("s").sampling(plain(10)).open().unwrap();
    assert_eq!(drain(&mut subscription).len(), 40);
    let counts = subscription.counts();
    assert_eq!(
        (counts.kept, counts.surplus, counts.duplicates),
        (40, 360, 0)
    );
    let marked = plain(1000).unique("mark");
    let mut marked = topic.subscription("m").sampling(marked).open().unwrap();
    let places = placed(&records);
    let kept: Vec<_> = drain(&mut marked).iter().map(|at| places[at]).collect();
    let marks: BTreeSet<_> = kept.iter().map(|it| (it.1.div_euclid(60), it.2)).collect();
    assert_eq!((kept.len(), marks.len()), (50, 50));
    assert_eq!(marked.counts().duplicates, 350);
    drop((subscription, marked, topic));
    store.close().unwrap();
}

/// One partition is sent elsewhere while the others stay: what lies below all places counts, and what it
/// has returned before counts no more.
#[test]
fn one_partition_that_is_reset_counts_anew() {
    let machine = Machine::new(1);
    let records: Vec<Told> = (0..40).map(|n| (0, 0, 0, n % PARTITIONS)).collect();
    let (store, topic) = filled(&machine, &records);
    let mut subscription = topic.subscription("s").sampling(plain(20)).open().unwrap();
    assert_eq!(drain(&mut subscription).len(), 20);
    subscription.reset_partition(1, Start::Earliest).unwrap();
    // Thirty lie below the places of the others.
    assert_eq!(drain(&mut subscription), []);
    subscription.reset(Start::Earliest).unwrap();
    assert_eq!(drain(&mut subscription).len(), 20);
    drop((subscription, topic));
    store.close().unwrap();
}

/// Reads and commits, or reads and does not, and starts anew, again and again; then reads the rest. All
/// that is committed in the end.
fn committed_after(
    machine: &Machine,
    (mut store, mut topic): (Store, Topic),
    stops: Vec<(usize, bool)>,
) -> Vec<(u32, u64)> {
    let some = |subscription: &mut Subscription, some: usize| {
        let mut got = Vec::new();
        while got.len() < some {
            match subscription.next().unwrap() {
                Some(record) => got.push((record.partition(), record.offset())),
                None => break,
            }
        }
        got
    };
    let mut all = Vec::new();
    for (count, commits) in stops {
        let mut subscription = topic.subscribe("s").unwrap();
        let got = some(&mut subscription, count);
        if commits {
            subscription.commit().unwrap();
            all.extend(got);
        }
        drop(subscription);
        (store, topic) = machine.again((store, topic));
    }
    let mut subscription = topic.subscribe("s").unwrap();
    all.extend(some(&mut subscription, usize::MAX));
    drop((subscription, topic));
    store.close().unwrap();
    all
}

fn records() -> impl Strategy<Value = Vec<Told>> {
    proptest::collection::vec((0_u8..3, -100_i64..100, 0_u8..20, 0..PARTITIONS), 1..120)
}

fn stops() -> impl Strategy<Value = Vec<(usize, bool)>> {
    proptest::collection::vec((1_usize..15, any::<bool>()), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Wherever a program stops, with or without a commit: of what it commits there are exactly so many of
    /// each source and minute, or all there are.
    #[test]
    fn a_restart_anywhere_keeps_as_many_as_there_may_be(
        records in records(), stops in stops(), most in 1_u32..8,
    ) {
        let machine = Machine::new(1);
        let (store, topic) = filled(&machine, &records);
        drop(topic.subscription("s").sampling(plain(most)).open().unwrap());
        let places = placed(&records);
        let got = committed_after(&machine, (store, topic), stops);
        let mut expected = counted(records);
        expected.values_mut().for_each(|count| *count = most.min(*count));
        prop_assert_eq!(counted(got.iter().map(|at| places[at])), expected);
    }

    /// The same with marks: never more than so many, and never two with one mark in a minute.
    #[test]
    fn a_restart_anywhere_commits_no_mark_twice(
        records in records(), stops in stops(), most in 1_u32..8,
    ) {
        let machine = Machine::new(1);
        let (store, topic) = filled(&machine, &records);
        let sampling = plain(most).unique("mark");
        drop(topic.subscription("s").sampling(sampling).open().unwrap());
        let places = placed(&records);
        let got = committed_after(&machine, (store, topic), stops);
        let kept: Vec<Told> = got.iter().map(|at| places[at]).collect();
        prop_assert!(counted(kept.iter().copied()).values().all(|count| *count <= most));
        let marks: BTreeSet<_> = kept.iter().map(|it| (it.1.div_euclid(60), it.2)).collect();
        prop_assert_eq!(marks.len(), kept.len());
    }
}
