//! Bytes that rot in the middle of a log, and lengths that lead nowhere.

use std::fs;

use tidelog::sys::Backend;
use tidelog::{Error, Record, Start, Timestamp};

use crate::kit::{
    BACKENDS, ENDS, End, Place, damaged, end, fill, fingerprint, one, options, payload, scan,
    segments_of,
};
use crate::life;
use crate::segment::Segment;

const RECORDS: u64 = 10_000;

/// D03. One flipped bit in old data was taken for the end of the log, and everything behind it was
/// gone. So flip one, in sealed segments and in the active one, at their edges and in the middle.
#[test]
fn one_flipped_bit_in_old_data_costs_one_record() {
    for backend in BACKENDS {
        for how in ENDS {
            let place = Place::new();
            let store = place.open(backend);
            store.create_topic("t", segments_of(300 << 10)).unwrap();
            fill(&one(&store, "t"), 0..RECORDS, 100);
            let place = end(place, store, how);
            let segments = place.segments("t");
            assert_eq!(segments.len(), 5);
            let second = Segment::read(&segments[1]);
            let edges = [second.base() - 1, second.base(), second.base() + 1];
            for (nth, offset) in [0, 3000, 9000].into_iter().chain(edges).enumerate() {
                let image = place.killed();
                flip_one_bit(&image, backend, offset, nth % 8);
            }
        }
    }
}

fn flip_one_bit(image: &Place, backend: Backend, offset: u64, bit: usize) {
    let segments = image.segments("t");
    let holds = |path: &&std::path::PathBuf| Segment::read(path).base() <= offset;
    let path = segments.iter().rev().find(holds).unwrap();
    let mut segment = Segment::read(path);
    let frame = segment.frame(offset);
    segment.bytes[frame.place + 32 + 12 * bit] ^= 1 << bit;
    segment.write();
    let sealed: Vec<Vec<u8>> = segments[..4]
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();

    let before = fingerprint(&image.root);
    let report = tidelog::verify(&image.root, &options(backend)).unwrap();
    assert_eq!(fingerprint(&image.root), before, "looking changes nothing");
    let [log] = report.logs.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(
        (log.end, log.records, log.damage.len()),
        (RECORDS, RECORDS - 1, 1)
    );
    assert!(matches!(&log.damage[0], Error::Corrupt { offset: at, .. } if *at == offset));

    let store = image.open(backend);
    let partition = one(&store, "t");
    assert_eq!(partition.end().unwrap(), RECORDS);
    let read = scan(&partition);
    assert_eq!(damaged(&read), [(offset, offset + 1)]);
    let Err(Error::Corrupt { file, place, .. }) = &read[offset as usize] else {
        panic!("{:?}", read[offset as usize]);
    };
    assert_eq!((file, *place), (path, frame.place as u64));
    for (number, record) in (0..).zip(&read).filter(|(number, _)| *number != offset) {
        let record = record.as_ref().unwrap();
        assert_eq!(
            (record.offset(), record.payload()),
            (number, &payload(number, 100)[..])
        );
    }
    // Point reads beside it do not notice.
    for near in offset.saturating_sub(1)..=offset + 1 {
        let read: Vec<_> = partition.read(near..near + 1).unwrap().collect();
        assert_eq!(
            (read.len(), read[0].is_err()),
            (1, near == offset),
            "{near}"
        );
    }
    let at = partition
        .append(Record::new(payload(RECORDS, 100)))
        .unwrap();
    assert_eq!(at.offset(), RECORDS);

    // A follower that waits is told once, and goes on.
    let topic = store.existing_topic("t").unwrap();
    let mut follow = topic.follow(Start::Earliest).unwrap();
    topic.finish().unwrap();
    let (mut good, mut bad) = (0, 0);
    loop {
        match follow.next() {
            Ok(Some(_)) => good += 1,
            Ok(None) => break,
            Err(Error::Corrupt { .. }) => bad += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((good, bad), (RECORDS, 1));
    drop((follow, partition, topic));
    store.close().unwrap();
    for (path, bytes) in segments[..4].iter().zip(&sealed) {
        assert!(
            fs::read(path).unwrap()[4096..] == bytes[4096..],
            "a sealed segment was changed"
        );
    }
}

/// A look-up goes on from an index entry by lengths that it does not check. Let one of them lie, and
/// lead into the payload of another record, which has there what the head of the one looked for
/// might look like: the look-up finds the true one.
#[test]
fn a_length_that_leads_to_a_forged_head_does_not_mislead_a_look_up() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        let mut forged = vec![0; 64];
        forged[..4].copy_from_slice(&40_u32.to_le_bytes());
        forged[8..12].copy_from_slice(&2_u32.to_le_bytes());
        let records = [&b"first"[..], &forged, b"looked for"].map(Record::new);
        one(&store, "t").append_batch(records).unwrap();
        let place = end(place, store, ENDS[0]);
        let mut segment = Segment::read(&place.segments("t")[0]);
        let (first, second) = (segment.frame(0).place, segment.frame(1).place);
        let lie = u32::try_from(second + 32 - first).unwrap();
        segment.bytes[first..first + 4].copy_from_slice(&lie.to_le_bytes());
        segment.write();
        let store = place.open(backend);
        let mut cursor = one(&store, "t").cursor(Start::Offset(2)).unwrap();
        let found = cursor.next().unwrap().unwrap();
        assert_eq!((found.offset(), found.payload()), (2, &b"looked for"[..]));
    }
}

