//! Bytes of an earlier life behind the tail.

use std::fs;

use tidelog::{Record, Start};

use crate::kit::{
    BACKENDS, ENDS, End, Place, end, fill, one, options, payload, payloads, segments_of,
};
use crate::segment::Segment;

/// D02. A file that was used again still held sound-looking records behind its new tail. This
/// engine never uses a topic's segment again: behind the tail there are zeroes, to the last byte.
#[test]
fn a_fresh_segment_reads_as_zeroes_behind_its_tail() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        fill(&one(&store, "t"), 0..2000, 120);
        store.delete_topic("t").unwrap();
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        fill(&one(&store, "t"), 0..2000, 120);
        for path in place.segments("t") {
            let segment = Segment::read(path);
            assert!(
                segment.bytes[segment.tail()..]
                    .iter()
                    .all(|byte| *byte == 0)
            );
        }
        store.close().unwrap();
    }
}

/// D02. And if they were there all the same, from whichever life: copied behind the tail of an
/// active segment, at their old places or right at the tail, none of them counts.
#[test]
fn frames_of_another_life_behind_the_tail_do_not_count() {
    for backend in BACKENDS {
        for how in ENDS {
            for source in SOURCES {
                forge(backend, how, source);
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Source {
    /// The first segment of this log, whose frames are as long.
    FirstSegment,
    /// The same segment number of another topic.
    OtherTopic,
    /// This very segment in another life: other nonce, all else the same.
    OtherLife,
    /// The beginning of this very segment.
    Itself,
}

const SOURCES: [Source; 4] = [
    Source::FirstSegment,
    Source::OtherTopic,
    Source::OtherLife,
    Source::Itself,
];

fn forge(backend: tidelog::sys::Backend, how: End, source: Source) {
    let place = Place::new();
    let store = place.open(backend);
    for topic in ["t", "other"] {
        store.create_topic(topic, segments_of(64 << 10)).unwrap();
        fill(&one(&store, topic), 0..1010, 100);
    }
    let place = end(place, store, how);
    let segments = place.segments("t");
    let mut active = Segment::read(segments.last().unwrap());
    let (start, tail) = (active.records_at(), active.tail());
    let mut old = match source {
        Source::FirstSegment => Segment::read(&segments[0]),
        Source::OtherTopic => Segment::read(place.segments("other").last().unwrap()),
        Source::OtherLife | Source::Itself => active.clone(),
    };
    if matches!(source, Source::OtherLife) {
        old.put_u64(40, 0xfeed);
        for frame in active.frames() {
            old.fix(frame.place);
        }
    }
    // What lay there, as if nobody had ever zeroed it; for one shorter than the tail, from its
    // beginning on, so that whole frames begin right at the tail.
    let stale = match source {
        Source::FirstSegment => old.bytes[tail..].to_vec(),
        _ => old.bytes[start..tail].to_vec(),
    };
    let length = stale.len().min(active.bytes.len() - tail);
    active.bytes[tail..tail + length].copy_from_slice(&stale[..length]);
    active.write();

    let expected: Vec<_> = (0..1010).map(|n| payload(n, 100)).collect();
    let report = tidelog::verify(&place.root, &options(backend)).unwrap();
    let log = report.logs.iter().find(|log| log.topic == "t").unwrap();
    assert!(log.damage.is_empty(), "{source:?} {how:?}: {log:?}");
    assert_eq!((log.end, log.records), (1010, 1010));

    let store = place.open(backend);
    let partition = one(&store, "t");
    let mut follow = partition.follow(Start::Earliest).unwrap();
    let mut followed = 0;
    while follow.try_next().unwrap().is_some() {
        followed += 1;
    }
    assert_eq!(
        (followed, payloads(&partition)),
        (1010, expected.clone()),
        "{source:?} {how:?}"
    );
    // New records of the same length as the stale ones, so that whole ones stay behind them.
    fill(&partition, 1010..1020, 100);
    assert!(follow.try_next().unwrap().is_some());
    drop((follow, partition));
    let place = end(place, store, End::Kill);
    let store = place.open(backend);
    let expected: Vec<_> = (0..1020).map(|n| payload(n, 100)).collect();
    assert_eq!(payloads(&one(&store, "t")), expected, "{source:?} {how:?}");
    store.close().unwrap();
}

/// D02. A full segment under the name of the next one, by renaming or by a restored copy, is not
/// the next one: also not with a header that was made to say so.
#[test]
fn a_full_segment_under_the_name_of_the_next_one_is_set_aside() {
    for backend in BACKENDS {
        for forged in [false, true] {
            let place = Place::new();
            let store = place.open(backend);
            store.create_topic("t", segments_of(64 << 10)).unwrap();
            fill(&one(&store, "t"), 0..1010, 100);
            let place = end(place, store, End::Kill);
            let count = place.segments("t").len() as u32;
            let (base, tail) = {
                let last = Segment::read(place.segments("t").last().unwrap());
                (1010, last.tail() as u64)
            };
            let mut old = Segment::read(place.segment("t", 0));
            if forged {
                old.put_u32(104, count);
                old.put_u64(48, base);
                old.put_u64(56, tail);
                old.put_u64(64, base);
                old.put_u32(
                    10,
                    2 | u32::from_le_bytes(old.bytes[10..14].try_into().unwrap()),
                );
                old.fix_identity();
            }
            fs::write(place.segment("t", count), &old.bytes).unwrap();

            let store = place.open(backend);
            let partition = one(&store, "t");
            assert_eq!(partition.end().unwrap(), 1010);
            let at = partition.append(Record::new(payload(1010, 100))).unwrap();
            assert_eq!(at.offset(), 1010);
            let place = end(place, store, End::Kill);
            let store = place.open(backend);
            let expected: Vec<_> = (0..1011).map(|n| payload(n, 100)).collect();
            assert_eq!(payloads(&one(&store, "t")), expected);
            store.close().unwrap();
        }
    }
}
