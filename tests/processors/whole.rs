//! What a transactional processor leaves, wherever the machine stops, and how large its transactions get.

use std::collections::BTreeSet;

use tidelog::sys::Backend;
use tidelog::sys::sim::Keep;
use tidelog::{Durability, Error, OnError, Store, TopicOptions};

use crate::kit::{committed, records, texts};
use crate::machine::Machine;

/// Copies ten records one way, and every second one another way, five to a commit.
fn copy(store: &Store, transactional: bool) -> tidelog::Result<()> {
    let it = store.processor("copy").input("in").batch(5);
    let it = it.output("out").output("even");
    let it = if transactional {
        it.transactional()
    } else {
        it
    };
    let counts = it.run_once(|record, out| {
        out.append(record.to_record())?;
        if record.offset() % 2 == 0 {
            out.append_to("even", record.to_record())?;
        }
        Ok(())
    });
    counts.map(drop)
}

/// The power fails at each call that a processor's run makes of the disk; then it runs again. With
/// transactions the output is exactly that of an undisturbed run, and at no time there without the
/// checkpoint; without them nothing is missing, and somewhere a record is there twice.
#[test]
fn a_processor_that_is_cut_anywhere_repeats_nothing_in_a_transaction() {
    for backend in [Backend::Mapped, Backend::Pwrite] {
        let mut cuts = 0;
        let mut twice = BTreeSet::new();
        for transactional in [true, false] {
            for calls in 0..200 {
                let machine = Machine::new(calls);
                machine.sim.set_backend(backend);
                let store = machine.open();
                let input = store.topic("in").unwrap();
                input
                    .append_batch((0..10).map(|it| it.to_string()))
                    .unwrap();
                // Nothing makes its output durable but the processor.
                let by_hand = TopicOptions::new().durability(Durability::Manual);
                store.create_topic("out", by_hand).unwrap();
                drop(input);
                machine.sim.crash_after(calls);
                let ended = copy(&store, transactional);
                let store = machine.cut(store, Keep::Chance);
                if transactional && let Ok(topic) = store.existing_topic("out") {
                    let end = topic.partition(0).unwrap().end().unwrap();
                    let input = store.existing_topic("in").unwrap();
                    let place = input.subscriptions().unwrap();
                    let place = place.first().map_or(0, |it| it.committed[0]);
                    assert_eq!(end, place, "{backend:?}, cut after {calls} calls");
                }
                copy(&store, transactional).unwrap();
                assert_eq!(committed(&store, "in"), 10);
                let found = texts(&store, "out");
                let all: Vec<_> = (0..10).map(|it| it.to_string()).collect();
                if transactional {
                    assert_eq!(found, all, "{backend:?}, cut after {calls} calls");
                    assert_eq!(texts(&store, "even"), ["0", "2", "4", "6", "8"]);
                } else {
                    let once: BTreeSet<_> = found.iter().cloned().collect();
                    assert_eq!(once.into_iter().collect::<Vec<_>>(), all, "{calls}");
                    twice.extend((found.len() > 10).then_some(calls));
                }
                store.close().unwrap();
                if ended.is_ok() {
                    break;
                }
                cuts += 1;
            }
        }
        assert!(cuts > 20 && !twice.is_empty(), "{cuts}, {twice:?}");
    }
}

/// Records lead to more output than fits into one transaction: it goes into several, none of which is
/// larger than a batch of its topic. One record that leads to too much by itself is a failure.
#[test]
fn output_that_is_too_large_for_one_transaction_goes_into_several() {
    let store = Machine::new(1).open();
    let input = store.topic("in").unwrap();
    input.append_batch((0..9).map(|it| it.to_string())).unwrap();
    let limits = TopicOptions::new().max_batch_bytes(10_000);
    store.create_topic("out", limits).unwrap();
    let it = store.processor("p").input("in").output("out");
    let it = it.transactional().on_error(OnError::Skip);
    let mut reason = None;
    let counts = it.run_once(|record, out| {
        // Two records of 2,000 bytes each, and once of 6,000.
        let length = if record.offset() == 4 { 6000 } else { 2000 };
        let payload = vec![b'x'; length];
        out.append(&payload[..])?;
        out.append(&payload[..]).inspect_err(|error| {
            reason = Some(error.clone());
        })?;
        Ok(())
    });
    let counts = counts.unwrap();
    assert_eq!((counts.records_in, counts.records_out), (9, 16));
    assert_eq!(counts.skipped, 1);
    let too_large = matches!(
        reason,
        Some(Error::TransactionTooLarge { limit: 10_000, .. })
    );
    assert!(too_large, "{reason:?}");
    assert_eq!(records(&store, "out").len(), 16);
    store.close().unwrap();
}
