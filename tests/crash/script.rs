//! A program as a list of pieces, from which some can be left out: how what fails is made short.

#[cfg(not(fuzzing))]
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::model::Check;
use crate::run::Run;

/// A piece of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something is done with the store.
    Step,
    /// The life ends, and the next one begins.
    End,
}

/// The pieces in their order, each with the dice as they lay before it: thrown from there, it does the
/// same again, whatever was left out before.
pub type Script = Vec<(Kind, Dice)>;

/// What a run leaves behind, whatever becomes of it.
#[derive(Debug, Default)]
pub struct Notes {
    /// What was done, in words.
    pub steps: Vec<String>,
    pub script: Script,
}

impl Run<'_> {
    /// The whole program: some lives, each ended by a close or a crash, and a last look.
    pub fn program(&mut self) -> Check {
        self.reopen()?;
        for _ in 0..self.dice.within(3, 8) {
            for _ in 0..self.dice.within(5, 25) {
                if self.sim.has_stopped() || self.dice.is_spent() {
                    break;
                }
                self.piece(Kind::Step)?;
            }
            self.piece(Kind::End)?;
            if self.dice.is_spent() {
                break;
            }
        }
        self.last_life()
    }

    fn piece(&mut self, kind: Kind) -> Check {
        self.notes.script.push((kind, self.dice.clone()));
        self.play(kind)
    }

    fn play(&mut self, kind: Kind) -> Check {
        match kind {
            Kind::Step => self.step(),
            Kind::End => self.end_life(),
        }
    }

    /// The same pieces, as far as they were not left out.
    #[cfg(not(fuzzing))]
    pub fn replay(&mut self, script: &[(Kind, Dice)]) -> Check {
        self.reopen()?;
        for (kind, dice) in script {
            self.dice = dice.clone();
            if *kind == Kind::End || !self.sim.has_stopped() {
                self.play(*kind)?;
            }
        }
        self.last_life()
    }
}

/// Leaves out whatever can be left out while `fails` says that the rest still does; not for longer than
/// `limit`. Large parts go first, then smaller ones, then single pieces.
#[cfg(not(fuzzing))]
pub fn shrink(script: Script, limit: Duration, fails: impl Fn(&Script) -> bool) -> Script {
    let begin = Instant::now();
    let mut script = script;
    let mut size = script.len().div_ceil(2);
    while size > 0 {
        let before = script.len();
        let mut at = 0;
        while at < script.len() {
            if begin.elapsed() > limit {
                return script;
            }
            let mut rest = script.clone();
            rest.drain(at..(at + size).min(script.len()));
            match fails(&rest) {
                true => script = rest,
                false => at += size,
            }
        }
        // Single pieces are tried again as long as one goes.
        size = match size {
            1 if script.len() < before => 1,
            size => size / 2,
        };
    }
    script
}

/// Whether two failures are of one kind: they say the same, but for numbers.
#[cfg(not(fuzzing))]
pub fn alike(one: &str, other: &str) -> bool {
    let words = |text: &str| -> String {
        let letters = text.chars().filter(|letter| letter.is_alphabetic());
        letters.take(24).collect()
    };
    words(one) == words(other)
}

/// Of what fails for two of its pieces, nothing else is left.
#[test]
fn a_program_that_fails_is_made_as_short_as_it_can_be() {
    let script: Script = (0..100).map(|seed| (Kind::Step, Dice::new(seed))).collect();
    let firsts = |script: &Script| -> Vec<u64> {
        let dice = script.iter().map(|(_, dice)| dice.clone());
        dice.map(|mut dice| dice.next()).collect()
    };
    let all = firsts(&script);
    let needed = [all[17], all[70]];
    let fails = |script: &Script| needed.iter().all(|it| firsts(script).contains(it));
    let shrunk = shrink(script, Duration::from_secs(60), fails);
    assert_eq!(firsts(&shrunk), needed);
}
