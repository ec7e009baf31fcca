//! The engine's paths, each beside a naive log and, where there is one, beside its limit: with criterion,
//! to see how one version of the code differs from another (`--save-baseline`, `--baseline`).
//!
//! Criterion measures one after another; where a ratio is promised, a bench of its own measures both in
//! turn (`bursts`, `lone_append`, `rounds`, `streams`, `lookups`).
//!
//! `cargo bench --bench engine`, or `cargo bench --bench engine -- durable`

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput};
use tidelog::{Durability, Record, Start, Store, Timestamp, Topic, TopicOptions};

mod naive;
use naive::{Naive, scan};

const PAYLOAD: [u8; 100] = [b'x'; 100];
const FRAME: usize = 136;
/// Records of the logs that are read and opened.
const MANY: u64 = 200_000;

struct Place {
    dir: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir_in(".").expect("a folder on the disk that is measured");
        let store = Store::open(dir.path().join("store")).expect("a store");
        Place { dir, store }
    }

    fn topic(&self, name: &str, durability: Durability) -> Topic {
        let options = TopicOptions::new()
            .durability(durability)
            .unsettled_bytes(256 << 20);
        self.store.create_topic(name, options).expect("a topic")
    }

    /// A topic with many records, a microsecond apart, and a naive log with as many.
    fn filled(&self) -> (Topic, std::path::PathBuf) {
        let topic = self.topic("filled", Durability::Manual);
        for number in 0..MANY as i64 {
            let record = Record::new(&PAYLOAD).at(Timestamp::from_nanos(number * 1000));
            drop(topic.append_nowait(record).expect("an append"));
        }
        topic.flush().expect("a flush");
        let file = self.dir.path().join("naive");
        Naive::open(&file).append(&vec![&PAYLOAD[..]; MANY as usize]);
        (topic, file)
    }
}

/// How long `count` appends take by so many threads together.
fn by(threads: u64, count: u64, append: impl Fn() + Sync) -> Duration {
    let left = AtomicU64::new(count);
    let take = |left: u64| left.checked_sub(1);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (order, read) = (Ordering::Relaxed, Ordering::Relaxed);
                while left.fetch_update(order, read, take).is_ok() {
                    append();
                }
            });
        }
    });
    begin.elapsed()
}

fn appends(criterion: &mut Criterion) {
    let place = Place::new();
    let topic = place.topic("written", Durability::Interval(Duration::from_millis(100)));
    let mut group = criterion.benchmark_group("append, not waiting");
    group.throughput(Throughput::Elements(1));
    group.bench_function("tidelog", |bencher| {
        bencher.iter(|| {
            topic
                .append_nowait(Record::new(&PAYLOAD))
                .expect("an append")
        });
    });
    let (mut memory, mut at) = (vec![0; 8 << 20], 0);
    group.bench_function("limit: a copy in memory", |bencher| {
        bencher.iter(|| {
            at = if at + 2 * FRAME > memory.len() {
                0
            } else {
                at + FRAME
            };
            memory[at..at + FRAME].copy_from_slice(black_box(&[b'x'; FRAME]));
        });
    });
    group.finish();

    let topic = place.topic("durable", Durability::Commit);
    let naive = Naive::open(&place.dir.path().join("naive"));
    let mut group = criterion.benchmark_group("append, durable");
    group.throughput(Throughput::Elements(1)).sample_size(20);
    for threads in [1, 16, 64] {
        let ours = || drop(topic.append(Record::new(&PAYLOAD)).expect("an append"));
        group.bench_function(format!("tidelog, {threads} threads"), |bencher| {
            bencher.iter_custom(|count| by(threads, count, ours));
        });
        group.bench_function(format!("naive, {threads} threads"), |bencher| {
            bencher.iter_custom(|count| by(threads, count, || naive.append(&[&PAYLOAD])));
        });
    }
    let mut bare = File::create(place.dir.path().join("bare")).expect("a file");
    group.bench_function("limit: a write and fdatasync", |bencher| {
        bencher.iter(|| {
            bare.write_all(&PAYLOAD).expect("a write");
            bare.sync_data().expect("a sync");
        });
    });
    group.finish();
    batches(criterion, &topic, &naive);
    wakes(criterion, &topic, &naive);
}

