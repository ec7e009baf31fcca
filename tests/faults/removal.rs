//! D35: removing files and stating that they are gone, cut between any two steps.

use std::path::Path;

use tidelog::sys::Storage;
use tidelog::sys::sim::{Crash, Keep};
use tidelog::{Error, Partition, Record, Start, Store, TopicOptions};

use crate::kit::{one, payload, payloads, segments_of};
use crate::machine::{Machine, ROOT};

const CRASHES: [Crash; 4] = [
    Crash::Kill,
    Crash::Cut(Keep::Nothing),
    Crash::Cut(Keep::Half),
    Crash::Cut(Keep::Everything),
];

impl Machine {
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = self.sim.list(&Path::new(ROOT).join(folder));
        let entries = entries.unwrap_or_default();
        entries.into_iter().map(|entry| entry.name).collect()
    }
}

/// Two topics with some segments each, and a record each that the journal alone has.
fn begun(machine: &Machine) -> Store {
    let store = machine.open();
    for name in ["t", "u"] {
        let topic = store.create_topic(name, segments_of(16 << 10)).unwrap();
        for number in 0..30 {
            topic.append(Record::new(payload(number, 1000))).unwrap();
        }
    }
    for name in ["t", "u"] {
        let topic = store.existing_topic(name).unwrap();
        topic.append_nowait(Record::new(payload(30, 1000))).unwrap();
    }
    store.flush().unwrap();
    store
}

/// A topic is being deleted when the machine stops, before each of the calls that this makes. The topic
/// is there with all of its records, or it is gone; gone it is if that was answered. One made anew under
/// its name has nothing of it, another one has lost nothing, and no file of it stays behind.
#[test]
fn a_topic_whose_deletion_is_cut_anywhere_is_there_whole_or_gone() {
    let whole: Vec<_> = (0..31).map(|number| payload(number, 1000)).collect();
    for crash in CRASHES {
        let mut both = [0, 0];
        for calls in 0.. {
            let machine = Machine::new(calls);
            let store = begun(&machine);
            machine.sim.crash_after(calls);
            let deleted = store.delete_topic("t");
            let ended = !machine.sim.has_stopped();
            machine.sim.crash_after(0);
            drop(store);
            machine.sim.crash(crash).unwrap();
            let store = machine.open();
            let there = store.existing_topic("t").is_ok();
            assert!(!there || deleted.is_err(), "{crash:?} {calls}");
            both[usize::from(there)] += 1;
            if there {
                assert_eq!(payloads(&one(&store, "t")), whole, "{crash:?} {calls}");
                store.delete_topic("t").unwrap();
            }
            let anew = store.topic("t").unwrap();
            assert_eq!(anew.append("anew").unwrap().offset(), 0);
            assert_eq!(payloads(&one(&store, "u")), whole);
            drop(anew);
            store.close().unwrap();
            let store = machine.open();
            assert_eq!(payloads(&one(&store, "t")), [b"anew"]);
            store.close().unwrap();
            assert_eq!(machine.names("topics/t").len(), 1, "{crash:?} {calls}");
            let none: [String; 0] = [];
            assert_eq!(machine.names("trash"), none, "{crash:?} {calls}");
            if ended {
                assert!(calls > 8, "only {calls} steps");
                break;
            }
        }
        assert!(both.iter().all(|count| *count > 0), "{crash:?} {both:?}");
    }
}

/// Each of the first offsets is told to have gone, with where the partition begins.
fn expired(partition: &Partition, to: u64) {
    for offset in 0..to {
        let cursor = partition.cursor(Start::Offset(offset));
        let told = cursor.and_then(|mut cursor| cursor.next().map(|_| ()));
        for told in [told, partition.read(offset..u64::MAX).map(|_| ())] {
            let Err(Error::OffsetExpired { asked, first, .. }) = told else {
                panic!("{offset} of {to}: {told:?}")
            };
            assert_eq!((asked, first), (offset, to));
        }
    }
}

