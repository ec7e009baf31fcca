//! Processors that follow their input, several in one store, and how they end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use tidelog::{Error, OnError, Output, Record, Retry, Start, Store, StoredRecord, TopicOptions};

use crate::kit::{committed, soon, texts, topic};
use crate::machine::Machine;

/// A processor is stopped in the middle of a record. It finishes that one, commits, and tells what it
/// did; the next one begins behind it.
#[test]
fn a_processor_that_is_stopped_finishes_the_record_in_hand() {
    for transactional in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("data")).unwrap();
        topic(&store, "in", &["1", "2", "3"]);
        let (inside, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let gates = (Arc::clone(&inside), Arc::clone(&go));
        let processor = store.processor("copy").input("in").output("out");
        let processor = match transactional {
            true => processor.transactional(),
            false => processor,
        };
        let running = processor.clone().spawn(move |record, out| {
            if record.offset() == 1 {
                gates.0.wait();
                gates.1.wait();
            }
            Ok(out.append(record.to_record())?)
        });
        let running = running.unwrap();
        inside.wait();
        running.stopper().stop();
        go.wait();
        let counts = running.stop().unwrap();
        assert_eq!((counts.records_in, counts.records_out), (2, 2));
        assert_eq!(texts(&store, "out"), ["1", "2"]);
        assert_eq!(committed(&store, "in"), 2);
        let counts = processor.run_once(|record, out| Ok(out.append(record.to_record())?));
        assert_eq!(counts.unwrap().records_in, 1);
        assert_eq!(texts(&store, "out"), ["1", "2", "3"]);
        store.close().unwrap();
    }
}

/// A processor follows: it handles what comes, ends when its input is finished and everything has
/// been handled, and one that has nothing to do is stopped at once.
#[test]
fn a_processor_follows_its_input_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let input = topic(&store, "in", &["1"]);
    let copies = store.processor("copy").input("in").output("out");
    let copies = copies.spawn(|record, out| Ok(out.append(record.to_record())?));
    let copies = copies.unwrap();
    for (number, text) in ["2", "3", "4"].into_iter().enumerate() {
        input.append(text).unwrap();
        soon(|| committed(&store, "in") == number as u64 + 2);
    }
    let idle = store.processor("late").input("in").start(Start::Latest);
    let idle = idle.spawn(|_, _| Ok(())).unwrap();
    assert_eq!(idle.stop().unwrap().records_in, 0);
    input.append_and_finish(["5"]).unwrap();
    assert_eq!(copies.join().unwrap().records_in, 5);
    assert_eq!(texts(&store, "out"), ["1", "2", "3", "4", "5"]);
    store.close().unwrap();
}

/// Four processors run in one store: one waits in its function, one fails for ever, one is between long
/// pauses. The fourth gets its records through while they do, and so do appends.
#[test]
fn a_slow_or_failing_processor_holds_back_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let input = topic(&store, "in", &["0"]);
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let slow = store.processor("slow").input("in").output("slow.out");
    let slow = slow.transactional().spawn(move |record, out| {
        soon(|| gate.load(Ordering::Acquire));
        Ok(out.append(record.to_record())?)
    });
    let slow = slow.unwrap();
    let often = Retry::attempts(u32::MAX).pauses(Duration::ZERO, Duration::ZERO);
    let failing = store.processor("failing").input("in").output("out");
    let failing = failing
        .retry(often)
        .spawn(|_, _| Err("never".into()))
        .unwrap();
    let hour = Duration::from_secs(3600);
    let pausing = store.processor("pausing").input("in");
    let pausing = pausing.retry(Retry::attempts(2).pauses(hour, hour));
    let pausing = pausing.spawn(|_, _| panic!("at each")).unwrap();
    let quick = store.processor("quick").input("in").output("out");
    let quick = quick.spawn(|record, out| Ok(out.append(record.to_record())?));
    let quick = quick.unwrap();
    for number in 1..50 {
        input.append(number.to_string()).unwrap();
        soon(|| texts(&store, "out").len() == number + 1);
    }
    assert_eq!(quick.stop().unwrap().records_in, 50);
    assert!(failing.counts().failures > 0 && slow.counts().records_in == 0);
    assert_eq!(failing.stop().unwrap().records_in, 0);
    assert_eq!(pausing.stop().unwrap().failures, 1);
    go.store(true, Ordering::Release);
    soon(|| slow.counts().records_in == 50);
    assert_eq!(slow.stop().unwrap().records_out, 50);
    store.close().unwrap();
}

