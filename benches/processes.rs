//! From an append in one process until another one has the record, beside the bare thing: the same frame
//! copied into shared memory and checked there, with a futex to wake the other process, or with a word on
//! which it spins. All four in turn, in one run.
//!
//! `cargo bench --bench processes`, on a machine that does something else `chrt -f 50 cargo bench --bench
//! processes`: a reader that spins and loses its core measures that.

use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use tidelog::{Durability, Record, Start, Store, Topic, TopicOptions, Visibility};

const PART: &str = "TIDELOG_BENCH_PART";
const PLACE: &str = "TIDELOG_BENCH_PLACE";
/// Records of a block, and blocks of each kind.
const RECORDS: usize = 400;
const BLOCKS: usize = 10;
/// Nanoseconds after which the reader has gone to sleep.
const PAUSE: u64 = 100_000;
/// A payload of 100 bytes in its frame.
const FRAME: usize = 136;

/// Nanoseconds on a clock that all processes share.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sleeps,
    BareFutex,
    Spins,
    BareWord,
}

const KINDS: [Kind; 4] = [Kind::Sleeps, Kind::BareFutex, Kind::Spins, Kind::BareWord];

/// Frames that a slow reader may be behind.
const SLOTS: u32 = 512;
/// From one frame to the next.
const SLOT: usize = 192;

/// A word and frames in shared memory.
struct Bare(MmapRaw);

impl Bare {
    fn open(path: &Path) -> Bare {
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path);
        let file = file.expect("a file");
        file.set_len(64 + u64::from(SLOTS) * SLOT as u64)
            .expect("room");
        Bare(MmapOptions::new().map_raw(&file).expect("a mapping"))
    }

    #[expect(unsafe_code, reason = "the limit is bare shared memory")]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: it lies in the mapping, at its start.
        unsafe { AtomicU32::from_ptr(self.0.as_mut_ptr().cast()) }
    }

    #[expect(unsafe_code, reason = "the limit is bare shared memory")]
    fn write(&self, number: u32, frame: &[u8; FRAME]) {
        let to = self.0.as_mut_ptr().wrapping_add(place(number));
        // SAFETY: it lies in the mapping, and the other side reads it behind the word only.
        unsafe { to.copy_from_nonoverlapping(frame.as_ptr(), FRAME) }
    }

    #[expect(unsafe_code, reason = "the limit is bare shared memory")]
    fn read(&self, number: u32) -> [u8; FRAME] {
        let from = self
            .0
            .as_mut_ptr()
            .wrapping_add(place(number))
            .cast::<[u8; FRAME]>();
        // SAFETY: it lies in the mapping, and the other side does not write there again in this block.
        unsafe { from.read_unaligned() }
    }

    fn send(&self, at: u64, wakes: bool) {
        let mut frame = [b'x'; FRAME];
        frame[8..16].copy_from_slice(&at.to_le_bytes());
        let sum = crc32c::crc32c(&frame[8..]);
        frame[..4].copy_from_slice(&sum.to_le_bytes());
        self.write(self.word().load(Ordering::Relaxed), &frame);
        self.word().fetch_add(1, Ordering::Release);
        if wakes {
            futex::wake(self.word(), futex::Flags::empty(), 1).expect("a wake");
        }
    }

    /// Waits for the word to pass `seen`; when the frame was sent.
    fn receive(&self, seen: u32, sleeps: bool) -> u64 {
        while self.word().load(Ordering::Acquire) == seen {
            if sleeps {
                // Woken, or too late to sleep: both are fine.
                futex::wait(self.word(), futex::Flags::empty(), seen, None).ok();
            } else {
                std::hint::spin_loop();
            }
        }
        let frame = self.read(seen);
        assert_eq!(crc32c::crc32c(&frame[8..]).to_le_bytes(), frame[..4]);
        u64::from_le_bytes(frame[8..16].try_into().expect("eight bytes"))
    }
}

/// Where the frame of that number lies.
fn place(number: u32) -> usize {
    64 + (number % SLOTS) as usize * SLOT
}

