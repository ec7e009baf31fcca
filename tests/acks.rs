//! Appends that do not wait, and the modes in which a topic becomes durable.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidelog::sys::sim::{Call, Fault, Sim, SimClock, When};
use tidelog::sys::{Backend, Clock};
use tidelog::{Ack, Durability, Error, Record, Store, StoreOptions, Topic, TopicOptions};

const HOUR: Duration = Duration::from_secs(3600);
const START: i64 = 1_700_000_000_000_000_000;

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    (dir, store)
}

/// A store on a simulated disk, whose time stands still until somebody moves it.
fn simulated(inline: bool) -> (Sim, Arc<SimClock>, Store) {
    let (sim, clock) = (Sim::new(1), Arc::new(SimClock::new(1, START)));
    // So that each write is a call that can fail.
    sim.set_backend(Backend::Pwrite);
    let options = StoreOptions::new()
        .storage(Arc::new(sim.clone()))
        .clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let options = if inline { options.inline() } else { options };
    let store = Store::open_with("/store", options).unwrap();
    (sim, clock, store)
}

/// A topic of that durability with a durable record in it: its segment is there, and the journal
/// has nothing to sync.
fn topic(store: &Store, durability: Durability) -> Topic {
    let options = TopicOptions::new().partitions(2).durability(durability);
    let topic = store.create_topic("t", options).unwrap();
    topic
        .append_nowait(Record::new("first").partition(0))
        .unwrap();
    topic.flush().unwrap();
    store.topic("other").unwrap();
    topic
}

/// To partition 0.
fn send(topic: &Topic, payload: &str) -> tidelog::Result<Ack> {
    topic.append_nowait(Record::new(payload).partition(0))
}

fn end(topic: &Topic) -> u64 {
    topic.partition(0).unwrap().end().unwrap()
}

fn many(topic: &Topic, count: usize) -> Vec<Ack> {
    (0..count)
        .map(|number| send(topic, &format!("record {number}")).unwrap())
        .collect()
}

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "hung: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn syncs(store: &Store) -> u64 {
    store.io().syncs.get()
}

/// A program sends a hundred records and waits for the last one only: nothing was synced before it
/// waited, one sync serves all, and the acks of the others agree.
#[test]
fn one_sync_serves_all_that_was_appended_before_it() {
    let (_sim, _clock, store) = simulated(true);
    let topic = topic(&store, Durability::Commit);
    let before = syncs(&store);
    let acks = many(&topic, 100);
    assert_eq!(syncs(&store), before);
    assert!(acks.iter().all(|ack| !ack.is_durable()));
    assert_eq!(end(&topic), 1);
    assert_eq!(acks[99].wait().unwrap().offset(), 100);
    assert_eq!(syncs(&store), before + 1);
    assert!(acks.iter().all(Ack::is_durable));
    assert_eq!(end(&topic), 101);
    store.close().unwrap();
}

/// Nobody waits for a record and nobody keeps its ack: in `Commit` it becomes durable all the same,
/// a hundred times in a row, and not only when the flusher looks by itself after a quiet second.
#[test]
fn in_commit_a_record_becomes_durable_with_nobody_waiting() {
    let (_dir, store) = store();
    let topic = topic(&store, Durability::Commit);
    let start = Instant::now();
    for round in 0..100 {
        drop(many(&topic, 5));
        until("the flusher", || end(&topic) == 6 + 5 * round);
        assert!(start.elapsed() < Duration::from_secs(60), "{round}");
    }
    drop(topic);
    store.close().unwrap();
}

/// Eight threads send a record each and wait, in `Interval`, while time stands still: nobody gets
/// an answer. When the interval has passed, one sync answers all; so again in the next one.
#[test]
fn all_appends_of_an_interval_share_its_one_sync() {
    let (_sim, clock, store) = simulated(false);
    let interval = Duration::from_millis(20);
    let topic = topic(&store, Durability::Interval(interval));
    for round in 1..=3 {
        let before = syncs(&store);
        let written = Barrier::new(9);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let ack = send(&topic, "waits").unwrap();
                    written.wait();
                    assert!(!ack.is_durable());
                    written.wait();
                    ack.wait().unwrap();
                });
            }
            written.wait();
            assert_eq!((syncs(&store), end(&topic)), (before, 8 * round - 7));
            written.wait();
            clock.advance(interval);
        });
        assert_eq!((syncs(&store), end(&topic)), (before + 1, 8 * round + 1));
    }
    store.close().unwrap();
}

