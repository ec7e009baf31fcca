//! `Store::transaction`: records of several topics, checkpoints and ends, whole or not there.

mod machine;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use machine::Machine;
use tidelog::sys::Backend;
use tidelog::sys::sim::{Call, Crash, Fault, Keep, When};
use tidelog::{Durability, Error, Part, Position, Record, Start, Store, Topic, TopicOptions};

const BOTH: [Backend; 2] = [Backend::Mapped, Backend::Pwrite];

fn on(backend: Backend) -> Machine {
    let machine = Machine::new(1);
    machine.sim.set_backend(backend);
    machine
}

/// A store with two orders in a topic, and with topics for what comes of them: every log has its first
/// segment.
fn shop(store: &Store) -> [Topic; 3] {
    let two = TopicOptions::new().partitions(2);
    let orders = store.create_topic("orders", two.clone()).unwrap();
    let done = store.create_topic("done", two).unwrap();
    let audit = store.topic("audit").unwrap();
    for topic in [&orders, &done] {
        topic.append(Record::new("zero").partition(0)).unwrap();
        topic.append(Record::new("one").partition(1)).unwrap();
    }
    audit.append("opened").unwrap();
    [orders, done, audit]
}

fn ends(topics: &[&Topic]) -> Vec<u64> {
    let end = |topic: &Topic, number| topic.partition(number).unwrap().end().unwrap();
    let of = |topic: &&Topic| (0..topic.partitions()).map(|it| end(topic, it)).collect();
    topics
        .iter()
        .flat_map(|it| -> Vec<u64> { of(it) })
        .collect()
}

fn shown(positions: &[Position]) -> Vec<String> {
    positions.iter().map(ToString::to_string).collect()
}

/// Reads all orders of a subscription, and puts what comes of them into a transaction.
fn serve(store: &Store, [orders, done, audit]: &[Topic; 3]) -> tidelog::Result<Vec<Position>> {
    let mut inbox = orders.subscribe("clerk")?;
    store.transaction(|tx| {
        while let Some(order) = inbox.next()? {
            tx.append(done, order.to_record().partition(order.partition()))?;
        }
        tx.append(audit, "served")?;
        tx.commit_subscription(&mut inbox)
    })
}

/// A transaction writes to three partitions of two topics and commits a subscription. That costs one
/// sync, and the power fails before any of the files was synced: all of it is there.
#[test]
fn a_transaction_over_topics_and_a_checkpoint_costs_one_sync_and_survives_a_power_cut() {
    for backend in BOTH {
        let machine = on(backend);
        let store = machine.open();
        let topics = shop(&store);
        drop(topics[0].subscribe("clerk").unwrap());
        let before = store.io().syncs.get();
        let went = serve(&store, &topics).unwrap();
        assert_eq!(store.io().syncs.get() - before, 1);
        assert_eq!(shown(&went), ["done/0@1", "done/1@1", "audit/0@1"]);
        let [orders, done, audit] = &topics;
        assert_eq!(ends(&[orders, done, audit]), [1, 1, 2, 2, 2]);
        drop(topics);

        let store = machine.cut(store, Keep::Nothing);
        let [orders, done, audit] =
            ["orders", "done", "audit"].map(|name| store.existing_topic(name).unwrap());
        assert_eq!(ends(&[&done, &audit]), [2, 2, 2]);
        let mut inbox = orders.subscribe("clerk").unwrap();
        assert!(inbox.next().unwrap().is_none(), "{backend:?}");
        drop(inbox);
        store.close().unwrap();
    }
}

