//! Writes of records and facts that fail: what may be there afterwards, and how the store goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidelog::sys::sim::{Call, Crash, Fault, Keep, Sim, SimClock, When};
use tidelog::sys::{Backend, Clock, Storage};
use tidelog::{Error, Record, Result, Start, Store, StoreOptions, Topic, TopicOptions};

use crate::kit::{one, payload, payloads, segments_of};

const ROOT: &str = "/store";
const ERRORS: [i32; 2] = [libc::EIO, libc::ENOSPC];

/// A simulated machine whose tails write through the file.
fn machine(seed: u64) -> (Sim, Arc<SimClock>) {
    let sim = Sim::new(seed);
    sim.set_backend(Backend::Pwrite);
    (
        sim,
        Arc::new(SimClock::new(seed, 1_700_000_000_000_000_000)),
    )
}

fn open((sim, clock): &(Sim, Arc<SimClock>)) -> Store {
    let options = StoreOptions::new()
        .storage(Arc::new(sim.clone()))
        .clock(Arc::clone(clock) as Arc<dyn Clock>)
        .inline();
    Store::open_with(ROOT, options).unwrap()
}

/// Ends the machine's life with the owner in it, and opens the store in the next one.
fn after(machine: &(Sim, Arc<SimClock>), store: Store, crash: Crash) -> Store {
    machine.0.crash_after(0);
    drop(store);
    machine.0.crash(crash).unwrap();
    open(machine)
}

/// A store whose topic `t` holds the first two records.
fn begun(machine: &(Sim, Arc<SimClock>)) -> Store {
    let store = open(machine);
    store.create_topic("t", segments_of(16 << 10)).unwrap();
    for number in 0..2 {
        append(&store, number..number + 1).unwrap();
    }
    store
}

/// Appends records as one batch; the first of their offsets.
fn append(store: &Store, numbers: std::ops::Range<u64>) -> Result<u64> {
    let batch = numbers.map(|number| Record::new(payload(number, 100)));
    let went = one(store, "t").append_batch(batch)?;
    Ok(went.parts()[0].1.start)
}

fn expected(numbers: &[u64]) -> Vec<Vec<u8>> {
    numbers.iter().map(|number| payload(*number, 100)).collect()
}

fn nth_write_fails(sim: &Sim, part: &str, nth: u64, errno: i32) {
    sim.fail(Fault::new(Call::Write, When::Nth(nth), errno).on(part));
}

/// D39. The write of a record's bytes fails, after some of them, on a full disk or a bad one. The
/// length, without which they are nothing, had not been written: the caller is told that nothing was,
/// and nothing is there, whether the owner is killed at once or goes on.
#[test]
fn a_write_that_fails_before_the_length_leaves_nothing() {
    for seed in 0..20 {
        for (errno, count, go_on) in [(ERRORS[0], 1, true), (ERRORS[1], 3, false)] {
            let machine = machine(seed);
            let store = begun(&machine);
            nth_write_fails(&machine.0, "topics/t", 0, errno);
            let refused = append(&store, 10..10 + count).unwrap_err();
            let told = matches!(
                refused,
                Error::StorageFull { .. } | Error::Io { op: "write", .. }
            );
            assert!(told, "{refused:?}");
            let mut holds = vec![0, 1];
            if go_on {
                assert_eq!(append(&store, 20..22).unwrap(), 2);
                holds.extend([20, 21]);
            }
            let store = after(&machine, store, Crash::Kill);
            assert_eq!(payloads(&one(&store, "t")), expected(&holds), "seed {seed}");
            store.close().unwrap();
        }
    }
}

/// D39. A batch of two is refused, and its second frame lies there, whole. What comes next is as long as the
/// first one: written over that, it would have brought the second one back.
#[test]
fn what_a_failed_write_left_is_not_written_over() {
    let long = [payload(11, 100), vec![0; 2000]].concat();
    for seed in 0..20 {
        let machine = machine(seed);
        let store = begun(&machine);
        nth_write_fails(&machine.0, "topics/t", 0, libc::EIO);
        // So much of it is zero that it is there with its first bytes.
        let batch = [payload(10, 100), long.clone()].map(Record::new);
        one(&store, "t").append_batch(batch).unwrap_err();
        assert_eq!(append(&store, 20..21).unwrap(), 2);
        let store = after(&machine, store, Crash::Kill);
        let found = payloads(&one(&store, "t"));
        assert_eq!(found, expected(&[0, 1, 20]), "seed {seed}");
        store.close().unwrap();
    }
}

