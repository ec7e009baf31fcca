//! What recovery cuts, passes over or sets aside: its epochs count, and what is sound is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidelog::sys::Storage;
use tidelog::sys::sim::{Call, Crash, Fault, Keep, Sim, SimClock, When};
use tidelog::{Error, Store, StoreOptions};

use crate::kit::{fill, one, payload, payloads, segments_of};
use crate::segment::Segment;

const ROOT: &str = "/data";

fn open(sim: &Sim, seed: u64) -> Store {
    let clock = SimClock::new(seed, 1_700_000_000_000_000_000);
    let options = StoreOptions::new().storage(Arc::new(sim.clone()));
    Store::open_with(ROOT, options.clock(Arc::new(clock)).inline()).unwrap()
}

/// Ten records, all safe, and a power cut: the next owner lives in another boot.
fn ten() -> Sim {
    let sim = Sim::new(1);
    let store = open(&sim, 1);
    store.create_topic("t", segments_of(16 << 10)).unwrap();
    fill(&one(&store, "t"), 0..10, 100);
    sim.crash(Crash::Cut(Keep::Everything)).unwrap();
    drop(store);
    sim
}

fn file(sim: &Sim, number: u32) -> PathBuf {
    let topic = Path::new(ROOT).join("topics/t");
    let log = topic.join(&sim.list(&topic).unwrap()[0].name);
    log.join(format!("{number:08}.seg"))
}

fn segment(sim: &Sim, number: u32) -> Segment {
    let path = file(sim, number);
    let bytes = sim.bytes(&path).unwrap();
    Segment { path, bytes }
}

/// Puts a sound frame of that epoch at the end, which does not follow the last one; its bytes.
fn put_stray(sim: &Sim, epoch: u32) -> Vec<u8> {
    let mut first = segment(sim, 0);
    let last = *first.frames().last().unwrap();
    let (from, to) = (last.place, last.end());
    let frame = first.bytes[from..last.end()].to_vec();
    first.bytes[to..to + frame.len()].copy_from_slice(&frame);
    // Three offsets are missing, and it proves nothing.
    first.put_u32(to + 8, 13);
    first.put_u32(to + 12, 13);
    first.put_u32(to + 24, epoch);
    first.fix(to);
    sim.overwrite(&first.path, 0, &first.bytes).unwrap();
    first.bytes[to..to + frame.len()].to_vec()
}

fn kept(sim: &Sim) -> Vec<Vec<u8>> {
    let quarantine = Path::new(ROOT).join("quarantine");
    let entries = sim.list(&quarantine).unwrap_or_default();
    let bytes = |name: &String| sim.bytes(&quarantine.join(name)).unwrap();
    entries.iter().map(|entry| bytes(&entry.name)).collect()
}

/// The ten records are there, and the next one follows them.
fn goes_on(store: &Store) {
    fill(&one(store, "t"), 10..11, 100);
    let expected: Vec<_> = (0..11).map(|number| payload(number, 100)).collect();
    assert_eq!(payloads(&one(store, "t")), expected);
}

/// A frame that nobody was promised is cut, and sound. It is kept in the quarantine; on a full
/// disk it is not, and the topic opens all the same. What is not sound is no frame, and not kept.
#[test]
fn a_sound_frame_that_is_cut_is_kept_in_the_quarantine_if_there_is_room() {
    for (sound, full) in [
        (true, None),
        (true, Some(Call::Create)),
        (true, Some(Call::Write)),
        (false, None),
    ] {
        let sim = ten();
        let frame = put_stray(&sim, 1);
        if !sound {
            let mut first = segment(&sim, 0);
            let at = first.tail() - 20;
            first.bytes[at] ^= 1;
            sim.overwrite(&first.path, 0, &first.bytes).unwrap();
        }
        if let Some(call) = full {
            sim.fail(Fault::new(call, When::From(0), libc::ENOSPC).on("quarantine"));
        }
        let store = open(&sim, 2);
        goes_on(&store);
        let kept = kept(&sim);
        let found = kept
            .iter()
            .any(|bytes| bytes.windows(frame.len()).any(|it| it == frame));
        assert_eq!(
            (kept.len(), found),
            if sound && full.is_none() {
                (1, true)
            } else {
                (0, false)
            }
        );
        store.close().unwrap();
    }
}

