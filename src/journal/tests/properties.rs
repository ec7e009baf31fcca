use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Few ids and names, so that events meet each other.
fn any_event() -> impl Strategy<Value = Event> {
    let id = || 1..5_u64;
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let logs = prop_oneof![
        8 => (1..5_u64).prop_map(|id| vec![id * 2, id * 2 + 1]),
        1 => vec(0..12_u64, 0..4),
    ];
    let starts = vec(0..9_u64, 1..4).prop_map(|mut at| {
        at.resize(2, 0);
        at
    });
    let an_end = prop_oneof![
        (0..12_u64, 0..99_u64).prop_map(|(log, next)| end(log, next)),
        (0..12_u64, any::<bool>()).prop_map(|(log, exact)| LogEnd {
            log,
            end: None,
            exact
        }),
    ];
    prop_oneof![
        1 => (0..4_u32, any::<Option<[u8; 16]>>(), any::<u32>())
            .prop_map(|(epoch, boot, pid)| Event::Epoch(Owner { epoch, boot, pid })),
        6 => (id(), name(), logs, any::<bool>(), any::<i64>()).prop_map(
            |(id, name, logs, finished, created)| {
                let Event::Topic(state) = topic(id, name, &logs) else {
                    unreachable!()
                };
                Event::Topic(TopicState { finished, created, ..state })
            }
        ),
        1 => id().prop_map(|id| Event::TopicDeleted { id }),
        4 => (id(), id(), name(), any::<bool>(), starts).prop_map(
            |(id, topic, name, paused, start)| {
                let name = name.to_owned();
                Event::Subscription(SubscriptionState { id, topic, name, paused, required: paused, filter: paused.then(String::new), sampling: None, on_expiry: None, start })
            }
        ),
        1 => id().prop_map(|id| Event::SubscriptionDeleted { id }),
        4 => (id(), 0..3_u32, 0..99_u64).prop_map(|(s, p, next)| checkpoint(s, p, next)),
        3 => vec(an_end, 0..4).prop_map(|ends| Event::Ends { ends }),
        2 => (0..12_u64).prop_map(|log| Event::Settled { log }),
        2 => (0..12_u64, prop::collection::vec(0..9_u64, 0..3), 0..99_u64).prop_map(
            |(log, nonces, next)| Event::RedoFiles(RedoFiles { log, nonces, next })
        ),
        2 => (0..12_u64, 0..99_u64).prop_map(|(log, offset)| start(log, offset)),
        2 => (0..4_u32).prop_map(|epoch| Event::Closed { epoch }),
    ]
}

/// What a writer of the journal does next.
#[derive(Debug, Clone)]
enum Step {
    /// States a fact.
    State(Box<Event>),
    /// Begins a snapshot of the state as it is, in parts of about this size.
    Begin(usize),
    /// Writes the next part of it, if there is one.
    Part,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_event().prop_map(|event| Step::State(Box::new(event))),
        1 => (0..2_000_usize).prop_map(Step::Begin),
        6 => Just(Step::Part),
    ]
}

/// Folds an event whether or not it is refused.
fn take(fold: &mut Fold, offset: u64, event: &Event) -> Option<FoldFlaw> {
    fold.apply(offset, event).err()
}

fn offset_of(records: &[Vec<u8>]) -> u64 {
    u64::try_from(records.len()).unwrap()
}

proptest! {
    #[test]
    fn what_is_written_reads_as_the_same(event in any_event()) {
        prop_assert_eq!(Record::decode(&event.encode()), Ok(Record::Event(event)));
    }

    #[test]
    fn stating_each_fact_twice_changes_nothing(events in vec(any_event(), 0..60)) {
        let (mut once, mut twice) = (Fold::default(), Fold::default());
        for event in &events {
            let flaw = take(&mut once, 0, event);
            prop_assert_eq!(take(&mut twice, 0, event).is_some(), flaw.is_some());
            take(&mut twice, 0, event);
            prop_assert_eq!(&twice, &once);
        }
    }

    #[test]
    fn a_fold_written_down_is_the_same_fold(
        events in vec(any_event(), 0..60),
        most in 0..4_000_usize,
        lost: bool,
    ) {
        let mut fold = Fold::default();
        for event in &events {
            take(&mut fold, 0, event);
        }
        if lost {
            fold.lose();
        }
        let parts = Snapshot::in_parts(&fold, 7, most);
        let replay = replay(7, &parts);
        prop_assert_eq!(replay.needed_from(), 7);
        prop_assert_eq!(replay.flaws(), &[]);
        prop_assert_eq!(replay.into_fold(), fold);
    }

    /// Snapshots begin, stop half-way and end anywhere, with events between their parts. Whoever
    /// reads all of the journal, or only what is needed, arrives where the writer stands.
    #[test]
    fn a_reader_arrives_where_the_writer_stands(steps in vec(any_step(), 0..120)) {
        let mut fold = Fold::default();
        let mut journal = Vec::new();
        let mut waiting = VecDeque::new();
        let mut folds_to = 0;
        let mut complete = 0;
        for step in &steps {
            let offset = offset_of(&journal);
            match step {
                Step::State(event) => {
                    take(&mut fold, offset, event);
                    journal.push(event.encode());
                }
                Step::Begin(most) => {
                    waiting = Snapshot::in_parts(&fold, offset, *most).into();
                    folds_to = offset;
                }
                Step::Part => {
                    if let Some(part) = waiting.pop_front() {
                        journal.push(part);
                        if waiting.is_empty() {
                            complete = folds_to;
                        }
                    }
                }
            }
        }
        let whole = replay(0, &journal);
        prop_assert_eq!(whole.needed_from(), complete);
        prop_assert_eq!(whole.fold(), &fold);
        let kept = &journal[usize::try_from(complete).unwrap()..];
        let short = replay(complete, kept);
        prop_assert_eq!(short.needed_from(), complete);
        prop_assert_eq!(short.flaws(), whole.flaws());
        prop_assert_eq!(short.ignored(), whole.ignored());
        prop_assert_eq!(short.fold(), &fold);
    }

    #[test]
    fn a_journal_with_a_hole_is_never_one_of_a_clean_close(
        events in vec(any_event(), 1..60),
        hole: prop::sample::Index,
    ) {
        let mut replay = Replay::default();
        let hole = hole.index(events.len());
        for (at, (event, offset)) in events.iter().zip(0..).enumerate() {
            if at == hole {
                replay.skip(offset..offset + 1);
            } else {
                replay.record(offset, &event.encode()).unwrap();
            }
        }
        prop_assert!(replay.fold().lost() && !replay.fold().closed());
    }

    #[test]
    fn no_bytes_are_a_surprise(bytes in vec(any::<u8>(), 0..200), kind in 0..6_u8) {
        fuzz_event(&bytes);
        fuzz_event(&[&[kind], &bytes[..]].concat());
    }

    #[test]
    fn no_bytes_in_a_good_record_are_a_surprise(
        seed: prop::sample::Index,
        at: prop::sample::Index,
        byte: u8,
        cut: bool,
    ) {
        let seeds = fuzz_seeds();
        let mut bytes = seed.get(&seeds).clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        fuzz_event(&bytes);
    }
}

#[test]
fn seeds_are_good_journals() {
    for seed in fuzz_seeds() {
        fuzz_event(&seed);
    }
}
