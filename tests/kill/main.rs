//! The kill campaign: processes under load, killed at random moments and at every step of what the
//! engine asks of a disk; a fresh process then holds what is left against what they had said.
//!
//! The page cache outlives them, so more is promised than at a power cut: what an append that does
//! not wait has written is there, too.

#[path = "../common/mod.rs"]
mod common;
#[expect(dead_code, reason = "a seed is never spent")]
#[path = "../crash/dice.rs"]
mod dice;
#[path = "../load/mod.rs"]
mod load;
mod steps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, thread};

use tidelog::sys::Storage;

use dice::Dice;
use load::claims::Claims;
use load::{Plan, parts, say, work};
use steps::{STEPS, Steps, Target};

/// So many kills, where nobody says how many.
const SHORT: u64 = 60;
/// So long an owner goes on at the most, in milliseconds.
const MILLIS: u64 = 400;
/// Lives of one owner: the next one's have other numbers.
const LIVES: u64 = 20;
const TEST: &str = "no_kill_at_any_step_loses_what_was_said";

/// What the campaign has seen.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    stores: u64,
    records: u64,
    /// How many were killed at each step; at a moment of no step's choosing, under "".
    steps: BTreeMap<String, u64>,
    failures: Vec<String>,
}

/// A process is killed under a mixed load: at a random moment, or before or after a certain call of
/// the engine to the disk, of each kind that there is: in a roll, at a slot, a snapshot of the journal,
/// the making and the removal of a topic. Up to four owners of a store die like that, one after
/// another. Then everything that they said was written or promised is there, once, and in its place.
#[test]
fn no_kill_at_any_step_loses_what_was_said() {
    if let Some(words) = parts::part() {
        return play(&words);
    }
    let number = |name: &str| env::var(name).ok()?.parse().ok();
    let kills = number("TIDELOG_KILLS").unwrap_or(SHORT);
    let base = parts::in_memory("tidelog-kill").unwrap();
    let tally = Mutex::new(Tally::default());
    let seeds = AtomicU64::new(number("TIDELOG_KILL_SEED").unwrap_or(1));
    let more = || {
        let tally = tally.lock().unwrap();
        tally.kills < kills && tally.failures.len() < 4
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while more() {
                    let seed = seeds.fetch_add(1, Ordering::Relaxed);
                    if let Err(wrong) = one_store(&base, seed, &tally) {
                        tally.lock().unwrap().failures.push(wrong);
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    println!(
        "{} kills of owners of {} stores, {} records looked at: {:?}",
        tally.kills, tally.stores, tally.records, tally.steps
    );
    assert_eq!(tally.failures, Vec::<String>::new());
    fs::remove_dir_all(&base).unwrap();
    if kills >= 1000 {
        let missing = STEPS.iter().filter(|it| !tally.steps.contains_key(**it));
        let missing: Vec<&&str> = missing.collect();
        assert!(missing.is_empty(), "nobody was killed at {missing:?}");
    }
}

/// Owners of one store, killed one after another, and a look at what they leave.
fn one_store(base: &Path, seed: u64, tally: &Mutex<Tally>) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let backend = dice.pick(&["mapped", "pwrite"]);
    let folder = base.join(seed.to_string());
    fs::create_dir(&folder).unwrap();
    let store = folder.join("s");
    let said = Arc::default();
    for n in 0..dice.within(1, 5) {
        let step = owner(&store, backend, (seed, n), &mut dice, &said);
        let mut tally = tally.lock().unwrap();
        tally.kills += 1;
        *tally.steps.entry(step).or_default() += 1;
    }
    let claims = folder.join("claims");
    let said: Vec<String> = std::mem::take(&mut said.lock().unwrap());
    fs::write(&claims, said.join("\n")).unwrap();
    let mut words = parts::words(&["check", store.to_str().unwrap(), backend], &[seed]);
    words.push(claims.to_str().unwrap().to_owned());
    let copy = kept(&folder, seed);
    let verdict = parts::judge(TEST, &words);
    let fine = verdict.map_err(|wrong| {
        let kept = copy.display();
        format!("TIDELOG_KILL_SEED={seed} ({backend}): {wrong}; kept in {kept}")
    })?;
    drop(fs::remove_dir_all(&copy));
    drop(fs::remove_dir_all(&folder));
    let records = fine.split(' ').nth(1).and_then(|it| it.parse().ok());
    let mut tally = tally.lock().unwrap();
    tally.stores += 1;
    tally.records += records.unwrap_or(0);
    Ok(())
}

/// What is there before anybody looks at it, since a load cannot be repeated to the letter.
fn kept(folder: &Path, seed: u64) -> PathBuf {
    let copy = env::temp_dir().join(format!("tidelog-kill-{seed}"));
    drop(fs::remove_dir_all(&copy));
    common::copy(folder, &copy).unwrap();
    copy
}

/// One owner; the step at which it ended.
fn owner(
    store: &Path,
    backend: &str,
    (seed, n): (u64, u64),
    dice: &mut Dice,
    said: &Arc<Mutex<Vec<String>>>,
) -> String {
    let numbers = [dice.next() >> 1, 1 + LIVES * n, MILLIS];
    let mut words = parts::words(&["load", store.to_str().unwrap(), backend], &numbers);
    if dice.percent(75) {
        // In turn, so that none is left out.
        let step = STEPS[((seed * 7 + n) % STEPS.len() as u64) as usize];
        let nth = match dice.percent(50) {
            true => dice.below(3),
            false => dice.below(40),
        };
        let after = u64::from(dice.percent(50));
        words.extend(parts::words(&[&step.replace(' ', "_")], &[nth, after]));
    }
    let mut child = parts::start(TEST, &words).unwrap();
    let from = said.lock().unwrap().len();
    let listener = parts::listen(&mut child, Arc::clone(said));
    let most = Duration::from_millis(dice.within(5, MILLIS));
    let most = if words.len() > 6 { most * 4 } else { most };
    parts::ended(&mut child, most).unwrap();
    drop(child.kill());
    child.wait().unwrap();
    drop(listener.map(thread::JoinHandle::join));
    let said = said.lock().unwrap();
    let last = said[from..].iter().rev();
    let step = last.filter_map(|line| line.split_once("@killed "));
    step.map(|(_, step)| step.to_owned())
        .next()
        .unwrap_or_default()
}

/// The part of another process of the campaign.
fn play(words: &[String]) {
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let folder = Path::new(&words[1]);
    let disk = parts::disk(&words[2]);
    if words[0] == "load" {
        let target = words.get(6).map(|step| Target {
            step: step.replace('_', " "),
            nth: number(7),
            after: number(8) == 1,
        });
        return work(&Plan {
            folder: folder.to_owned(),
            storage: Arc::new(Steps::new(disk, target)),
            seed: number(3),
            life: number(4),
            millis: number(5),
        });
    }
    let storage: Arc<dyn Storage> = Arc::new(disk);
    let claims = Claims::read(&fs::read_to_string(&words[4]).unwrap(), true);
    match load::check::check(folder, &storage, &claims, number(3)) {
        Ok(found) => say(&format!("fine {found}")),
        Err(wrong) => say(&wrong),
    }
}