fn batches(criterion: &mut Criterion, topic: &Topic, naive: &Naive) {
    let mut group = criterion.benchmark_group("batch, durable");
    group.sample_size(20);
    for count in [10_u64, 1000, 10_000] {
        group.throughput(Throughput::Elements(count));
        let payloads = vec![&PAYLOAD[..]; count as usize];
        group.bench_function(format!("tidelog, {count} records"), |bencher| {
            bencher.iter(|| {
                let records = payloads.iter().map(|payload| Record::new(*payload));
                topic.append_batch(records).expect("an append")
            });
        });
        group.bench_function(format!("naive, {count} records"), |bencher| {
            bencher.iter(|| naive.append(&payloads));
        });
    }
    group.finish();
}

/// From an append's beginning until a sleeping follower has the record.
fn wakes(criterion: &mut Criterion, topic: &Topic, naive: &Naive) {
    let mut group = criterion.benchmark_group("append, until a follower has it");
    group.sample_size(20);
    let (seen, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let pass = |append: &dyn Fn()| {
        let before = seen.load(Ordering::Acquire);
        append();
        while seen.load(Ordering::Acquire) == before {
            thread::yield_now();
        }
    };
    let mut tail = topic.follow(Start::Latest).expect("a follower");
    let stopper = tail.stopper();
    thread::scope(|scope| {
        scope.spawn(|| {
            while tail.next().expect("a record").is_some() {
                seen.fetch_add(1, Ordering::Release);
            }
        });
        let append = || drop(topic.append(Record::new(&PAYLOAD)).expect("an append"));
        group.bench_function("tidelog", |bencher| bencher.iter(|| pass(&append)));
        stopper.stop();
    });
    naive.append(&[&PAYLOAD]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut records = naive.wait_past(0);
            loop {
                records = naive.wait_past(records);
                seen.fetch_add(1, Ordering::Release);
                if stop.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        let append = || naive.append(&[&PAYLOAD]);
        group.bench_function("naive", |bencher| bencher.iter(|| pass(&append)));
        stop.store(true, Ordering::Release);
        append();
    });
    group.finish();
}

fn reads(criterion: &mut Criterion) {
    let place = Place::new();
    let (topic, file) = place.filled();
    let partition = topic.partition(0).expect("a partition");
    let mut cursor = partition.cursor(Start::Earliest).expect("a cursor");
    let mut group = criterion.benchmark_group("scan");
    group.throughput(Throughput::Elements(MANY)).sample_size(10);
    group.bench_function("tidelog", |bencher| {
        bencher.iter(|| {
            cursor.seek(Start::Earliest).expect("a place");
            while let Some(record) = cursor.next().expect("a record") {
                black_box(record.payload());
            }
        });
    });
    group.bench_function("naive", |bencher| {
        bencher.iter(|| {
            scan(&file, |payload| {
                black_box(payload);
            });
        });
    });
    group.finish();

    let mut dice = 88_172_645_463_325_252_u64;
    let mut roll = move || {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % MANY
    };
    let mut group = criterion.benchmark_group("look up");
    group.bench_function("tidelog, by offset", |bencher| {
        bencher.iter_batched(
            &mut roll,
            |offset| point(&mut cursor, offset),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("tidelog, by time", |bencher| {
        let time = |number: u64| Timestamp::from_nanos(number as i64 * 1000);
        bencher.iter_batched(
            || time(roll()),
            |time| partition.find(time).expect("a place"),
            BatchSize::SmallInput,
        );
    });
    let array = vec![0_u8; MANY as usize * FRAME];
    group.bench_function("limit: a copy out of an array", |bencher| {
        let copy = |at: usize| array[at..at + FRAME].to_vec();
        bencher.iter_batched(|| roll() as usize * FRAME, copy, BatchSize::SmallInput);
    });
    group.finish();
    drop((cursor, partition, topic));
    reopens(criterion, place, &file);
}

fn point(cursor: &mut tidelog::Cursor, offset: u64) -> usize {
    cursor.seek(Start::Offset(offset)).expect("a place");
    let record = cursor.next().expect("a record").expect("it is there");
    record.payload().len()
}

fn reopens(criterion: &mut Criterion, place: Place, file: &Path) {
    place.store.close().expect("a close");
    let root = place.dir.path().join("store");
    let mut group = criterion.benchmark_group("reopen");
    group.sample_size(10);
    group.bench_function("tidelog, with a close", |bencher| {
        bencher.iter(|| {
            let store = Store::open(&root).expect("a store");
            let topic = store.existing_topic("filled").expect("a topic");
            let end = topic
                .partition(0)
                .expect("a partition")
                .end()
                .expect("an end");
            assert_eq!(end, MANY);
            drop(topic);
            store.close().expect("a close");
        });
    });
    group.bench_function("naive", |bencher| bencher.iter(|| drop(Naive::open(file))));
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    appends(&mut criterion);
    reads(&mut criterion);
    criterion.final_summary();
}
