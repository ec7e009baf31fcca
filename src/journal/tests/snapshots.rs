use super::super::snapshot::MAX_PART_BYTES;
use super::*;

fn store() -> Vec<Event> {
    vec![
        owner(1),
        topic(1, "quakes", &[1, 2]),
        subscription(1, 1, "archive", &[0, 0]),
        ends(1, 6),
        Event::TopicDeleted { id: 8 },
    ]
}

fn payloads(events: &[Event]) -> Vec<Vec<u8>> {
    events.iter().map(Event::encode).collect()
}

/// The snapshot of these events in parts of one event each.
fn parts(events: &[Event], folds_to: u64) -> Vec<Vec<u8>> {
    Snapshot::in_parts(&fold(events), folds_to, 0)
}

#[test]
fn an_empty_store_has_a_snapshot_too() {
    let parts = Snapshot::of(&Fold::default(), 0);
    assert_eq!(parts.len(), 1);
    let replay = replay(0, &parts);
    assert_eq!(replay.fold(), &Fold::default());
}

#[test]
fn the_journal_before_a_snapshot_is_not_needed() {
    let parts = parts(&store(), 5);
    assert!(parts.len() > 2);
    let replay = replay(5, &parts);
    assert_eq!(replay.needed_from(), 5);
    assert_eq!(replay.fold(), &fold(&store()));
    assert!(!replay.fold().lost());
}

#[test]
fn events_between_the_offset_a_snapshot_names_and_its_last_part_are_not_lost() {
    let mut journal = payloads(&store());
    let mut parts = parts(&store(), 5);
    let last = parts.pop().unwrap();
    journal.push(checkpoint(1, 0, 3).encode());
    journal.extend(parts);
    journal.push(checkpoint(1, 1, 4).encode());
    journal.push(last);
    let from_start = replay(0, &journal);
    let from_snapshot = replay(5, &journal[5..]);
    for replay in [from_start, from_snapshot] {
        assert_eq!(replay.needed_from(), 5);
        assert_eq!(replay.fold().checkpoint(1, 0), Some(3));
        assert_eq!(replay.fold().checkpoint(1, 1), Some(4));
        assert!(!replay.fold().lost());
    }
}

#[test]
fn a_snapshot_without_its_last_part_counts_for_nothing() {
    let mut journal = payloads(&store());
    let mut parts = parts(&store(), 5);
    parts.pop();
    journal.extend(parts);
    let replay = replay(0, &journal);
    assert_eq!(replay.needed_from(), 0);
    assert_eq!(replay.fold(), &fold(&store()));
}

#[test]
fn a_beginning_left_by_a_killed_owner_is_replaced_by_the_next_snapshot() {
    let mut events = store();
    let mut journal = payloads(&events);
    journal.push(parts(&events, 5).swap_remove(0));
    events.push(owner(2));
    journal.push(owner(2).encode());
    journal.extend(parts(&events, 7));
    let replay = replay(0, &journal);
    assert_eq!(replay.needed_from(), 7);
    assert_eq!(replay.fold(), &fold(&events));
}

#[test]
fn parts_of_two_snapshots_never_make_one() {
    let mut journal = payloads(&store());
    let (a, b) = (parts(&store(), 4), parts(&store(), 5));
    journal.push(a[0].clone());
    journal.extend_from_slice(&b[1..]);
    assert_eq!(replay(0, &journal).needed_from(), 0);
}

#[test]
fn a_part_out_of_order_discards_what_was_begun() {
    let parts = parts(&store(), 5);
    for order in [&[1, 0, 2, 3, 4][..], &[0, 1, 1, 2, 3, 4], &[0, 2, 1, 3, 4]] {
        let mut journal = payloads(&store());
        journal.extend(order.iter().filter_map(|&k| parts.get(k).cloned()));
        assert_eq!(replay(0, &journal).needed_from(), 0, "{order:?}");
    }
}

#[test]
fn a_snapshot_that_claims_to_fold_its_own_records_is_none() {
    let mut journal = payloads(&store());
    journal.extend(Snapshot::of(&fold(&store()), 6));
    assert_eq!(replay(0, &journal).needed_from(), 0);
}

#[test]
fn a_snapshot_whose_facts_hang_in_the_air_is_refused() {
    let part = Part {
        snapshot: 5,
        part: 0,
        events: vec![checkpoint(3, 0, 1)],
        last: Some(Fold::default().carried().clone()),
    };
    let mut journal = payloads(&store());
    journal.push(part.encode());
    let replay = replay(0, &journal);
    assert_eq!(replay.needed_from(), 0);
    assert_eq!(replay.flaws(), [FoldFlaw::Baseless { offset: 5 }]);
    assert_eq!(replay.fold(), &fold(&store()));
}