/// D39. The write of the length itself fails: the record may be there, and the caller is told just
/// that, with the offsets. A kill at once leaves the whole batch or nothing of it.
#[test]
fn a_write_that_fails_at_the_length_is_in_doubt() {
    let mut outcomes = [false; 2];
    for seed in 0..60 {
        for count in [1, 3] {
            let machine = machine(seed);
            let store = begun(&machine);
            doubtful(&machine.0, &store, count);
            // Nobody sees it before the reopen.
            assert_eq!(payloads(&one(&store, "t")), expected(&[0, 1]));
            let store = after(&machine, store, Crash::Kill);
            let found = payloads(&one(&store, "t"));
            let whole: Vec<u64> = [0, 1].into_iter().chain(10..10 + count).collect();
            let there = found.len() > 2;
            let wanted = if there { &whole[..] } else { &[0, 1] };
            assert_eq!(found, expected(wanted), "seed {seed}");
            outcomes[usize::from(there)] = true;
            store.close().unwrap();
        }
    }
    assert_eq!(outcomes, [true; 2], "both outcomes happen");
}

/// Appends a batch whose length cannot be written.
fn doubtful(sim: &Sim, store: &Store, count: u64) {
    doubtful_at(sim, store, count, 1);
}

/// The same where the length is the `nth` thing that is written.
fn doubtful_at(sim: &Sim, store: &Store, count: u64, nth: u64) {
    let first = one(store, "t").end().unwrap();
    nth_write_fails(sim, "topics/t", nth, libc::EIO);
    match append(store, 10..10 + count) {
        Err(Error::InDoubt { spans, .. }) => {
            let expected = format!("t/0@{first}..{}", first + count);
            assert_eq!(spans.len(), 1);
            assert_eq!(spans[0].to_string(), expected);
        }
        other => panic!("{other:?}"),
    }
    assert!(store.health().failed.is_empty());
}

/// The log goes on behind a write in doubt, and gives its offset again. Once that is acknowledged the
/// first one is gone for good, whatever the kernel had brought to the disk on its own.
#[test]
fn an_offset_in_doubt_that_is_given_again_belongs_to_who_was_acknowledged() {
    for seed in 0..30 {
        for keep in [Keep::Nothing, Keep::Half, Keep::Everything] {
            let machine = machine(seed);
            let store = begun(&machine);
            doubtful(&machine.0, &store, 2);
            // Before it stand the next segment's header and its body.
            doubtful_at(&machine.0, &store, 1, 2);
            assert_eq!(append(&store, 20..21).unwrap(), 2);
            let store = after(&machine, store, Crash::Cut(keep));
            assert_eq!(
                payloads(&one(&store, "t")),
                expected(&[0, 1, 20]),
                "{seed} {keep:?}"
            );
            assert_eq!(append(&store, 21..22).unwrap(), 3);
            store.close().unwrap();
            assert!(store_is_sound(&machine));
        }
    }
}

/// A close without an error settles a write in doubt: it is not there, nor does it come back in any
/// later life. Also where the log was as it had been closed before, and that write all there was.
#[test]
fn a_clean_close_settles_a_write_in_doubt() {
    for seed in 0..60 {
        for fresh in [true, false] {
            let machine = machine(seed);
            let mut store = begun(&machine);
            if !fresh {
                store.close().unwrap();
                store = open(&machine);
            }
            doubtful(&machine.0, &store, 1);
            store.close().unwrap();
            let store = open(&machine);
            assert_eq!(
                payloads(&one(&store, "t")),
                expected(&[0, 1]),
                "seed {seed}"
            );
            let store = after(&machine, store, Crash::Kill);
            assert_eq!(
                payloads(&one(&store, "t")),
                expected(&[0, 1]),
                "seed {seed}"
            );
            store.close().unwrap();
        }
    }
}

fn store_is_sound(machine: &(Sim, Arc<SimClock>)) -> bool {
    let options = StoreOptions::new().storage(Arc::new(machine.0.clone()));
    tidelog::verify(ROOT, &options).unwrap().is_sound()
}

/// The write of a fact fails before its length: nothing was stated, and everything goes on. The topic
/// that was to be finished or deleted takes records as before, and the same call works later.
#[test]
fn a_fact_that_is_refused_changes_nothing() {
    for (seed, errno) in [(1, libc::ENOSPC), (2, libc::EIO)] {
        let machine = machine(seed);
        let store = begun(&machine);
        let topic = store.existing_topic("t").unwrap();
        let refuse = || nth_write_fails(&machine.0, "journal/", 0, errno);
        let clean = |error: Error| matches!(error, Error::StorageFull { .. } | Error::Io { .. });
        refuse();
        assert!(clean(
            store.create_topic("u", TopicOptions::new()).unwrap_err()
        ));
        refuse();
        assert!(clean(topic.finish().unwrap_err()));
        assert!(!topic.is_finished());
        assert_eq!(append(&store, 2..3).unwrap(), 2);
        refuse();
        assert!(clean(store.delete_topic("t").unwrap_err()));
        assert_eq!(append(&store, 3..4).unwrap(), 3);
        assert!(store.health().journal.is_none());

        let store = after(&machine, store, Crash::Kill);
        assert_eq!(payloads(&one(&store, "t")), expected(&[0, 1, 2, 3]));
        assert_eq!(store.topics().len(), 1);
        store.create_topic("u", TopicOptions::new()).unwrap();
        let topic = store.existing_topic("t").unwrap();
        topic.finish().unwrap();
        assert!(matches!(append(&store, 4..5), Err(Error::Finished { .. })));
        store.delete_topic("t").unwrap();
        store.close().unwrap();
    }
}

