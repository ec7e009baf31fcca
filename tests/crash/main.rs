//! Whole stores on a simulated machine that stops, forgets and fails, against a plain model.
//!
//! A seed makes a program: topics are made, finished and deleted, records and batches appended,
//! subscriptions committed, and all of that as one in transactions, while syncs fail, the disk is full, and the machine stops at any
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
mod older;
mod recover;
mod retain;
mod run;
mod script;
mod subs;
mod tally;
mod transact;
mod wide;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::Check;
use run::Run;
use script::{Notes, Script};
use tally::Tally;

/// How many seeds are run where nobody asks for more.
const SEEDS: u64 = 200;
/// For how long a program that fails is made shorter.
const SHRINKING: Duration = Duration::from_secs(15);
/// Seeds of which each has found something once.
const FOUND: &[u64] = &[
    11, 17, 50, 51, 85, 94, 140, 702, 1117, 1369, 5030, 5494, 8065, 22005,
];

/// What became of a seed.
struct Outcome {
    result: Check<(Tally, Vec<u32>)>,
    notes: Notes,
}

fn play(seed: u64, loud: bool) -> Outcome {
    play_script(seed, None, loud)
}

/// Plays a seed's program, or some pieces of it.
fn play_script(seed: u64, script: Option<&Script>, loud: bool) -> Outcome {
    let mut notes = Notes::default();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(seed, &mut notes, loud);
        match script {
            None => run.program()?,
            Some(script) => run.replay(script)?,
        }
        Ok((run.tally, run.prints))
    }));
    Outcome {
        result: result.unwrap_or_else(|panic| Err(told(panic.as_ref()))),
        notes,
    }
}

/// What is said of a seed that fails: what is wrong, and the steps of as little of its program as fails
/// in the same way.
fn report(seed: u64, wrong: &str, notes: Notes) -> String {
    let all = notes.script.len();
    let fails = |script: &Script| {
        let result = play_script(seed, Some(script), false).result;
        result.is_err_and(|other| script::alike(wrong, &other))
    };
    let script = script::shrink(notes.script, SHRINKING, fails);
    let shrunk = play_script(seed, Some(&script), false);
    let (said, steps) = match shrunk.result {
        Err(said) => (said, shrunk.notes.steps),
        Ok(_) => ("the whole program alone fails".to_owned(), notes.steps),
    };
    let (count, steps) = (script.len(), steps.join("\n  "));
    let again = format!("again with TIDELOG_SEED={seed}");
    format!("seed {seed}: {wrong} ({again})\n  in {count} of {all} pieces: {said}\n  {steps}")
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
            let wrong = outcome.result.as_ref().err();
            let wrong = wrong.map(|wrong| report(*seed, wrong, outcome.notes));
            let mut all = all.lock().expect("nobody panics with it");
            match (outcome.result, wrong) {
                (Ok((tally, _)), _) => all.0.add(tally),
                (Err(_), wrong) => all.1.extend(wrong),
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
        let Outcome { result, notes } = play(seed, true);
        let wrong = result.err().map(|wrong| report(seed, &wrong, notes));
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
        return;
    }
    let seeds: Vec<u64> = FOUND.iter().copied().chain(0..count).collect();
    let (tally, found) = play_all(&seeds);
    println!("{count} seeds, {} images", tally.images);
    tally.print();
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    tally.is_enough_for(count);
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
