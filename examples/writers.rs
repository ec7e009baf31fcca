//! Forty threads append, each waiting until its record survives a power cut: who waits together shares a
//! sync.
//!
//! `cargo run --release --example writers`

use std::thread;
use std::time::Instant;

use tidelog::{Record, Result, Store};

const WRITERS: u64 = 40;
const EACH: u64 = 50;

fn main() -> Result<()> {
    let dir = tempfile::tempdir_in(".").expect("a folder on a real disk");
    let store = Store::open(dir.path().join("data"))?;
    let log = store.topic("log")?;
    log.append("the first record makes the log")?;

    let (began, syncs) = (Instant::now(), store.io().syncs.get());
    let write = |writer: u64| {
        let log = log.clone();
        move || -> Result<()> {
            for number in 0..EACH {
                log.append(Record::new(format!("{number}")).key(format!("writer {writer}")))?;
            }
            Ok(())
        }
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| thread::spawn(write(writer)))
        .collect();
    for writer in writers {
        writer.join().expect("a writer does not panic")?;
    }
    let (took, syncs) = (began.elapsed(), store.io().syncs.get() - syncs);
    let records = WRITERS * EACH;
    println!("{records} records, each durable before its writer went on");
    println!(
        "{syncs} syncs, {:.1} records each",
        records as f64 / syncs as f64
    );
    println!(
        "{:.0} records a second",
        records as f64 / took.as_secs_f64()
    );
    drop(log);
    store.close()
}
