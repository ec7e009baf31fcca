//! Where a log ends: at an exact fit, and behind a segment that was only half made.

use std::fs;

use tidelog::{Error, Record};

use crate::kit::{
    BACKENDS, ENDS, End, Place, end, fill, one, options, payload, payloads, segments_of,
};
use crate::segment::Segment;

/// The fixed part of a frame.
const HEAD: usize = 32;

/// D01. An engine took the end of a segment that was filled to its last byte for an empty one, and
/// wrote over it from its start. So leave every small amount of room behind the last record, close
/// or kill, and go on.
#[test]
fn a_segment_filled_to_within_a_header_of_its_end_goes_on_in_the_next_one() {
    // Frames are aligned to 8 bytes; the padding of the last one makes the odd amounts.
    let slacks = [0, 1, HEAD - 8, HEAD - 1, HEAD, HEAD + 1, HEAD + 8];
    for slack in slacks {
        for how in ENDS {
            for backend in BACKENDS {
                exact_fit(backend, 64 << 10, slack, how, 0);
                exact_fit(backend, 64 << 10, slack, how, 9);
            }
            exact_fit(BACKENDS[0], 1 << 20, slack, how, 8);
        }
    }
}

fn exact_fit(backend: tidelog::sys::Backend, bytes: u64, slack: usize, how: End, small: usize) {
    let place = Place::new();
    let store = place.open(backend);
    store.create_topic("t", segments_of(bytes)).unwrap();
    let partition = one(&store, "t");
    fill(&partition, 0..1, 1000);
    let first = Segment::read(place.segment("t", 0));
    let room = first.bytes.len() - first.tail();
    let whole = (room - slack) / 1040 - 1;
    fill(&partition, 1..1 + whole as u64, 1000);
    let left = room - slack - whole * 1032;
    let mut expected: Vec<Vec<u8>> = (0..=whole as u64).map(|n| payload(n, 1000)).collect();
    expected.push(payload(expected.len() as u64, left - HEAD));
    partition
        .append(Record::new(expected.last().unwrap()))
        .unwrap();
    let old = Segment::read(place.segment("t", 0));
    let last = *old.frames().last().unwrap();
    assert_eq!(old.bytes.len() - (last.place + last.length), slack);
    drop(partition);

    let place = end(place, store, how);
    let store = place.open(backend);
    let partition = one(&store, "t");
    for _ in 0..10 {
        let at = partition
            .append(Record::new(payload(expected.len() as u64, small)))
            .unwrap();
        assert_eq!(at.offset(), expected.len() as u64);
        expected.push(payload(at.offset(), small));
    }
    assert_eq!(payloads(&partition), expected);
    drop(partition);
    // The old frames are untouched; a new one lies here only if it fits as a whole.
    let now = Segment::read(place.segment("t", 0));
    let records = old.records_at()..old.tail();
    assert_eq!(now.bytes[records.clone()], old.bytes[records]);
    let fits = (HEAD + small).next_multiple_of(8) <= old.bytes.len() - old.tail();
    assert_eq!(now.frames().len() - old.frames().len(), usize::from(fits));

    let place = end(place, store, how);
    let store = place.open(backend);
    assert_eq!(payloads(&one(&store, "t")), expected);
    store.close().unwrap();
    let report = tidelog::verify(&place.root, &options(backend)).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.logs[0].end, expected.len() as u64);
}

/// D04. A crash while the next segment was being made left half a header, and start-up failed for
/// ever. So leave every beginning of a header, and of a file, behind the log.
#[test]
fn a_half_made_next_segment_is_replaced_and_nothing_is_lost() {
    for backend in BACKENDS {
        for bytes in [
            &[][..],
            &[0; 1],
            &[0; 511],
            &[0; 512],
            &[0; 2048],
            &[0; 65536],
        ] {
            let place = Place::new();
            let store = place.open(backend);
            store.create_topic("t", segments_of(64 << 10)).unwrap();
            fill(&one(&store, "t"), 0..20, 100);
            let image = place.killed();
            store.close().unwrap();
            fs::write(image.segment("t", 1), bytes).unwrap();

            let store = image.open(backend);
            let partition = one(&store, "t");
            assert_eq!(partition.end().unwrap(), 20);
            // Enough to roll into the number that was half made.
            fill(&partition, 20..1500, 100);
            let expected: Vec<_> = (0..1500).map(|n| payload(n, 100)).collect();
            assert_eq!(payloads(&partition), expected);
            drop(partition);
            store.close().unwrap();
            assert!(
                tidelog::verify(&image.root, &options(backend))
                    .unwrap()
                    .is_sound()
            );
        }
    }
}

/// D04. A file that is not ours, under the name of the next segment, is set aside and kept if there
/// is no record in it. One with records, short of being ours by its magic only, may be ours, and
/// the log fails.
#[test]
fn a_next_segment_with_a_wrong_magic_is_kept_aside_or_fails_the_log() {
    for (backend, records) in BACKENDS.iter().flat_map(|it| [(*it, false), (*it, true)]) {
        let place = Place::new();
        let store = place.open(backend);
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        fill(&one(&store, "t"), 0..20, 100);
        let image = place.killed();
        store.close().unwrap();
        let mut foreign = Segment::read(image.segment("t", 0));
        foreign.bytes[..8].copy_from_slice(b"NOTOURS\0");
        if !records {
            foreign.bytes[4096..].fill(0);
        }
        fs::write(image.segment("t", 1), &foreign.bytes).unwrap();

        let store = image.open(backend);
        if records {
            let refused = store.existing_topic("t").unwrap().append("next");
            assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
            store.close().unwrap();
            assert_eq!(fs::read(image.segment("t", 1)).unwrap(), foreign.bytes);
            continue;
        }
        let partition = one(&store, "t");
        fill(&partition, 20..1500, 100);
        let expected: Vec<_> = (0..1500).map(|n| payload(n, 100)).collect();
        assert_eq!(payloads(&partition), expected);
        drop(partition);
        store.close().unwrap();
        let kept: Vec<_> = fs::read_dir(image.root.join("quarantine"))
            .unwrap()
            .map(|entry| fs::read(entry.unwrap().path()).unwrap())
            .collect();
        assert!(kept.contains(&foreign.bytes));
    }
}
