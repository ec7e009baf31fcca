//! Operation sequences: the crash model of `tests/crash`, whose every throw of the dice is a byte.
//!
//! The first byte chooses the kind of program (which of them wait with every append, have few files,
//! batches over partitions, or transactions) and the chance of the simulated disk; what follows is thrown. What must hold
//! is what the model checks after every crash.

#![no_main]

#[path = "../../tests/crash/acks.rs"]
mod acks;
#[path = "../../tests/crash/append.rs"]
mod append;
#[path = "../../tests/crash/beside.rs"]
mod beside;
#[path = "../../tests/crash/dice.rs"]
mod dice;
#[path = "../../tests/crash/joint.rs"]
mod joint;
#[path = "../../tests/crash/life.rs"]
mod life;
#[path = "../../tests/crash/model.rs"]
mod model;
#[path = "../../tests/crash/older.rs"]
mod older;
#[path = "../../tests/crash/recover.rs"]
mod recover;
#[path = "../../tests/crash/retain.rs"]
mod retain;
#[path = "../../tests/crash/run.rs"]
mod run;
#[path = "../../tests/crash/script.rs"]
mod script;
#[path = "../../tests/crash/subs.rs"]
mod subs;
#[path = "../../tests/crash/tally.rs"]
mod tally;
#[path = "../../tests/crash/transact.rs"]
mod transact;
#[path = "../../tests/crash/wide.rs"]
mod wide;

use dice::Dice;
use run::Run;
use script::Notes;

/// More throws make a program too long to be run often.
const MOST: usize = 600;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((kind, thrown)) = bytes.split_first() else {
        return;
    };
    let mut notes = Notes::default();
    let mut run = Run::new(u64::from(*kind), &mut notes, false);
    run.dice = Dice::of(&thrown[..thrown.len().min(MOST)]);
    // A journal of megabytes takes too long.
    run.bulk = None;
    let ended = run.program();
    if let Err(wrong) = ended {
        panic!("{wrong}\n  {}", notes.steps.join("\n  "));
    }
});
