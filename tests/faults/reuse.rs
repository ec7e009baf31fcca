//! D08: a disk that stays full, where nothing that is removed can be had again: somebody else takes it.

use std::path::Path;

use tidelog::sys::Storage;
use tidelog::sys::sim::{Call, Crash, Fault, Keep, When};
use tidelog::{Error, Record, Start, Store, Subscription};

use crate::machine::{Machine, ROOT};

const CRASHES: [Crash; 4] = [
    Crash::Kill,
    Crash::Cut(Keep::Nothing),
    Crash::Cut(Keep::Half),
    Crash::Cut(Keep::Everything),
];

/// So many records can be committed to, one after another.
const RECORDS: u64 = 50;

impl Machine {
    /// Nothing can be made any more, and nothing made longer.
    fn fill(&self) {
        for call in [Call::Create, Call::CreateDir, Call::Grow] {
            self.sim.fail(Fault::new(call, When::From(0), libc::ENOSPC));
        }
    }

    fn kill(&self, store: Store, crash: Crash) {
        self.sim.crash_after(0);
        self.sim.free(Path::new("/")).unwrap_err();
        drop(store);
        self.sim.crash(crash).unwrap();
    }

    /// The numbers of the journal's segments, and how many other files lie there.
    fn numbers(&self) -> (Vec<u32>, usize) {
        let entries = self.sim.list(&Path::new(ROOT).join("journal"));
        // None, when the machine has stopped.
        let entries = entries.unwrap_or_default();
        let number = |name: &str| name.strip_suffix(".seg")?.parse().ok();
        let numbers: Vec<u32> = entries.iter().filter_map(|it| number(&it.name)).collect();
        let others = entries.len() - numbers.len();
        (numbers, others)
    }
}

/// A store with a topic of some records, and a subscription to it.
fn begun(machine: &Machine) -> Store {
    let store = machine.open();
    let topic = store.topic("t").unwrap();
    for _ in 0..RECORDS {
        topic.append(Record::new("record")).unwrap();
    }
    topic.subscribe("reader").unwrap();
    store.flush().unwrap();
    store
}

fn reader(store: &Store) -> Subscription {
    let topic = store.existing_topic("t").unwrap();
    topic.subscribe("reader").unwrap()
}

/// Commits so many times, back and forth. The last checkpoint that was acknowledged, and the one that
/// was not, if that is why this ended early.
fn commit(reader: &mut Subscription, times: u64) -> (u64, Option<u64>) {
    let mut at = reader.committed(0).unwrap();
    for _ in 0..times {
        let next = if at < RECORDS { at + 1 } else { 0 };
        let committed = match next {
            0 => reader.reset(Start::Earliest),
            _ => reader.next().map(|_| ()).and_then(|()| reader.commit()),
        };
        if committed.is_err() {
            return (at, Some(next));
        }
        at = next;
    }
    (at, None)
}

/// The disk is full and stays so, and a subscription commits ten thousand times, through kills, power
/// cuts and closings: others could not make the next segment of their metadata's log, and were stuck.
/// Here the segments that go become the next ones, and no file is left over.
#[test]
fn ten_thousand_commits_go_on_where_nothing_that_goes_gives_room() {
    let machine = Machine::new(1);
    let mut store = begun(&machine);
    let mut greatest = 0;
    for round in 0..10 {
        machine.fill();
        let mut reader = reader(&store);
        let (at, refused) = commit(&mut reader, 1000);
        assert_eq!(refused, None, "round {round}");
        let (numbers, others) = machine.numbers();
        assert!(numbers.len() + others <= 4, "{numbers:?} and {others}");
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        greatest = numbers.last().copied().unwrap();
        drop(reader);
        match CRASHES.get(round % 5) {
            Some(crash) => machine.kill(store, *crash),
            None => store.close().unwrap(),
        }
        // In the full state, too.
        machine.fill();
        store = machine.open();
        assert_eq!(store.health().journal_damaged, 0);
        assert_eq!(self::reader(&store).committed(0).unwrap(), at, "{round}");
    }
    assert!(greatest > 8, "only {greatest} segments were filled");
    machine.sim.heal();
    store.topic("other").unwrap().append("room again").unwrap();
    let mut reader = reader(&store);
    assert_eq!(commit(&mut reader, 3000).1, None);
    drop(reader);
    store.close().unwrap();
    assert_eq!(machine.numbers().1, 0, "space is kept where there is room");
}