/// The sync of the journal fails. Whoever made the transaction is told all its places, and that they
/// are in doubt; nothing shows, and the subscription's handle does not count it as committed. After the
/// power cut none of it is there, or all of it.
#[test]
fn a_transaction_whose_sync_fails_is_in_doubt_and_its_subscription_has_not_moved() {
    for (keep, there) in [(Keep::Nothing, false), (Keep::Everything, true)] {
        let machine = on(Backend::Mapped);
        let store = machine.open();
        let [orders, done, audit] = shop(&store);
        let mut inbox = orders.subscribe("clerk").unwrap();
        while inbox.next().unwrap().is_some() {}
        match there {
            false => machine.sim.fail(Fault::new(Call::Sync, When::Nth(0), 5)),
            true => machine.sim.crash_after(0),
        }
        let failed = store.transaction(|tx| {
            tx.append(&audit, "served")?;
            tx.append(&done, Record::new("two").partition(1))?;
            tx.append(&done, Record::new("three").partition(1))?;
            tx.commit_subscription(&mut inbox)
        });
        match failed {
            Err(Error::InDoubt { mut spans, .. }) => {
                spans.sort_by_key(ToString::to_string);
                let spans: Vec<_> = spans.iter().map(ToString::to_string).collect();
                assert_eq!(spans, ["audit/0@1..2", "done/1@1..3"]);
            }
            other => panic!("{other:?}"),
        }
        let committed = [0, 1].map(|partition| inbox.committed(partition).unwrap());
        assert_eq!(committed, [0, 0]);
        let more = inbox.commit();
        assert!(matches!(more, Err(Error::StoreFailed { .. })), "{more:?}");
        drop((orders, done, audit, inbox));

        let store = machine.cut(store, keep);
        let [orders, done, audit] =
            ["orders", "done", "audit"].map(|name| store.existing_topic(name).unwrap());
        let inbox = orders.subscribe("clerk").unwrap();
        let committed = [0, 1].map(|partition| inbox.committed(partition).unwrap());
        let expected = if there { [1, 1] } else { [0, 0] };
        assert_eq!(committed, expected);
        let expected = if there { [1, 3, 2] } else { [1, 1, 1] };
        assert_eq!(ends(&[&done, &audit]), expected);
        drop(inbox);
        store.close().unwrap();
    }
}

/// A transaction of two records, a commit and an end is cut at every call that the engine makes of the
/// disk. Each time all of it is there afterwards, or nothing; and all of it where it was acknowledged.
#[test]
fn a_transaction_that_is_cut_anywhere_is_there_whole_or_not() {
    for backend in BOTH {
        let mut seen = [0, 0];
        for calls in 0..60 {
            let machine = on(backend);
            let store = machine.open();
            let [orders, done, audit] = shop(&store);
            let mut inbox = orders.subscribe("clerk").unwrap();
            while inbox.next().unwrap().is_some() {}
            machine.sim.crash_after(calls);
            let result = store.transaction(|tx| {
                tx.append(&done, Record::new("two").partition(1))?;
                tx.append(&audit, "the last one")?;
                tx.finish(&audit)?;
                tx.commit_subscription(&mut inbox)
            });
            drop((orders, done, audit, inbox, store));
            machine.sim.crash_after(0);
            drop(machine.sim.crash(Crash::Cut(Keep::Chance)));
            machine.sim.heal();
            let store = machine.open();
            let [orders, done, audit] =
                ["orders", "done", "audit"].map(|name| store.existing_topic(name).unwrap());
            let inbox = orders.subscribe("clerk").unwrap();
            let whole = audit.is_finished();
            let found = (ends(&[&done, &audit]), inbox.committed(1).unwrap());
            let expected = match whole {
                true => (vec![1, 2, 2], 1),
                false => (vec![1, 1, 1], 0),
            };
            assert_eq!(found, expected, "{backend:?}, cut after {calls} calls");
            assert!(whole || result.is_err(), "{backend:?}, {calls}");
            seen[usize::from(whole)] += 1;
            drop(inbox);
            store.close().unwrap();
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }
}

/// The closure returns an error of its own, or one of a call, or panics. Nothing has been written, and
/// the store, and the subscription, go on as though nothing had been.
#[test]
fn a_transaction_that_is_given_up_leaves_nothing() {
    let machine = on(Backend::Mapped);
    let store = machine.open();
    let topics = shop(&store);
    let [orders, done, audit] = &topics;
    let before = (store.io().syncs.get(), store.io().bytes_written.get());
    let mut inbox = orders.subscribe("clerk").unwrap();
    while inbox.next().unwrap().is_some() {}
    let after_subscribing = store.io().bytes_written.get();
    let given_up = store.transaction(|tx| {
        tx.append(done, "two")?;
        tx.finish(audit)?;
        tx.commit_subscription(&mut inbox)?;
        Err(Error::aborted("sold out"))
    });
    match given_up {
        Err(Error::Aborted { reason }) => assert_eq!(reason.to_string(), "sold out"),
        other => panic!("{other:?}"),
    }
    let refused = store.transaction(|tx| {
        tx.append(done, "two")?;
        tx.append(done, Record::new("three").partition(7))
    });
    assert!(
        matches!(refused, Err(Error::PartitionUnknown { partition: 7, .. })),
        "{refused:?}"
    );
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        store.transaction(|tx| {
            tx.append(done, "two").unwrap();
            panic!("in the middle");
        })
    }));
    panicked.unwrap_err();
    assert_eq!(store.io().bytes_written.get(), after_subscribing);
    assert!(before.0 < store.io().syncs.get() && !audit.is_finished());
    assert_eq!(ends(&[done, audit]), [1, 1, 1]);
    assert_eq!(inbox.committed(0).unwrap(), 0);
    // What the closures read has been read; a commit outside counts it.
    inbox.commit().unwrap();
    drop(inbox);
    store.transaction(|_| Ok(())).unwrap();
    serve(&store, &topics).unwrap();
    drop(topics);
    store.close().unwrap();
}

