//! Headers that rot behind records which were acknowledged, and slots that cannot be.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tidelog::sys::sim::{Call, Crash, Fault, Keep, Sim, SimClock, When};
use tidelog::{Error, Record, Store, StoreOptions};

use crate::kit::{BACKENDS, Place, fill, one, payload, payloads, segments_of};
use crate::segment::Segment;

/// A header rots, or the whole sector reads as zeroes.
#[derive(Debug, Clone, Copy)]
enum Rot {
    Bit(usize),
    Zeroes,
}

impl Rot {
    fn spoil(self, segment: &mut Segment) {
        match self {
            Rot::Bit(at) => segment.bytes[at] ^= 4,
            Rot::Zeroes => segment.bytes[..512].fill(0),
        }
    }
}

/// The topic fails with the file's name, not a byte of it is changed, and another topic works.
fn is_refused(image: &Place, backend: tidelog::sys::Backend, what: &str) {
    let log = image.log("t");
    let read = || -> Vec<_> {
        let mut files: Vec<_> = fs::read_dir(&log).unwrap().flatten().collect();
        files.sort_by_key(fs::DirEntry::path);
        let bytes = |file: &fs::DirEntry| (file.path(), fs::read(file.path()).unwrap());
        files.iter().map(bytes).collect()
    };
    let before = read();
    let store = image.open(backend);
    for _ in 0..2 {
        match store.existing_topic("t").unwrap().append("again") {
            Err(Error::Failed { cause, .. }) => {
                assert!(matches!(*cause, Error::Mismatch { .. }), "{what}: {cause}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    store
        .existing_topic("other")
        .unwrap()
        .append("fine")
        .unwrap();
    store.close().unwrap();
    assert!(read() == before, "{what}: a file was changed");
}

/// The header of the active segment rots behind acknowledged records, and the owner is killed. It
/// was taken for a file of somebody else, set aside, and its offsets were given again. So spoil
/// the header of a first segment and of a later one, in its magic, its version, its checksum, its
/// nonce and its base; and let the sector read as zeroes where slots stand beside it.
#[test]
fn a_rotted_header_of_the_active_segment_fails_the_topic_and_nothing_is_touched() {
    for backend in BACKENDS {
        for (segment, length, rots) in [
            (64 << 10, 10, &[0, 8, 12, 40, 48, 300][..]),
            (64 << 10, 1000, &[0, 8, 12, 40, 48, 300]),
            // Large enough for a slot in the second one.
            (2 << 20, 26_000, &[48, usize::MAX]),
        ] {
            let place = Place::new();
            let store = place.open(backend);
            store.create_topic("t", segments_of(segment)).unwrap();
            store.topic("other").unwrap().append("fine").unwrap();
            fill(&one(&store, "t"), 0..length, 100);
            let killed = place.killed();
            store.close().unwrap();
            for at in rots {
                let rot = match *at {
                    usize::MAX => Rot::Zeroes,
                    at => Rot::Bit(at),
                };
                let image = killed.killed();
                let last = image.segments("t").pop().unwrap();
                let mut active = Segment::read(last);
                rot.spoil(&mut active);
                active.write();
                is_refused(&image, backend, &format!("{backend:?} {length} {rot:?}"));
            }
        }
    }
}

/// A slot with a sound checksum says what cannot be: it was believed, and the writer counted
/// below zero, or asked for more memory than there is.
#[test]
fn a_slot_that_does_not_fit_its_segment_fails_the_topic_and_nothing_is_touched() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        store.topic("other").unwrap().append("fine").unwrap();
        fill(&one(&store, "t"), 0..1000, 100);
        let killed = place.killed();
        store.close().unwrap();
        let segment = Segment::read(killed.segments("t").pop().unwrap());
        let (start, base) = (segment.records_at() as u64, segment.base());
        let slots: [(u64, u64, u32, u64); 7] = [
            (start, base - 1, 0, 9),
            (start, 0, 0, 9),
            (start, base + 1, 0, 9),
            (start - 8, base, 0, 9),
            (1 << 20, base, 0, 9),
            (start, base, u32::MAX, 9),
            (start, base, 0, u64::MAX),
        ];
        for (end, next, entries, generation) in slots {
            let image = killed.killed();
            let mut segment = Segment::read(image.segments("t").pop().unwrap());
            segment.put_slot((end, next), entries, generation);
            segment.write();
            is_refused(
                &image,
                backend,
                &format!("{backend:?} {end} {next} {entries}"),
            );
        }
    }
}

const ROOT: &str = "/data";

fn options(sim: &Sim, seed: u64) -> StoreOptions {
    StoreOptions::new()
        .storage(Arc::new(sim.clone()))
        .clock(Arc::new(SimClock::new(seed, 1_700_000_000_000_000_000)))
        .inline()
}

/// The writing of a next segment's header fails half way. The file is not used again: a new one
/// takes its place, so that no record ever stands behind half a header. Whenever the power goes,
/// the store opens, and everything acknowledged is there.
#[test]
fn a_header_whose_writing_failed_is_thrown_away_with_its_file() {
    for seed in 0..40 {
        let sim = Sim::new(seed);
        let store = Store::open_with(ROOT, options(&sim, seed)).unwrap();
        store.create_topic("t", segments_of(16 << 10)).unwrap();
        let topic = store.existing_topic("t").unwrap();
        let append = |number| topic.append(Record::new(payload(number, 700)));
        // As many as the first segment holds.
        (0..11).for_each(|number| drop(append(number).unwrap()));
        let errno = [libc::EIO, libc::ENOSPC][seed as usize % 2];
        sim.fail(Fault::new(Call::Write, When::Nth(0), errno).on("00000001.seg"));
        append(11).unwrap_err();
        let made = store.io().creates.get();
        let mut sure = 11;
        if seed % 4 > 1 {
            append(11).unwrap();
            assert_eq!(
                store.io().creates.get(),
                made + 1,
                "the file was used again"
            );
            append(12).unwrap();
            sure = 13;
        }
        if seed % 5 == 0 {
            drop(topic);
            store.close().unwrap();
        } else {
            sim.crash(Crash::Cut(Keep::Half)).unwrap();
            drop((topic, store));
        }
        let store = Store::open_with(ROOT, options(&sim, seed + 1)).unwrap();
        fill(&one(&store, "t"), sure..20, 700);
        let expected: Vec<_> = (0..20).map(|number| payload(number, 700)).collect();
        assert_eq!(payloads(&one(&store, "t")), expected, "seed {seed}");
        store.close().unwrap();
        let report = tidelog::verify(Path::new(ROOT), &options(&sim, 0)).unwrap();
        assert!(report.is_sound(), "{report:?}");
    }
}
