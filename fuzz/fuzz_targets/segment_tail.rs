//! Arbitrary damage laid over the segments of a small log on the simulated disk, and then a whole
//! life of the store: verify, open, read everything, append, die, open again.
//!
//! The first byte chooses how the last owner ended (closed or killed) and how the next one does.
//! What follows is damage, [`Damage::take`]. What must hold: nothing panics, reading ends, every
//! record that lies below all damage is there unaltered, and what is appended afterwards and
//! acknowledged outlives the next power cut.
//!
//! A fuzzer finds checksums. So nothing is said of what lies at or above the damage, but that it
//! is read or refused.

#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tidelog::sys::Storage;
use tidelog::sys::sim::{Crash, Keep, Sim, SimClock, Snapshot};
use tidelog::{Error, Partition, Record, Start, Store, StoreOptions, TopicOptions, verify};

const ROOT: &str = "/data";
const RECORDS: u64 = 220;
const SEGMENT: u64 = 16 << 10;
const HEADER: usize = 4096;
/// What a frame has before its payload if it has neither key nor headers.
const HEAD: usize = 32;

fn options(sim: &Sim) -> StoreOptions {
    let clock = SimClock::new(7, 1_700_000_000_000_000_000);
    StoreOptions::new()
        .storage(Arc::new(sim.clone()))
        .clock(Arc::new(clock))
        .inline()
}

/// Of a length that is no multiple of anything, and not the same for two records in a row.
fn payload(offset: u64) -> Vec<u8> {
    let mut text = format!("record {offset:>5} ");
    text.extend(std::iter::repeat_n('.', (offset % 131) as usize));
    text.into_bytes()
}

/// The log before the damage.
struct Base {
    closed: Snapshot,
    killed: Snapshot,
    segments: Vec<PathBuf>,
    /// Where each record ends: its segment, and the place in it.
    ends: Vec<(usize, usize)>,
    /// Where the first record of a segment begins.
    starts: Vec<usize>,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let sim = Sim::new(1);
        let store = Store::open_with(ROOT, options(&sim)).expect("a store");
        let shape = TopicOptions::new()
            .first_segment_bytes(SEGMENT)
            .max_segment_bytes(SEGMENT);
        let topic = store.create_topic("t", shape).expect("a topic");
        let mut offset = 0;
        while offset < RECORDS {
            let batch = if offset % 5 == 0 { 4 } else { 1 };
            let records = (offset..offset + batch).map(|offset| Record::new(payload(offset)));
            topic.append_batch(records).expect("an append");
            offset += batch;
        }
        let killed = sim.snapshot();
        store.close().expect("a close");
        let closed = sim.snapshot();

        let folder = Path::new(ROOT).join("topics/t");
        let log = sim.list(&folder).expect("one log").remove(0).name;
        let folder = folder.join(log);
        let names = sim.list(&folder).expect("segments");
        let segments: Vec<PathBuf> = names.iter().map(|entry| folder.join(&entry.name)).collect();
        let images: Vec<Vec<u8>> = segments
            .iter()
            .map(|path| sim.bytes(path).expect("bytes"))
            .collect();
        // One behind the other, so each is looked for from the end of the one before.
        let mut found: Vec<(usize, usize, usize)> = Vec::new();
        let (mut segment, mut from) = (0, HEADER);
        for offset in 0..RECORDS {
            let wanted = payload(offset);
            let mut windows = images[segment][from..].windows(wanted.len());
            let place = match windows.position(|seen| seen[0] == b'r' && seen == wanted) {
                Some(ahead) => from + ahead,
                None => {
                    segment += 1;
                    let mut windows = images[segment].windows(wanted.len());
                    let first = windows.position(|seen| seen[0] == b'r' && seen == wanted);
                    first.expect("a record that was appended")
                }
            };
            from = place + wanted.len();
            found.push((segment, place, from));
        }
        let start = |number| {
            let first = found.iter().find(|(segment, ..)| *segment == number);
            first.map_or(HEADER, |(_, place, _)| place - HEAD)
        };
        Base {
            closed,
            killed,
            starts: (0..segments.len()).map(start).collect(),
            ends: found
                .iter()
                .map(|(number, _, end)| (*number, *end))
                .collect(),
            segments,
        }
    })
}

/// What the damage leaves to be said.
struct Left {
    /// Records that lie below all damage.
    sound: u64,
    /// Whether files are whole and every sector can be read.
    readable: bool,
}

struct Damage<'a> {
    sim: &'a Sim,
    left: &'a [u8],
    lowest: (usize, usize),
    in_header: bool,
    readable: bool,
}

