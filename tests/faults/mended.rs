//! Stores with damaged, missing and short files: what can be read of them is salvaged, and repaired
//! they open again, with what is lost told by its offsets and nothing else gone.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tidelog::sys::Backend;
use tidelog::{Error, OwnedRecord, Record, RepairAction, Store, StoreOptions, TopicOptions};

use crate::kit::{
    BACKENDS, ENDS, End, Place, damaged, end, fill, fingerprint, one, options, payload, payloads,
    scan, segments_of,
};
use crate::segment::Segment;

const RECORDS: u64 = 2000;

/// A log of five segments or more, and another one.
fn filled(backend: Backend, how: End) -> Place {
    let place = Place::new();
    let store = place.open(backend);
    store.create_topic("t", segments_of(64 << 10)).unwrap();
    fill(&one(&store, "t"), 0..RECORDS, 100);
    store.topic("other").unwrap().append("sound").unwrap();
    let place = end(place, store, how);
    assert!(place.segments("t").len() >= 4);
    place
}

/// The offsets of each segment.
fn offsets(place: &Place) -> Vec<Range<u64>> {
    let bases = place.segments("t");
    let bases: Vec<u64> = bases
        .iter()
        .map(|path| Segment::read(path).base())
        .collect();
    let next = bases.iter().skip(1).copied().chain([RECORDS]);
    bases
        .iter()
        .copied()
        .zip(next)
        .map(|(base, next)| base..next)
        .collect()
}

/// What befalls a segment file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Blow {
    Removed,
    /// One bit of its identity.
    Bit,
    /// Its identity but for the nonce, the base and the predecessor.
    Torn,
    /// All of its header page.
    Zeroed,
    /// The second half of its length.
    Short,
}

const BLOWS: [Blow; 5] = [
    Blow::Removed,
    Blow::Bit,
    Blow::Torn,
    Blow::Zeroed,
    Blow::Short,
];

impl Blow {
    /// Strikes, and tells which offsets of the segment are lost.
    fn strike(self, path: &Path, offsets: &Range<u64>) -> Range<u64> {
        let nothing = offsets.end..offsets.end;
        let mut bytes = fs::read(path).unwrap();
        let segment = Segment::read(path);
        let lost = match self {
            Blow::Removed => {
                fs::remove_file(path).unwrap();
                return offsets.clone();
            }
            Blow::Bit => {
                bytes[55] ^= 4;
                nothing
            }
            Blow::Torn => {
                bytes[72..512].fill(0xaa);
                bytes[8..40].fill(0xaa);
                nothing
            }
            Blow::Zeroed => {
                bytes[..2048].fill(0);
                // The journal knows the nonce of the last one.
                match offsets.end == RECORDS {
                    true => nothing,
                    false => offsets.clone(),
                }
            }
            Blow::Short => {
                let half = bytes.len() / 2;
                bytes.truncate(half);
                let cut = |offset: &u64| segment.frame(*offset).place + 132 > half;
                let first = offsets.clone().find(cut).unwrap_or(offsets.end);
                first..offsets.end
            }
        };
        fs::write(path, bytes).unwrap();
        lost
    }
}

fn lost_of(errors: &[Error]) -> Vec<(u64, u64)> {
    let stretch = |error: &Error| match error {
        Error::Corrupt { offset, next, .. } => Some((*offset, *next)),
        _ => None,
    };
    errors.iter().filter_map(stretch).collect()
}

fn expected(lost: &Range<u64>) -> Vec<(u64, u64)> {
    let stretch = (!lost.is_empty()).then_some((lost.start, lost.end));
    stretch.into_iter().collect()
}

