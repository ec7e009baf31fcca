//! D08: a store that is opened on a full disk after its owner was killed: what the opening writes lies in
//! space that is there.

use std::path::Path;

use tidelog::sys::sim::{Call, Crash, Fault, Keep, When};
use tidelog::sys::{Backend, Storage};
use tidelog::{Error, Record, Store};

use crate::kit::{one, payload, payloads, segments_of};
use crate::machine::{Machine, ROOT};

const CRASHES: [Crash; 3] = [
    Crash::Kill,
    Crash::Cut(Keep::Nothing),
    Crash::Cut(Keep::Half),
];
const TOPICS: [&str; 2] = ["t", "u"];

/// What was acknowledged: how many records of each topic, and up to where they were committed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Told {
    records: [u64; 2],
    committed: u64,
}

fn begun(machine: &Machine) -> Store {
    let store = machine.open();
    for name in TOPICS {
        store.create_topic(name, segments_of(16 << 10)).unwrap();
    }
    let topic = store.topic("gone").unwrap();
    topic.append("gone").unwrap();
    store
        .existing_topic("t")
        .unwrap()
        .subscribe("reader")
        .unwrap();
    store
}

/// Appends, commits, flushes what rides, and deletes, until the machine stops or all is done.
fn live(store: &Store) -> (Told, bool) {
    let mut told = Told::default();
    let done = (|| {
        let topics = TOPICS.map(|name| store.existing_topic(name));
        let mut reader = topics[0].clone()?.subscribe("reader")?;
        for round in 0..6 {
            for (which, topic) in (0..).zip(&topics) {
                let (topic, from) = (topic.clone()?, 5 * round);
                for number in from..from + 4 {
                    topic.append(Record::new(payload(number, 900)))?;
                    told.records[which] = number + 1;
                }
                topic.append_nowait(Record::new(payload(from + 4, 900)))?;
            }
            // Of both at once: it rides.
            store.flush()?;
            told.records = [5 * (round + 1); 2];
            while reader.next()?.is_some() {}
            reader.commit()?;
            told.committed = reader.committed(0)?;
            if round == 3 {
                store.delete_topic("gone")?;
            }
        }
        Ok::<(), Error>(())
    })();
    (told, done.is_ok())
}

fn check(store: &Store, told: Told, what: &str) {
    assert_eq!(store.health().journal_damaged, 0, "{what}");
    for (name, records) in TOPICS.into_iter().zip(told.records) {
        let found = payloads(&one(store, name));
        assert!(
            found.len() as u64 >= records,
            "{what}: {name} has {}",
            found.len()
        );
        for (number, found) in (0..).zip(found) {
            assert_eq!(found, payload(number, 900), "{what}");
        }
    }
    let reader = store
        .existing_topic("t")
        .unwrap()
        .subscribe("reader")
        .unwrap();
    assert!(reader.committed(0).unwrap() >= told.committed, "{what}");
}

/// A machine that has stopped after so many calls of a store's life, and what was acknowledged.
fn stopped(calls: u64, crash: Crash, backend: Backend) -> (Machine, Told, bool) {
    let machine = Machine::new(calls);
    machine.sim.set_backend(backend);
    let store = begun(&machine);
    machine.sim.crash_after(calls);
    let (told, done) = live(&store);
    machine.sim.crash_after(0);
    machine.sim.free(Path::new("/")).unwrap_err();
    drop(store);
    machine.sim.crash(crash).unwrap();
    (machine, told, done)
}

/// The machine stops at every eleventh call of a store's life, and the disk is full from then on: no
/// file or folder can be made, none made longer. The store opens, everything can be read, commits go
/// on, and it is closed; and again; and when there is room it is appended to.
#[test]
fn a_store_opens_on_a_full_disk_wherever_its_owner_was_killed() {
    for crash in CRASHES {
        for backend in [Backend::Mapped, Backend::Pwrite] {
            for calls in (0..).step_by(11) {
                let (machine, told, done) = stopped(calls, crash, backend);
                let what = format!("{crash:?} {backend:?} {calls}");
                for _ in 0..2 {
                    for call in [Call::Create, Call::CreateDir, Call::Grow] {
                        machine
                            .sim
                            .fail(Fault::new(call, When::From(0), libc::ENOSPC));
                    }
                    let store = Store::open_with(ROOT, machine.options().inline());
                    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
                    check(&store, told, &what);
                    let topic = store.existing_topic("t").unwrap();
                    let mut reader = topic.subscribe("reader").unwrap();
                    while reader.next().unwrap().is_some() {}
                    reader.commit().unwrap();
                    drop((reader, topic));
                    store
                        .close()
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                machine.sim.heal();
                let store = machine.open();
                check(&store, told, &what);
                one(&store, "t").append("more").unwrap();
                store.close().unwrap();
                if done {
                    assert!(calls > 100, "only {calls} calls");
                    break;
                }
            }
        }
    }
}

/// Each write, sync, rename and removal of an opening on a full disk is the one that finds no room, in
/// turn: the opening fails with that, or goes on; nothing is lost, and the next one succeeds.
#[test]
fn an_opening_that_finds_no_room_at_any_call_can_be_tried_again() {
    let calls = [
        Call::Write,
        Call::Create,
        Call::CreateDir,
        Call::Grow,
        Call::Rename,
        Call::Remove,
    ];
    for call in calls {
        for backend in [Backend::Mapped, Backend::Pwrite] {
            for at in [40, 90, 130] {
                for nth in 0.. {
                    let (machine, told, _) = stopped(at, Crash::Cut(Keep::Half), backend);
                    let what = format!("{call:?} {backend:?} {at} {nth}");
                    for (call, when) in [
                        (Call::Create, When::From(0)),
                        (Call::CreateDir, When::From(0)),
                        (call, When::Nth(nth)),
                    ] {
                        machine.sim.fail(Fault::new(call, when, libc::ENOSPC));
                    }
                    let opened = Store::open_with(ROOT, machine.options().inline());
                    let failed = opened.is_err();
                    match opened {
                        Ok(store) => drop(store.close()),
                        Err(Error::StorageFull { .. } | Error::StoreFailed { .. }) => {}
                        Err(error) => panic!("{what}: {error:?}"),
                    }
                    machine.sim.heal();
                    let store = machine.open();
                    check(&store, told, &what);
                    store.close().unwrap();
                    if !failed && nth > 25 {
                        break;
                    }
                }
            }
        }
    }
}
