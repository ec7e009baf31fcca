//! Batches over several partitions, and last batches that end their topic: whole, in one sync.

mod machine;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use machine::Machine;
use tidelog::sys::Backend;
use tidelog::sys::sim::{Call, Fault, Keep, When};
use tidelog::{Durability, Error, Record, Start, Store, Topic, TopicOptions};

/// A machine whose disk is written to like this.
fn on(backend: Backend) -> Machine {
    let machine = Machine::new(1);
    machine.sim.set_backend(backend);
    machine
}

const BOTH: [Backend; 2] = [Backend::Mapped, Backend::Pwrite];

/// A topic with four partitions, each with a durable record.
fn four(store: &Store, options: TopicOptions) -> Topic {
    let topic = store.create_topic("t", options.partitions(4)).unwrap();
    for number in 0..4 {
        let first = topic.append_nowait(Record::new("first").partition(number));
        first.unwrap();
    }
    topic.flush().unwrap();
    topic
}

/// A record for each of the partitions.
fn spread(payload: &str) -> Vec<Record<'_>> {
    let record = |number| Record::new(payload).partition(number);
    (0..4).map(record).collect()
}

fn ends(topic: &Topic) -> Vec<u64> {
    let end = |number| topic.partition(number).unwrap().end().unwrap();
    (0..topic.partitions()).map(end).collect()
}

fn texts(store: &Store, number: u32) -> Vec<String> {
    let topic = store.existing_topic("t").unwrap();
    let records = topic.partition(number).unwrap().read(0..u64::MAX).unwrap();
    let text =
        |record: tidelog::Result<tidelog::OwnedRecord>| record.unwrap().text().unwrap().to_owned();
    records.map(text).collect()
}

/// A batch goes to four partitions. It costs one sync, that of the journal; the power fails before
/// any of the four files was synced, and the batch is there, whole.
#[test]
fn a_batch_over_four_partitions_costs_one_sync_and_survives_a_power_cut_whole() {
    for backend in BOTH {
        let machine = on(backend);
        let store = machine.open();
        let topic = four(&store, TopicOptions::new());
        let before = store.io().syncs.get();
        let went = topic.append_batch(spread("second")).unwrap();
        assert_eq!(store.io().syncs.get() - before, 1);
        assert_eq!(went.parts(), [(0, 1..2), (1, 1..2), (2, 1..2), (3, 1..2)]);
        assert_eq!(ends(&topic), [2; 4]);
        drop(topic);

        let store = machine.cut(store, Keep::Nothing);
        for number in 0..4 {
            assert_eq!(texts(&store, number), ["first", "second"], "{backend:?}");
        }
        store.close().unwrap();
    }
}

/// A batch holds records with keys, with partitions and with neither. Each position it returns is
/// that of the record in its place; those of one partition keep their order, and those without a
/// preference go with the first one that has one.
#[test]
fn positions_come_in_the_order_of_the_batch() {
    let store = on(Backend::Mapped).open();
    let topic = four(&store, TopicOptions::new());
    let home = topic.partition_of("b");
    let other = (home + 1) % 4;
    let batch = [
        Record::new("0"),
        Record::new("1").key("b"),
        Record::new("2").partition(other),
        Record::new("3"),
        Record::new("4").partition(other),
        Record::new("5").key("b"),
    ];
    let went = topic.append_batch(batch).unwrap();
    let found: Vec<_> = went
        .iter()
        .map(|at| (at.partition(), at.offset()))
        .collect();
    let expected = [
        (home, 1),
        (home, 2),
        (other, 1),
        (home, 3),
        (other, 2),
        (home, 4),
    ];
    assert_eq!(found, expected);
    assert_eq!(texts(&store, home)[1..], ["0", "1", "3", "5"]);
    assert_eq!(texts(&store, other)[1..], ["2", "4"]);
    store.close().unwrap();
}

