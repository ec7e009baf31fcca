//! What a later version has written.

use std::path::Path;

use tidelog::{Error, Record, Store};

use crate::kit::{ENDS, Place, damaged, end, fill, fingerprint, one, payload, scan, segments_of};
use crate::segment::Segment;

/// A store with something in it that this version does not know; what it is called when it is met.
fn refused(place: &Place, what: &str) {
    let before = fingerprint(&place.root.join("topics"));
    let journal = fingerprint(&place.root.join("journal"));
    let named = |error: &Error| matches!(error, Error::UnsupportedVersion { .. });
    match Store::open(&place.root) {
        Err(error) => {
            assert!(named(&error), "{what}: {error:?}");
            assert_eq!(fingerprint(&place.root.join("journal")), journal, "{what}");
        }
        Ok(store) => {
            // A topic that cannot be opened keeps nobody else from working.
            match store.existing_topic("t").unwrap().append("more") {
                Err(Error::Failed { cause, .. }) => assert!(named(&cause), "{what}: {cause:?}"),
                other => panic!("{what}: {other:?}"),
            }
            store.topic("other").unwrap().append("fine").unwrap();
            drop(store.close());
            assert_eq!(fingerprint(&place.log("t")), before_log(&before), "{what}");
            return;
        }
    }
    assert_eq!(fingerprint(&place.root.join("topics")), before, "{what}");
}

/// Of all topics' files, those of the log of `t`.
fn before_log(all: &[(std::path::PathBuf, u32)]) -> Vec<(std::path::PathBuf, u32)> {
    let inside = |path: &Path| path.components().any(|part| part.as_os_str() == "t");
    let depth = |path: &Path| path.components().count();
    let top = all.iter().map(|(path, _)| depth(path)).min().unwrap();
    let mut log = all.to_vec();
    log.retain(|(path, _)| inside(path) && depth(path) >= top + 2);
    log
}

fn made(how: crate::kit::End) -> Place {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    store.create_topic("t", segments_of(64 << 10)).unwrap();
    fill(&one(&store, "t"), 0..1000, 100);
    for number in 1000..1010 {
        one(&store, "t")
            .append(Record::new(payload(number, 100)))
            .unwrap();
    }
    end(place, store, how)
}

/// D34 in part, and the promise of the format: a version, a flag or a journal record that is not
/// known, in a sound header, slot or record, is named as that, and not a byte of it is changed.
#[test]
fn what_a_later_version_wrote_is_refused_and_kept() {
    for how in ENDS {
        let place = made(how);
        let journal = place.root.join("journal/00000000.seg");
        let active = place.segments("t").pop().unwrap();
        for path in [&journal, &active] {
            for (what, at, value) in [("version", 8, 2), ("flag", 11, 0x80)] {
                let image = place.killed();
                let mut segment =
                    Segment::read(image.root.join(path.strip_prefix(&place.root).unwrap()));
                segment.bytes[at] = value;
                segment.fix_identity();
                segment.write();
                refused(&image, &format!("{what} of {} {how:?}", path.display()));
            }
        }
        // Every journal record, by its kind, and by an event that is not known.
        let count = Segment::read(&journal).frames().len();
        for record in [0, count / 2, count - 1] {
            let image = place.killed();
            let mut segment = Segment::read(image.root.join("journal/00000000.seg"));
            let frame = segment.frames()[record];
            segment.bytes[frame.place + 32] = 9;
            segment.fix(frame.place);
            segment.write();
            refused(&image, &format!("journal record {record} {how:?}"));
        }
    }
}

/// A record with a flag that is not known, behind everything that is settled: after a kill it is
/// walked over, and must not be taken for a torn tail and cut.
#[test]
fn a_record_with_an_unknown_flag_is_not_taken_for_a_torn_tail() {
    let place = made(crate::kit::End::Kill);
    for offset in [1000, 1009] {
        let image = place.killed();
        let mut segment = Segment::read(image.segments("t").pop().unwrap());
        let frame = segment.frame(offset);
        segment.bytes[frame.place + 30] |= 0x80;
        segment.fix(frame.place);
        segment.write();
        refused(&image, &format!("record {offset}"));
    }
}

/// The same in a sealed segment, which nobody walks: the record alone cannot be read.
#[test]
fn a_record_with_an_unknown_flag_in_a_sealed_segment_costs_that_record() {
    let place = made(crate::kit::End::Close);
    let mut segment = Segment::read(place.segment("t", 0));
    let frame = segment.frame(100);
    segment.bytes[frame.place + 30] |= 0x80;
    segment.fix(frame.place);
    segment.write();
    let store = Store::open(&place.root).unwrap();
    assert_eq!(damaged(&scan(&one(&store, "t"))), [(100, 101)]);
    store.close().unwrap();
}