/// A processor's function closes its store. That is done, and the processor ends with it; so does one
/// that waits, and one whose input is deleted.
#[test]
fn a_processor_ends_with_its_store_or_its_input() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    topic(&store, "in", &["1", "2"]);
    topic(&store, "gone", &["1"]);
    let waiting = |input: &str| {
        let it = store.processor(input).input(input).output("out");
        let it = it.spawn(|_, _| Ok(())).unwrap();
        soon(|| it.counts().records_in > 0);
        it
    };
    let (gone, idle) = (waiting("gone"), waiting("in"));
    store.delete_topic("gone").unwrap();
    let ended = gone.join();
    assert!(
        matches!(ended, Err(Error::TopicDeleted { .. })),
        "{ended:?}"
    );
    let inside = store.clone();
    let closing = store.processor("closing").input("in").output("out");
    let ended = closing.run(|record, out| {
        inside.clone().close()?;
        Ok(out.append(record.to_record())?)
    });
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    let ended = idle.join();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    drop((store, inside));
    let store = Store::open(dir.path().join("data")).unwrap();
    assert_eq!(texts(&store, "out").len(), 0);
    store.close().unwrap();
}

/// What cannot run is refused before it does: an unknown input, a name in use or that is none, options
/// beyond their limits. A function that puts out to what was not declared fails.
#[test]
fn what_is_declared_wrongly_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    topic(&store, "in", &["1"]);
    let run = |name: &str, input: &str| {
        let it = store.processor(name).input(input);
        it.run_once(|_, _| Ok(()))
    };
    let refused = run("p", "none");
    assert!(
        matches!(refused, Err(Error::TopicUnknown { .. })),
        "{refused:?}"
    );
    for name in ["", "No Name", &"x".repeat(195)] {
        let refused = run(name, "in");
        assert!(
            matches!(refused, Err(Error::InvalidName { .. })),
            "{refused:?}"
        );
    }
    let held = store.existing_topic("in").unwrap();
    let held = held.subscribe("processor.p").unwrap();
    let refused = run("p", "in");
    assert!(
        matches!(refused, Err(Error::SubscriptionBusy { .. })),
        "{refused:?}"
    );
    drop(held);
    let p = || store.processor("p").input("in");
    for refused in [
        p().batch(0).run_once(|_, _| Ok(())),
        p().retry(Retry::attempts(0)).run_once(|_, _| Ok(())),
    ] {
        assert!(
            matches!(refused, Err(Error::InvalidOption { .. })),
            "{refused:?}"
        );
    }
    for to in ["", "elsewhere"] {
        let failed = p().run_once(|record, out| {
            match to {
                "" => out.append(record.to_record())?,
                to => out.append_to(to, record.to_record())?,
            }
            Ok(())
        });
        match failed {
            Err(Error::ProcessorFailed { reason, .. }) => {
                assert_eq!(reason, format!("processor \"p\" has no output {to:?}"));
            }
            other => panic!("{other:?}"),
        }
    }
    store.close().unwrap();
}

/// A thousand records are there. One sync of the output and one of the journal serve all of them, and
/// in a transaction there is one in all.
#[test]
fn a_sync_serves_many_records() {
    for (transactional, syncs) in [(false, 2), (true, 1)] {
        let machine = Machine::new(1);
        let store = machine.open();
        let input = store.topic("in").unwrap();
        input
            .append_batch((0..1000).map(|it| it.to_string()))
            .unwrap();
        topic(&store, "out", &["there is a segment"]);
        let copies = store.processor("copy").input("in").output("out");
        let mut copies = match transactional {
            true => copies.transactional(),
            false => copies,
        }
        .open(Copies)
        .unwrap();
        let before = store.io().syncs.get();
        let counts = copies.run_once().unwrap();
        assert_eq!(counts.records_out, 1000);
        // A slow machine takes longer than the tenth of a second that records wait for each other.
        let took = store.io().syncs.get() - before;
        assert!((syncs..syncs + 20).contains(&took), "{took}");
        drop(copies);
        store.close().unwrap();
    }
}