/// The sync of the journal fails while it is to make a batch over four partitions durable. Who
/// appended is told all four places, and that they are in doubt; nothing of it shows. After the
/// power cut none of it is there, or all of it.
#[test]
fn a_batch_whose_sync_fails_is_in_doubt_in_all_its_partitions_and_then_there_or_not() {
    for backend in BOTH {
        for (keep, there) in [(Keep::Nothing, false), (Keep::Everything, true)] {
            let machine = on(backend);
            let store = machine.open();
            let topic = four(&store, TopicOptions::new());
            // A failed sync leaves its pages clean, and gone at the cut; one that stops the machine
            // may have written them.
            match there {
                false => machine.sim.fail(Fault::new(Call::Sync, When::Nth(0), 5)),
                true if backend == Backend::Mapped => machine.sim.crash_after(0),
                // The frame and its last word are calls of their own.
                true => machine.sim.crash_after(2),
            }
            match topic.append_batch(spread("second")) {
                Err(Error::InDoubt { spans, .. }) => {
                    let spans: Vec<_> = spans.iter().map(ToString::to_string).collect();
                    assert_eq!(spans, ["t/0@1..2", "t/1@1..2", "t/2@1..2", "t/3@1..2"]);
                }
                other => panic!("{other:?}"),
            }
            let refused = topic.append(Record::new("more"));
            assert!(
                matches!(refused, Err(Error::StoreFailed { .. })),
                "{refused:?}"
            );
            if !there {
                assert_eq!(ends(&topic), [1; 4]);
            }
            drop(topic);
            let store = machine.cut(store, keep);
            let expected = if there {
                vec!["first", "second"]
            } else {
                vec!["first"]
            };
            for number in 0..4 {
                assert_eq!(texts(&store, number), expected, "{backend:?} {keep:?}");
            }
            store.close().unwrap();
        }
    }
}

/// Records were appended without waiting when a batch over all partitions is. That there is redo
/// from an offset on proves that everything below was durable, so the batch makes it so.
#[test]
fn what_lies_below_a_transaction_is_durable_with_it() {
    let machine = on(Backend::Mapped);
    let store = machine.open();
    let topic = four(&store, TopicOptions::new().durability(Durability::Manual));
    let below = topic
        .append_nowait(Record::new("below").partition(2))
        .unwrap();
    assert!(!below.is_durable());
    let ack = topic.append_batch_nowait(spread("second")).unwrap();
    assert!(ack.is_durable() && below.is_durable());
    assert_eq!(ack.wait().unwrap().to_string(), "t/0@1");
    drop((topic, below, ack));
    let store = machine.cut(store, Keep::Nothing);
    assert_eq!(texts(&store, 2), ["first", "below", "second"]);
    assert_eq!(texts(&store, 1), ["first", "second"]);
    store.close().unwrap();
}

/// A partition holds more unsynced bytes than are worth being written twice when a transaction
/// comes: it is synced by itself before, and the journal holds the transaction only.
#[test]
fn a_partition_with_many_bytes_is_synced_by_itself_before_a_transaction() {
    let machine = on(Backend::Pwrite);
    let store = machine.open();
    let topic = four(&store, TopicOptions::new().durability(Durability::Manual));
    let large = vec![7; 300 << 10];
    topic
        .append_nowait(Record::new(&large).partition(1))
        .unwrap();
    let before = (store.io().syncs.get(), store.io().bytes_written.get());
    topic.append_batch_nowait(spread("second")).unwrap();
    // Two files of the partition, the seal of the first one, and the journal.
    assert_eq!(store.io().syncs.get() - before.0, 4);
    assert!(store.io().bytes_written.get() - before.1 < 100 << 10);
    store.close().unwrap();
}

/// One partition cannot take its part of a batch, for it is full, or a record is over its limit.
/// The others get nothing either.
#[test]
fn a_batch_that_one_partition_refuses_is_written_to_none() {
    let store = on(Backend::Mapped).open();
    let options = TopicOptions::new().max_total_bytes(4 << 10);
    let topic = four(&store, options.max_record_bytes(2000));
    let large = vec![7; 1500];
    let batch = |payload: &'static [u8]| {
        [
            Record::new("small").partition(0),
            Record::new(payload).partition(3),
        ]
    };
    let large: &'static [u8] = Box::leak(large.into_boxed_slice());
    let refused = topic.append_batch(batch(large));
    assert!(
        matches!(refused, Err(Error::TopicFull { .. })),
        "{refused:?}"
    );
    let huge: &'static [u8] = Box::leak(vec![7; 3000].into_boxed_slice());
    let refused = topic.append_batch(batch(huge));
    assert!(
        matches!(refused, Err(Error::TooLarge { .. })),
        "{refused:?}"
    );
    assert_eq!(ends(&topic), [1; 4]);
    topic.append_batch(batch(b"small")).unwrap();
    assert_eq!(ends(&topic), [2, 1, 1, 2]);
    store.close().unwrap();
}

