//! Journalled rounds: many topics by one sync, and what becomes of them when something fails.

mod common;
mod machine;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use machine::Machine;
use tidelog::sys::sim::{Call, Fault, Keep, SimClock, When};
use tidelog::sys::{Clock, Storage};
use tidelog::{Ack, Durability, Error, Record, Store, StoreOptions, Topic, TopicOptions};

/// Topics, each with a record that its own files hold: the segments are there.
fn topics(store: &Store, count: usize) -> Vec<Topic> {
    let topics: Vec<Topic> = (0..count)
        .map(|n| store.topic(&format!("t{n}")).unwrap())
        .collect();
    for topic in &topics {
        topic.append("first").unwrap();
    }
    topics
}

/// A topic whose segments hold one record of five thousand bytes and no more, and another one.
fn rolls_and_another(store: &Store) -> [Topic; 2] {
    let small = TopicOptions::new()
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(16 << 10);
    let rolls = store.create_topic("rolls", small).unwrap();
    [rolls, store.topic("other").unwrap()]
}

fn send(topics: &[Topic], payload: &str) -> Vec<Ack> {
    let send = |topic: &Topic| topic.append_nowait(Record::new(payload.to_owned()));
    topics.iter().map(|topic| send(topic).unwrap()).collect()
}

fn payloads(store: &Store, topic: &str) -> Vec<String> {
    let partition = store.existing_topic(topic).unwrap().partition(0).unwrap();
    let records = partition.read(0..u64::MAX).unwrap();
    let text =
        |record: tidelog::Result<tidelog::OwnedRecord>| record.unwrap().text().unwrap().to_owned();
    records.map(text).collect()
}

fn syncs(store: &Store) -> u64 {
    store.io().syncs.get()
}

/// A record was appended to each of two hundred topics when somebody flushes: one sync serves all
/// of them. The power fails; all records are there, in a journal first, then in their own files.
#[test]
fn one_sync_serves_two_hundred_topics_and_a_power_cut_takes_none_of_them() {
    let machine = Machine::new(1);
    let store = machine.open();
    let all = topics(&store, 200);
    store.topic("quiet").unwrap();
    let before = syncs(&store);
    let acks = send(&all, "second");
    store.flush().unwrap();
    assert_eq!(syncs(&store) - before, 1);
    assert!(acks.iter().all(Ack::is_durable));
    drop((all, acks));
    let store = machine.cut(store, Keep::Nothing);
    assert_eq!(store.health().unopened_redo, 200);
    assert!(
        tidelog::verify("/store", &options_of(&machine))
            .unwrap()
            .is_sound()
    );
    for n in 0..200 {
        assert_eq!(payloads(&store, &format!("t{n}")), ["first", "second"]);
    }
    assert_eq!(store.health().unopened_redo, 0);
    let store = machine.cut(store, Keep::Nothing);
    for n in 0..200 {
        assert_eq!(payloads(&store, &format!("t{n}")), ["first", "second"]);
    }
    assert!(store.health().damage.is_empty());
    store.close().unwrap();
}

fn options_of(machine: &Machine) -> StoreOptions {
    StoreOptions::new().storage(Arc::new(machine.sim.clone()))
}

/// What rode is not opened by the next owner, who closes the store, nor by one who crashes: the
/// fourth finds it, and it goes on behind it.
#[test]
fn what_rode_waits_for_an_owner_who_uses_it() {
    let machine = Machine::new(1);
    let store = machine.open();
    let all = topics(&store, 3);
    send(&all, "second");
    store.flush().unwrap();
    drop(all);
    let store = machine.cut(store, Keep::Nothing);
    assert_eq!(payloads(&store, "t0"), ["first", "second"]);
    store.close().unwrap();
    let store = machine.open();
    assert_eq!(store.health().unopened_redo, 2);
    let store = machine.cut(store, Keep::Nothing);
    assert_eq!(payloads(&store, "t1"), ["first", "second"]);
    let topic = store.existing_topic("t2").unwrap();
    assert_eq!(topic.append("third").unwrap().offset(), 2);
    assert_eq!(payloads(&store, "t2"), ["first", "second", "third"]);
    drop(topic);
    store.close().unwrap();
}

/// A topic's first record rides: nothing of its segment was synced when the power fails, not even
/// the header, and the record is there all the same.
#[test]
fn a_first_record_that_rode_brings_its_header_along() {
    let machine = Machine::new(1);
    let store = machine.open();
    let all: Vec<Topic> = (0..2)
        .map(|n| store.topic(&format!("t{n}")).unwrap())
        .collect();
    send(&all, "first");
    store.flush().unwrap();
    drop(all);
    let store = machine.cut(store, Keep::Nothing);
    for topic in ["t0", "t1"] {
        assert_eq!(payloads(&store, topic), ["first"]);
    }
    store.close().unwrap();
}

