//! One sync for many: durable appends from 64 threads to one partition, and to one of 64 each,
//! beside a single thread and beside an ideal group commit (a buffer in memory, one write and one
//! `fdatasync` for all that has gathered), in turn, in one run.
//!
//! `cargo bench --bench rounds`

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use tidelog::{Durability, Record, Store, Topic, TopicOptions};

mod rate;
use rate::{TURN, median, rate};

const PAYLOAD: [u8; 128] = [b'x'; 128];
const FRAME: usize = 160;
const TURNS: usize = 5;
const THREADS: usize = 64;
const MANY: usize = 200;

/// The least that a group commit has to do: whoever finds nobody at it writes what has gathered,
/// syncs once, and wakes all who waited.
struct Ideal {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    file: Option<File>,
    buffer: Vec<u8>,
    written: u64,
    durable: u64,
}

impl Ideal {
    fn open(path: &Path) -> Ideal {
        let file = File::create(path).expect("a file");
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 256 << 20)
            .expect("space");
        file.sync_all().expect("a sync");
        let state = State {
            file: Some(file),
            buffer: Vec::new(),
            written: 0,
            durable: 0,
        };
        Ideal {
            state: Mutex::new(state),
            moved: Condvar::new(),
        }
    }

    fn append(&self, frame: &[u8]) {
        let mut state = self.state.lock().expect("nobody panics");
        state.buffer.extend_from_slice(frame);
        state.written += 1;
        let mine = state.written;
        while state.durable < mine {
            let Some(mut file) = state.file.take() else {
                state = self.moved.wait(state).expect("nobody panics");
                continue;
            };
            let buffer = std::mem::take(&mut state.buffer);
            let upto = state.written;
            drop(state);
            file.write_all(&buffer).expect("a write");
            file.sync_data().expect("a sync");
            state = self.state.lock().expect("nobody panics");
            state.durable = upto;
            state.file = Some(file);
            self.moved.notify_all();
        }
    }
}

/// Two hundred topics with a record each, flushed together, beside one topic with one record, and
/// one with the same bytes: medians, in turn.
fn many_together(store: &Store) {
    let manual = || TopicOptions::new().durability(Durability::Manual);
    let topics: Vec<Topic> = (0..MANY)
        .map(|n| {
            store
                .create_topic(&format!("many-{n}"), manual())
                .expect("a topic")
        })
        .collect();
    let one = store.create_topic("few", manual()).expect("a topic");
    let send = |topic: &Topic| {
        drop(
            topic
                .append_nowait(Record::new(&PAYLOAD))
                .expect("an append"),
        )
    };
    topics.iter().for_each(send);
    send(&one);
    store.flush().expect("a flush");
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..200 {
        send(&one);
        times[0].push(timed(|| one.flush()));
        (0..MANY).for_each(|_| send(&one));
        times[1].push(timed(|| one.flush()));
        topics.iter().for_each(send);
        times[2].push(timed(|| store.flush()));
    }
    let [one, same, many] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    println!("\n{MANY} topics, a record each, committed together: {many:.0?}");
    println!(
        "one topic, one record: {one:.0?} ({:.1} times that)",
        many.div_duration_f64(one)
    );
    println!(
        "one topic, {MANY} records: {same:.0?} ({:.1} times that)",
        many.div_duration_f64(same)
    );
}

fn timed(act: impl FnOnce() -> tidelog::Result<()>) -> Duration {
    let start = Instant::now();
    act().expect("a flush");
    start.elapsed()
}

fn main() {
    let dir = tempfile::tempdir_in(".").expect("a folder on the disk that is measured");
    let store = Store::open(dir.path().join("store")).expect("a store");
    let one = store.topic("one").expect("a topic");
    let options = TopicOptions::new().partitions(THREADS as u32);
    let spread = store.create_topic("spread", options).expect("a topic");
    let ideal = Ideal::open(&dir.path().join("ideal"));
    let append_one = |_: usize| {
        one.append(Record::new(&PAYLOAD)).expect("an append");
    };
    let append_spread = |thread: usize| {
        let record = Record::new(&PAYLOAD).partition(thread as u32);
        spread.append(record).expect("an append");
    };
    for thread in 0..THREADS {
        append_spread(thread);
    }
    let mut rates = [const { Vec::new() }; 4];
    let mut syncs = [0.0; 4];
    for _ in 0..TURNS {
        let turns: [&dyn Fn() -> f64; 4] = [
            &|| rate(1, append_one),
            &|| rate(THREADS, |_| ideal.append(&[b'x'; FRAME])),
            &|| rate(THREADS, append_one),
            &|| rate(THREADS, append_spread),
        ];
        for (n, turn) in turns.iter().enumerate() {
            let before = store.io().syncs.get();
            let rate = turn();
            rates[n].push(rate);
            let synced = (store.io().syncs.get() - before) as f64;
            syncs[n] = synced / (rate * TURN.as_secs_f64());
        }
    }
    let names = [
        "1 thread, 1 partition",
        "64 threads, ideal group commit",
        "64 threads, 1 partition",
        "64 threads, 64 partitions",
    ];
    println!("{:<34} {:>10} {:>18}", "", "records/s", "syncs per record");
    let medians = rates.map(median);
    for ((name, rate), syncs) in names.iter().zip(medians).zip(syncs) {
        println!("{name:<34} {rate:>10.0} {syncs:>18.3}");
    }
    let [lone, ideal, together, spread] = medians;
    println!(
        "one partition: {:.1} times a lone thread, {:.2} of the ideal; spread: {:.2} of one partition",
        together / lone,
        together / ideal,
        spread / together,
    );
    many_together(&store);
    store.close().expect("a close");
}