/// A transaction is durable in the journal when it cannot be copied to one of its segments. It is
/// acknowledged; that partition fails, and shows it after the store was opened again.
#[test]
fn a_transaction_that_cannot_be_copied_stays_and_its_partition_fails() {
    let machine = on(Backend::Pwrite);
    let store = machine.open();
    let topic = four(&store, TopicOptions::new());
    let below = topic
        .append_nowait(Record::new("below").partition(2))
        .unwrap();
    machine
        .sim
        .fail(Fault::new(Call::Write, When::From(0), 5).on("topics/t/000002"));
    topic.append_batch(spread("second")).unwrap();
    assert!(below.is_durable());
    assert_eq!(store.health().failed.len(), 1);
    assert_eq!(ends(&topic), [2, 2, 2, 2]);
    let refused = topic.append(Record::new("more").partition(2));
    assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
    drop((topic, below));
    let store = machine.cut(store, Keep::Nothing);
    for number in [0, 1, 3] {
        assert_eq!(texts(&store, number), ["first", "second"]);
    }
    assert_eq!(texts(&store, 2), ["first", "below", "second"]);
    store.close().unwrap();
}

/// The last records of a topic are appended and end it. A sync serves both, a follower gets them
/// and then its end, and a power cut takes neither.
#[test]
fn the_last_batch_and_the_end_of_its_topic_are_one() {
    let machine = on(Backend::Mapped);
    let store = machine.open();
    let topic = four(&store, TopicOptions::new().durability(Durability::Manual));
    let below = topic
        .append_nowait(Record::new("below").partition(3))
        .unwrap();
    let before = store.io().syncs.get();
    let went = topic
        .append_and_finish([Record::new("last").partition(1)])
        .unwrap();
    assert_eq!(store.io().syncs.get() - before, 1);
    assert_eq!(went.parts(), [(1, 1..2)]);
    assert!(topic.is_finished() && below.is_durable());
    let again = topic.append_and_finish([Record::new("more")]);
    assert!(matches!(again, Err(Error::Finished { .. })), "{again:?}");
    let refused = topic.append_nowait(Record::new("more"));
    assert!(
        matches!(refused, Err(Error::Finished { .. })),
        "{refused:?}"
    );
    let mut follow = topic.follow(Start::Earliest).unwrap();
    let mut count = 0;
    while follow.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 6);
    drop((topic, below, follow));
    let store = machine.cut(store, Keep::Nothing);
    let topic = store.existing_topic("t").unwrap();
    assert!(topic.is_finished());
    assert_eq!(ends(&topic), [1, 2, 1, 2]);
    topic.finish().unwrap();
    store.close().unwrap();
}

/// The journal fails while it is to end a topic with its last records: neither is there, and the
/// topic is not finished.
#[test]
fn an_end_whose_sync_fails_ends_nothing() {
    let machine = on(Backend::Mapped);
    let store = machine.open();
    let topic = four(&store, TopicOptions::new());
    machine.sim.fail(Fault::new(Call::Sync, When::Nth(0), 5));
    let failed = topic.append_and_finish([Record::new("last").partition(1)]);
    assert!(matches!(failed, Err(Error::InDoubt { .. })), "{failed:?}");
    assert!(!topic.is_finished());
    drop(topic);
    let store = machine.cut(store, Keep::Nothing);
    let topic = store.existing_topic("t").unwrap();
    assert!(!topic.is_finished());
    assert_eq!(ends(&topic), [1; 4]);
    topic.append(Record::new("goes on")).unwrap();
    store.close().unwrap();
}

