use super::*;

/// A store with one topic of two partitions and a subscription that has read in both.
fn small() -> Vec<Event> {
    vec![
        owner(1),
        topic(1, "quakes", &[10, 11]),
        subscription(1, 1, "archive", &[0, 0]),
        checkpoint(1, 0, 5),
        checkpoint(1, 1, 8),
        Event::Settled { log: 10 },
        start(10, 3),
        ends(10, 6),
    ]
}

#[test]
fn a_new_store_is_empty_and_begins_its_ids_at_one() {
    let fold = Fold::default();
    assert_eq!(fold.owner(), None);
    assert!(!fold.closed() && !fold.lost());
    assert_eq!(fold.topics().count() + fold.subscriptions().count(), 0);
    let next = fold.carried();
    assert_eq!(
        (next.next_topic, next.next_subscription, next.next_log),
        (1, 1, 1)
    );
}

#[test]
fn what_was_stated_is_found_by_id_and_by_name() {
    let fold = fold(&small());
    assert_eq!(fold.topic_named("quakes"), fold.topic(1));
    assert_eq!(fold.subscription_named(1, "archive"), fold.subscription(1));
    assert_eq!(fold.subscription_named(2, "archive"), None);
    assert_eq!(fold.checkpoint(1, 1), Some(8));
    assert_eq!(fold.checkpoint(1, 2), None);
    let log = fold.log(10).unwrap();
    assert_eq!((log.topic, log.partition, log.settled), (1, 0, true));
    assert_eq!(log.end, Some(end(10, 6)));
    assert_eq!(fold.log(11).map(|log| log.partition), Some(1));
}

