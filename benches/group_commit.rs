//! Durable appends from 1, 16 and 64 threads to one partition, beside a naive log in the same
//! run: a file, a lock, length and checksum, one `fdatasync` for each record.
//!
//! `cargo bench --bench group_commit`

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelog::{Record, Store};

#[expect(dead_code, reason = "this bench only appends; others wait")]
mod naive;
use naive::Naive;

const PAYLOAD: [u8; 128] = [b'x'; 128];
const TURN: Duration = Duration::from_millis(700);
const TURNS: usize = 3;

/// Records a second that `threads` threads append in one turn.
fn rate(threads: usize, append: impl Fn() + Sync) -> f64 {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    append();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(TURN);
        stop.store(true, Ordering::Relaxed);
    });
    count.into_inner() as f64 / start.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() {
    let dir = tempfile::tempdir_in(".").expect("a folder on the disk that is measured");
    let store = Store::open(dir.path().join("store")).expect("a store");
    let topic = store.topic("bench").expect("a topic");
    let naive = Naive::open(&dir.path().join("naive"));
    println!("threads   tidelog records/s   naive records/s   syncs per record");
    for threads in [1, 16, 64] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let syncs = store.io().syncs.get();
        let before = topic.partition(0).and_then(|it| it.end()).expect("an end");
        for _ in 0..TURNS {
            ours.push(rate(threads, || {
                topic.append(Record::new(&PAYLOAD)).expect("an append");
            }));
            theirs.push(rate(threads, || naive.append(&[&PAYLOAD])));
        }
        let records = topic.partition(0).and_then(|it| it.end()).expect("an end") - before;
        let syncs = (store.io().syncs.get() - syncs) as f64 / records as f64;
        let (ours, theirs) = (median(ours), median(theirs));
        println!("{threads:>7}   {ours:>17.0}   {theirs:>15.0}   {syncs:>16.3}");
    }
    store.close().expect("a close");
}
