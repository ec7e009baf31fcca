//! A worker dies in the middle of its jobs, and the next one goes on: a crash before a commit delivers
//! again, one after it does not.
//!
//! `cargo run --example job_queue`

use std::path::Path;
use std::process::Command;

use tidelog::{Result, Store};

const JOBS: u64 = 50;
/// The worker commits after so many jobs.
const EACH: u64 = 4;

fn main() -> Result<()> {
    // The first worker is this program once more, and does not live long.
    if let Some(path) = std::env::args_os().nth(1) {
        return work(path.as_ref(), Some(JOBS * 6 / 10)).map(drop);
    }
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("data");
    let store = Store::open(&path)?;
    store
        .topic("jobs")?
        .append_batch((0..JOBS).map(|job| format!("job {job}")))?;
    store.close()?;

    let program = std::env::current_exe().expect("this program");
    let died = Command::new(program).arg(&path).status().expect("a worker");
    println!("the first worker died at 60 % ({died})");
    let done = work(&path, None)?;
    println!(
        "the second worker began with job {}, and did the other {}",
        JOBS - done,
        done
    );
    Ok(())
}

/// Does jobs from where the last worker committed; dies before that many have been done.
fn work(path: &Path, dies_at: Option<u64>) -> Result<u64> {
    let store = Store::open(path)?;
    let mut worker = store.topic("jobs")?.subscribe("worker")?;
    let mut done = 0;
    while let Some(record) = worker.next()? {
        let last = record.position().offset() + 1 == JOBS;
        if Some(done) == dies_at {
            // As a power cut would: nothing is closed, nothing is said.
            std::process::abort();
        }
        done += 1;
        if done % EACH == 0 || last {
            worker.commit()?;
        }
    }
    drop(worker);
    store.close()?;
    Ok(done)
}