impl Damage<'_> {
    fn byte(&mut self) -> Option<usize> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(usize::from(*first))
    }

    fn place(&mut self, length: usize) -> Option<usize> {
        Some((self.byte()? | self.byte()? << 8) % length)
    }

    /// One piece of damage: what, and in which segment; where; how long; the bytes.
    fn take(&mut self) -> Option<()> {
        let base = base();
        let what = self.byte()?;
        let number = what / 8 % base.segments.len();
        let path = &base.segments[number];
        let length = self.sim.bytes(path).ok()?.len();
        if length == 0 {
            return Some(());
        }
        let at = self.place(length)?;
        let most = self.byte()?;
        let bytes = match what % 8 {
            0..=3 => {
                let (now, later) = self.left.split_at(most.min(self.left.len()));
                self.left = later;
                now.to_vec()
            }
            4 => vec![0; most * 8],
            5 => {
                let from = self.byte()? % base.segments.len();
                let from = self.sim.bytes(&base.segments[from]).ok()?;
                let place = self.place(from.len().max(1))? & !7;
                from[place..from.len().min(place + most * 8)].to_vec()
            }
            6 => {
                self.sim.truncate(path, at).expect("a file that is there");
                self.note(number, at);
                self.readable = false;
                return Some(());
            }
            _ => {
                self.sim.spoil(path, at).expect("a file that is there");
                self.note(number, at & !511);
                self.readable = false;
                return Some(());
            }
        };
        // Copies fall on places where frames, sectors and entries may begin.
        let at = if what % 8 < 4 { at } else { at & !7 };
        let bytes = &bytes[..bytes.len().min(length - at)];
        self.sim
            .overwrite(path, at, bytes)
            .expect("within the file");
        if !bytes.is_empty() {
            self.note(number, at);
        }
        Some(())
    }

    fn note(&mut self, number: usize, place: usize) {
        self.in_header |= place < base().starts[number];
        self.lowest = self.lowest.min((number, place));
    }
}

fn damage(sim: &Sim, bytes: &[u8]) -> Left {
    let mut damage = Damage {
        sim,
        left: bytes,
        lowest: (usize::MAX, 0),
        in_header: false,
        readable: true,
    };
    for _ in 0..16 {
        if damage.take().is_none() {
            break;
        }
    }
    let below = base().ends.iter().take_while(|end| **end <= damage.lowest);
    Left {
        // A header says where the log goes on, a short file fails it, and so may a bad sector.
        sound: match damage.in_header || !damage.readable {
            true => 0,
            false => below.count() as u64,
        },
        readable: damage.readable,
    }
}

/// Reads everything from the start, and the first records are these; the offset behind the last.
fn read(partition: &Partition, sound: u64) -> tidelog::Result<u64> {
    let mut cursor = partition.cursor(Start::Earliest)?;
    let (mut next, mut steps) = (0, 0);
    loop {
        steps += 1;
        assert!(steps < 100 * RECORDS, "reading does not end");
        match cursor.next() {
            Ok(Some(record)) => {
                assert!(record.offset() >= next, "an offset comes twice");
                if record.offset() < sound {
                    assert_eq!(record.offset(), next, "a gap in what was sound");
                    assert_eq!(record.payload(), payload(next), "altered");
                }
                next = record.offset() + 1;
            }
            Ok(None) => break,
            Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    assert!(next >= sound, "{next} records of {sound} below the damage");
    Ok(next)
}

/// A life of the store; the position of an append that was acknowledged.
fn live(store: &Store, sound: u64) -> tidelog::Result<u64> {
    let topic = store.existing_topic("t")?;
    let partition = topic.partition(0)?;
    read(&partition, sound)?;
    for offset in (0..sound).step_by(29) {
        let found = partition.read(offset..offset + 1)?.next();
        let found = found.expect("a record below the damage")?;
        assert_eq!(found.payload(), payload(offset));
    }
    let at = topic.append(Record::new("after the damage"))?;
    read(&partition, sound)?;
    Ok(at.offset())
}

/// Whoever only reads the store sees what lies below the damage, too, and changes nothing.
fn look(sim: &Sim, sound: u64) {
    let bytes = || {
        base()
            .segments
            .iter()
            .map(|path| sim.bytes(path).expect("bytes"))
    };
    let before: Vec<_> = bytes().collect();
    let store = Store::open_read_only_with(ROOT, options(sim)).expect("only a topic is damaged");
    let partition = store
        .existing_topic("t")
        .and_then(|topic| topic.partition(0));
    let read = partition.and_then(|partition| read(&partition, sound.min(partition.end()?)));
    store.close().expect("nothing to do");
    assert!(bytes().eq(before), "reading changes nothing");
    drop(read);
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let base = base();
    let sim = Sim::new(u64::from(*choice));
    let image = if choice & 1 == 0 {
        &base.killed
    } else {
        &base.closed
    };
    sim.restore(image).expect("an image");
    let left = damage(&sim, bytes);
    if let Ok(report) = verify(ROOT, &options(&sim)) {
        assert!(report.logs.len() <= 1);
    }
    look(&sim, left.sound);
    let store = Store::open_with(ROOT, options(&sim)).expect("only a topic is damaged");
    let after = live(&store, left.sound);
    if left.sound > 0 && left.readable {
        after.as_ref().expect("damage is contained");
    }
    if choice & 2 == 0 {
        // A log that has failed says so, and keeps nobody from closing.
        drop(store.close());
        sim.crash(Crash::Cut(Keep::Chance)).expect("a crash");
    } else {
        sim.crash(Crash::Cut(Keep::Chance)).expect("a crash");
        drop(store);
    }
    let store = Store::open_with(ROOT, options(&sim)).expect("only a topic is damaged");
    let again = live(&store, left.sound);
    if let Ok(at) = after
        && left.readable
    {
        let topic = store.existing_topic("t").expect("the topic is there");
        let partition = topic.partition(0).expect("its partition");
        let kept = partition.read(at..at + 1).expect("a range").next();
        let kept = kept.expect("what was acknowledged").expect("unaltered");
        assert_eq!(kept.payload(), b"after the damage");
        assert!(
            again.is_ok_and(|again| again > at),
            "an offset was given twice"
        );
    }
});