#[test]
fn topics_are_listed_by_name_too() {
    let fold = fold(&[topic(1, "b", &[1]), topic(2, "a", &[2])]);
    let names: Vec<_> = fold.topics_by_name().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_clean_close_is_known_until_anything_else_happens() {
    let mut events = small();
    assert!(!fold(&events).closed());
    events.push(Event::Closed { epoch: 1 });
    assert!(fold(&events).closed());
    events.push(Event::Closed { epoch: 1 });
    assert!(fold(&events).closed());
    events.push(checkpoint(99, 0, 1));
    assert!(!fold(&events).closed(), "even a fact that is passed over");
}

#[test]
fn an_end_is_exact_until_an_owner_follows_one_that_did_not_close() {
    let exact = |events: &[Event]| {
        let state = fold(events);
        let exact = |log| {
            let log = state.log(log).expect("a live log");
            log.end.as_ref().map(|end| end.exact)
        };
        [exact(10), exact(11)]
    };
    let mut events = small();
    events.push(ends(11, 9));
    assert_eq!(exact(&events), [Some(true), Some(true)]);
    events.push(owner(1));
    assert_eq!(exact(&events), [Some(true), Some(true)], "the same owner");
    events.push(owner(2));
    assert_eq!(exact(&events), [Some(false), Some(false)]);
    events.push(ends(10, 8));
    events.push(Event::Closed { epoch: 2 });
    events.push(owner(3));
    assert_eq!(exact(&events), [Some(true), Some(false)]);
    let state = fold(&events);
    let replayed = replay(9, &Snapshot::of(&state, 9));
    assert_eq!(replayed.fold(), &state, "snapshots remember it");
    events.push(owner(4));
    assert_eq!(exact(&events), [Some(false), Some(false)]);
}

#[test]
fn a_close_of_an_earlier_owner_is_not_one_of_the_last() {
    let mut state = fold(&[owner(1), owner(2)]);
    let folded = state.apply(2, &Event::Closed { epoch: 1 }).unwrap();
    assert_eq!(folded.ignored, 1);
    assert!(!state.closed());
    assert!(
        fold(&[
            owner(2),
            Event::Closed { epoch: 2 },
            Event::Closed { epoch: 1 }
        ])
        .closed()
    );
}

#[test]
fn a_refused_event_also_ends_a_clean_close() {
    let mut state = fold(&[owner(2), Event::Closed { epoch: 2 }]);
    let flaw = state.apply(2, &owner(1)).unwrap_err();
    assert!(matches!(
        flaw,
        FoldFlaw::EpochFell {
            stated: 1,
            current: 2,
            ..
        }
    ));
    assert!(!state.closed());
    assert_eq!(state.owner().map(|owner| owner.epoch), Some(2));
}

#[test]
fn a_reset_states_a_smaller_checkpoint_and_it_holds() {
    let mut events = small();
    events.push(checkpoint(1, 0, 2));
    assert_eq!(fold(&events).checkpoint(1, 0), Some(2));
}

#[test]
fn a_log_promises_the_greatest_of_end_start_and_checkpoints() {
    let mut events = small();
    assert_eq!(fold(&events).promise(10), 6, "the recorded end");
    assert_eq!(
        fold(&events).promise(11),
        8,
        "only its own partition counts"
    );
    assert_eq!(fold(&events).promise(12), 0, "unknown");
    events.push(checkpoint(1, 0, 7));
    assert_eq!(fold(&events).promise(10), 7, "a checkpoint beyond the end");
    events.push(subscription(2, 1, "other", &[40, 40]));
    assert_eq!(fold(&events).promise(10), 7, "a first start is no promise");
    events.push(start(10, 9));
    assert_eq!(fold(&events).promise(10), 9, "a start beyond both");
    events.push(Event::Ends {
        ends: vec![LogEnd {
            log: 10,
            end: None,
            exact: true,
        }],
    });
    assert_eq!(fold(&events).promise(10), 9, "a log without a segment");
}

#[test]
fn a_deleted_topic_takes_everything_with_it_but_its_ids() {
    let mut events = small();
    events.push(Event::TopicDeleted { id: 1 });
    let state = fold(&events);
    assert_eq!(state.topics().count() + state.subscriptions().count(), 0);
    assert_eq!(state.logs().count(), 0);
    assert_eq!(state.checkpoint(1, 0), None);
    assert_eq!(state.promise(10), 0);
    let next = state.carried();
    assert_eq!(
        (next.next_topic, next.next_subscription, next.next_log),
        (2, 2, 12)
    );

    events.push(topic(2, "quakes", &[12]));
    assert_eq!(fold(&events).topic_named("quakes").map(|t| t.id), Some(2));
}

#[test]
fn a_subscription_made_anew_under_its_name_has_no_checkpoints() {
    let mut events = small();
    events.push(Event::SubscriptionDeleted { id: 1 });
    assert_eq!(fold(&events).subscription_named(1, "archive"), None);
    events.push(subscription(2, 1, "archive", &[0, 0]));
    let state = fold(&events);
    assert_eq!(
        state.subscription_named(1, "archive").map(|s| s.id),
        Some(2)
    );
    assert_eq!(state.checkpoint(2, 0), None);
    assert_eq!(state.subscriptions_of(1).count(), 1);
}

#[test]
fn late_facts_about_what_is_gone_are_passed_over_and_counted() {
    let mut state = fold(&small());
    let before = state.clone();
    let both = Event::Ends {
        ends: vec![end(10, 6), end(77, 9)],
    };
    for (event, ignored) in [
        (checkpoint(44, 0, 1), 1),
        (checkpoint(1, 2, 1), 1),
        (subscription(45, 46, "s", &[0]), 1),
        (Event::SubscriptionDeleted { id: 44 }, 1),
        (Event::TopicDeleted { id: 46 }, 1),
        (Event::Settled { log: 76 }, 1),
        (start(75, 2), 1),
        (both, 1),
        (ends(10, 6), 0),
    ] {
        assert_eq!(state.apply(9, &event), Ok(Folded { ignored }), "{event:?}");
    }
    let next = state.carried();
    assert_eq!(
        (next.next_topic, next.next_subscription, next.next_log),
        (47, 46, 78),
        "ids that were mentioned are not given again"
    );
    assert!(state.events().eq(before.events()));
}

#[test]
fn a_settings_change_restates_the_topic_and_keeps_its_logs() {
    let mut events = small();
    let Event::Topic(mut changed) = events[1].clone() else {
        unreachable!()
    };
    changed.finished = true;
    changed.settings.max_total_bytes = Some(9);
    events.push(Event::Topic(changed.clone()));
    let state = fold(&events);
    assert_eq!(state.topic(1), Some(&changed));
    assert_eq!(state.promise(10), 6);
    assert_eq!(state.checkpoint(1, 0), Some(5));
}

#[test]
fn what_contradicts_the_state_is_refused_and_leaves_it_as_it_was() {
    let mut state = fold(&small());
    let before = state.clone();
    let offset = 20;
    let (name, id) = ("quakes".to_owned(), 2);
    for (event, flaw) in [
        (
            topic(2, "quakes", &[20]),
            FoldFlaw::NameTaken {
                offset,
                id,
                name,
                holder: 1,
            },
        ),
        (
            topic(2, "b", &[20, 11]),
            FoldFlaw::LogTaken {
                offset,
                id,
                log: 11,
            },
        ),
        (
            topic(2, "b", &[20, 20]),
            FoldFlaw::LogTaken {
                offset,
                id,
                log: 20,
            },
        ),
        (
            topic(2, "b", &[]),
            FoldFlaw::Partitions {
                offset,
                id,
                stated: 0,
            },
        ),
        (
            topic(2, "b", &(100..100 + 65_536).collect::<Vec<_>>()),
            FoldFlaw::Partitions {
                offset,
                id,
                stated: 65_536,
            },
        ),
        (
            topic(1, "tremors", &[10, 11]),
            FoldFlaw::TopicChanged { offset, id: 1 },
        ),
        (
            topic(1, "quakes", &[10]),
            FoldFlaw::TopicChanged { offset, id: 1 },
        ),
        (
            subscription(2, 1, "archive", &[0, 0]),
            FoldFlaw::SubscriptionTaken {
                offset,
                id,
                topic: 1,
                name: "archive".into(),
                holder: 1,
            },
        ),
        (
            subscription(2, 1, "b", &[0]),
            FoldFlaw::Partitions {
                offset,
                id,
                stated: 1,
            },
        ),
        (
            subscription(1, 1, "b", &[0, 0]),
            FoldFlaw::SubscriptionChanged { offset, id: 1 },
        ),
        (
            subscription(1, 2, "archive", &[0, 0]),
            FoldFlaw::SubscriptionChanged { offset, id: 1 },
        ),
        (
            owner(0),
            FoldFlaw::EpochFell {
                offset,
                stated: 0,
                current: 1,
            },
        ),
    ] {
        assert_eq!(state.apply(offset, &event), Err(flaw));
        assert!(state.events().eq(before.events()), "{event:?}");
    }
    assert_eq!(state.carried().next_topic, 3, "a refused id is a used one");
}

#[test]
fn a_fold_that_lost_a_record_is_never_again_one_of_a_clean_close() {
    let mut state = fold(&small());
    state.lose();
    state.apply(9, &Event::Closed { epoch: 1 }).unwrap();
    assert!(state.lost() && !state.closed());
}
