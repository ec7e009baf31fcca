//! A thousand records one by one, and as one batch: the batch is whole after any crash, and costs one sync.
//!
//! `cargo run --release --example batches`

use std::time::Instant;

use tidelog::{Result, Store};

const RECORDS: usize = 1000;

fn main() -> Result<()> {
    let dir = tempfile::tempdir_in(".").expect("a folder on a real disk");
    let store = Store::open(dir.path().join("data"))?;
    let log = store.topic("log")?;
    log.append("the first record makes the log")?;

    let measure = |name: &str, work: &dyn Fn() -> Result<()>| -> Result<()> {
        let (began, syncs) = (Instant::now(), store.io().syncs.get());
        work()?;
        let syncs = store.io().syncs.get() - syncs;
        println!(
            "{name}: {RECORDS} records, {syncs} syncs, {:?}",
            began.elapsed()
        );
        Ok(())
    };
    measure("one by one", &|| {
        (0..RECORDS).try_for_each(|_| log.append("a reading").map(drop))
    })?;
    measure("as a batch", &|| {
        log.append_batch(vec!["a reading"; RECORDS]).map(drop)
    })?;
    // Whoever need not wait for each can wait for the last: all before it are durable then.
    measure("without waiting", &|| {
        let mut last = log.append_nowait("a reading")?;
        for _ in 1..RECORDS {
            last = log.append_nowait("a reading")?;
        }
        last.wait().map(drop)
    })?;
    drop(log);
    store.close()
}