/// A topic is deleted while the journal still holds what rode, and made anew under its name: the
/// new one has none of it.
#[test]
fn what_rode_of_a_deleted_topic_does_not_come_back() {
    let machine = Machine::new(1);
    let store = machine.open();
    let all = topics(&store, 2);
    send(&all, "second");
    store.flush().unwrap();
    drop(all);
    store.delete_topic("t0").unwrap();
    store.topic("t0").unwrap().append("anew").unwrap();
    let store = machine.cut(store, Keep::Nothing);
    assert_eq!(payloads(&store, "t0"), ["anew"]);
    assert_eq!(payloads(&store, "t1"), ["first", "second"]);
    store.close().unwrap();
}

/// The journal's sync fails: who rode is in doubt, and nothing more is written by this owner. What
/// was acknowledged before is there after the power cut.
#[test]
fn a_failed_sync_of_the_journal_leaves_who_rode_in_doubt() {
    let machine = Machine::new(1);
    let store = machine.open();
    let all = topics(&store, 2);
    let acks = send(&all, "second");
    machine
        .sim
        .fail(Fault::new(Call::Sync, When::Nth(0), 5).on("journal"));
    store.flush().unwrap_err();
    for ack in &acks {
        assert!(matches!(ack.wait(), Err(Error::InDoubt { .. })));
    }
    let refused = all[0].append("third");
    assert!(
        matches!(refused, Err(Error::StoreFailed { .. })),
        "{refused:?}"
    );
    drop((all, acks));
    let store = machine.cut(store, Keep::Nothing);
    for topic in ["t0", "t1"] {
        assert_eq!(payloads(&store, topic)[0], "first");
    }
    store.close().unwrap();
}

/// A topic has been quiet, so its own file is synced, and that fails: the log takes nothing more.
/// The record that rode is still acknowledged, and there after a power cut.
#[test]
fn what_rode_survives_the_failed_sync_of_its_own_file() {
    let machine = Machine::new(1);
    let store = machine.open();
    let all = topics(&store, 2);
    let acks = send(&all, "second");
    store.flush().unwrap();
    machine
        .sim
        .fail(Fault::new(Call::Sync, When::Nth(0), 5).on("t0"));
    machine.clock.advance(Duration::from_secs(2));
    // Each turn of the crew looks at a log that rests.
    for n in 0..6 {
        store
            .topic(&format!("other {n}").replace(' ', "-"))
            .unwrap();
    }
    assert!(acks[0].is_durable());
    let refused = all[0].append("third");
    assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
    drop((all, acks));
    let store = machine.cut(store, Keep::Nothing);
    for topic in ["t0", "t1"] {
        assert_eq!(payloads(&store, topic), ["first", "second"]);
    }
    store.close().unwrap();
}

/// A topic that is synced by hand is flushed together with another, gets more records that nobody
/// flushes, and rests: its own file is synced all the same, so the journal need not keep its redo.
#[test]
fn a_topic_synced_by_hand_does_not_hold_the_journal_back() {
    let machine = Machine::new(1);
    let store = machine.open();
    let manual = TopicOptions::new().durability(Durability::Manual);
    let manual = store.create_topic("manual", manual).unwrap();
    let other = store.topic("other").unwrap();
    send(&[manual.clone(), other.clone()], "first");
    store.flush().unwrap();
    send(std::slice::from_ref(&manual), "second");
    machine.clock.advance(Duration::from_secs(2));
    for n in 0..6 {
        store.topic(&format!("t{n}")).unwrap();
    }
    drop((manual, other));
    let store = machine.cut(store, Keep::Nothing);
    assert_eq!(payloads(&store, "manual"), ["first", "second"]);
    store.close().unwrap();
}

/// A store with threads is killed while the journal holds what rode in five topics. The next owner
/// uses none of them; they are recovered all the same, so that the journal need not keep it.
#[test]
fn what_nobody_uses_is_recovered_in_the_background() {
    let machine = Machine::new(1);
    let store = machine.open();
    let all = topics(&store, 5);
    send(&all, "second");
    store.flush().unwrap();
    drop(all);
    let store = machine.cut(store, Keep::Nothing);
    drop(store);
    let store = Store::open_with("/store", options_of(&machine)).unwrap();
    let start = std::time::Instant::now();
    while store.health().unopened_redo > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "hung");
        std::thread::sleep(Duration::from_millis(1));
    }
    for n in 0..5 {
        assert_eq!(payloads(&store, &format!("t{n}")), ["first", "second"]);
    }
    store.close().unwrap();
}