/// D21. A length that was believed made a reader run past the end of the file, or allocate all
/// memory. So make every length of a frame lie, with a checksum that tells and with one that agrees,
/// in sealed segments and in the active one; in a process of its own, whose memory is watched.
#[test]
fn lengths_that_lead_beyond_the_segment_are_damage_and_cost_no_memory() {
    life::alone(
        "damage::lengths_that_lead_beyond_the_segment_are_damage_and_cost_no_memory",
        || {
            let before = life::peak_memory();
            for backend in BACKENDS {
                for how in ENDS {
                    every_lie(backend, how);
                }
            }
            let grown = life::peak_memory() - before;
            assert!(grown < 10 << 20, "{grown} bytes of memory");
        },
    );
}

fn every_lie(backend: Backend, how: End) {
    const COUNT: u64 = 120;
    let place = Place::new();
    let store = place.open(backend);
    store.create_topic("t", segments_of(64 << 10)).unwrap();
    let partition = one(&store, "t");
    for number in 0..COUNT {
        // Every record is acknowledged before the next one is written, which therefore proves it.
        let record = Record::new(payload(number, 1000))
            .key("key")
            .header("name", "value");
        partition.append(record.event_id("id")).unwrap();
    }
    drop(partition);
    let place = end(place, store, how);
    let segments = place.segments("t");
    assert!(segments.len() > 2);
    let active = Segment::read(segments.last().unwrap()).base();
    for offset in [0, active, COUNT - 2] {
        for lie in 0..LIES {
            for fixed in [false, true] {
                let image = place.killed();
                tell(&image, offset, lie, fixed);
                let what = format!("{backend:?} {how:?} {offset} lie {lie} {fixed}");
                let report = tidelog::verify(&image.root, &options(backend)).unwrap();
                assert_eq!(
                    (report.logs[0].end, report.logs[0].damage.len()),
                    (COUNT, 1),
                    "{what}"
                );
                let store = image.open(backend);
                let partition = one(&store, "t");
                assert_eq!(partition.end().unwrap(), COUNT, "{what}");
                assert_eq!(damaged(&scan(&partition)), [(offset, offset + 1)], "{what}");
                let at = partition.append(Record::new("next")).unwrap();
                assert_eq!(at.offset(), COUNT, "{what}");
                drop(partition);
                store.close().unwrap();
            }
        }
    }
}

const LIES: usize = 10;

