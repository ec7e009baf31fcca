//! Segments that are missing, short or rotten where nothing of the journal tells of them: `verify` and an
//! opening see the same, nothing is moved, and a repair loses no more than is gone.

use tidelog::sys::Storage;
use tidelog::sys::sim::{Crash, Keep};
use tidelog::{Error, OwnedRecord, RepairAction};

use crate::kit::{damaged, one, payload, scan};
use crate::machine::{Machine, ROOT};
use crate::mending::{RECORDS, bases, check, filled, killed, quarantined};

/// The owner was killed, and then a segment in the middle is lost. A crash leaves no hole: so it is told,
/// by `verify` and at the first use, and the segments behind it stay where they are. A repair gives their
/// records back at their offsets.
#[test]
fn a_hole_in_a_killed_log_is_told_and_nothing_behind_it_moves() {
    for gone in [0, 2, 3] {
        let machine = Machine::new(1);
        let segments = killed(&machine);
        let bases = bases(&machine, &segments);
        assert!(gone + 1 < segments.len());
        machine.sim.remove_file(&segments[gone]).unwrap();
        let folder = segments[gone].parent().unwrap();
        machine.sim.sync_dir(folder).unwrap();
        let before = machine.sim.list(folder).unwrap();
        let options = machine.options().inline();
        let verified = tidelog::verify(ROOT, &options).unwrap();
        assert!(!verified.is_sound(), "{gone}: {verified:?}");
        let store = machine.open();
        let refused = one(&store, "t").end();
        assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
        store.close().unwrap();
        assert_eq!(machine.sim.list(folder).unwrap(), before);
        assert_eq!(quarantined(&machine), [""; 0]);
        let done = tidelog::repair(ROOT, &options).unwrap();
        assert!(done.is_complete(), "{gone}: {done:?}");
        check(&machine.open(), &[(bases[gone], bases[gone + 1])]);
    }
}

/// The owner was killed, and then the headers of the last segments rot, or cannot be read, so that nobody
/// knows what is in them. The plan of a repair says what becomes of them, the repair does it, and all
/// before them is there.
#[test]
fn rotten_headers_at_the_end_of_a_killed_log_do_not_keep_it_shut() {
    for (struck, spoilt) in [(1, false), (1, true), (2, false)] {
        let machine = Machine::new(1);
        let segments = killed(&machine);
        let bases = bases(&machine, &segments);
        let first = segments.len() - struck;
        for path in &segments[first..] {
            match spoilt {
                true => machine.sim.spoil(path, 0).unwrap(),
                false => machine.sim.overwrite(path, 0, &[7; 2048]).unwrap(),
            }
        }
        let options = machine.options().inline();
        let case = format!("{struck} {spoilt}");
        let verified = tidelog::verify(ROOT, &options).unwrap();
        assert!(!verified.is_sound(), "{case}: {verified:?}");
        let planned = tidelog::repair_plan(ROOT, &options).unwrap();
        let done = tidelog::repair(ROOT, &options).unwrap();
        assert!(done.is_complete(), "{case}: {done:?}");
        assert_eq!(planned.logs[0].steps, done.logs[0].steps, "{case}");
        let aside = |step: &&tidelog::RepairStep| step.action == RepairAction::SetAside;
        let aside = done.logs[0].steps.iter().filter(aside).count();
        assert_eq!(aside, struck - 1, "{case}: {done:?}");
        let store = machine.open();
        let records = scan(&one(&store, "t"));
        let sound: Vec<u64> = records.iter().flatten().map(OwnedRecord::offset).collect();
        assert_eq!(sound, (0..bases[first]).collect::<Vec<_>>(), "{case}");
        let next = one(&store, "t").append("next").unwrap().offset();
        assert!(next >= bases[first], "{case}: {next}");
        let struck: Vec<_> = segments[first..].iter().collect();
        let kept = quarantined(&machine);
        for path in struck {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(kept.iter().any(|kept| kept.ends_with(name)), "{case}");
        }
    }
}

