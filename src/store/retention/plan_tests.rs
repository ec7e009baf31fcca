use super::*;
use std::time::Duration;

/// Pieces of so many bytes, ten records each, last appended to at these moments.
fn holding(pieces: &[(u64, Option<i64>)]) -> Holding {
    let piece = |(index, (bytes, last_append)): (usize, &(u64, Option<i64>))| Piece {
        number: u32::try_from(index).unwrap(),
        base: index as u64 * 10,
        next: index as u64 * 10 + 10,
        bytes: *bytes,
        last_append: *last_append,
    };
    let pieces: Vec<Piece> = pieces.iter().enumerate().map(piece).collect();
    let began = pieces.last().and_then(|piece| piece.last_append);
    Holding { pieces, began }
}

fn facts(holding: &Holding, retention: Retention, now: i64) -> Facts<'_> {
    Facts {
        holding,
        retention,
        required: None,
        rolls: true,
        now,
    }
}

fn age(nanos: u64) -> Retention {
    Retention::age(Duration::from_nanos(nanos))
}

/// A segment of which nobody knows when it was last appended to stays, and keeps what is behind it.
#[test]
fn what_is_not_known_to_be_old_stays() {
    let held = holding(&[(1, Some(0)), (1, None), (1, Some(0)), (1, Some(900))]);
    let plan = plan(facts(&held, age(800), 1000));
    assert_eq!(plan.start, Some((1, 10)));
    assert_eq!(plan.rolls, None);
}

/// There is no order in which a younger segment goes before an older one.
#[test]
fn an_old_segment_behind_a_younger_one_waits_for_it() {
    let held = holding(&[(1, Some(500)), (1, Some(0)), (1, Some(900))]);
    let early = plan(facts(&held, age(800), 1000));
    assert_eq!((early.start, early.due), (None, Some(1100)));
    let later = plan(facts(&held, age(800), 1300));
    assert_eq!(later.start, Some((2, 20)));
}

/// The last segment ends when its first record is a quarter of the age old, goes when its last one is
/// as old as that, and is not looked at again when it is empty.
#[test]
fn the_last_segment_ends_before_it_goes() {
    let mut held = holding(&[(5, Some(1000))]);
    held.began = Some(600);
    let wait = plan(facts(&held, age(800), 799));
    assert_eq!((wait.rolls, wait.due), (None, Some(800)));
    let ends = plan(facts(&held, age(800), 800));
    assert_eq!(
        (ends.rolls, ends.start, ends.due),
        (Some(0), None, Some(1800))
    );
    let goes = plan(facts(&held, age(800), 1800));
    assert_eq!(
        (goes.rolls, goes.start, goes.due),
        (Some(0), Some((1, 10)), None)
    );
    held.pieces[0].next = held.pieces[0].base;
    let empty = plan(facts(&held, age(800), 9000));
    assert_eq!(empty, Plan::default());
}

/// What was kept for a required subscription does not wake anybody by the clock.
#[test]
fn what_is_kept_for_a_subscription_is_due_when_that_commits() {
    let held = holding(&[(5, Some(0)), (5, Some(0)), (5, Some(900))]);
    let mut facts = facts(&held, age(800).keep_required(100), 1000);
    facts.required = Some(10);
    let kept = plan(facts);
    assert_eq!((kept.start, kept.due), (Some((1, 10)), Some(1100)));
    facts.required = Some(9);
    assert_eq!(plan(facts).start, None);
    facts.retention = facts.retention.keep_required(10);
    let reasons = plan(facts).removals;
    assert_eq!(reasons[0].reason, Reason::HardLimit);
    assert_eq!(reasons.len(), 1);
}

/// A time that no clock shows breaks nothing.
#[test]
fn extremes_do_not_overflow() {
    let held = holding(&[
        (1, Some(i64::MAX)),
        (1, Some(i64::MIN)),
        (1, Some(i64::MIN)),
    ]);
    for now in [i64::MIN, 0, i64::MAX] {
        for retention in [age(u64::MAX), age(1_000_000), Retention::bytes(u64::MAX)] {
            let planned = plan(facts(&held, retention, now));
            assert!(planned.removals.len() <= 3);
        }
    }
}
