//! Appends that do not wait, in bursts of 8 MiB into a topic that is synced by hand, beside copying the
//! same frames into a prepared mapping in the same bursts; and both with their syncs.
//!
//! `cargo bench --bench bursts`

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapMut, MmapOptions};
use tidelog::{Durability, Record, Store, TopicOptions};

const PAYLOAD: [u8; 100] = [b'x'; 100];
/// Head, payload, and what fills up to a multiple of eight.
const FRAME: usize = 136;
const BURST: usize = 8 << 20;
const RECORDS: usize = BURST / FRAME;
const ROUNDS: usize = 40;

/// What a log cannot do without: frames copied to where they belong, and a sync.
struct Copies {
    file: File,
    map: MmapMut,
    end: usize,
}

impl Copies {
    fn open(path: &Path) -> Copies {
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(path);
        let file = file.expect("a file");
        let len = (BURST * (ROUNDS + 1)) as u64;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len).expect("space");
        file.sync_all().expect("a sync");
        // SAFETY: nobody else knows the file.
        #[expect(unsafe_code, reason = "the limit is a bare mapping")]
        let map = unsafe { MmapOptions::new().map_mut(&file) }.expect("a mapping");
        Copies { file, map, end: 0 }
    }

    /// One burst; how long the copying took, and how long the sync.
    fn burst(&mut self, frame: &[u8; FRAME]) -> [Duration; 2] {
        self.map
            .advise_range(Advice::PopulateWrite, self.end, BURST)
            .expect("pages");
        let begin = Instant::now();
        for _ in 0..RECORDS {
            self.map[self.end..self.end + FRAME].copy_from_slice(std::hint::black_box(frame));
            self.end += FRAME;
        }
        let copied = begin.elapsed();
        self.file.sync_data().expect("a sync");
        [copied, begin.elapsed()]
    }
}

fn main() {
    let dir = tempfile::tempdir_in(".").expect("a folder on the disk that is measured");
    let store = Store::open(dir.path().join("store")).expect("a store");
    let by_hand = TopicOptions::new().durability(Durability::Manual);
    let topic = store.create_topic("bursts", by_hand).expect("a topic");
    let mut copies = Copies::open(&dir.path().join("copies"));
    let mut times = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..RECORDS {
            let ack = topic.append_nowait(Record::new(&PAYLOAD));
            drop(std::hint::black_box(ack.expect("an append")));
        }
        let appended = begin.elapsed();
        topic.flush().expect("a flush");
        let flushed = begin.elapsed();
        let [copied, synced] = copies.burst(&[b'x'; FRAME]);
        // The first segments are small.
        if round >= ROUNDS / 4 {
            for (times, time) in times.iter_mut().zip([appended, copied, flushed, synced]) {
                times.push(time);
            }
        }
    }
    let [append, copy, flush, sync] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    let each = |time: Duration| time.as_nanos() as f64 / RECORDS as f64;
    println!(
        "medians of {} bursts of {RECORDS} records",
        ROUNDS - ROUNDS / 4
    );
    println!("append_nowait   {:>8.1} ns a record", each(append));
    println!("a copy          {:>8.1} ns", each(copy));
    println!(
        "ratio           {:>8.2}   limit 0.5",
        copy.div_duration_f64(append)
    );
    println!("with the flush  {:>8.1} ns a record", each(flush));
    println!("copy and sync   {:>8.1} ns", each(sync));
    println!("ratio           {:>8.2}", sync.div_duration_f64(flush));
    drop(topic);
    store.close().expect("a close");
}