/// A segment in the middle has lost its last bytes, which hold no record. Readers cannot have it, so
/// `verify` tells it, and a repair gives the length back.
#[test]
fn a_segment_that_lacks_its_empty_end_is_found() {
    let machine = Machine::new(1);
    let segments = filled(&machine);
    let length = machine.sim.bytes(&segments[1]).unwrap().len();
    machine.sim.truncate(&segments[1], length - 8).unwrap();
    let options = machine.options().inline();
    let verified = tidelog::verify(ROOT, &options).unwrap();
    let log = verified.logs.iter().find(|log| log.topic == "t").unwrap();
    let [Error::Mismatch { path, .. }] = log.damage.as_slice() else {
        panic!("{verified:?}")
    };
    assert_eq!((path, log.records), (&segments[1], RECORDS));
    let done = tidelog::repair(ROOT, &options).unwrap();
    assert!(done.is_complete(), "{done:?}");
    check(&machine.open(), &[]);
}

/// A segment is gone, and the next one has lost all of its header but the nonce. Where its records belong
/// is told by its seal, and not by the segment before the hole: no record comes back at another offset.
#[test]
fn a_header_behind_a_hole_is_made_again_with_the_right_offsets() {
    let machine = Machine::new(1);
    let segments = filled(&machine);
    let bases = bases(&machine, &segments);
    machine.sim.remove_file(&segments[2]).unwrap();
    machine.sim.sync_dir(segments[2].parent().unwrap()).unwrap();
    machine.sim.overwrite(&segments[3], 8, &[0xaa; 32]).unwrap();
    machine
        .sim
        .overwrite(&segments[3], 48, &[0xab; 464])
        .unwrap();
    let done = tidelog::repair(ROOT, &machine.options().inline()).unwrap();
    assert!(done.is_complete(), "{done:?}");
    check(&machine.open(), &[(bases[2], bases[3])]);
}

/// What was acknowledged last is only in the journal, since the power failed before the log's own file was
/// synced; and then that file is struck. Whatever becomes of it, a repair gives back what the journal has.
#[test]
fn a_repair_voids_nothing_that_the_journal_holds() {
    for blow in ["bit", "torn", "zeroed", "short", "gone"] {
        let machine = Machine::new(1);
        let store = machine.open();
        let topic = store.create_topic("t", crate::kit::segments_of(16 << 10));
        let (topic, other) = (topic.unwrap(), store.topic("other").unwrap());
        for number in 0..20 {
            let record = tidelog::Record::new(payload(number, 1000));
            topic.append(record).unwrap();
        }
        store.flush().unwrap();
        topic.append_nowait("only rode").unwrap();
        other.append_nowait("rode").unwrap();
        store.flush().unwrap();
        drop((topic, other));
        let folder = std::path::Path::new(ROOT).join("topics/t/000000-1");
        let path = folder.join("00000002.seg");
        machine.stop(store, Crash::Cut(Keep::Nothing));
        let mut bytes = machine.sim.bytes(&path).unwrap();
        let found = bytes.windows(9).any(|it| it == b"only rode");
        assert!(!found, "only the journal has it");
        let base = u64::from_le_bytes(bytes[48..56].try_into().unwrap());
        match blow {
            "bit" => bytes[55] ^= 4,
            "torn" => {
                bytes[8..40].fill(0xaa);
                bytes[72..512].fill(0xaa);
            }
            "zeroed" => bytes[..2048].fill(0),
            _ => {}
        }
        machine.sim.overwrite(&path, 0, &bytes).unwrap();
        let lost = match blow {
            "short" => {
                machine.sim.truncate(&path, 8192 + 2500).unwrap();
                Some((base + 2, 20))
            }
            "gone" => {
                machine.sim.remove_file(&path).unwrap();
                machine.sim.sync_dir(&folder).unwrap();
                Some((base, 20))
            }
            _ => None,
        };
        let done = tidelog::repair(ROOT, &machine.options().inline()).unwrap();
        assert!(done.is_complete(), "{blow}: {done:?}");
        let store = machine.open();
        let records = scan(&one(&store, "t"));
        let stretches: Vec<_> = lost.into_iter().collect();
        assert_eq!(damaged(&records), stretches, "{blow}: {done:?}");
        let last = records.last().unwrap().as_ref().unwrap();
        assert_eq!((last.offset(), last.payload()), (20, &b"only rode"[..]));
        assert_eq!(one(&store, "t").append("next").unwrap().offset(), 21);
    }
}