/// The topic cannot be opened at first, since one of the writes to its segment fails; the same owner
/// tries again. What is cut was kept by the first attempt, and stays, whatever is left of it in the file.
#[test]
fn what_a_first_attempt_has_kept_stays_when_it_is_tried_again() {
    for nth in 0..6 {
        let sim = ten();
        let frame = put_stray(&sim, 1);
        let store = open(&sim, 2);
        sim.fail(Fault::new(Call::Write, When::Nth(nth), libc::EIO).on("topics"));
        drop(one(&store, "t").end());
        sim.heal();
        goes_on(&store);
        let kept = kept(&sim);
        let found = |bytes: &&Vec<u8>| bytes.windows(frame.len()).any(|it| it == frame);
        assert_eq!(
            kept.iter().filter(found).count(),
            1,
            "{nth}: {}",
            kept.len()
        );
        store.close().unwrap();
    }
}

/// A frame that is cut, or the header of a file that is set aside, is of an owner whose journal is
/// gone. What is written next has a later epoch, in a segment of its own, so that nothing of that
/// owner is ever taken for it.
#[test]
fn the_epoch_of_what_is_cut_or_set_aside_is_below_that_of_what_follows() {
    for (cut, epoch) in [(true, 50), (false, 60)] {
        let sim = ten();
        if cut {
            put_stray(&sim, epoch);
        } else {
            // It says that the first segment ends elsewhere.
            let mut second = segment(&sim, 0);
            second.put_u32(104, 1);
            second.put_u32(108, epoch);
            second.fix_identity();
            let path = file(&sim, 1);
            sim.create(&path, second.bytes.len() as u64).unwrap();
            sim.overwrite(&path, 0, &second.bytes).unwrap();
        }
        let store = open(&sim, 2);
        goes_on(&store);
        let second = segment(&sim, 1);
        let frame = second.frame(10);
        for at in [108, frame.place + 24] {
            let found = u32::from_le_bytes(second.bytes[at..at + 4].try_into().unwrap());
            assert_eq!(found, epoch + 1, "at {at}");
        }
        store.close().unwrap();
    }
}

/// A batch that nobody was promised is torn, and its payload looks like heads of frames all over,
/// each as long as a megabyte: looking for sound ones took a megabyte's checksum for each word. It
/// takes no longer than the stretch is long.
#[test]
fn a_payload_that_looks_like_frames_all_over_does_not_make_recovery_slow() {
    let sim = Sim::new(1);
    let store = open(&sim, 1);
    store.create_topic("t", segments_of(16 << 20)).unwrap();
    fill(&one(&store, "t"), 0..10, 100);
    sim.crash(Crash::Cut(Keep::Everything)).unwrap();
    drop(store);
    let mut first = segment(&sim, 0);
    let tail = first.tail();
    for word in first.bytes[tail..].chunks_exact_mut(4) {
        word.copy_from_slice(&300_000_u32.to_le_bytes());
    }
    sim.overwrite(&first.path, 0, &first.bytes).unwrap();
    let began = std::time::Instant::now();
    let store = open(&sim, 2);
    goes_on(&store);
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(10), "{took:?}");
    store.close().unwrap();
}

/// No epoch follows the greatest there is: that is told, and counts up to nothing.
#[test]
fn a_frame_of_the_last_epoch_there_can_be_fails_the_topic() {
    let sim = ten();
    put_stray(&sim, u32::MAX);
    let store = open(&sim, 2);
    match store.existing_topic("t").unwrap().append("next") {
        Err(Error::Failed { cause, .. }) => {
            assert!(matches!(*cause, Error::Mismatch { .. }), "{cause}");
        }
        other => panic!("{other:?}"),
    }
    store.close().unwrap();
}