/// The first segment, one in the middle or the last one of a log is struck, in every way. A dry run says
/// what a repair would do, and changes nothing; the repair does that; then the log opens, every record
/// that could be read is where it was, the others are damage with their offsets, and the next record
/// comes behind all that there ever were. There is nothing left to repair.
#[test]
fn a_segment_that_is_struck_costs_no_more_than_it_must() {
    for blow in BLOWS {
        for position in [0, 1, 99] {
            let place = filled(Backend::Mapped, End::Close);
            let segments = place.segments("t");
            let position = position.min(segments.len() - 1);
            let lost = blow.strike(&segments[position], &offsets(&place)[position].clone());
            let case = format!("{blow:?} of segment {position}: {lost:?}");

            let options = options(Backend::Mapped);
            let before = fingerprint(&place.root);
            let verified = tidelog::verify(&place.root, &options).unwrap();
            assert!(!verified.is_sound(), "{case}");
            let plan = tidelog::repair_plan(&place.root, &options).unwrap();
            assert_eq!(fingerprint(&place.root), before, "{case}");
            let [planned] = plan.logs.as_slice() else {
                panic!("{case}: {plan:?}")
            };
            assert_eq!(lost_of(&planned.lost), expected(&lost), "{case}: {plan:?}");
            let done = tidelog::repair(&place.root, &options).unwrap();
            assert!(done.is_complete(), "{case}: {done:?}");
            assert_eq!(done.logs[0].steps, planned.steps, "{case}");
            assert_eq!(lost_of(&done.logs[0].lost), expected(&lost), "{case}");
            check(&place, &lost, &case);
            let again = tidelog::repair(&place.root, &options).unwrap();
            assert!(again.logs.is_empty(), "{case}: {again:?}");
        }
    }
}

fn check(place: &Place, lost: &Range<u64>, case: &str) {
    let store = place.open(Backend::Mapped);
    assert!(store.health().failed.is_empty(), "{case}");
    let partition = one(&store, "t");
    let records = scan(&partition);
    assert_eq!(damaged(&records), expected(lost), "{case}");
    let sound: Vec<u64> = records.iter().flatten().map(OwnedRecord::offset).collect();
    let left: Vec<u64> = (0..RECORDS)
        .filter(|offset| !lost.contains(offset))
        .collect();
    assert_eq!(sound, left, "{case}");
    for record in records.iter().flatten() {
        assert_eq!(record.payload(), payload(record.offset(), 100), "{case}");
    }
    assert_eq!(
        partition.append("next").unwrap().offset(),
        RECORDS,
        "{case}"
    );
    assert_eq!(payloads(&one(&store, "other")), [b"sound"]);
    store.close().unwrap();
    let report = tidelog::verify(&place.root, &options(Backend::Mapped)).unwrap();
    let log = report.logs.iter().find(|log| log.topic == "t").unwrap();
    assert_eq!(lost_of(&log.damage), expected(lost), "{case}");
    assert_eq!(log.damage.len(), expected(lost).len(), "{case}: {report:?}");
}

/// The folder of a log is gone. Its offsets are lost and stay given.
#[test]
fn a_log_whose_folder_is_gone_goes_on_behind_what_it_held() {
    let place = filled(Backend::Mapped, End::Close);
    fs::remove_dir_all(place.log("t")).unwrap();
    let done = tidelog::repair(&place.root, &options(Backend::Mapped)).unwrap();
    assert!(done.is_complete(), "{done:?}");
    check(&place, &(0..RECORDS), "folder");
}

/// Several segments in a row are gone, and more at the end.
#[test]
fn several_segments_that_are_gone_are_several_stretches() {
    let place = filled(Backend::Mapped, End::Close);
    let (segments, offsets) = (place.segments("t"), offsets(&place));
    let last = segments.len() - 1;
    for gone in [1, 2, last] {
        fs::remove_file(&segments[gone]).unwrap();
    }
    let done = tidelog::repair(&place.root, &options(Backend::Mapped)).unwrap();
    assert!(done.is_complete(), "{done:?}");
    let store = place.open(Backend::Mapped);
    let partition = one(&store, "t");
    let records = scan(&partition);
    let mut stretches = damaged(&records);
    if let [first, second, ..] = stretches[..]
        && first.1 == second.0
    {
        stretches.splice(..2, [(first.0, second.1)]);
    }
    let middle = (offsets[1].start, offsets[2].end);
    assert_eq!(stretches, [middle, (offsets[last].start, RECORDS)]);
    assert_eq!(partition.append("next").unwrap().offset(), RECORDS);
    store.close().unwrap();
}