/// Each part of a transaction is refused with an error of its own when it is put in, and the others can
/// be committed without it.
#[test]
fn what_a_transaction_cannot_hold_is_refused_where_it_is_put_in() {
    let machine = on(Backend::Mapped);
    let store = machine.open();
    let limits = TopicOptions::new()
        .max_record_bytes(2000)
        .max_batch_bytes(3000);
    let small = store.create_topic("small", limits).unwrap();
    let large = TopicOptions::new().max_record_bytes(12 << 20);
    let [large, larger] =
        ["large", "larger"].map(|name| store.create_topic(name, large.clone()).unwrap());
    let [ended, deleted] = ["ended", "deleted"].map(|name| store.topic(name).unwrap());
    ended.finish().unwrap();
    store.delete_topic("deleted").unwrap();
    let elsewhere = on(Backend::Mapped).open();
    let foreign = elsewhere.topic("small").unwrap();
    let (k1, m9) = (vec![1; 1500], vec![1; 9 << 20]);
    let went = store.transaction(|tx| {
        let refused = tx.append(&small, vec![1; 3000]).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::TooLarge {
                    what: Part::Record,
                    ..
                }
            ),
            "{refused:?}"
        );
        tx.append(&small, &k1[..])?;
        let refused = tx.append(&small, &k1[..]).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::TooLarge {
                    what: Part::Batch,
                    ..
                }
            ),
            "{refused:?}"
        );
        tx.append(&large, &m9[..])?;
        let refused = tx.append(&larger, &m9[..]).unwrap_err();
        assert!(
            matches!(refused, Error::TransactionTooLarge { limit, .. } if limit == 16 << 20),
            "{refused:?}"
        );
        let refused = tx.append(&ended, "more").unwrap_err();
        assert!(matches!(refused, Error::Finished { .. }), "{refused:?}");
        for gone in [tx.append(&deleted, "more"), tx.finish(&deleted)] {
            assert!(matches!(gone, Err(Error::TopicDeleted { .. })), "{gone:?}");
        }
        let refused = tx.append(&foreign, "more").unwrap_err();
        assert!(matches!(refused, Error::TopicUnknown { .. }), "{refused:?}");
        let key = Record::new("").key(vec![1; 70_000]);
        let refused = tx.append(&small, key).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::TooLarge {
                    what: Part::Key,
                    ..
                }
            ),
            "{refused:?}"
        );
        Ok(())
    });
    assert_eq!(shown(&went.unwrap()), ["small/0@0", "large/0@0"]);
    elsewhere.close().unwrap();
    let reader = Store::open_read_only_with(machine::ROOT, machine.options()).unwrap();
    let refused = reader.transaction(|_| unreachable!());
    assert!(
        matches!(refused, Err(Error::ReadOnly { .. })),
        "{refused:?}"
    );
    reader.close().unwrap();
    store.clone().close().unwrap();
    let refused = store.transaction(|_| unreachable!());
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
}