/// Makes one length of a record's frame lie.
fn tell(image: &Place, offset: u64, lie: usize, fixed: bool) {
    let segments = image.segments("t");
    let holds = |path: &&std::path::PathBuf| Segment::read(path).base() <= offset;
    let mut segment = Segment::read(segments.iter().rev().find(holds).unwrap());
    let frame = segment.frame(offset);
    let left = (segment.bytes.len() - frame.place) as u32;
    // Behind the fixed part: event id (1 + 2), key (3), then the header's two lengths.
    let header = frame.place + 32 + 3 + 3;
    let length = |segment: &mut Segment, value| segment.put_u32(frame.place, value);
    match lie {
        0 => length(&mut segment, 0xFFFF_FFFF),
        1 => length(&mut segment, 0x7FFF_FFFF),
        2 => length(&mut segment, left + 1),
        3 => length(&mut segment, 0),
        4 => length(&mut segment, 31),
        5 => length(&mut segment, 1 << 30),
        // The key reaches beyond the record.
        6 => segment.bytes[frame.place + 28..frame.place + 30].fill(0xFF),
        // So do the headers, by their number, by a name, by a value.
        7 => segment.bytes[frame.place + 31] = 0xFF,
        8 => segment.bytes[header..header + 2].fill(0xFF),
        _ => segment.bytes[header + 2..header + 6].fill(0xFF),
    }
    if fixed {
        segment.fix(frame.place);
    }
    segment.write();
}

/// D29. One damaged index made opening read the whole log. It costs nothing when the store is
/// opened, and look-ups walk: they find what they found before.
#[test]
fn a_damaged_index_of_a_sealed_segment_costs_opening_nothing_and_hides_nothing() {
    for how in ENDS {
        let place = Place::new();
        let store = place.open(Backend::Mapped);
        store.create_topic("t", segments_of(128 << 10)).unwrap();
        for number in 0..4000_u64 {
            let record =
                Record::new(payload(number, 100)).at(Timestamp::from_nanos(number as i64 * 10));
            match number % 50 {
                0 => drop(one(&store, "t").append(record).unwrap()),
                _ => continue,
            }
            let rest = (number + 1..number + 50).map(|number| {
                Record::new(payload(number, 100)).at(Timestamp::from_nanos(number as i64 * 10))
            });
            one(&store, "t").append_batch(rest).unwrap();
        }
        let place = end(place, store, how);
        let reads = |place: &Place| {
            let store = place.open(Backend::Mapped);
            let partition = one(&store, "t");
            assert_eq!(partition.end().unwrap(), 4000);
            let reads = store.io().bytes_read.get();
            for number in (0..4000).step_by(37) {
                let found = partition
                    .find(Timestamp::from_nanos(number * 10 - 5))
                    .unwrap();
                assert_eq!(found, number as u64);
                let mut read = partition.read(found..found + 1).unwrap();
                assert_eq!(read.next().unwrap().unwrap().payload(), payload(found, 100));
            }
            drop(partition);
            store.close().unwrap();
            reads
        };
        let sound = reads(&place.killed());
        for number in 0..4 {
            for filler in [0, 0xff, 0x11] {
                let image = place.killed();
                let mut segment = Segment::read(image.segment("t", number));
                let index = 4096..segment.records_at();
                segment.bytes[index].fill(filler);
                segment.write();
                let damaged = reads(&image);
                assert_eq!(damaged, sound, "segment {number} {how:?}");
            }
        }
    }
}

/// D29. A process is killed, and what it had written to the index behind its last slot is not what it should
/// be. Recovery makes these entries anew: a look-up by time finds the first record at or after it.
#[test]
fn index_entries_behind_the_last_slot_are_made_anew() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = place.open(backend);
        store.create_topic("t", segments_of(1 << 20)).unwrap();
        let record = |number: u64| {
            let time = Timestamp::from_nanos(number as i64 * 10);
            Record::new(payload(number, 100)).at(time)
        };
        one(&store, "t")
            .append_batch((0..4000).map(record))
            .unwrap();
        let image = place.killed();
        store.close().unwrap();
        let mut segment = Segment::read(image.segment("t", 0));
        let last = segment.frame(3999).place as u32;
        for at in (4096..segment.records_at()).step_by(16) {
            // All before the last record is older than anything.
            segment.put_u64(at, 0);
            segment.put_u32(at + 8, 3999);
            segment.put_u32(at + 12, last / 8);
        }
        segment.write();
        let store = image.open(backend);
        let partition = one(&store, "t");
        for number in (1..4000).step_by(331) {
            let time = Timestamp::from_nanos(number * 10 - 5);
            assert_eq!(partition.find(time).unwrap(), number as u64);
        }
        drop(partition);
        store.close().unwrap();
    }
}