/// The owner was killed, and what it had acknowledged last is only in the journal; then a header rots,
/// or a segment goes. Nothing is lost of what any other file, or the journal, has.
#[test]
fn what_only_the_journal_holds_survives_a_repair() {
    for backend in BACKENDS {
        for (segment, blow) in [
            (0, Blow::Bit),
            (0, Blow::Removed),
            (9, Blow::Bit),
            (9, Blow::Torn),
        ] {
            let place = Place::new();
            let store = place.open(backend);
            let topic = store
                .create_topic("t", segments_of(64 << 10).partitions(1))
                .unwrap();
            let other = store.topic("other").unwrap();
            fill(&one(&store, "t"), 0..RECORDS, 100);
            store.flush().unwrap();
            topic.append_nowait("rode").unwrap();
            other.append_nowait("rode").unwrap();
            store.flush().unwrap();
            let place = end(place, store, End::Kill);
            let segments = place.segments("t");
            let segment = segment.min(segments.len() - 1);
            let lost = blow.strike(&segments[segment], &offsets(&place)[segment]);
            let done = tidelog::repair(&place.root, &options(backend)).unwrap();
            assert!(done.is_complete(), "{done:?}");
            let store = place.open(backend);
            let records = scan(&one(&store, "t"));
            assert_eq!(
                damaged(&records),
                expected(&lost),
                "{blow:?} of {segment}: {done:?}"
            );
            let last = records.last().unwrap().as_ref().unwrap();
            assert_eq!((last.offset(), last.payload()), (RECORDS, &b"rode"[..]));
            store.close().unwrap();
        }
    }
}

/// What a repair replaces is in the quarantine, with all its bytes.
#[test]
fn what_is_replaced_is_kept() {
    let place = filled(Backend::Mapped, End::Close);
    let segments = place.segments("t");
    Blow::Zeroed.strike(&segments[1], &(0..1));
    let bytes = fs::read(&segments[1]).unwrap();
    let done = tidelog::repair(&place.root, &options(Backend::Mapped)).unwrap();
    let replaced = &done.logs[0].steps[0];
    assert!(matches!(replaced.action, RepairAction::Replaced { .. }));
    assert_eq!(replaced.file, segments[1]);
    let kept: Vec<PathBuf> = fs::read_dir(place.root.join("quarantine"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), bytes);
}

/// A store that has an owner, or is not there, is not repaired or salvaged, and a sound one needs none.
#[test]
fn a_store_with_an_owner_is_not_repaired() {
    let place = filled(Backend::Mapped, End::Close);
    let options = options(Backend::Mapped);
    let before = fingerprint(&place.root.join("topics"));
    assert!(
        tidelog::repair(&place.root, &options)
            .unwrap()
            .logs
            .is_empty()
    );
    assert_eq!(fingerprint(&place.root.join("topics")), before);
    let store = place.open(Backend::Mapped);
    let locked = |error: Error| assert!(matches!(error, Error::Locked { .. }), "{error}");
    locked(tidelog::repair(&place.root, &options).unwrap_err());
    locked(tidelog::repair_plan(&place.root, &options).unwrap_err());
    let target = place.root.with_file_name("new");
    locked(tidelog::salvage(&place.root, &target, &options).unwrap_err());
    store.close().unwrap();
    let nowhere = place.root.with_file_name("nowhere");
    let none = |error: Error| assert!(matches!(error, Error::NoStore { .. }), "{error}");
    none(tidelog::repair(&nowhere, &options).unwrap_err());
    none(tidelog::repair_plan(&nowhere, &options).unwrap_err());
    none(tidelog::salvage(&nowhere, &target, &options).unwrap_err());
    assert!(!target.exists() && !nowhere.exists());
}

fn salvaged(place: &Place) -> (tidelog::SalvageReport, PathBuf) {
    let before = fingerprint(&place.root);
    let target = place.root.with_file_name("new");
    let report = tidelog::salvage(&place.root, &target, &StoreOptions::new()).unwrap();
    assert_eq!(
        fingerprint(&place.root),
        before,
        "the source is not changed"
    );
    (report, target)
}