/// A partition loses its beginning when the machine stops, before each of the calls that this makes. It
/// begins where it began, or where it was to begin; there it begins if that was answered. What is left is
/// whole, what went is told to have expired, no file of it stays behind, and all that is so for the next
/// owner, too.
#[test]
fn a_truncation_that_is_cut_anywhere_leaves_the_old_beginning_or_the_new_one() {
    let whole: Vec<_> = (0..31).map(|number| payload(number, 1000)).collect();
    let machine = Machine::new(3);
    let store = begun(&machine);
    let to = one(&store, "t").truncate_before(29).unwrap();
    assert!(to > 14, "two segments go: {to}");
    assert_eq!(one(&store, "t").truncate_before(3).unwrap(), to);
    store.close().unwrap();
    let left = machine.names("topics/t/000000-1");
    for crash in CRASHES {
        let mut both = [0, 0];
        for calls in 0.. {
            let machine = Machine::new(calls);
            let store = begun(&machine);
            machine.sim.crash_after(calls);
            let truncated = one(&store, "t").truncate_before(29);
            let ended = !machine.sim.has_stopped();
            machine.sim.crash_after(0);
            drop(store);
            machine.sim.crash(crash).unwrap();
            let store = machine.open();
            let partition = one(&store, "t");
            let first = partition.first().unwrap();
            assert!(
                first == to || first == 0 && truncated.is_err(),
                "{crash:?} {calls}: {first}"
            );
            both[usize::from(first == to)] += 1;
            assert_eq!(
                payloads(&partition),
                whole[first as usize..],
                "{crash:?} {calls}"
            );
            expired(&partition, first);
            assert_eq!(partition.truncate_before(29).unwrap(), to);
            expired(&partition, to);
            assert_eq!(partition.append("next").unwrap().offset(), 31);
            store.close().unwrap();
            let store = machine.open();
            assert_eq!(one(&store, "t").first().unwrap(), to);
            expired(&one(&store, "t"), to);
            assert_eq!(one(&store, "t").end().unwrap(), 32);
            assert_eq!(payloads(&one(&store, "u")), whole);
            store.close().unwrap();
            assert_eq!(
                machine.names("topics/t/000000-1")[0],
                left[0],
                "{crash:?} {calls}"
            );
            if ended {
                assert!(calls > 3, "only {calls} steps");
                break;
            }
        }
        assert!(both.iter().all(|count| *count > 0), "{crash:?} {both:?}");
    }
}

/// States long facts until the journal lets go of a segment, or the machine stops; how many calls of
/// the machine there had been before the last statement.
fn until_a_segment_goes(machine: &Machine, store: &Store) -> u64 {
    let bulk = TopicOptions::new().partitions(10_000);
    for step in 0..2000 {
        let before = machine.sim.calls();
        let options = bulk.clone().max_record_bytes(5000 + step);
        if store.create_topic("bulk", options).is_err() {
            return before;
        }
        // None is there, for all we see, when the machine has stopped.
        if machine.names("journal").first().map(String::as_str) != Some("00000000.seg") {
            return before;
        }
    }
    panic!("the journal never lets go of a segment");
}

/// The journal lets go of segments when the machine stops, before each of the calls that this makes. The
/// segments that are left follow one another, and nothing is missing.
#[test]
fn a_journal_that_is_cut_while_it_lets_go_of_segments_has_no_hole() {
    let machine = Machine::new(1);
    let store = begun(&machine);
    let (from, to) = (until_a_segment_goes(&machine, &store), machine.sim.calls());
    store.close().unwrap();
    let mut stopped = 0;
    // The last calls are those: files and their folder, one after another.
    for calls in (from..to).rev().take(4) {
        let machine = Machine::new(1);
        let store = begun(&machine);
        machine.sim.crash_after(calls - machine.sim.calls());
        until_a_segment_goes(&machine, &store);
        stopped += u32::from(machine.sim.has_stopped());
        machine.sim.crash_after(0);
        drop(store);
        machine.sim.crash(CRASHES[calls as usize % 4]).unwrap();
        let store = machine.open();
        assert_eq!(store.health().journal_damaged, 0, "{calls}");
        assert_eq!(payloads(&one(&store, "t")).len(), 31, "{calls}");
        assert_eq!(store.existing_topic("bulk").unwrap().partitions(), 10_000);
        store.close().unwrap();
        let names = machine.names("journal");
        let numbers = names.iter().map(|name| name[..8].parse::<u64>().unwrap());
        let numbers: Vec<u64> = numbers.collect();
        assert!(
            numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "{names:?}"
        );
    }
    assert!(stopped > 2, "{stopped} in {from}..{to}");
}
