//! A lone durable append beside its limits, in one interleaved run: the same bytes written to a
//! file prepared in the same way, by `pwrite` or by a store into a mapping, and one `fdatasync`.
//!
//! `cargo bench --bench lone_append`

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use tidelog::{Record, Store, Topic};

const ROUNDS: usize = 3000;
const PAYLOAD: [u8; 128] = [b'x'; 128];
/// What a record of that payload takes.
const FRAME: usize = 160;
const FILE_BYTES: u64 = 8 << 20;

/// A file as a segment is prepared: allocated, synced, its pages written here and there.
fn prepared(dir: &std::path::Path, name: &str) -> File {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(dir.join(name));
    let file = file.expect("a fresh file");
    fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES).expect("space");
    file.sync_all().expect("a sync");
    file
}

fn mapped(file: &File) -> MmapRaw {
    let map = MmapOptions::new().map_raw(file).expect("a mapping");
    map.advise(Advice::Random).expect("advice");
    map
}

fn timed(times: &mut Vec<Duration>, act: impl FnOnce()) {
    let start = Instant::now();
    act();
    times.push(start.elapsed());
}

fn append(topic: &Topic) {
    topic.append(Record::new(&PAYLOAD)).expect("an append");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let dir = tempfile::tempdir_in(".").expect("a folder on the disk that is measured");
    let store = Store::open(dir.path().join("store")).expect("a store");
    let topic = store.topic("bench").expect("a topic");
    let written = prepared(dir.path(), "pwrite");
    let stored = prepared(dir.path(), "mapped");
    let map = mapped(&stored);
    let frame = [b'x'; FRAME];
    // Past the segments that are still small, so that no roll falls into the run.
    topic
        .append_batch((0..30_000).map(|_| Record::new(&PAYLOAD)))
        .expect("a batch");

    let (mut appends, mut pwrites, mut stores) = (Vec::new(), Vec::new(), Vec::new());
    let syncs = store.io().syncs.get();
    for round in 0..ROUNDS {
        let place = round * FRAME;
        timed(&mut appends, || append(&topic));
        timed(&mut pwrites, || {
            written.write_all_at(&frame, place as u64).expect("a write");
            fdatasync(&written).expect("a sync");
        });
        timed(&mut stores, || {
            let end = place + FRAME;
            assert!(end <= map.len());
            store_bytes(&map, place, &frame);
            fdatasync(&stored).expect("a sync");
        });
    }
    let syncs = store.io().syncs.get() - syncs;
    let (append, pwrite, stored) = (median(appends), median(pwrites), median(stores));
    let limit = pwrite.min(stored);
    println!("{ROUNDS} rounds of each, interleaved; medians");
    println!(
        "durable append           {append:>10.1?}   {:.3} syncs each",
        syncs as f64 / ROUNDS as f64
    );
    println!("bare pwrite + fdatasync  {pwrite:>10.1?}");
    println!("bare store + fdatasync   {stored:>10.1?}");
    println!(
        "append / faster of both  {:>10.2}   limit 1.25",
        append.as_secs_f64() / limit.as_secs_f64()
    );
    store.close().expect("a close");
}

#[expect(
    unsafe_code,
    reason = "the bare store into a mapping that is measured against"
)]
fn store_bytes(map: &MmapRaw, place: usize, bytes: &[u8]) {
    // SAFETY: the caller has checked that the bytes lie in the mapping, which nobody else uses.
    unsafe {
        std::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            map.as_mut_ptr().wrapping_add(place),
            bytes.len(),
        )
    };
}
