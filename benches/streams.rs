//! Batches, a scan, a reopen and the waking of a follower, each beside the same done with a naive
//! log in the same run, in turn.
//!
//! `cargo bench --bench streams`

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelog::{Record, Start, Store, Topic};

mod naive;
use naive::{Naive, scan};

const PAYLOAD: [u8; 100] = [b'x'; 100];
/// Records of the logs that are scanned and opened.
const MANY: usize = 1_000_000;
/// Appends that a follower waits for.
const WAKES: usize = 1000;

fn timed(act: &mut impl FnMut()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Does both in turn, and gives the median of each.
fn in_turn(rounds: usize, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> [Duration; 2] {
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        our_times.push(timed(&mut ours));
        their_times.push(timed(&mut theirs));
    }
    [median(our_times), median(their_times)]
}

fn times(what: &str, [ours, theirs]: [Duration; 2]) {
    println!("{what:<44} {ours:>12.1?} {theirs:>12.1?}");
}

/// Records a second, in place of how long so many of them took.
fn rates(what: &str, count: usize, both: [Duration; 2]) {
    let [ours, theirs] = both.map(|time| count as f64 / time.as_secs_f64() / 1e3);
    println!("{what:<44} {ours:>10.0} k/s {theirs:>8.0} k/s");
}

fn append(topic: &Topic, count: usize) {
    let records = (0..count).map(|_| Record::new(&PAYLOAD));
    topic.append_batch(records).expect("an append");
}

fn batches(topic: &Topic, naive: &Naive) {
    for (count, rounds) in [(10, 500), (100, 300), (1000, 100), (10_000, 30)] {
        let payloads = vec![&PAYLOAD[..]; count];
        let ours = || append(topic, count);
        let both = in_turn(rounds, ours, || naive.append(&payloads));
        rates(&format!("durable batches of {count}, records"), count, both);
    }
}

fn scans(topic: &Topic, file: &Path) {
    let ours = || {
        let partition = topic.partition(0).expect("a partition");
        let mut cursor = partition.cursor(Start::Earliest).expect("a cursor");
        let mut seen = 0;
        while let Some(record) = cursor.next().expect("a sound record") {
            seen += usize::from(record.payload() == PAYLOAD);
        }
        assert_eq!(seen, MANY);
    };
    let theirs = || {
        let mut seen = 0;
        scan(file, |payload| seen += usize::from(payload == PAYLOAD));
        assert_eq!(seen, MANY);
    };
    rates("scan of a million, records", MANY, in_turn(5, ours, theirs));
}

fn reopens(root: &Path, file: &Path) {
    let ours = || {
        let store = Store::open(root).expect("a store");
        append(&store.topic("scan").expect("a topic"), 1);
        store.close().expect("a close");
    };
    let theirs = || Naive::open(file).append(&[&PAYLOAD]);
    times(
        "open a million, append one, close",
        in_turn(9, ours, theirs),
    );
}

/// How long from the call of an append to its return, and to the follower's having the record.
fn wakes(topic: &Topic, naive: &Naive) {
    let origin = Instant::now();
    let now = || u64::try_from(origin.elapsed().as_nanos()).expect("not centuries");
    let arrived = [AtomicU64::new(0), AtomicU64::new(0)];
    // With a pause, so that the follower sleeps before the next append.
    let arrival = |which: usize| loop {
        thread::sleep(Duration::from_micros(50));
        match arrived[which].swap(0, Ordering::AcqRel) {
            0 => {}
            at => return at,
        }
    };
    let mut tail = topic.follow(Start::Latest).expect("a follower");
    let (mut returned, mut had) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..WAKES {
                tail.next().expect("a follower").expect("a record");
                arrived[0].store(now(), Ordering::Release);
            }
        });
        scope.spawn(|| {
            for seen in 0..WAKES as u64 {
                naive.wait_past(seen);
                arrived[1].store(now(), Ordering::Release);
            }
        });
        for which in [0, 1].repeat(WAKES) {
            let start = now();
            match which {
                0 => append(topic, 1),
                _ => naive.append(&[&PAYLOAD]),
            }
            returned[which].push(Duration::from_nanos(now() - start));
            had[which].push(Duration::from_nanos(arrival(which).saturating_sub(start)));
        }
    });
    times("append, until it returns", returned.map(median));
    times("append, until a follower has the record", had.map(median));
}

fn main() {
    let dir = tempfile::tempdir_in(".").expect("a folder on the disk that is measured");
    let (root, file) = (dir.path().join("store"), dir.path().join("scan"));
    println!(
        "{:<44} {:>14} {:>12}",
        "medians, in turn", "tidelog", "naive"
    );
    let store = Store::open(&root).expect("a store");
    let naive = Naive::open(&dir.path().join("naive"));
    batches(&store.topic("batches").expect("a topic"), &naive);

    let topic = store.topic("scan").expect("a topic");
    let long = Naive::open(&file);
    for _ in 0..MANY / 1000 {
        append(&topic, 1000);
        long.append(&[&PAYLOAD[..]; 1000]);
    }
    scans(&topic, &file);

    let tail = store.topic("tail").expect("a topic");
    wakes(&tail, &Naive::open(&dir.path().join("tail")));
    store.close().expect("a close");
    reopens(&root, &file);
}
