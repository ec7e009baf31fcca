//! A log that grows, in a process that is started again and again: opening reads no more of it.
//!
//! `cargo run --release --example restarts`

use tidelog::{Result, Store};

const ROUNDS: u64 = 5;
const EACH: u64 = 20_000;

fn main() -> Result<()> {
    let dir = tempfile::tempdir_in(".").expect("a folder on a real disk");
    let path = dir.path().join("data");
    for round in 1..=ROUNDS {
        let store = Store::open(&path)?;
        let log = store.topic("log")?;
        let end = log.partition(0)?.end()?;
        let read = store.io().bytes_read.get();
        println!(
            "round {round}: {end} records are there, {} kB read to open",
            read / 1000
        );
        assert_eq!(end, (round - 1) * EACH);
        log.append_batch((0..EACH).map(|number| format!("reading {number} of round {round}")))?;
        drop(log);
        store.close()?;
    }
    Ok(())
}
