//! An agent's pipeline on a week of earthquakes, in a program that is stopped in the middle and started again:
//! an archive keeps everything, a normaliser finds the strong ones, a sampler drops what is too much. What
//! the sampler drops the archive has.
//!
//! `cargo run --example pipeline`

use std::path::Path;

use serde::Deserialize;
use tidelog::{Record, Result, Sampling, Store, Timestamp};

const WEEK: &str = include_str!("../crates/tidelog-cli/data/earthquakes.ndjson");
/// What one run reads before it is stopped.
const HALF: u64 = 900;

#[derive(Deserialize)]
struct Quake {
    time: i64,
    net: String,
    mag: f64,
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("data");
    let store = Store::open(&path)?;
    let records = WEEK.lines().map(|line| {
        let quake = quake(line.as_bytes());
        Record::new(line)
            .header("network", quake.net)
            .at(Timestamp::from_millis(quake.time))
    });
    store.topic("quakes")?.append_batch(records)?;
    store.close()?;

    let mut sums = [0; 4];
    for most in [HALF, u64::MAX] {
        let run = run(&path, most)?;
        sums.iter_mut().zip(run).for_each(|(sum, new)| *sum += new);
    }
    let [archived, strong, kept, dropped] = sums;
    println!("archived {archived}");
    println!("of magnitude 4 or more: {strong}");
    println!(
        "sampled {kept}, dropped {dropped}: {} together",
        kept + dropped
    );
    Ok(())
}

/// One life of the program: what it archived, found, kept and dropped.
fn run(path: &Path, most: u64) -> Result<[u64; 4]> {
    let store = Store::open(path)?;
    let quakes = store.topic("quakes")?;
    let mut archive = quakes.subscribe("archive")?;
    let mut archived = 0;
    while archived < most && archive.next()?.is_some() {
        archived += 1;
    }
    archive.commit()?;

    // What it finds, and how far it has read, become durable together: nothing is found twice.
    let normaliser = store
        .processor("normaliser")
        .input("quakes")
        .output("strong");
    let counts = normaliser.transactional().run_once(|record, out| {
        if quake(record.payload()).mag >= 4.0 {
            out.append(record.to_record())?;
        }
        Ok(())
    })?;

    // At most one a minute of each network.
    let sampling = Sampling::per_minute(1).source("network");
    let mut sampler = quakes.subscription("sampler").sampling(sampling).open()?;
    let mut kept = 0;
    while kept < most / 2 && sampler.next()?.is_some() {
        kept += 1;
    }
    sampler.commit()?;
    let dropped = sampler.counts().surplus;
    drop((quakes, archive, sampler));
    store.close()?;
    Ok([archived, counts.records_out, kept, dropped])
}

fn quake(line: &[u8]) -> Quake {
    serde_json::from_slice(line).expect("the week is well-formed")
}