/// A batch is longer than a segment of the journal, than what may be unsettled there, and than the
/// segments it goes to.
#[test]
fn a_transaction_may_be_longer_than_a_segment_of_the_journal() {
    let machine = on(Backend::Mapped);
    let store = machine.open();
    let options = TopicOptions::new().max_batch_bytes(64 << 20);
    let topic = four(&store, options);
    for round in 1..4_u8 {
        let large = vec![round; 3 << 20];
        let record = |number| Record::new(&large).partition(number);
        topic.append_batch((0..4).map(record)).unwrap();
    }
    drop(topic);
    let store = machine.cut(store, Keep::Nothing);
    let topic = store.existing_topic("t").unwrap();
    assert_eq!(ends(&topic), [4; 4]);
    for number in 0..4 {
        let records = topic.partition(number).unwrap().read(1..4).unwrap();
        for (record, round) in records.zip(1..) {
            let payload = record.unwrap().payload().to_vec();
            assert!(payload == vec![round; 3 << 20], "{number}: {round}");
        }
    }
    store.close().unwrap();
}

/// Threads append batches over all partitions, others single records to one of them, and one
/// flushes, all at once. Nobody waits for ever; every batch is in all partitions, and in one and the
/// same order wherever two of them meet.
#[test]
fn transactions_and_appends_at_the_same_time_do_not_wait_in_a_circle() {
    const BATCHES: u64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let options = TopicOptions::new().first_segment_bytes(16 << 10);
    let topic = four(&store, options);
    let begin = Barrier::new(9);
    let left = AtomicU64::new(4);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (topic, begin, left) = (&topic, &begin, &left);
            scope.spawn(move || {
                begin.wait();
                for batch in 0..BATCHES {
                    let payload = format!("{thread} {batch} {}", ".".repeat(200));
                    let mut records = spread(&payload);
                    // Whatever order they are in.
                    records.rotate_left((thread + batch) as usize % 4);
                    topic.append_batch(records).unwrap();
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for number in 0..4 {
            let (topic, begin, left) = (&topic, &begin, &left);
            scope.spawn(move || {
                begin.wait();
                while left.load(Ordering::SeqCst) > 0 {
                    topic
                        .append(Record::new("single").partition(number))
                        .unwrap();
                }
            });
        }
        begin.wait();
        while left.load(Ordering::SeqCst) > 0 {
            store.flush().unwrap();
            thread::yield_now();
        }
    });
    let mut orders = Vec::new();
    for number in 0..4 {
        let texts = texts(&store, number);
        let order: Vec<_> = texts
            .into_iter()
            .filter(|text| text.ends_with('.'))
            .collect();
        assert_eq!(order.len() as u64, 4 * BATCHES);
        orders.push(order);
    }
    assert!(orders.iter().all(|order| *order == orders[0]));
    drop(topic);
    store.close().unwrap();
}

/// A store takes transactions for as long as it lives; its journal does not grow with them.
#[test]
fn the_journal_lets_go_of_transactions_that_are_settled() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = four(&store, TopicOptions::new());
    let payload = "x".repeat(100 << 10);
    for _ in 0..200 {
        topic.append_batch(spread(&payload)).unwrap();
    }
    let files = std::fs::read_dir(dir.path().join("data/journal")).unwrap();
    let bytes: u64 = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    // 80 MiB went through it.
    assert!(bytes <= 48 << 20, "{bytes}");
    drop(topic);
    store.close().unwrap();
}

/// A future of a transaction is polled once and then given up, a hundred times. By then the transaction is
/// over: the handle stands where the transaction has left it, which is where a new handle stands, and
/// what it read is answered once.
#[test]
fn a_transaction_that_nobody_awaits_any_more_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let (orders, done) = (store.topic("orders").unwrap(), store.topic("done").unwrap());
    let mut inbox = orders.subscribe("inbox").unwrap();
    for number in 0..100 {
        orders.append(format!("order {number}")).unwrap();
        let order = inbox.next().unwrap().unwrap().to_owned();
        let mut going = Box::pin(store.transaction_async(|tx| {
            tx.append(&done, Record::new(order.payload()))?;
            tx.commit_subscription(&mut inbox)
        }));
        let mut context = Context::from_waker(Waker::noop());
        let polled = going.as_mut().poll(&mut context);
        assert!(!matches!(polled, Poll::Ready(Err(_))));
        drop(going);
        assert_eq!(inbox.committed(0).unwrap(), number + 1);
        let told = &orders.subscriptions().unwrap()[0];
        assert_eq!(told.committed, [number + 1]);
        assert_eq!(done.partition(0).unwrap().end().unwrap(), number + 1);
    }
    drop((orders, done, inbox));
    store.close().unwrap();
}
