//! D35: retention that is cut between any two steps of it.

use tidelog::sys::sim::{Crash, Keep};
use tidelog::{Retention, Store, Topic};

use crate::kit::{HOUR, expired, fill, offsets, range, small};
use crate::machine::Machine;

const CRASHES: [Crash; 4] = [
    Crash::Kill,
    Crash::Cut(Keep::Nothing),
    Crash::Cut(Keep::Half),
    Crash::Cut(Keep::Everything),
];

/// A topic of which all is old; its owner was closed once before, where the log ended then goes, too.
fn begun(machine: &Machine) -> (Store, Topic) {
    let (store, topic) = machine.topic(small(Retention::age(HOUR)));
    fill(&topic, 17);
    drop(topic);
    store.close().unwrap();
    let store = machine.open();
    let topic = store.existing_topic("t").unwrap();
    fill(&topic, 20);
    machine.pass(HOUR);
    (store, topic)
}

/// The machine stops before each of the calls that retention makes. The topic is as it was, or a new
/// segment has taken over, or it begins behind all that was old: nothing in between is lost, offsets go
/// on, and the next owner finishes it. Whoever asks for what has gone is told so, and where to go on.
#[test]
fn retention_that_is_cut_anywhere_has_happened_or_has_not() {
    for crash in CRASHES {
        let mut both = [0, 0];
        for calls in 0.. {
            let machine = Machine::new(calls);
            let (store, topic) = begun(&machine);
            machine.sim.crash_after(calls);
            let done = topic.apply_retention();
            let done = done.is_ok_and(|done| done.partitions[0].failed.is_none());
            let ended = !machine.sim.has_stopped();
            machine.sim.crash_after(0);
            drop((store, topic));
            machine.sim.crash(crash).unwrap();
            machine.sim.heal();
            let store = machine.open();
            let topic = store.existing_topic("t").unwrap();
            let (first, end) = range(&topic);
            assert_eq!(end, 37, "{crash:?} {calls}");
            assert!(
                first == 37 || first == 0 && !done,
                "{crash:?} {calls}: {first}"
            );
            both[usize::from(first == 37)] += 1;
            assert_eq!(offsets(&topic).len() as u64, end - first);
            expired(&topic, 0..first);
            machine.pass(HOUR);
            let again = topic.apply_retention().unwrap();
            assert_eq!(again.partitions[0].failed, None);
            assert_eq!(range(&topic), (37, 37), "{crash:?} {calls}");
            assert_eq!(topic.append("next").unwrap().offset(), 37);
            drop(topic);
            store.close().unwrap();
            let store = machine.open();
            assert!(store.health().failed.is_empty());
            let topic = store.existing_topic("t").unwrap();
            assert_eq!(range(&topic), (37, 38));
            expired(&topic, 0..37);
            assert!(machine.segments("t").len() <= 2);
            drop(topic);
            store.close().unwrap();
            if ended {
                assert!(calls > 5, "only {calls} steps");
                break;
            }
        }
        assert!(both.iter().all(|count| *count > 0), "{crash:?} {both:?}");
    }
}

/// The segment whose end was recorded when the store was last closed has gone since, and the owner that
/// removed it is killed: what is there opens all the same.
#[test]
fn an_end_that_was_recorded_in_a_segment_that_is_gone_promises_nothing() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::forever()));
    fill(&topic, 17);
    drop(topic);
    store.close().unwrap();
    let store = machine.open();
    let topic = store.existing_topic("t").unwrap();
    fill(&topic, 60);
    let to = topic.partition(0).unwrap().truncate_before(70).unwrap();
    assert!(to > 40);
    drop(topic);
    let store = machine.cut(store, Keep::Nothing);
    let topic = store.existing_topic("t").unwrap();
    assert_eq!(range(&topic), (to, 77));
    expired(&topic, 0..to);
    store.close().unwrap();
}