/// One partition cannot be made safe: the topic is not finished, and its other partitions are not
/// either.
#[test]
fn a_topic_with_a_partition_that_cannot_be_finished_goes_on() {
    let machine = machine(3);
    let store = open(&machine);
    let options = segments_of(16 << 10).partitions(3);
    let topic = store.create_topic("t", options).unwrap();
    let to = |topic: &Topic, number| topic.partition(number).unwrap().append("one").map(drop);
    for number in 0..2 {
        to(&topic, number).unwrap();
    }
    store.close().unwrap();
    let store = open(&machine);
    let topic = store.existing_topic("t").unwrap();
    // The last partition cannot be opened: its folder's names cannot be listed.
    machine
        .0
        .fail(Fault::new(Call::List, When::Nth(2), libc::EIO).on("topics/t"));
    topic.finish().unwrap_err();
    assert!(!topic.is_finished());
    for number in 0..3 {
        to(&topic, number).unwrap();
    }
    topic.finish().unwrap();
    for number in 0..3 {
        assert!(matches!(to(&topic, number), Err(Error::Finished { .. })));
    }
    store.close().unwrap();
}

/// The write of a fact's length fails: the fact may be there after the reopen, so nothing that it
/// would undo may be acknowledged until then. Reading goes on, also in a log that nobody had opened.
#[test]
fn a_fact_in_doubt_ends_writing_and_not_reading() {
    let mut outcomes = [false; 2];
    for seed in 0..60 {
        let machine = machine(seed);
        begun(&machine).close().unwrap();
        let store = open(&machine);
        store.topic("other").unwrap();
        nth_write_fails(&machine.0, "journal/", 1, libc::EIO);
        let failed = |error: Error| matches!(error, Error::StoreFailed { .. });
        assert!(failed(store.delete_topic("t").unwrap_err()));
        assert!(failed(append(&store, 2..3).unwrap_err()));
        assert!(failed(one(&store, "other").append("one").unwrap_err()));
        assert!(store.health().journal.is_some_and(failed));
        assert_eq!(payloads(&one(&store, "t")), expected(&[0, 1]));

        let store = after(&machine, store, Crash::Kill);
        let there = store.existing_topic("t").is_ok();
        outcomes[usize::from(there)] = true;
        if there {
            assert_eq!(payloads(&one(&store, "t")), expected(&[0, 1]));
        }
        store.close().unwrap();
    }
    assert_eq!(outcomes, [true; 2], "both outcomes happen");
}

/// The folder of the log of `topic`.
fn folder(sim: &Sim, topic: &str) -> PathBuf {
    let topic = Path::new(ROOT).join("topics").join(topic);
    let log = sim.list(&topic).unwrap().remove(0).name;
    topic.join(log)
}

fn segment(sim: &Sim, topic: &str, number: u32) -> PathBuf {
    folder(sim, topic).join(format!("{number:08}.seg"))
}

/// A batch is too large for the disk, once. The segments of the records after it are as long as they
/// would have been without it.
#[test]
fn a_batch_that_found_no_room_makes_no_later_segment_longer() {
    let machine = machine(1);
    let store = begun(&machine);
    machine.0.set_capacity(Some(300 << 10));
    let large = one(&store, "t").append(Record::new(vec![7; 400 << 10]));
    assert!(matches!(large, Err(Error::StorageFull { .. })), "{large:?}");
    machine.0.set_capacity(None);
    for number in 2..300 {
        append(&store, number..number + 1).unwrap();
    }
    let length = |number| {
        machine
            .0
            .bytes(&segment(&machine.0, "t", number))
            .unwrap()
            .len()
    };
    for number in 0..3 {
        assert_eq!(length(number), 16 << 10, "segment {number}");
    }
    store.close().unwrap();
}

/// A segment to come cannot be synced, nor removed again: its file stays. The next attempt replaces
/// it, and does not fail for its being there.
#[test]
fn a_half_made_segment_that_could_not_be_removed_is_replaced() {
    let machine = machine(1);
    let store = begun(&machine);
    for call in [Call::Sync, Call::Remove] {
        machine
            .0
            .fail(Fault::new(call, When::Nth(0), libc::EIO).on("00000001.seg"));
    }
    let mut refused = 0;
    for number in 2..300 {
        while let Err(error) = append(&store, number..number + 1) {
            assert!(matches!(error, Error::Io { .. }), "{error:?}");
            refused += 1;
            assert!(refused < 3, "{error:?}");
        }
    }
    let numbers: Vec<u64> = (0..300).collect();
    assert_eq!(payloads(&one(&store, "t")), expected(&numbers));
    store.close().unwrap();
    assert!(store_is_sound(&machine));
}