/// A raised batch limit is one for transactions, too.
#[test]
fn a_transaction_may_be_as_large_as_the_greatest_batch_of_its_topics() {
    let store = on(Backend::Mapped).open();
    let raised = TopicOptions::new().max_batch_bytes(40 << 20);
    let [one, other] =
        ["one", "other"].map(|name| store.create_topic(name, raised.clone()).unwrap());
    let payload = vec![1; 9 << 20];
    store
        .transaction(|tx| {
            for topic in [&one, &other, &one, &other] {
                tx.append(topic, &payload[..])?;
            }
            let refused = tx.append(&one, &payload[..]);
            let too_large = matches!(refused, Err(Error::TransactionTooLarge { .. }));
            assert!(too_large, "{refused:?}");
            Ok(())
        })
        .unwrap();
    assert_eq!(ends(&[&one, &other]), [2, 2]);
    store.close().unwrap();
}

/// One of the topics is full when the transaction is committed: none of them gets anything, and the
/// subscription stays where it was. Nobody's topic is finished.
#[test]
fn a_transaction_that_one_topic_refuses_at_its_commit_changes_nothing() {
    let store = on(Backend::Mapped).open();
    let [orders, done, audit] = shop(&store);
    let full = TopicOptions::new().max_total_bytes(1 << 10);
    let full = store.create_topic("full", full).unwrap();
    full.append(vec![1; 800]).unwrap();
    let mut inbox = orders.subscribe("clerk").unwrap();
    while inbox.next().unwrap().is_some() {}
    let refused = store.transaction(|tx| {
        tx.append(&done, "two")?;
        tx.append(&full, vec![1; 500])?;
        tx.finish(&audit)?;
        tx.commit_subscription(&mut inbox)
    });
    assert!(
        matches!(refused, Err(Error::TopicFull { .. })),
        "{refused:?}"
    );
    assert_eq!(ends(&[&done, &audit, &full]), [1, 1, 1, 1]);
    assert_eq!(inbox.committed(0).unwrap(), 0);
    audit.append("it goes on").unwrap();
    inbox.commit().unwrap();
    drop(inbox);
    store.close().unwrap();
}

/// A topic is ended in a transaction. Nothing can follow it there, nor afterwards; what lay in it
/// without being durable is, and a follower ends behind the last record.
#[test]
fn a_topic_that_is_finished_in_a_transaction_ends_behind_its_records() {
    let machine = on(Backend::Mapped);
    let store = machine.open();
    let by_hand = TopicOptions::new().partitions(2);
    let by_hand = by_hand.durability(Durability::Manual);
    let answer = store.create_topic("answer", by_hand).unwrap();
    let index = store.topic("index").unwrap();
    let below = answer.append_nowait(Record::new("first").partition(1));
    let below = below.unwrap();
    let went = store.transaction(|tx| {
        tx.append(&answer, Record::new("last").partition(1))?;
        tx.finish(&answer)?;
        tx.finish(&answer)?;
        let late = tx.append(&answer, "late");
        assert!(matches!(late, Err(Error::Finished { .. })), "{late:?}");
        tx.append(&index, "the answer is complete")
    });
    assert_eq!(shown(&went.unwrap()), ["answer/1@1", "index/0@0"]);
    assert!(answer.is_finished() && below.is_durable());
    let late = answer.append_nowait("late");
    assert!(matches!(late, Err(Error::Finished { .. })), "{late:?}");
    let texts: Vec<_> = answer.follow(Start::Earliest).unwrap().collect();
    assert_eq!(texts.len(), 2);
    drop((answer, index, below));
    let store = machine.cut(store, Keep::Nothing);
    assert!(store.existing_topic("answer").unwrap().is_finished());
    // Ending it again is not refused, and ends nothing else.
    let answer = store.existing_topic("answer").unwrap();
    store.transaction(|tx| tx.finish(&answer)).unwrap();
    assert_eq!(ends(&[&answer]), [0, 2]);
    store.close().unwrap();
}