/// D23: one topic has a record that rode and is idle from then on, while two others are busy with a
/// hundred megabytes that ride. The journal is let go of behind them: neither does the idle topic
/// pin it, nor do the busy ones, which are never quiet.
#[test]
fn an_idle_topic_does_not_pin_the_journal_under_busy_ones() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    let clock = Arc::new(SimClock::new(1, 1_700_000_000_000_000_000));
    let options = StoreOptions::new().clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let store = Store::open_with(&root, options.inline()).unwrap();
    let idle = store.topic("idle").unwrap();
    let busy = [store.topic("a").unwrap(), store.topic("b").unwrap()];
    let payload = "x".repeat(100_000);
    send(&[idle], "once");
    let mut written = 0;
    let mut most = 0;
    for _ in 0..500 {
        send(&busy, &payload);
        store.flush().unwrap();
        clock.advance(Duration::from_millis(10));
        written += 2 * payload.len() as u64;
        let segments = std::fs::read_dir(root.join("journal")).unwrap();
        let bytes = segments.map(|entry| entry.unwrap().metadata().unwrap().len());
        most = bytes.sum::<u64>().max(most);
    }
    assert!(written > 95 << 20);
    assert!(most > 8 << 20, "nothing rode: {most}");
    assert!(most < 56 << 20, "{most}");
    drop(busy);
    // D29. As a kill would leave it: what is replayed when it is opened is bounded, too.
    let image = dir.path().join("killed");
    common::copy(&root, &image).unwrap();
    store.close().unwrap();
    let store = Store::open_with(&image, StoreOptions::new().inline()).unwrap();
    let read = store.io().bytes_read.get();
    assert!(read < 64 << 20, "{read}");
    assert_eq!(payloads(&store, "idle"), ["once"]);
    assert_eq!(payloads(&store, "a").len(), 500);
    store.close().unwrap();
}

/// A record began a new segment and rode; then that segment's file is lost. The journal has the
/// record and the files have no place for it: the topic fails, nothing is touched, and with the
/// file back all is well.
#[test]
fn what_rode_and_finds_no_place_fails_its_topic() {
    let machine = Machine::new(1);
    let store = machine.open();
    let [rolls, other] = rolls_and_another(&store);
    let large = "x".repeat(5000);
    // One fits into a segment, and its end is not sealed before a later one is settled.
    rolls.append(&*large).unwrap();
    send(&[rolls.clone(), other.clone()], &large);
    store.flush().unwrap();
    drop((rolls, other));
    let store = machine.cut(store, Keep::Nothing);
    let folder = Path::new("/store/topics/rolls/000000-1");
    let second = folder.join("00000001.seg");
    let kept = Path::new("/kept");
    machine.sim.rename(&second, kept).unwrap();
    let failed = store
        .existing_topic("rolls")
        .unwrap()
        .partition(0)
        .unwrap()
        .end();
    let Err(Error::Failed { cause, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert!(matches!(*cause, Error::Mismatch { .. }), "{cause}");
    assert_eq!(payloads(&store, "other").len(), 1);
    assert_eq!(store.health().unopened_redo, 1);
    store.close().unwrap();
    machine.sim.rename(kept, &second).unwrap();
    let store = machine.open();
    assert_eq!(payloads(&store, "rolls").len(), 2);
    store.close().unwrap();
}

/// A segment was begun twice, since a power cut took the first beginning; what was written behind the
/// second one rode. Then somebody puts a copy of the first one back. The journal's record belongs to
/// another life of that file: the topic fails, nothing is touched, and with the right file all is well.
#[test]
fn what_rode_is_not_laid_into_another_life_of_its_segment() {
    let machine = Machine::new(1);
    let store = machine.open();
    let [rolls, other] = rolls_and_another(&store);
    let large = "x".repeat(5000);
    rolls.append(&*large).unwrap();
    rolls.append_nowait(&*large).unwrap();
    let second = Path::new("/store/topics/rolls/000000-1/00000001.seg");
    let first_life = machine.sim.bytes(second).unwrap();
    drop((rolls, other));
    let store = machine.cut(store, Keep::Nothing);
    let all = ["rolls", "other"].map(|name| store.topic(name).unwrap());
    send(&all, &large);
    store.flush().unwrap();
    drop(all);
    let store = machine.cut(store, Keep::Nothing);
    let second_life = machine.sim.bytes(second).unwrap();
    machine.sim.overwrite(second, 0, &first_life).unwrap();
    let end = |store: &Store| store.topic("rolls").unwrap().partition(0).unwrap().end();
    let Err(Error::Failed { cause, .. }) = end(&store) else {
        panic!("{:?}", end(&store));
    };
    assert!(matches!(*cause, Error::Mismatch { .. }), "{cause}");
    assert!(machine.sim.bytes(second).unwrap() == first_life);
    store.close().unwrap();
    machine.sim.overwrite(second, 0, &second_life).unwrap();
    let store = machine.open();
    assert_eq!(end(&store).unwrap(), 2);
    assert_eq!(payloads(&store, "rolls").len(), 2);
    store.close().unwrap();
}
