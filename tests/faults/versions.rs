//! What a later version has written.

use std::path::Path;

use tidelog::{Error, Record, Start, Store};

use crate::kit::{ENDS, Place, end, fill, fingerprint, one, payload, segments_of};
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

/// The same in a sealed segment, which nobody walks. Whoever reads that record is told so, by
/// whatever way he comes, and is not led past it; those around it can be read.
#[test]
fn a_record_with_an_unknown_flag_in_a_sealed_segment_is_named_on_every_path() {
    let place = made(crate::kit::End::Close);
    let mut segment = Segment::read(place.segment("t", 0));
    let frame = segment.frame(100);
    segment.bytes[frame.place + 30] |= 0x80;
    segment.fix(frame.place);
    segment.write();
    let named = |error: &Error| matches!(error, Error::UnsupportedVersion { .. });
    let store = Store::open(&place.root).unwrap();
    let topic = store.existing_topic("t").unwrap();
    let partition = one(&store, "t");
    let found: Vec<_> = partition.read(0..2000).unwrap().take(102).collect();
    assert!(found[..100].iter().all(Result::is_ok));
    assert!(
        found[100..].iter().all(|it| it.as_ref().is_err_and(named)),
        "{:?}",
        found[100]
    );
    let mut cursor = partition.cursor(Start::Offset(100)).unwrap();
    for _ in 0..3 {
        assert!(cursor.next().is_err_and(|error| named(&error)));
    }
    cursor.seek(Start::Offset(101)).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().offset(), 101);
    let mut archive = topic.subscribe("archive").unwrap();
    for _ in 0..100 {
        archive.next().unwrap().unwrap();
    }
    assert!(archive.next().is_err_and(|error| named(&error)));
    archive.commit().unwrap();
    assert_eq!(archive.committed(0).unwrap(), 100);
    let far = tidelog::Timestamp::from_nanos(i64::MAX - 1);
    let walked = partition.find(far);
    assert!(
        walked.is_ok_and(|at| at == 1010),
        "no segment has to be looked into"
    );
    drop(archive);
    store.close().unwrap();
    let report = tidelog::verify(&place.root, &tidelog::StoreOptions::new()).unwrap();
    assert!(
        matches!(&report.logs[0].damage[..], [error] if named(error)),
        "{report:?}"
    );
}

/// A frame of the journal with such a flag, below what recovery walks: nothing is opened.
#[test]
fn a_journal_record_with_an_unknown_flag_is_refused_wherever_it_lies() {
    let place = made(crate::kit::End::Close);
    let count = Segment::read(place.root.join("journal/00000000.seg"))
        .frames()
        .len();
    for record in [0, count / 2, count - 1] {
        let image = place.killed();
        let mut segment = Segment::read(image.root.join("journal/00000000.seg"));
        let frame = segment.frames()[record];
        segment.bytes[frame.place + 30] |= 0x80;
        segment.fix(frame.place);
        segment.write();
        refused(&image, &format!("frame {record} of the journal"));
        let error = tidelog::verify(&image.root, &tidelog::StoreOptions::new()).unwrap_err();
        assert!(
            matches!(error, Error::UnsupportedVersion { .. }),
            "{error:?}"
        );
    }
}