/// A subscription of a topic that the transaction writes to is committed in it: the records of the
/// transaction itself are not, and come next.
#[test]
fn a_checkpoint_does_not_cover_the_records_of_its_own_transaction() {
    let store = on(Backend::Mapped).open();
    let [orders, ..] = shop(&store);
    let mut inbox = orders.subscribe("clerk").unwrap();
    while inbox.next().unwrap().is_some() {}
    store
        .transaction(|tx| {
            tx.append(&orders, Record::new("two").partition(0))?;
            tx.commit_subscription(&mut inbox)
        })
        .unwrap();
    assert_eq!(inbox.committed(0).unwrap(), 1);
    assert_eq!(inbox.next().unwrap().unwrap().text().unwrap(), "two");
    drop(inbox);
    store.close().unwrap();
}

/// The twin that is a future does the same, and answers with the same errors.
#[test]
fn a_transaction_can_be_awaited() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let [orders, done, audit] = shop(&store);
    let mut inbox = orders.subscribe("clerk").unwrap();
    while inbox.next().unwrap().is_some() {}
    futures_lite::future::block_on(async {
        let went = store.transaction_async(|tx| {
            tx.append(&done, Record::new("two").partition(1))?;
            tx.finish(&audit)?;
            tx.commit_subscription(&mut inbox)
        });
        assert_eq!(shown(&went.await.unwrap()), ["done/1@1"]);
        let refused = store
            .transaction_async(|tx| tx.append(&audit, "more"))
            .await;
        assert!(
            matches!(refused, Err(Error::Finished { .. })),
            "{refused:?}"
        );
    });
    assert_eq!(inbox.committed(1).unwrap(), 1);
    drop(inbox);
    store.close().unwrap();
}

/// Threads make transactions over the same topics, named in different orders, while others append to
/// them and one flushes. Nobody waits for ever, and each transaction is in both topics, in one and the
/// same order.
#[test]
fn transactions_over_the_same_topics_do_not_wait_in_a_circle() {
    const EACH: u64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topics = ["a", "b"].map(|name| store.topic(name).unwrap());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (store, topics) = (&store, &topics);
            scope.spawn(move || {
                for number in 0..EACH {
                    let text = format!("{thread}.{number}");
                    let first = (thread + number) as usize % 2;
                    let went = store.transaction(|tx| {
                        tx.append(&topics[first], text.as_str())?;
                        tx.append(&topics[1 - first], text.as_str())
                    });
                    assert_eq!(went.unwrap().len(), 2);
                }
            });
            scope.spawn(move || {
                for _ in 0..EACH {
                    topics[thread as usize % 2].append("single").unwrap();
                    store.flush().unwrap();
                }
            });
        }
    });
    let order = |topic: &Topic| -> Vec<String> {
        let records = topic.partition(0).unwrap().read(0..u64::MAX).unwrap();
        let texts = records.map(|it| it.unwrap().text().unwrap().to_owned());
        texts.filter(|text| text != "single").collect()
    };
    assert_eq!(order(&topics[0]).len() as u64, 4 * EACH);
    assert_eq!(order(&topics[0]), order(&topics[1]));
    drop(topics);
    store.close().unwrap();
}
