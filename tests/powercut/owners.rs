//! The processes that own the store, one after another, until the power is gone.

use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::TEST;
use crate::dice::Dice;
use crate::disk::{Disk, Said};
use crate::load::parts;

/// Of a hundred owners so many are killed, and another one follows; the page cache stays.
const KILLED: u64 = 35;
/// Lives of one owner: the next one's have other numbers.
const LIVES: u64 = 20;

/// What the owners do, and for how long.
#[derive(Debug)]
pub struct Work<'a> {
    pub store: &'a Path,
    pub backend: &'a str,
    pub seed: u64,
    pub life: u64,
    pub millis: u64,
}

/// Lets processes write to a store until the power is gone; how many of them were killed before.
pub fn own(work: &Work<'_>, disk: &Mutex<Disk>, said: &Said) -> u64 {
    let begin = Instant::now();
    let most = Duration::from_millis(work.millis);
    let mut dice = Dice::new(work.seed);
    for killed in 0.. {
        let numbers = [dice.next() >> 1, work.life + LIVES * killed, work.millis];
        let store = work.store.to_str().unwrap();
        let words = parts::words(&["load", store, work.backend], &numbers);
        let mut child = parts::start(TEST, &words).unwrap();
        let listener = parts::listen(&mut child, Arc::clone(said));
        let kill = match dice.percent(KILLED) {
            true => Duration::from_millis(dice.within(10, 500)),
            false => most,
        };
        wait(
            &mut child,
            disk,
            kill.min(most.saturating_sub(begin.elapsed())),
        );
        let over = begin.elapsed() >= most || killed > 4;
        if over {
            disk.lock().unwrap().end();
        }
        let dead = disk.lock().unwrap().dead;
        drop(child.kill());
        child.wait().unwrap();
        drop(listener.map(thread::JoinHandle::join));
        if dead {
            return killed;
        }
    }
    0
}

/// Until the process ends, the power is gone, or so long.
fn wait(child: &mut Child, disk: &Mutex<Disk>, most: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < most && !disk.lock().unwrap().dead {
        if parts::ended(child, Duration::from_millis(2)).unwrap() {
            return;
        }
    }
}
