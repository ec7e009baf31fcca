//! Durable appends from 1, 16 and 64 threads to one partition, beside a naive log in the same
//! run: a file, a lock, length and checksum, one `fdatasync` for each record.
//!
//! `cargo bench --bench group_commit`

use tidelog::{Record, Store};

#[expect(dead_code, reason = "this bench only appends; others wait")]
mod naive;
mod rate;
use naive::Naive;
use rate::{median, rate};

const PAYLOAD: [u8; 128] = [b'x'; 128];
const TURNS: usize = 3;

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
            ours.push(rate(threads, |_| {
                topic.append(Record::new(&PAYLOAD)).expect("an append");
            }));
            theirs.push(rate(threads, |_| naive.append(&[&PAYLOAD])));
        }
        let records = topic.partition(0).and_then(|it| it.end()).expect("an end") - before;
        let syncs = (store.io().syncs.get() - syncs) as f64 / records as f64;
        let (ours, theirs) = (median(ours), median(theirs));
        println!("{threads:>7}   {ours:>17.0}   {theirs:>15.0}   {syncs:>16.3}");
    }
    store.close().expect("a close");
}