/// `append` waits for the interval's sync like everybody, and starts none before it is due.
#[test]
fn an_append_that_waits_is_answered_when_the_interval_has_passed() {
    let (_sim, clock, store) = simulated(false);
    let interval = Duration::from_millis(5);
    let topic = topic(&store, Durability::Interval(interval));
    let before = syncs(&store);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| topic.append(Record::new("second").partition(0)));
        // As soon as it is written, another one stands behind it. Few are sent meanwhile: with many the
        // next segment would be made, which takes syncs of its own.
        until("the append", || {
            thread::sleep(Duration::from_millis(5));
            send(&topic, "more").unwrap().position().offset() > 1
        });
        assert_eq!((syncs(&store), end(&topic)), (before, 1));
        assert!(!waiting.is_finished());
        clock.advance(interval);
        assert!(waiting.join().unwrap().is_ok());
    });
    assert_eq!(syncs(&store), before + 1);
    store.close().unwrap();
}

/// In `Manual` a program that waits without a flush is told so, and does not hang: by `append`
/// before anything is written, by an ack until a flush has covered its records.
#[test]
fn waiting_in_manual_without_a_flush_is_an_error() {
    let (_dir, store) = store();
    let topic = topic(&store, Durability::Manual);
    let ack = send(&topic, "second").unwrap();
    let before = syncs(&store);
    for refused in [
        topic.append("never written").map(drop),
        topic
            .append_batch(["never", "written"].map(Record::new))
            .map(drop),
        ack.wait().map(drop),
        ack.wait_timeout(HOUR).map(drop),
    ] {
        let told = matches!(&refused, Err(Error::NeedsFlush { topic }) if topic == "t");
        assert!(told, "{refused:?}");
    }
    topic.partition(1).unwrap().flush().unwrap();
    assert!(matches!(ack.wait(), Err(Error::NeedsFlush { .. })));
    assert_eq!((syncs(&store), end(&topic)), (before, 1));
    topic.partition(0).unwrap().flush().unwrap();
    assert_eq!(ack.wait().unwrap().offset(), 1);
    let ack = send(&topic, "third").unwrap();
    assert_eq!(ack.position().offset(), 2);
    store.flush().unwrap();
    assert_eq!((syncs(&store), ack.is_durable()), (before + 2, true));
    drop((ack, topic));
    store.close().unwrap();
}

/// A program that never flushes appends more than may be unsettled: a sync is forced.
#[test]
fn at_the_unsettled_bound_a_sync_is_forced_in_every_mode() {
    for durability in [Durability::Interval(HOUR), Durability::Manual] {
        let (_sim, _clock, store) = simulated(true);
        let options = TopicOptions::new()
            .unsettled_bytes(64 << 10)
            .durability(durability);
        let topic = store.create_topic("t", options).unwrap();
        let payload = "x".repeat(4_000);
        for number in 0..100 {
            send(&topic, &payload).unwrap();
            assert!(number - end(&topic).min(number) <= 16, "{}", end(&topic));
        }
        assert!(end(&topic) >= 80);
        store.close().unwrap();
    }
}

/// A subscription commits behind records that nobody has synced: they are durable before the
/// checkpoint is. Behind what was written it cannot.
#[test]
fn a_commit_above_what_is_durable_forces_a_flush_up_to_it() {
    for durability in [Durability::Interval(HOUR), Durability::Manual] {
        let (sim, _clock, store) = simulated(true);
        let topic = topic(&store, durability);
        let mut archive = topic.subscribe("archive").unwrap();
        let acks = many(&topic, 10);
        assert_eq!(end(&topic), 1);
        archive.commit_to(&acks[4].position().next()).unwrap();
        assert!(acks[4].is_durable());
        assert_eq!(archive.committed(0).unwrap(), 6);
        let ahead = acks[9].position().next().next();
        let refused = archive.commit_to(&ahead);
        assert!(
            matches!(refused, Err(Error::BeyondEnd { end: 11, .. })),
            "{refused:?}"
        );
        let last = send(&topic, "last").unwrap();
        sim.fail(Fault::new(Call::Sync, When::Nth(0), 5).on("topics"));
        let refused = archive.commit_to(&last.position().next());
        assert!(matches!(refused, Err(Error::InDoubt { .. })), "{refused:?}");
        assert_eq!(archive.committed(0).unwrap(), 6);
        drop((archive, acks, last, topic));
        store.close().unwrap_err();
    }
}