/// A sound store is salvaged, one that was killed, too: every record is there with all that it has, and
/// topics are what they were.
#[test]
fn everything_is_salvaged_of_a_sound_store() {
    for how in ENDS {
        let place = Place::new();
        let store = place.open(Backend::Mapped);
        let made = TopicOptions::new()
            .partitions(3)
            .content_type("application/json");
        let topic = store
            .create_topic("t", made.max_record_bytes(1 << 20))
            .unwrap();
        for number in 0..300_u32 {
            let record = Record::new(payload(number.into(), 50)).partition(number % 3);
            let record = record
                .key("k")
                .header("h", "1")
                .header("h", "2")
                .event_id("id");
            topic
                .append_nowait(record.at(tidelog::Timestamp::from_millis(7)))
                .unwrap();
        }
        store.flush().unwrap();
        topic.append(Record::tombstone("k").partition(1)).unwrap();
        topic.finish().unwrap();
        let place = end(place, store, how);
        let (report, target) = salvaged(&place);
        assert!(report.is_whole(), "{report:?}");
        let new = Store::open(&target).unwrap();
        let info = &new.topics()[0];
        assert!(info.finished && info.content_type == "application/json");
        let old = Store::open(&place.root).unwrap();
        for partition in 0..3 {
            let read = |store: &Store| -> Vec<Record<'static>> {
                let partition = store.topic("t").unwrap().partition(partition).unwrap();
                let mut cursor = partition.cursor(tidelog::Start::Earliest).unwrap();
                let mut all = Vec::new();
                while let Some(record) = cursor.next().unwrap() {
                    all.push(record.to_record().into_owned());
                }
                all
            };
            assert_eq!(read(&old), read(&new));
        }
        old.close().unwrap();
        new.close().unwrap();
    }
}

/// The journal is gone, all of it. The topics are found by their folders, and every record is there.
#[test]
fn a_store_without_its_journal_is_salvaged_by_its_folders() {
    let place = filled(Backend::Mapped, End::Close);
    fs::remove_dir_all(place.root.join("journal")).unwrap();
    let (report, target) = salvaged(&place);
    assert!(report.journal.is_some() && !report.is_whole());
    assert!(
        report.logs.iter().all(|log| log.lost.is_empty()),
        "{report:?}"
    );
    let new = Store::open(&target).unwrap();
    let expected: Vec<_> = (0..RECORDS).map(|number| payload(number, 100)).collect();
    assert_eq!(payloads(&one(&new, "t")), expected);
    assert_eq!(payloads(&one(&new, "other")), [b"sound"]);
    new.close().unwrap();
}

/// Files are struck in every way, with the journal and without it: all records come that can be read,
/// in their order, and the others are told by their offsets or files.
#[test]
fn what_can_be_read_of_a_struck_store_is_salvaged() {
    for blow in BLOWS {
        for (position, journal) in [(0, true), (1, true), (99, true), (1, false)] {
            let place = filled(Backend::Mapped, End::Close);
            let segments = place.segments("t");
            let position = position.min(segments.len() - 1);
            let lost = blow.strike(&segments[position], &offsets(&place)[position].clone());
            if !journal {
                fs::remove_dir_all(place.root.join("journal")).unwrap();
            }
            let case = format!("{blow:?} of segment {position}, journal {journal}: {lost:?}");
            let (report, target) = salvaged(&place);
            let log = report.logs.iter().find(|log| log.topic == "t").unwrap();
            assert_eq!(lost_of(&log.lost), expected(&lost), "{case}: {report:?}");
            let new = Store::open(&target).unwrap();
            let left = (0..RECORDS).filter(|offset| !lost.contains(offset));
            let left: Vec<_> = left.map(|number| payload(number, 100)).collect();
            assert_eq!(payloads(&one(&new, "t")), left, "{case}");
            assert_eq!(log.records, left.len() as u64, "{case}");
            new.close().unwrap();
        }
    }
}
