//! A load on a store in a process of its own, which says what it tries and what it was promised; and
//! another process that holds what is left against that.
//!
//! Each line is one fact. What comes before a call is an attempt: it may be there. What comes after it
//! is a promise: it must.

pub mod bulk;
pub mod catalog;
pub mod check;
pub mod claims;
pub mod look;
#[path = "../common/memory.rs"]
mod memory;
pub mod parts;
pub mod readers;
pub mod stamp;
pub mod writers;

use std::io::Write;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use tidelog::sys::Storage;
use tidelog::{Error, Store, StoreOptions, Topic};

use crate::dice::Dice;

/// How many topics there are at a time.
pub const SLOTS: usize = 5;
const WRITERS: u64 = 4;
/// One load in so many has a topic with large facts.
const BULKY: u64 = 4;
/// One in so many has so few files open that logs are parked all the time.
const TIGHT: u64 = 3;
/// So many failures end a life: the store is closed, and opened again.
const MOST_FAILURES: u64 = 12;

/// What a process is to do.
#[derive(Debug)]
pub struct Plan {
    pub folder: PathBuf,
    pub storage: Arc<dyn Storage>,
    pub seed: u64,
    /// The first life's number: no other process has it, or the next ones.
    pub life: u64,
    pub millis: u64,
}

/// Says a fact: when this has returned it is with whoever listens.
pub fn say(fact: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "@{fact}").and_then(|()| out.flush()).is_err() {
        // Nobody listens any more.
        process::exit(0);
    }
}

/// A topic that is there.
#[derive(Debug, Clone)]
pub struct Live {
    pub topic: Topic,
    pub slot: usize,
    pub incarnation: u32,
}

/// What the threads of one life share.
#[derive(Debug)]
pub struct Life {
    pub store: Store,
    pub number: u64,
    pub topics: [RwLock<Option<Live>>; SLOTS],
    failures: AtomicU64,
    over: AtomicBool,
    end: Instant,
}

impl Life {
    fn new(store: Store, number: u64, millis: u64) -> Life {
        Life {
            store,
            number,
            topics: Default::default(),
            failures: AtomicU64::new(0),
            over: AtomicBool::new(false),
            end: Instant::now() + Duration::from_millis(millis),
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || Instant::now() > self.end
    }

    pub fn set(&self, slot: usize, live: Option<Live>) {
        let mut place = self.topics[slot]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *place = live;
    }

    pub fn get(&self, slot: usize) -> Option<Live> {
        let place = self.topics[slot].read();
        place.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A topic to do something with.
    pub fn some(&self, dice: &mut Dice) -> Option<Live> {
        self.get(dice.below(SLOTS as u64) as usize)
    }

    /// What went wrong in a call. Refusals are nothing; what only a reopening heals ends the life
    /// sooner or later; what must never be said is passed on.
    pub fn failed(&self, call: &str, error: &Error) {
        match error {
            Error::Corrupt { .. } | Error::Mismatch { .. } | Error::BeyondEnd { .. } => {
                say(&format!("wrong {call}: {error:?}"));
            }
            Error::TopicDeleted { .. } | Error::Finished { .. } | Error::TopicUnknown { .. } => {}
            Error::SubscriptionBusy { .. } => {}
            Error::StoreFailed { .. } => self.over.store(true, Ordering::Relaxed),
            Error::StorageFull { .. } => {
                say("full");
                thread::sleep(Duration::from_millis(1));
            }
            _ => {
                say(&format!("failed {call}"));
                if self.failures.fetch_add(1, Ordering::Relaxed) >= MOST_FAILURES {
                    self.over.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Lives, one after another, until the time is over.
pub fn work(plan: &Plan) {
    let end = Instant::now() + Duration::from_millis(plan.millis);
    let mut dice = Dice::new(plan.seed);
    let mut refused = 0;
    for number in plan.life.. {
        if Instant::now() > end || refused > 2 {
            return;
        }
        let mut options = StoreOptions::new().storage(Arc::clone(&plan.storage));
        if plan.seed.is_multiple_of(TIGHT) {
            options = options.max_open_files(16);
        }
        match Store::open_with(&plan.folder, options) {
            Ok(store) => live(store, number, plan.seed.is_multiple_of(BULKY), &mut dice),
            Err(error) => {
                refused += 1;
                say(&format!("failed open {error:?}"));
            }
        }
    }
}

fn live(store: Store, number: u64, bulky: bool, dice: &mut Dice) {
    let millis = dice.pick(&[30, 100, 300, 900]);
    let life = Life::new(store.clone(), number, millis);
    say(&format!("life {number}"));
    if let Err(error) = look::everything(&life) {
        life.failed("look", &error);
        if life.failures.load(Ordering::Relaxed) > 0 {
            return;
        }
    }
    thread::scope(|scope| {
        for thread in 0..WRITERS {
            let (life, dice) = (&life, Dice::new(dice.next()));
            scope.spawn(move || writers::write(life, thread, dice));
        }
        let (life, seeds) = (&life, [dice.next(), dice.next(), dice.next()]);
        if bulky {
            let dice = Dice::new(dice.next());
            scope.spawn(move || bulk::state(life, dice));
        }
        scope.spawn(move || catalog::keep(life, Dice::new(seeds[0])));
        scope.spawn(move || readers::read(life, Dice::new(seeds[1])));
        scope.spawn(move || readers::subscribe(life, Dice::new(seeds[2])));
    });
    if dice.percent(70) {
        // What it says is not a promise of anything that has not been said before.
        match store.close() {
            Ok(()) => say("closed"),
            Err(error) => life.failed("close", &error),
        }
    }
}