/// The other process: tells how long each record took to come.
fn receive(kind: Kind, place: &Path) {
    let mut took = Vec::with_capacity(RECORDS);
    match kind {
        Kind::Sleeps | Kind::Spins => {
            let store = Store::open_read_only(place.join("store")).expect("the owner's store");
            let topic = store.topic("ticks").expect("its topic");
            let tail = topic.follow(Start::Latest).expect("its end");
            let mut tail = tail.visibility(Visibility::Written);
            if kind == Kind::Spins {
                tail = tail.spinning();
            }
            println!("ready");
            while took.len() < RECORDS {
                let record = tail.next().expect("a record").expect("one more");
                let sent = u64::from_le_bytes(record.payload()[..8].try_into().expect("a time"));
                took.push(now() - sent);
            }
        }
        Kind::BareFutex | Kind::BareWord => {
            let bare = Bare::open(&place.join("bare"));
            let first = bare.word().load(Ordering::Acquire);
            println!("ready");
            for seen in 0..RECORDS as u32 {
                let sent = bare.receive(first.wrapping_add(seen), kind == Kind::BareFutex);
                took.push(now() - sent);
            }
        }
    }
    let took: Vec<String> = took.iter().map(u64::to_string).collect();
    println!("took {}", took.join(" "));
}

fn start(kind: Kind, place: &Path) -> (Child, impl Iterator<Item = String>) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .env(PART, format!("{kind:?}"))
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .spawn()
        .expect("another process");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    (child, lines.map_while(Result::ok))
}

fn block(kind: Kind, place: &Path, topic: &Topic, bare: &Bare) -> Vec<u64> {
    // The reader starts behind what is durable.
    topic.flush().expect("a flush");
    let (mut child, mut lines) = start(kind, place);
    assert!(lines.any(|line| line == "ready"));
    let mut payload = [b'x'; 100];
    for _ in 0..RECORDS {
        // Not asleep: what its own waking costs is not what is measured.
        let begin = now();
        while now() < begin + PAUSE {
            std::hint::spin_loop();
        }
        let at = now();
        match kind {
            Kind::Sleeps | Kind::Spins => {
                payload[..8].copy_from_slice(&at.to_le_bytes());
                drop(
                    topic
                        .append_nowait(Record::new(&payload))
                        .expect("an append"),
                );
            }
            Kind::BareFutex | Kind::BareWord => bare.send(at, kind == Kind::BareFutex),
        }
    }
    let took = lines.find_map(|line| line.strip_prefix("took ").map(str::to_owned));
    child.wait().expect("its end");
    let took = took.expect("what it measured");
    took.split(' ')
        .map(|time| time.parse().expect("a number"))
        .collect()
}

fn main() {
    if let (Ok(part), Some(place)) = (std::env::var(PART), std::env::var_os(PLACE)) {
        let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == part);
        return receive(kind.expect("a kind"), &PathBuf::from(place));
    }
    let dir = tempfile::tempdir_in(".").expect("a folder on the disk that is measured");
    let store = Store::open(dir.path().join("store")).expect("a store");
    let by_hand = TopicOptions::new().durability(Durability::Manual);
    let topic = store.create_topic("ticks", by_hand).expect("a topic");
    let bare = Bare::open(&dir.path().join("bare"));
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..BLOCKS {
        for (kind, times) in KINDS.into_iter().zip(&mut times) {
            times.extend(block(kind, dir.path(), &topic, &bare));
        }
    }
    let names = [
        "a follower that sleeps",
        "a bare futex",
        "a follower that spins",
        "a bare word",
    ];
    println!(
        "{:<24} {:>10} {:>10} {:>10}",
        "us until it is seen", "p50", "p99", "p99.9"
    );
    let mut medians = Vec::new();
    for (name, times) in names.iter().zip(&mut times) {
        times.sort_unstable();
        let at = |share: f64| times[(times.len() as f64 * share) as usize] as f64 / 1e3;
        println!(
            "{name:<24} {:>10.2} {:>10.2} {:>10.2}",
            at(0.5),
            at(0.99),
            at(0.999)
        );
        medians.push(at(0.5));
    }
    println!(
        "sleeping {:.2} of the bare figure, limit 2",
        medians[0] / medians[1]
    );
    println!(
        "spinning {:.2} of the bare figure, limit 2",
        medians[2] / medians[3]
    );
    std::io::stdout().flush().expect("output");
    drop(topic);
    store.close().expect("a close");
}
