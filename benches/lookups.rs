//! Point reads: a record at a random offset of a million, beside copying the same bytes out of an
//! array, in turn, in one run; medians.
//!
//! `cargo bench --bench lookups`

use std::hint::black_box;
use std::time::{Duration, Instant};

use tidelog::{Durability, Record, Start, Store, TopicOptions};

const RECORDS: u64 = 1_000_000;
const PAYLOAD: [u8; 104] = [b'x'; 104];
const FRAME: usize = 136;
const TURNS: usize = 60;
const READS: u32 = 5_000;

/// Numbers below [`RECORDS`], in no order (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % RECORDS
    }
}

/// How long one of many calls takes.
fn each(mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..READS).for_each(|_| call());
    start.elapsed() / READS
}

fn main() {
    let dir = tempfile::tempdir_in(".").expect("a folder on the disk that is measured");
    let store = Store::open(dir.path().join("store")).expect("a store");
    let options = TopicOptions::new()
        .durability(Durability::Manual)
        .first_segment_bytes(256 << 20)
        .max_segment_bytes(256 << 20)
        .unsettled_bytes(1 << 30);
    let topic = store.create_topic("points", options).expect("a topic");
    let begun = Instant::now();
    for _ in 0..RECORDS {
        let appended = topic.append_nowait(Record::new(&PAYLOAD));
        drop(appended.expect("an append"));
    }
    let append = begun.elapsed().div_f64(RECORDS as f64);
    store.flush().expect("a flush");
    let partition = topic.partition(0).expect("a partition");
    let array: Vec<u8> = (0..RECORDS as usize * FRAME).map(|at| at as u8).collect();
    let mut dice = Dice(88_172_645_463_325_252);
    let mut cursor = partition.cursor(Start::Earliest).expect("a cursor");
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        times[0].push(each(|| {
            let at = dice.roll() as usize * FRAME;
            black_box(array[at..at + FRAME].to_vec());
        }));
        times[1].push(each(|| {
            let start = Start::Offset(dice.roll());
            cursor.seek(start).expect("a seek");
            black_box(cursor.next().expect("a read").expect("a record").payload());
        }));
        times[2].push(each(|| {
            let start = Start::Offset(dice.roll());
            let mut cursor = partition.cursor(start).expect("a cursor");
            black_box(cursor.next().expect("a read").expect("a record").payload());
        }));
    }
    let [array, seek, cursor] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    println!("{RECORDS} records of {FRAME} bytes, appended in {append:.0?} each");
    println!("copied out of an array   {array:>8.0?}");
    for (name, time) in [("a cursor that seeks", seek), ("a cursor for each", cursor)] {
        let times = time.div_duration_f64(array);
        println!("{name:<24} {time:>8.0?} ({times:.1} times that)");
    }
    drop(store.close());
}