/// Without threads nobody comes back to a log that has gone quiet. Whoever appends to another one
/// writes its slot, so that recovery reads nothing of it.
#[test]
fn a_quiet_log_gets_its_slot_without_threads_too() {
    let machine = machine(1);
    let store = begun(&machine);
    let other = store.topic("other").unwrap();
    let slot = |topic| {
        let bytes = machine.0.bytes(&segment(&machine.0, topic, 0)).unwrap();
        bytes[512..1536].iter().any(|byte| *byte != 0)
    };
    other.append("one").unwrap();
    assert!(!slot("t"), "it is not quiet yet");
    machine.1.advance(std::time::Duration::from_secs(2));
    // Each looks at one log that rests; the journal is one, too.
    for _ in 0..4 {
        other.append("more").unwrap();
    }
    assert!(slot("t"));
    store.close().unwrap();
}

/// Segments of the journal that are needed no more cannot be removed, or their removal cannot be
/// made durable, now and then. At every moment those that are there follow one another; what could
/// not go goes later, and no cut leaves a hole.
#[test]
fn removing_segments_leaves_no_hole_whatever_fails() {
    for seed in 0..2 {
        let machine = machine(seed);
        let store = begun(&machine);
        for (call, rate) in [(Call::Remove, 400), (Call::SyncDir, 300)] {
            let fault = Fault::new(call, When::PerMille(rate), libc::EIO);
            machine.0.fail(fault.on("journal"));
        }
        // Each statement about so many partitions is long. A segment to come may fail to be made.
        let bulk = TopicOptions::new().partitions(3000);
        let mut lowest = 0;
        for step in 0..4000 {
            let options = bulk.clone().max_record_bytes(5000 + step);
            if let Err(error) = store.create_topic("bulk", options) {
                assert!(matches!(error, Error::Io { .. }), "{error:?}");
            }
            let numbers = numbers(&machine.0);
            let follow = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            assert!(follow, "seed {seed}: {numbers:?}");
            lowest = numbers[0];
            if lowest >= 3 {
                break;
            }
        }
        assert!(lowest >= 3, "the journal lets go of segment {lowest}");
        let store = after(&machine, store, Crash::Cut(Keep::Half));
        assert_eq!(payloads(&one(&store, "t")), expected(&[0, 1]));
        assert_eq!(store.health().journal_damaged, 0);
        store.close().unwrap();
    }
}

/// The numbers of the journal's segment files.
fn numbers(sim: &Sim) -> Vec<u32> {
    let names = sim.list(&Path::new(ROOT).join("journal")).unwrap();
    let number = |name: String| name.strip_suffix(".seg")?.parse().ok();
    names
        .into_iter()
        .filter_map(|entry| number(entry.name))
        .collect()
}

/// A look-up by time meets a segment whose bytes cannot be had. What it looks for may be there: that
/// is told with the place, instead of a later record.
#[test]
fn a_time_that_leads_to_an_unreadable_segment_is_an_error() {
    let machine = machine(1);
    let store = begun(&machine);
    let mut times = Vec::new();
    for number in 2..300 {
        machine.1.advance(std::time::Duration::from_secs(1));
        times.push(machine.1.now());
        append(&store, number..number + 1).unwrap();
    }
    store.close().unwrap();
    let path = segment(&machine.0, "t", 1);
    let store = open(&machine);
    let partition = one(&store, "t");
    let find =
        |number: u64| partition.find(tidelog::Timestamp::from_nanos(times[number as usize - 2]));
    let first = (2..300).find(|number| {
        let mut cursor = partition.cursor(Start::Offset(*number)).unwrap();
        cursor.next().unwrap();
        find(*number).unwrap() != *number
    });
    assert_eq!(first, None);
    machine.0.spoil(&path, 8192).unwrap();
    store.close().unwrap();
    let store = open(&machine);
    let partition = one(&store, "t");
    let find =
        |number: u64| partition.find(tidelog::Timestamp::from_nanos(times[number as usize - 2]));
    let mut unreadable = 0;
    for number in 2..300 {
        match find(number) {
            Ok(found) => assert_eq!(found, number),
            Err(Error::Unreadable {
                file, offset, next, ..
            }) => {
                assert_eq!(file, path);
                assert!((offset..next).contains(&number), "{offset}..{next}");
                unreadable += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(unreadable > 50, "{unreadable}");
    drop(store.close());
}
