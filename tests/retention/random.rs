//! Random stores and policies: an audit tells exactly what applying does.

use std::time::Duration;

use proptest::prelude::*;
use tidelog::sys::sim::Crash;
use tidelog::{Error, Record, Retention, Start, Store, Timestamp, Topic};

use crate::kit::{offsets, range, small};
use crate::machine::Machine;

/// What happens between two audits.
#[derive(Debug, Clone)]
enum Deed {
    Append { records: u8, bytes: u16, shift: i64 },
    Pass { millis: u32 },
    Back { millis: u32 },
    Commit { records: u8 },
    Limits(Retention),
    Trim { records: u8 },
    Reopen,
    Kill,
    Finish,
}

fn retention() -> impl Strategy<Value = Retention> {
    let age = proptest::option::of(1_u64..100_000);
    let bytes = proptest::option::of(0_u64..200_000);
    let required = proptest::option::of(0_u64..200_000);
    (age, bytes, required).prop_map(|(age, bytes, required)| {
        let mut retention = Retention::forever();
        if let Some(age) = age {
            retention = retention.or_age(Duration::from_millis(age));
        }
        if let Some(bytes) = bytes {
            retention = retention.or_bytes(bytes);
        }
        match required {
            Some(limit) => retention.keep_required(limit),
            None => retention,
        }
    })
}

fn deed() -> impl Strategy<Value = Deed> {
    let append = (1_u8..40, 0_u16..4000, -1_000_000_i64..1_000_000);
    prop_oneof![
        6 => append.prop_map(|(records, bytes, shift)| Deed::Append { records, bytes, shift }),
        4 => (0_u32..100_000).prop_map(|millis| Deed::Pass { millis }),
        1 => (0_u32..100_000).prop_map(|millis| Deed::Back { millis }),
        2 => (1_u8..60).prop_map(|records| Deed::Commit { records }),
        2 => retention().prop_map(Deed::Limits),
        1 => (0_u8..60).prop_map(|records| Deed::Trim { records }),
        1 => Just(Deed::Reopen),
        1 => Just(Deed::Kill),
        1 => Just(Deed::Finish),
    ]
}

fn commit(topic: &Topic, records: u8) {
    let mut subscription = topic.subscription("must").required().open().unwrap();
    for _ in 0..records {
        match subscription.next() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(Error::OffsetExpired { .. }) => {
                subscription.reset(Start::Earliest).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    subscription.commit().unwrap();
}

fn act(machine: &Machine, (store, topic): (Store, Topic), deed: Deed) -> (Store, Topic) {
    let millis = |millis: u32| Duration::from_millis(u64::from(millis));
    let opened = |store: Store| {
        let topic = store.existing_topic("t").unwrap();
        (store, topic)
    };
    match deed {
        Deed::Append {
            records,
            bytes,
            shift,
        } if !topic.is_finished() => {
            let at = machine.now() + shift * 1_000_000_000;
            let record = Record::new(vec![1; usize::from(bytes)]);
            let record = record.at(Timestamp::from_nanos(at));
            for _ in 0..records {
                drop(topic.append_nowait(record.clone()).unwrap());
            }
        }
        Deed::Append { .. } => {}
        Deed::Pass { millis: time } => machine.pass(millis(time)),
        Deed::Back { millis: time } => {
            machine
                .clock
                .jump(machine.now() - i64::from(time) * 1_000_000);
        }
        Deed::Commit { records } => commit(&topic, records),
        Deed::Limits(retention) => {
            let topic = store.create_topic("t", small(retention)).unwrap();
            return (store, topic);
        }
        Deed::Trim { records } => {
            let (first, end) = range(&topic);
            let to = (first + u64::from(records)).min(end);
            topic.partition(0).unwrap().truncate_before(to).unwrap();
        }
        Deed::Reopen => {
            drop(topic);
            store.close().unwrap();
            return opened(machine.open());
        }
        Deed::Kill => {
            machine.sim.crash_after(0);
            drop((store, topic));
            machine.sim.crash(Crash::Kill).unwrap();
            machine.sim.heal();
            return opened(machine.open());
        }
        Deed::Finish => topic.finish().unwrap(),
    }
    (store, topic)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever has happened, an audit tells what applying retention then does, applying it leaves
    /// nothing to be applied, and what is left can be read without a gap.
    #[test]
    fn an_audit_tells_what_applying_does(
        first in retention(),
        deeds in proptest::collection::vec(deed(), 1..25),
    ) {
        let machine = Machine::new(9);
        let (mut store, mut topic) = machine.topic(small(first));
        for deed in deeds {
            (store, topic) = act(&machine, (store, topic), deed);
            let would = store.audit().unwrap();
            prop_assert_eq!(&store.audit().unwrap(), &would);
            let before = range(&topic);
            let done = store.apply_retention().unwrap();
            prop_assert_eq!(&done, &would);
            let now = range(&topic);
            prop_assert!(now.0 >= before.0 && now.1 >= before.1);
            let all = offsets(&topic);
            prop_assert_eq!(all.len() as u64, now.1 - now.0);
            if let [done] = &done.partitions[..] {
                prop_assert_eq!(done.first, Some(now.0));
                prop_assert_eq!(done.records(), now.0 - before.0);
                prop_assert_eq!(&done.failed, &None);
                let again = &topic.audit().unwrap().partitions[0];
                prop_assert!(again.removals.is_empty() && !again.rolls, "{:?}", again);
            }
        }
        drop(topic);
        store.close().unwrap();
    }
}
