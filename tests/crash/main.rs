//! Whole stores on a simulated machine that stops, forgets and fails, against a plain model.
//!
//! A seed makes a program: topics are made, finished and deleted, records and batches appended,
//! subscriptions committed, all while syncs fail, the disk is full, and the machine stops at any
//! call, also while it recovers from the stop before. After every reopening the store must hold
//! what was acknowledged, and nothing else but the one batch that was in doubt.
//!
//! `TIDELOG_SEEDS=20000` runs so many seeds, `TIDELOG_SEED=7` one of them, with its steps.

mod acks;
mod append;
mod beside;
mod dice;
mod joint;
mod life;
mod model;
mod recover;
mod retain;
mod run;
mod subs;
mod wide;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use model::Check;
use run::{Run, Tally};

/// How many seeds are run where nobody asks for more.
const SEEDS: u64 = 200;
/// Seeds of which each has found something once.
const FOUND: &[u64] = &[
    11, 17, 50, 51, 85, 94, 140, 702, 1117, 1369, 5030, 8065, 22005,
];

/// What became of a seed.
struct Outcome {
    result: Check<(Tally, Vec<u32>)>,
    steps: Vec<String>,
}

fn play(seed: u64, loud: bool) -> Outcome {
    let mut steps = Vec::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(seed, &mut steps, loud);
        run.program()?;
        run.take_print()?;
        Ok((run.tally, run.prints))
    }));
    Outcome {
        result: result.unwrap_or_else(|panic| Err(told(panic.as_ref()))),
        steps,
    }
}

/// What a panic said.
fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a panic: {}", text.unwrap_or_default())
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs seeds on two threads; the tally, and what was found.
fn play_all(seeds: &[u64]) -> (Tally, Vec<String>) {
    let next = AtomicU64::new(0);
    let all = Mutex::new((Tally::default(), Vec::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(seed) = seeds.get(at) else {
                return;
            };
            let outcome = play(*seed, false);
            let mut all = all.lock().expect("nobody panics with it");
            match outcome.result {
                Ok((tally, _)) => all.0.add(tally),
                Err(wrong) => {
                    let steps = outcome.steps.join("\n  ");
                    let again = format!("again with TIDELOG_SEED={seed}");
                    all.1
                        .push(format!("seed {seed}: {wrong} ({again})\n  {steps}"));
                }
            }
            if all.1.len() >= 5 {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    all.into_inner().expect("nobody panicked with it")
}

#[test]
fn what_was_acknowledged_survives_every_crash_and_nothing_else_appears() {
    let count = asked("TIDELOG_SEEDS").unwrap_or(SEEDS);
    if let Some(seed) = asked("TIDELOG_SEED") {
        println!("seed {seed}");
        if let Err(wrong) = play(seed, true).result {
            panic!("seed {seed}: {wrong}");
        }
        return;
    }
    let seeds: Vec<u64> = FOUND.iter().copied().chain(0..count).collect();
    let (tally, found) = play_all(&seeds);
    let share = |part: u64| part * 100 / tally.images.max(1);
    let shares = [
        ("unsynced sectors", share(tally.sectors)),
        ("rolls", share(tally.rolls)),
        ("second crashes", share(tally.second)),
        ("failed syncs", share(tally.syncs)),
        ("pending redo", share(tally.redo)),
        ("unsynced names", share(tally.names)),
    ];
    println!("{count} seeds, {} images", tally.images);
    for (what, share) in shares {
        println!("{share:3} % with {what}");
    }
    println!("{} transactions in doubt were whole", tally.joint);
    let copied = tally.copied;
    println!("{copied} with redo of a failed log in a file of its own");
    let gone = tally.gone;
    println!("{gone} with the beginning of a partition gone");
    let used = tally.used;
    println!("{used} with a segment of the journal on its way to be used again");
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    assert!(count < 200 || tally.joint > 0);
    assert!(count < 200 || gone > 0, "nothing was ever let go of");
    assert!(count < 3000 || copied > 0, "no log that failed needed redo");
    assert!(count < 3000 || used > 0, "no segment was used again");
    for (what, share) in &shares[..5] {
        let enough = count < 200 || *share >= 10;
        assert!(enough, "{share} % of the images have {what}");
    }
}

#[test]
fn a_seed_that_is_run_twice_leaves_the_same_disk() {
    for seed in [0, 1, 2, 3, 7, wide::EACH - 1] {
        let prints = [play(seed, false), play(seed, false)].map(|outcome| outcome.result);
        let prints = prints.map(|result| result.expect("a sound seed").1);
        assert!(prints[0].len() > 2, "seed {seed}: {:?}", prints[0]);
        assert_eq!(prints[0], prints[1], "seed {seed}");
    }
}