#[derive(Debug)]
struct Copies;

impl tidelog::Processor for Copies {
    fn process(
        &mut self,
        record: tidelog::StoredRecord<'_>,
        out: &mut tidelog::Output<'_>,
    ) -> Result<(), tidelog::Failure> {
        Ok(out.append(record.to_record())?)
    }
}

/// Records without keys go to the partitions in turn, those with keys where their key belongs, whether in
/// a transaction or not.
#[test]
fn output_goes_by_key_as_usual() {
    for transactional in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("data")).unwrap();
        let input = store.topic("in").unwrap();
        let keyed = |it: u64| Record::new(it.to_string()).key(format!("k{}", it % 7));
        input.append_batch((0..70).map(keyed)).unwrap();
        let four = TopicOptions::new().partitions(4);
        let by_key = store.create_topic("by.key", four.clone()).unwrap();
        let in_turn = store.create_topic("in.turn", four).unwrap();
        let it = store.processor("p").input("in");
        let it = it.output("by.key").output("in.turn");
        let it = if transactional {
            it.transactional()
        } else {
            it
        };
        let seen = AtomicU64::new(0);
        it.run_once(|record, out| {
            seen.fetch_add(1, Ordering::Relaxed);
            out.append(record.to_record())?;
            out.append_to("in.turn", record.payload())?;
            Ok(())
        })
        .unwrap();
        assert_eq!(seen.into_inner(), 70);
        for partition in 0..4 {
            let turn = in_turn.partition(partition).unwrap().end().unwrap();
            assert!((17..=18).contains(&turn), "{turn}");
            let keyed = by_key.partition(partition).unwrap().read(0..99).unwrap();
            for record in keyed.map(Result::unwrap) {
                assert_eq!(by_key.partition_of(record.key().unwrap()), partition);
            }
        }
        store.close().unwrap();
    }
}

/// A processor is dropped while it runs: it stops by itself, and the name is free again.
#[test]
fn a_processor_whose_handle_is_dropped_stops() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    topic(&store, "in", &["1"]);
    let it = store.processor("p").input("in").on_error(OnError::Skip);
    drop(it.clone().spawn(|_, _| Ok(())).unwrap());
    soon(|| {
        !matches!(
            it.clone().run_once(|_, _| Ok(())),
            Err(Error::SubscriptionBusy { .. })
        )
    });
    store.close().unwrap();
}

/// A program that must not block a thread runs a processor, copies the store beside it, and stops it; then
/// it waits for another one, until the store is closed.
#[test]
fn futures_copy_a_store_and_end_its_processors() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    topic(&store, "in", &["1", "2", "3"]);
    let it = store.processor("p").input("in").output("out");
    let copy = |record: StoredRecord<'_>, out: &mut Output<'_>| Ok(out.append(record.to_record())?);
    futures_lite::future::block_on(async {
        let running = it.clone().spawn(copy).unwrap();
        soon(|| running.counts().records_in == 3);
        let report = store.backup_async(dir.path().join("copy")).await.unwrap();
        assert!(report.bytes > 0, "{report:?}");
        assert_eq!(running.stop_async().await.unwrap().records_out, 3);
    });
    assert_eq!(texts(&store, "out"), ["1", "2", "3"]);

    let running = it.clone().spawn(copy).unwrap();
    let mut ends = std::pin::pin!(running.join_async());
    let polled = futures_lite::future::block_on(futures_lite::future::poll_once(&mut ends));
    assert!(polled.is_none(), "it has more to wait for: {polled:?}");
    store.close().unwrap();
    let ended = futures_lite::future::block_on(ends);
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
}
