//! Repairs on a disk that cannot be read in places, and repairs that are cut.

use std::path::{Path, PathBuf};

use tidelog::sys::Storage;
use tidelog::sys::sim::{Call, Crash, Fault, Keep, When};
use tidelog::{Error, OwnedRecord, Record, RepairReport, Store};

use crate::kit::{damaged, one, payload, scan, segments_of};
use crate::machine::{Machine, ROOT};

pub const RECORDS: u64 = 60;

/// A log of some segments, closed.
pub fn filled(machine: &Machine) -> Vec<PathBuf> {
    let store = machine.open();
    append(&store);
    store.close().unwrap();
    segments(machine)
}

/// The same of an owner that was killed: of this log the journal knows no more than that it is there.
pub fn killed(machine: &Machine) -> Vec<PathBuf> {
    let store = machine.open();
    append(&store);
    machine.stop(store, Crash::Kill);
    let mut segments = segments(machine);
    // The last one may be a spare.
    segments.retain(|path| machine.sim.bytes(path).unwrap()[..8] != [0; 8]);
    segments
}

fn append(store: &Store) {
    let topic = store.create_topic("t", segments_of(16 << 10)).unwrap();
    for number in 0..RECORDS {
        topic.append(Record::new(payload(number, 1000))).unwrap();
    }
}

fn segments(machine: &Machine) -> Vec<PathBuf> {
    let topic = Path::new(ROOT).join("topics/t");
    let log = topic.join(&machine.sim.list(&topic).unwrap()[0].name);
    let names = machine.sim.list(&log).unwrap();
    assert!(names.len() > 4);
    names.iter().map(|entry| log.join(&entry.name)).collect()
}

pub fn bases(machine: &Machine, segments: &[PathBuf]) -> Vec<u64> {
    let base = |path: &PathBuf| {
        let bytes = machine.sim.bytes(path).unwrap();
        u64::from_le_bytes(bytes[48..56].try_into().unwrap())
    };
    segments.iter().map(base).collect()
}

/// Every record but the lost ones is where it was, and the next one comes behind all.
pub fn check(store: &Store, lost: &[(u64, u64)]) {
    let partition = one(store, "t");
    let records = scan(&partition);
    assert_eq!(damaged(&records), lost);
    for record in records.iter().flatten() {
        assert_eq!(record.payload(), payload(record.offset(), 1000));
    }
    let sound = records.iter().flatten().map(OwnedRecord::offset).count() as u64;
    let missing: u64 = lost.iter().map(|(from, to)| to - from).sum();
    assert_eq!(sound + missing, RECORDS);
    assert_eq!(partition.append("next").unwrap().offset(), RECORDS);
}

/// A sector of a segment cannot be read: one with records, or that of the header. Salvage reads all that
/// is beside it. After a repair the log can be read through, and only what was in that sector is lost; a
/// header that cannot be read at all takes the segment's records with it.
#[test]
fn a_sector_that_cannot_be_read_costs_what_is_in_it() {
    for (segment, place) in [(1, 8192 + 3000), (4, 8192 + 3000), (1, 0), (0, 0)] {
        let machine = Machine::new(1);
        let segments = filled(&machine);
        let bases = bases(&machine, &segments);
        machine.sim.spoil(&segments[segment], place).unwrap();
        let options = machine.options().inline();
        let target = Path::new("/rescued");
        let salvaged = tidelog::salvage(ROOT, target, &options).unwrap();
        let done = tidelog::repair(ROOT, &options).unwrap();
        assert!(done.is_complete(), "{done:?}");
        let stretch = |error: &Error| match error {
            Error::Corrupt { offset, next, .. } => (*offset, *next),
            other => panic!("{other}"),
        };
        let [log] = done.logs.as_slice() else {
            panic!("{segment} {place}: {done:?}")
        };
        let lost: Vec<_> = log.lost.iter().map(stretch).collect();
        let [(from, to)] = lost[..] else {
            panic!("{segment} {place}: {done:?}")
        };
        match place {
            0 => assert_eq!((from, to), (bases[segment], bases[segment + 1])),
            _ => assert!(to - from <= 2 && from >= bases[segment], "{lost:?}"),
        }
        check(&machine.open(), &lost);
        let new = Store::open_with(target, options).unwrap();
        let left = one(&new, "t").end().unwrap();
        assert_eq!(left, RECORDS - (to - from));
        assert_eq!(salvaged.logs[0].records, left);
    }
}

/// A repair is stopped before one of its calls, and made again, completely: what that one tells, and whether
/// the first one had come to its end.
fn repaired_again(machine: &Machine, calls: u64, crash: Crash) -> (RepairReport, bool) {
    let options = machine.options().inline();
    machine.sim.crash_after(calls);
    let done = tidelog::repair(ROOT, &options);
    let ended = !machine.sim.has_stopped();
    machine.sim.crash_after(0);
    machine.sim.free(Path::new("/")).unwrap_err();
    machine.sim.crash(crash).unwrap();
    machine.sim.heal();
    assert_eq!(done.is_ok(), ended, "{done:?}");
    let done = tidelog::repair(ROOT, &options).unwrap();
    assert!(done.is_complete(), "{calls}: {done:?}");
    (done, ended)
}