/// Commits on a full disk until an old segment is the spare again, or the machine stops.
fn until_one_is_used_again(machine: &Machine, store: &Store) -> (u64, Option<u64>, u64) {
    machine.fill();
    let mut reader = reader(store);
    let mut last = (reader.committed(0).unwrap(), None);
    let mut before = machine.sim.calls();
    let first = machine.numbers().0;
    for _ in 0..5000 {
        before = machine.sim.calls();
        last = commit(&mut reader, 1);
        let stopped = machine.sim.has_stopped();
        if stopped || last.1.is_some() {
            break;
        }
        let (numbers, others) = machine.numbers();
        if numbers.first() > first.first() && numbers.len() > 1 && others == 0 {
            break;
        }
    }
    (last.0, last.1, before)
}

/// A segment that went becomes the next one, and the machine stops before each of the calls that this
/// makes: before it has its interim name, before that is safe, while it is overwritten, before it has
/// its new name. The journal has no hole and nothing of the old records, the checkpoint is the last one
/// or the one that was under way, and on the disk that is still full commits go on.
#[test]
fn a_segment_that_is_cut_while_it_is_used_again_is_the_old_one_or_empty() {
    let machine = Machine::new(1);
    let store = begun(&machine);
    let (_, refused, from) = until_one_is_used_again(&machine, &store);
    assert_eq!(refused, None);
    let to = machine.sim.calls();
    assert!(to - from > 8, "{from}..{to}");
    drop(store);
    for crash in CRASHES {
        for calls in from..to {
            let machine = Machine::new(1);
            let store = begun(&machine);
            machine.sim.crash_after(calls - machine.sim.calls());
            let (at, refused, _) = until_one_is_used_again(&machine, &store);
            assert!(machine.sim.has_stopped(), "{calls} of {from}..{to}");
            machine.kill(store, crash);
            machine.fill();
            let store = machine.open();
            assert_eq!(store.health().journal_damaged, 0, "{crash:?} {calls}");
            let mut reader = reader(&store);
            let found = reader.committed(0).unwrap();
            assert!(
                found == at || Some(found) == refused,
                "{found} {at} {refused:?}"
            );
            assert_eq!(commit(&mut reader, 700).1, None, "{crash:?} {calls}");
            let at = reader.committed(0).unwrap();
            drop(reader);
            machine.kill(store, crash);
            let store = machine.open();
            assert_eq!(self::reader(&store).committed(0).unwrap(), at);
            store.close().unwrap();
        }
    }
}

/// Commits until the journal has no room at all, on a disk without room for its next segment from
/// the beginning; the store is killed, and opened again on the full disk: what the opening has to write
/// was left free. When there is room everything goes on.
#[test]
fn a_journal_without_any_room_can_be_opened_after_a_kill() {
    for crash in CRASHES {
        let machine = Machine::new(1);
        // The first segment of the journal and of the topic are made, and then no other.
        let next = Fault::new(Call::Create, When::From(1), libc::ENOSPC);
        machine.sim.fail(next.on("journal/"));
        let store = begun(&machine);
        machine
            .sim
            .fail(Fault::new(Call::Create, When::From(0), libc::ENOSPC));
        let mut reader = reader(&store);
        let (at, refused) = commit(&mut reader, 5000);
        assert!(refused.is_some(), "it was to have no room");
        let again = reader.commit().unwrap_err();
        assert!(matches!(again, Error::StorageFull { .. }), "{again:?}");
        assert!(store.health().journal.is_none());
        drop(reader);
        machine.kill(store, crash);
        for _ in 0..5 {
            machine.fill();
            let store = machine.open();
            assert_eq!(self::reader(&store).committed(0).unwrap(), at);
            machine.kill(store, crash);
        }
        let store = machine.open();
        let mut reader = self::reader(&store);
        assert_eq!(commit(&mut reader, 2000).1, None);
        drop(reader);
        store.close().unwrap();
    }
}

/// What a killed owner has left in the journal's folder, of space that it wanted to use again, and of a
/// next segment that a power cut has taken the header of: the next owner takes it over, without
/// a byte of what is in it.
#[test]
fn what_lies_in_a_spare_is_overwritten_before_it_is_used() {
    let machine = Machine::new(1);
    let store = begun(&machine);
    let (numbers, _) = machine.numbers();
    let spare = Path::new(ROOT).join(format!("journal/{:08}.seg", numbers.last().unwrap()));
    machine.kill(store, Crash::Kill);
    machine
        .sim
        .overwrite(&spare, 20_000, &[0xab; 30_000])
        .unwrap();
    machine.fill();
    let store = machine.open();
    let bytes = machine.sim.bytes(&spare).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
    let mut reader = reader(&store);
    assert_eq!(commit(&mut reader, 3000).1, None);
    drop(reader);
    store.close().unwrap();
}
