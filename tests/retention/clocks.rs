//! What goes where the clock was set.

use std::time::Duration;

use tidelog::{Reason, Retention};

use crate::kit::{HOUR, SECOND, apply, fill, range, small};
use crate::machine::Machine;

/// A clock that was set back keeps everything, and does no other harm.
#[test]
fn a_clock_that_is_set_back_removes_nothing() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::age(HOUR)));
    fill(&topic, 30);
    machine.clock.jump(machine.now() - 7_200_000_000_000);
    fill(&topic, 5);
    assert!(apply(&topic).removals.is_empty());
    machine.pass(Duration::from_secs(3 * 3600));
    apply(&topic);
    assert_eq!(range(&topic), (35, 35));
    store.close().unwrap();
}

/// D13: records were appended while the clock was ten years ahead. Once it has been set right they keep
/// nothing: an hour after that was seen they go, idle or not, and nothing that is younger goes with them.
#[test]
fn what_was_appended_by_a_clock_that_was_ahead_expires() {
    const DECADE: i64 = 10 * 365 * 24 * 3600 * 1_000_000_000;
    for idle in [false, true] {
        let machine = Machine::new(1);
        let (store, topic) = machine.topic(small(Retention::age(HOUR)));
        let right = machine.now();
        machine.clock.jump(right + DECADE);
        fill(&topic, 30);
        machine.clock.jump(right);
        let seen = apply(&topic);
        assert!(seen.removals.is_empty(), "{seen:?}");
        assert!(
            seen.due
                .is_some_and(|due| due.as_nanos() <= right + 3_600_000_000_000)
        );
        machine.pass(HOUR / 2);
        if !idle {
            fill(&topic, 30);
        }
        assert!(apply(&topic).removals.is_empty());
        machine.pass(HOUR / 2 - SECOND);
        assert!(apply(&topic).removals.is_empty());
        machine.pass(SECOND);
        let done = apply(&topic);
        assert!(done.removals.iter().all(|it| it.reason == Reason::Age));
        let (first, end) = range(&topic);
        match idle {
            true => assert_eq!((first, end), (30, 30)),
            // The rest of them lies in a segment with younger ones, or in the one before that.
            false => assert!((12..=30).contains(&first) && end == 60, "{first}"),
        }
        machine.pass(HOUR / 2);
        apply(&topic);
        assert_eq!(range(&topic), (end, end));
        store.close().unwrap();
    }
}

/// The same across openings, each of which comes before an hour has passed: what was appended behind those
/// records by the right clock tells how old they are at least.
#[test]
fn what_follows_tells_how_old_the_records_of_a_clock_that_was_ahead_are() {
    let machine = Machine::new(1);
    let (mut store, mut topic) = machine.topic(small(Retention::age(HOUR)));
    let right = machine.now();
    machine.clock.jump(right + 365 * 24 * 3_600_000_000_000);
    fill(&topic, 30);
    machine.clock.jump(right);
    for _ in 0..9 {
        drop(topic);
        store.close().unwrap();
        machine.pass(HOUR / 4);
        store = machine.open();
        topic = store.existing_topic("t").unwrap();
        apply(&topic);
        fill(&topic, 5);
    }
    assert!(range(&topic).0 >= 30, "{:?}", range(&topic));
    drop(topic);
    store.close().unwrap();
}
