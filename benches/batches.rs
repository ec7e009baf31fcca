//! Durable batches of several sizes, on both back ends, beside the least that can be done: one write
//! of as many bytes into prepared space, and one `fdatasync`. In turn, in one run: the time that a
//! tenth, and half, of the rounds stay below.
//!
//! `cargo bench --bench batches`

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelog::sys::{Backend, Disk, Mode};
use tidelog::{Record, Store, StoreOptions, Topic};

const PAYLOAD: [u8; 128] = [b'x'; 128];
const FRAME: usize = 160;
const SIZES: [usize; 9] = [8, 16, 32, 48, 64, 128, 256, 1024, 4096];
const ROUNDS: usize = 300;
/// A size is measured for no longer than this.
const BUDGET: Duration = Duration::from_secs(5);
const SPACE: u64 = 3 << 30;

fn open(path: &Path, backend: Backend) -> Topic {
    let disk = Disk::with_backend(Mode::Private, backend);
    let options = StoreOptions::new().storage(Arc::new(disk));
    let store = Store::open_with(path, options).expect("a store");
    store.topic("batches").expect("a topic")
}

fn batch(topic: &Topic, records: usize) -> Duration {
    let records: Vec<Record> = (0..records).map(|_| Record::new(&PAYLOAD)).collect();
    let start = Instant::now();
    topic.append_batch(records).expect("a batch");
    start.elapsed()
}

/// A write and a sync of what a batch has in bytes.
struct Bare {
    file: File,
    end: u64,
}

impl Bare {
    fn open(path: &Path) -> Bare {
        let file = File::create(path).expect("a file");
        let plain = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, plain, 0, SPACE).expect("space");
        file.sync_all().expect("a sync");
        Bare { file, end: 0 }
    }

    fn batch(&mut self, bytes: &[u8]) -> Duration {
        let start = Instant::now();
        self.file.write_all_at(bytes, self.end).expect("a write");
        self.file.sync_data().expect("a sync");
        self.end += bytes.len() as u64;
        start.elapsed()
    }
}

fn main() {
    let dir = tempfile::tempdir_in(".").expect("a folder on the disk that is measured");
    let mapped = open(&dir.path().join("mapped"), Backend::Mapped);
    let pwrite = open(&dir.path().join("pwrite"), Backend::Pwrite);
    let mut bare = Bare::open(&dir.path().join("bare"));
    println!(
        "{:>6} {:>16} {:>16} {:>16}  one record, mapped, behind it",
        "KiB", "bare", "mapped", "pwrite"
    );
    for size in SIZES {
        let records = size * 1024 / FRAME;
        let bytes = vec![b'x'; records * FRAME];
        let mut times = [const { Vec::new() }; 4];
        let begun = Instant::now();
        for round in 0..ROUNDS {
            if begun.elapsed() > BUDGET || bare.end + bytes.len() as u64 > SPACE {
                break;
            }
            // Each comes first in turn: a disk may allow a burst to whoever comes first.
            for turn in round..round + 3 {
                match turn % 3 {
                    0 => times[0].push(bare.batch(&bytes)),
                    1 => {
                        times[1].push(batch(&mapped, records));
                        times[3].push(batch(&mapped, 1));
                    }
                    _ => times[2].push(batch(&pwrite, records)),
                }
            }
        }
        print!("{size:>6}");
        for mut times in times {
            times.sort_unstable();
            let micros = |part: usize| times[times.len() / part].as_micros();
            print!(" {:>16}", format!("{} / {} us", micros(10), micros(2)));
        }
        println!();
    }
}