/// A segment in the middle is gone, the header of another one has rotted, and so has the last one's; the
/// repair stops before any of its calls. It is repaired again, and nothing more is lost than the first
/// one said.
#[test]
fn a_repair_that_is_cut_anywhere_is_made_again() {
    let crashes = [
        Crash::Kill,
        Crash::Cut(Keep::Nothing),
        Crash::Cut(Keep::Half),
    ];
    for (calls, crash) in (0..).zip(crashes.into_iter().cycle()) {
        let machine = Machine::new(calls);
        let segments = filled(&machine);
        let bases = bases(&machine, &segments);
        machine.sim.remove_file(&segments[1]).unwrap();
        machine.sim.sync_dir(segments[1].parent().unwrap()).unwrap();
        machine.sim.flip(&segments[3], 50, 1).unwrap();
        machine.sim.overwrite(&segments[2], 0, &[7; 2048]).unwrap();
        let last = bases.len() - 1;
        machine
            .sim
            .overwrite(&segments[last], 0, &[7; 2048])
            .unwrap();
        let (done, ended) = repaired_again(&machine, calls, crash);
        let store = machine.open();
        let lost = damaged(&scan(&one(&store, "t")));
        let from = |offset: u64| move |(from, _): &(u64, u64)| *from == offset;
        assert!(lost.iter().any(from(bases[1])), "{lost:?}");
        let merged = merge(&lost);
        // The journal knows enough of the last one.
        let expected = [(bases[1], bases[3])];
        assert_eq!(merged, expected, "{crash:?} {calls}: {done:?}");
        check(&store, &lost);
        store.close().unwrap();
        if ended {
            break;
        }
    }
}

/// A segment is gone, and another one cannot be opened now: too many files are open, somebody else's mode,
/// an error of the disk that passes. Nothing is touched and the repair says why; later it is made, and
/// costs only what is gone.
#[test]
fn a_segment_that_cannot_be_opened_now_is_not_given_up() {
    for errno in [libc::EMFILE, libc::EACCES, libc::EIO] {
        let machine = Machine::new(1);
        let segments = filled(&machine);
        let bases = bases(&machine, &segments);
        machine.sim.remove_file(&segments[1]).unwrap();
        machine.sim.sync_dir(segments[1].parent().unwrap()).unwrap();
        let shut = Fault::new(Call::Open, When::From(0), errno);
        machine.sim.fail(shut.on(segments[2].to_str().unwrap()));
        let options = machine.options().inline();
        let done = tidelog::repair(ROOT, &options).unwrap();
        let log = &done.logs[0];
        assert!(matches!(log.refused, Some(Error::Io { .. })), "{done:?}");
        assert!(log.steps.is_empty(), "{done:?}");
        assert_eq!(quarantined(&machine), [""; 0]);
        machine.sim.heal();
        let done = tidelog::repair(ROOT, &options).unwrap();
        assert!(done.is_complete(), "{done:?}");
        check(&machine.open(), &[(bases[1], bases[2])]);
    }
}

/// What lies in the quarantine.
pub fn quarantined(machine: &Machine) -> Vec<String> {
    let quarantine = Path::new(ROOT).join("quarantine");
    let entries = machine.sim.list(&quarantine).unwrap_or_default();
    entries.into_iter().map(|entry| entry.name).collect()
}

/// A sector of a segment cannot be read, and the power fails before any call of the repair. The next
/// repair loses no more than that sector; and the file itself, of which somebody may get more, is in
/// the quarantine.
#[test]
fn what_is_read_again_is_kept_wherever_the_repair_is_cut() {
    for calls in 0.. {
        let machine = Machine::new(calls);
        let segments = filled(&machine);
        machine.sim.spoil(&segments[1], 8192 + 3000).unwrap();
        let keep = [Keep::Nothing, Keep::Half, Keep::Everything];
        let crash = Crash::Cut(keep[calls as usize % 3]);
        let (done, ended) = repaired_again(&machine, calls, crash);
        let lost = damaged(&scan(&one(&machine.open(), "t")));
        let count: u64 = lost.iter().map(|(from, to)| to - from).sum();
        assert!((1..=2).contains(&count), "{calls}: {lost:?} {done:?}");
        check(&machine.open(), &lost);
        let kept = quarantined(&machine);
        let original = kept.iter().any(|name| name.ends_with("00000001.seg"));
        assert!(original, "{calls}: {kept:?}");
        if ended {
            break;
        }
    }
}

/// There is more in the quarantine than stays. At the next opening the oldest go, but nothing of what was
/// set aside last, however much that is; when something else has been, those are the oldest.
#[test]
fn what_was_set_aside_last_stays() {
    let machine = Machine::new(1);
    filled(&machine);
    let quarantine = Path::new(ROOT).join("quarantine");
    machine.sim.create_dir(&quarantine).unwrap();
    let put = |epoch: u32, count: u32| {
        for number in 0..count {
            let name = format!("1-{epoch}-{number:08}.seg");
            machine.sim.create(&quarantine.join(name), 512).unwrap();
        }
    };
    let left = |epoch: u32| {
        let kept = quarantined(&machine);
        let of = |name: &&String| name.starts_with(&format!("1-{epoch}-"));
        kept.iter().filter(of).count()
    };
    put(1, 256);
    machine.open().close().unwrap();
    assert_eq!(left(1), 256);
    put(2, 1);
    machine.open().close().unwrap();
    assert_eq!((left(1), left(2)), (255, 1));
    put(3, 300);
    machine.open().close().unwrap();
    assert_eq!([left(1), left(2), left(3)], [0, 0, 300]);
    put(4, 1);
    machine.open().close().unwrap();
    assert_eq!([left(3), left(4)], [255, 1]);
}

/// Stretches that touch are one.
fn merge(stretches: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in stretches {
        match merged.last_mut() {
            Some((_, end)) if *end == *from => *end = *to,
            _ => merged.push((*from, *to)),
        }
    }
    merged
}
