//! The power-cut campaign: the engine as a program runs it, on the machine's own page cache, above a
//! file system that knows what was synced.
//!
//! The file system is served by the test's process, on FUSE; the store is opened by another one, which
//! writes to it from several threads and says what it was promised. In the middle of that the power
//! goes, again and again: what was synced is kept, and any choice of the sectors, names and lengths
//! that were not. Each such image is opened by a fresh process and held against what had been promised
//! before the cut.

mod bytes;
mod campaign;
#[expect(dead_code, reason = "a seed is never spent")]
#[path = "../crash/dice.rs"]
mod dice;
mod disk;
mod image;
#[path = "../load/mod.rs"]
mod load;
mod mount;
mod owners;
mod serve;

use std::env;
use std::path::Path;
use std::sync::Arc;

use tidelog::sys::Storage;

use campaign::Campaign;
use load::claims::Claims;
use load::{Plan, parts, work};

/// So many images, where nobody says how many.
const SHORT: u64 = 60;
/// The name of the only test, which is also what its other processes are called by.
const TEST: &str = "what_was_acknowledged_survives_every_power_cut";

/// The power goes at any moment of a load in which everything happens that can: appends in all
/// durabilities, batches over partitions, commits, rolls, topics that come and go, syncs that fail, a
/// disk that is full or slow. Nothing that was acknowledged is lost, altered, moved or doubled, no
/// batch is there in part, and nothing that recovery has dropped comes back.
#[test]
#[ignore = "needs root and /dev/fuse; run by .ci/run with --ignored"]
fn what_was_acknowledged_survives_every_power_cut() {
    if let Some(words) = parts::part() {
        return play(&words);
    }
    let number = |name: &str| env::var(name).ok()?.parse().ok();
    let images = number("TIDELOG_CUTS").unwrap_or(SHORT);
    let tally = Campaign::new(number("TIDELOG_CUT_SEED").unwrap_or(1)).run(images);
    println!("{tally}");
    assert_eq!(tally.failures, Vec::<String>::new());
    assert!(tally.images >= images);
}

/// The part of another process of the campaign.
fn play(words: &[String]) {
    let number = |at: usize| words[at].parse().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(parts::disk(&words[2]));
    let folder = Path::new(&words[1]);
    match words[0].as_str() {
        "load" => work(&Plan {
            folder: folder.to_owned(),
            storage,
            seed: number(3),
            life: number(4),
            millis: number(5),
        }),
        _ => {
            let text = std::fs::read_to_string(&words[4]).unwrap();
            let claims = Claims::read(&text, false);
            match load::check::check(folder, &storage, &claims, number(3)) {
                Ok(found) => load::say(&format!("fine {found}")),
                Err(wrong) => load::say(&wrong),
            }
        }
    }
}
