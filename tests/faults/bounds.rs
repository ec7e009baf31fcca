//! How far recovery looks behind a bad frame, and what it does not take for an end.

use std::path::{Path, PathBuf};

use tidelog::sys::sim::{Call, Crash, Fault, When};
use tidelog::sys::{Backend, Storage};
use tidelog::{Durability, Error, Record, Store, TopicOptions};

use crate::kit::{damaged, fill, one, payload, payloads, scan, segments_of};
use crate::machine::{Machine, ROOT};
use crate::segment::Segment;

fn file(machine: &Machine, number: u32) -> PathBuf {
    let topic = Path::new(ROOT).join("topics/t");
    let log = topic.join(&machine.sim.list(&topic).unwrap()[0].name);
    log.join(format!("{number:08}.seg"))
}

fn segment(machine: &Machine, number: u32) -> Segment {
    let path = file(machine, number);
    let bytes = machine.sim.bytes(&path).unwrap();
    Segment { path, bytes }
}

/// The process is killed; nothing that it has written is lost.
fn kill(machine: &Machine, store: Store) {
    machine.sim.crash_after(0);
    machine.sim.free(Path::new("/")).unwrap_err();
    drop(store);
    machine.sim.crash(Crash::Kill).unwrap();
    machine.sim.heal();
}

/// Options that let a little be unsettled, or much.
fn bounded(bytes: u64) -> TopicOptions {
    segments_of(8 << 20)
        .unsettled_bytes(bytes)
        .max_batch_bytes(64 << 10)
        .max_record_bytes(64 << 10)
        .durability(Durability::Manual)
}

/// D03. Much was written between two syncs, since the bound on that was high; then the bound was lowered.
/// A record at the beginning of it rots, and the first one behind it that proves that it was durable
/// lies farther away than the bound of today. Recovery that looked no farther took the bad frame for a
/// torn tail, and cut what had been acknowledged.
#[test]
fn a_bound_that_was_lowered_hides_no_proof_of_what_was_durable() {
    const COUNT: u64 = 2_000;
    let machine = Machine::new(1);
    machine.sim.set_backend(Backend::Mapped);
    let store = machine.open();
    let topic = store.create_topic("t", bounded(4 << 20)).unwrap();
    topic.append_nowait(Record::new(payload(0, 1000))).unwrap();
    store.flush().unwrap();
    for number in 1..COUNT {
        let record = Record::new(payload(number, 1000));
        topic.append_nowait(record).unwrap();
    }
    store.flush().unwrap();
    let last = Record::new(payload(COUNT, 1000));
    topic.append_nowait(last).unwrap();
    store.create_topic("t", bounded(64 << 10)).unwrap();
    drop(topic);
    kill(&machine, store);

    let mut first = segment(&machine, 0);
    let bad = first.frame(10).place + 100;
    first.bytes[bad] ^= 1;
    // Nor does a slot say how far the log goes: it had no sync yet, and is gone.
    first.bytes[512..1536].fill(0);
    machine.sim.overwrite(&first.path, 0, &first.bytes).unwrap();
    let store = machine.open();
    let read = scan(&one(&store, "t"));
    assert_eq!(damaged(&read), [(10, 11)]);
    assert_eq!(read.len() as u64, COUNT + 1);
    for (number, record) in (0..).zip(read).filter(|(number, _)| *number != 10) {
        assert_eq!(record.unwrap().payload(), payload(number, 1000));
    }
    store.close().unwrap();
}

/// D03. The disk cannot be read for a moment while a log is recovered. That was taken for the end of the
/// log, and what lay behind it was cut. So let each read of a recovery fail, once: the topic is
/// refused with the disk's error, or nothing is missing; and the next owner finds everything.
#[test]
fn a_read_that_fails_during_recovery_is_not_the_end_of_a_log() {
    let mut refused = 0;
    for nth in 0.. {
        let machine = Machine::new(nth);
        let store = machine.open();
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        fill(&one(&store, "t"), 0..1_200, 100);
        kill(&machine, store);
        let store = machine.open();
        let fault = Fault::new(Call::Read, When::Nth(nth), libc::EIO);
        machine.sim.fail(fault.on("topics/t/"));
        let expected: Vec<_> = (0..1_200).map(|number| payload(number, 100)).collect();
        match one(&store, "t").append("more") {
            Ok(at) => {
                assert_eq!(at.offset(), 1_200, "read {nth}");
                let damage = store.health().damage;
                assert!(damage.is_empty(), "read {nth}: {damage:?}");
            }
            Err(Error::Io { op: "read", .. }) => refused += 1,
            Err(other) => panic!("read {nth}: {other:?}"),
        }
        machine.sim.heal();
        drop(store.close());
        let store = machine.open();
        let found = payloads(&one(&store, "t"));
        assert_eq!(found[..1_200], expected, "read {nth}");
        store.close().unwrap();
        if nth > refused + 3 {
            assert!(refused > 3, "{refused} reads");
            return;
        }
    }
}

/// What an owner who was killed had half written is cut, and in the same boot somebody may still map it:
/// the log is sealed there, and goes on in another file. Until that seal is safe nobody may go on: if
/// its sync fails the log is not opened, and so not shown to readers either.
#[test]
fn a_log_is_not_opened_before_the_seal_of_its_cut_is_safe() {
    let machine = Machine::new(1);
    let store = machine.open();
    store.create_topic("t", segments_of(64 << 10)).unwrap();
    fill(&one(&store, "t"), 0..10, 100);
    kill(&machine, store);
    let mut first = segment(&machine, 0);
    let tail = first.tail();
    first.bytes[tail + 8..tail + 40].fill(7);
    machine.sim.overwrite(&first.path, 0, &first.bytes).unwrap();

    let store = machine.open();
    // The first one covers what was adopted.
    let fault = Fault::new(Call::Sync, When::Nth(1), libc::EIO);
    machine.sim.fail(fault.on("00000000.seg"));
    let refused = one(&store, "t").append("more");
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::Io { op: "sync", .. }), "{refused}");
    machine.sim.heal();
    drop(store.close());
    let store = machine.open();
    assert_eq!(one(&store, "t").append("more").unwrap().offset(), 10);
    assert_eq!(payloads(&one(&store, "t")).len(), 11);
    store.close().unwrap();
}