#[test]
fn a_damaged_part_leaves_the_snapshot_before_it_in_force() {
    let mut events = store();
    let mut journal = parts(&events, 5);
    let first = journal.len();
    events.push(checkpoint(1, 0, 3));
    journal.push(checkpoint(1, 0, 3).encode());
    let second = 5 + u64::try_from(journal.len()).unwrap();
    journal.extend(parts(&events, second));
    journal[first + 2].truncate(9);
    let replay = replay(5, &journal);
    assert_eq!(replay.needed_from(), 5);
    let bad = 5 + u64::try_from(first).unwrap() + 2;
    assert_eq!(replay.damaged_at(), [bad]);
    assert_eq!(replay.fold().checkpoint(1, 0), Some(3));
    assert!(replay.fold().lost());
}

#[test]
fn a_damaged_event_is_counted_and_the_fold_goes_on() {
    let mut journal = payloads(&store());
    journal.extend(payloads(&[ends(1, 9), Event::Closed { epoch: 1 }]));
    journal[5] = b"\x01{".to_vec();
    let replay = replay(0, &journal);
    assert_eq!(replay.damaged_at(), [5]);
    assert_eq!(replay.fold().promise(1), 6);
    assert!(
        !replay.fold().closed(),
        "the end it has is not the last one"
    );
}

#[test]
fn a_record_that_was_skipped_is_lost_unless_a_later_snapshot_folds_it() {
    let mut replay = replay(0, &payloads(&store()));
    replay.skip(5..6);
    assert!(replay.fold().lost());
    for (part, offset) in parts(&store(), 6).iter().zip(6..) {
        replay.record(offset, part).unwrap();
    }
    assert!(!replay.fold().lost());
    assert_eq!(replay.damaged_at(), [5]);
}

#[test]
fn a_gap_of_any_length_is_skipped_at_once() {
    let mut replay = replay(0, &payloads(&store()));
    replay.skip(5..u64::MAX);
    assert_eq!(replay.damaged(), std::slice::from_ref(&(5..u64::MAX)));
    assert!(replay.fold().lost());
    assert_eq!(replay.fold().topics().count(), 1);
}

#[test]
fn a_loss_is_remembered_through_snapshots() {
    let mut state = fold(&store());
    state.lose();
    let replay = replay(5, &Snapshot::of(&state, 5));
    assert!(replay.fold().lost());
}

#[test]
fn a_journal_whose_beginning_is_gone_without_a_snapshot_is_lost_in_part() {
    let journal = payloads(&store());
    let whole = replay(0, &journal);
    let tail = replay(2, &journal[2..]);
    assert!(!whole.fold().lost());
    assert!(tail.fold().lost());
    assert_eq!(tail.ignored(), 3);
}

#[test]
fn a_snapshot_that_folds_less_than_the_journal_has_let_go_leaves_a_loss() {
    let replay = replay(8, &parts(&store(), 5));
    assert!(replay.fold().lost());
    assert_eq!(replay.fold().topics().count(), 1);
}

#[test]
fn facts_that_lacked_their_ground_are_judged_again_by_the_snapshot() {
    let mut events = store();
    let mut journal = payloads(&[checkpoint(1, 0, 2)]);
    journal.extend(parts(&events, 5));
    let replay = replay(5, &journal);
    events.push(checkpoint(1, 0, 2));
    assert_eq!(replay.ignored(), 0);
    assert_eq!(replay.fold(), &fold(&events));
}

#[test]
fn what_a_later_library_wrote_stops_the_replay() {
    let mut replay = Replay::default();
    let flaw = replay.record(0, b"\x05of tomorrow").unwrap_err();
    assert!(matches!(flaw, EventFlaw::Unknown { .. }));
}

#[test]
fn no_part_of_a_large_store_is_larger_than_a_mebibyte() {
    let mut events = vec![owner(1)];
    for id in 1..=8_000 {
        events.push(topic(id, &format!("topic-{id}"), &[id]));
    }
    let state = fold(&events);
    let parts = Snapshot::of(&state, 9_000);
    assert!(parts.len() > 1);
    assert!(parts.iter().all(|part| part.len() <= MAX_PART_BYTES));
    assert_eq!(replay(9_000, &parts).into_fold(), state);
}

#[test]
fn a_snapshot_is_due_when_events_outgrow_it_and_a_mebibyte() {
    assert!(!should_snapshot(1 << 20, 0));
    assert!(should_snapshot((1 << 20) + 1, 0));
    assert!(!should_snapshot(5 << 20, 5 << 20));
    assert!(should_snapshot((5 << 20) + 1, 5 << 20));
}

#[test]
fn an_older_snapshot_does_not_take_the_place_of_a_newer_one() {
    let mut journal = parts(&store(), 5);
    journal.extend(parts(&store()[..2], 2));
    let replay = replay(5, &journal);
    assert_eq!(replay.needed_from(), 5);
    assert_eq!(replay.fold(), &fold(&store()));
}