/// The sync of some records fails, in each mode: their acks are in doubt, now and after the close;
/// that of a record synced before is not.
#[test]
fn an_ack_is_in_doubt_after_a_failed_sync_and_for_good() {
    for durability in [
        Durability::Commit,
        Durability::Interval(HOUR),
        Durability::Manual,
    ] {
        let (sim, _clock, store) = simulated(true);
        let topic = topic(&store, durability);
        let early = send(&topic, "early").unwrap();
        topic.flush().unwrap();
        let ack = topic
            .append_batch_nowait(["late", "later"].map(|it| Record::new(it).partition(0)))
            .unwrap();
        sim.fail(Fault::new(Call::Sync, When::Nth(0), 5).on("topics"));
        topic.flush().unwrap_err();
        let in_doubt = |waited: tidelog::Result<_>| match waited {
            Err(Error::InDoubt { spans, .. }) => assert_eq!(spans[0].offsets, 2..4),
            other => panic!("{other:?}"),
        };
        in_doubt(ack.wait());
        in_doubt(ack.wait_timeout(Duration::ZERO));
        early.wait().unwrap();
        let refused = send(&topic, "never");
        assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
        store.close().unwrap_err();
        in_doubt(ack.wait());
        early.wait().unwrap();
        assert!(early.is_durable() && !ack.is_durable());
    }
}

/// A program finishes a topic, or closes the store, with records nobody has synced: they are
/// durable then, and their acks say so also after the close. A deleted topic's say that.
#[test]
fn finishing_and_closing_flush_and_deleting_answers() {
    for durability in [
        Durability::Commit,
        Durability::Interval(HOUR),
        Durability::Manual,
    ] {
        let (_sim, _clock, store) = simulated(true);
        let topic = topic(&store, durability);
        let finished = send(&topic, "second").unwrap();
        topic.finish().unwrap();
        assert!(finished.is_durable());
        let options = TopicOptions::new().durability(durability);
        let going = store.create_topic("going", options.clone()).unwrap();
        let gone = send(&going, "gone").unwrap();
        store.delete_topic("going").unwrap();
        let staying = store.create_topic("staying", options).unwrap();
        let stays = send(&staying, "stays").unwrap();
        store.close().unwrap();
        stays.wait().unwrap();
        finished.wait().unwrap();
        match gone.wait() {
            // It rode with the statement that the topic is deleted.
            Ok(_) => assert_eq!(durability, Durability::Commit),
            Err(Error::TopicDeleted { .. }) => assert_ne!(durability, Durability::Commit),
            other => panic!("{other:?}"),
        }
        assert!(matches!(send(&staying, "late"), Err(Error::Closed)));
    }
}

/// An ack that was waited for too shortly is as good as before.
#[test]
fn an_ack_stays_valid_after_its_time_was_up() {
    for inline in [false, true] {
        let (_sim, _clock, store) = simulated(inline);
        let topic = topic(&store, Durability::Interval(HOUR));
        let ack = send(&topic, "second").unwrap();
        match ack.wait_timeout(Duration::from_millis(1)) {
            Err(Error::TimedOut { offsets, .. }) => assert_eq!(offsets, 1..2),
            other => panic!("{other:?}"),
        }
        assert!(!ack.is_durable());
        topic.flush().unwrap();
        assert_eq!(ack.wait_timeout(Duration::ZERO).unwrap(), ack.position());
        store.close().unwrap();
    }
}

/// Somebody waits for an hour's interval to end when the topic is made to be flushed by hand: it
/// is answered. The store remembers how its topics are synced.
#[test]
fn another_durability_answers_who_waits_and_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let topic = topic(&store, Durability::Interval(HOUR));
    let manual = TopicOptions::new()
        .partitions(2)
        .durability(Durability::Manual);
    let written = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let ack = send(&topic, "second").unwrap();
            written.wait();
            assert_eq!(ack.wait().unwrap().offset(), 1);
        });
        written.wait();
        store.create_topic("t", manual).unwrap();
    });
    assert_eq!(topic.durability(), Durability::Manual);
    assert!(matches!(topic.append("x"), Err(Error::NeedsFlush { .. })));
    drop(topic);
    store.close().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let topic = store.existing_topic("t").unwrap();
    assert_eq!(topic.durability(), Durability::Manual);
    let minute = Durability::Interval(Duration::from_secs(60));
    let options = TopicOptions::new().partitions(2).durability(minute);
    assert_eq!(
        store.create_topic("t", options).unwrap().durability(),
        minute
    );
    drop(topic);
    store.close().unwrap();
}

/// A topic's deletion is refused, on a full disk, so that it goes on: a flush of the store makes
/// its records durable, too.
#[test]
fn a_flush_does_not_pass_over_a_topic_whose_deletion_was_refused() {
    let (sim, _clock, store) = simulated(true);
    let topic = topic(&store, Durability::Manual);
    let ack = send(&topic, "second").unwrap();
    sim.fail(Fault::new(Call::Write, When::From(0), 28).on("journal"));
    store.delete_topic("t").unwrap_err();
    assert!(!ack.is_durable());
    store.flush().unwrap();
    assert!(ack.is_durable());
}
