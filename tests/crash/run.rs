//! One seed: a machine, a store on it, the model, and how lives of the machine end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidelog::sys::sim::{Crash, Keep, Sim, SimClock, is_crash};
use tidelog::sys::{Clock, Entry, Storage};
use tidelog::{Error, Store, StoreOptions};

use crate::acks::Acked;
use crate::dice::Dice;
use crate::model::{Check, Joint, Topic};
use crate::older::Copy;
use crate::script::Notes;
use crate::tally::Tally;
use crate::wide::{Bulk, bulk_of};

/// One seed in so many waits with every append; the others are relaxed.
const STRICT: u64 = 3;
/// One seed in so many has hardly any files open.
const TIGHT: u64 = 8;
/// Where the store lies.
pub const ROOT: &str = "/store";

/// One seed on its way.
pub struct Run<'a> {
    pub dice: Dice,
    /// For what a program got later: it takes nothing away from the other dice.
    pub side: Dice,
    pub sim: Sim,
    pub clock: Arc<SimClock>,
    pub store: Option<Store>,
    pub topics: BTreeMap<String, Topic>,
    pub tally: Tally,
    pub notes: &'a mut Notes,
    /// Calls may fail: faults are ordered, or something has failed that stays failed.
    pub troubled: bool,
    /// A sync has failed in this life.
    pub sync_failed: bool,
    /// The last life ended with a close that succeeded.
    pub closed: bool,
    /// The last life ended with a crash.
    pub crashed: bool,
    /// The boot in which the store was last opened.
    pub boot: Option<[u8; 16]>,
    /// How many segments each log had when this life began.
    pub segments: BTreeMap<PathBuf, u32>,
    /// Records appended so far: each payload is its own.
    pub serial: u64,
    /// All records have one length, so that what is cut off fits behind what takes its place.
    pub even: bool,
    /// Topics are synced in all modes, and not every append waits.
    pub relaxed: bool,
    /// There are batches over several partitions.
    pub joint: bool,
    /// There are transactions over topics and subscriptions.
    pub transacts: bool,
    /// The transaction, or batch over partitions, that is in doubt: behind one the journal takes nothing.
    pub doubt: Option<Joint>,
    /// Topics let go of what is old.
    pub retained: bool,
    /// Of appends that did not wait.
    pub acks: Vec<Acked>,
    /// Nothing has been lost since the last opening: the process was killed, in no trouble.
    pub whole: bool,
    /// The topics that make the journal long, in a program that is wide.
    pub bulk: Option<Bulk>,
    /// So few files are held open that logs are parked all the time.
    files: Option<usize>,
    /// Files as they were some lives ago.
    pub copies: Vec<Copy>,
    /// A checksum of the disk after each crash, and at the end.
    pub prints: Vec<u32>,
    loud: bool,
}

impl<'a> Run<'a> {
    pub fn new(seed: u64, notes: &'a mut Notes, loud: bool) -> Run<'a> {
        Run {
            dice: Dice::new(seed),
            side: Dice::new(!seed),
            sim: Sim::new(seed),
            clock: Arc::new(SimClock::new(seed, 1_700_000_000_000_000_000)),
            store: None,
            topics: BTreeMap::new(),
            tally: Tally::default(),
            notes,
            troubled: false,
            sync_failed: false,
            closed: false,
            crashed: false,
            boot: None,
            segments: BTreeMap::new(),
            serial: 0,
            even: seed % 8 == 7 && bulk_of(seed).is_none(),
            relaxed: !seed.is_multiple_of(STRICT),
            joint: matches!(seed % 4, 0 | 3),
            transacts: matches!(seed % 5, 1 | 3),
            doubt: None,
            retained: matches!(seed % 7, 5 | 6) && bulk_of(seed).is_none(),
            acks: Vec::new(),
            whole: true,
            bulk: bulk_of(seed),
            files: (seed % TIGHT == 5).then_some(1 + (seed / TIGHT % 3) as usize),
            copies: Vec::new(),
            prints: Vec::new(),
            loud,
        }
    }

    /// Writes down what happens.
    pub fn say(&mut self, step: String) {
        if self.loud {
            println!("  {step}");
        }
        self.notes.steps.push(step);
    }

    pub fn now(&self) -> i64 {
        self.clock.now()
    }

    pub fn options(&self) -> StoreOptions {
        let options = StoreOptions::new()
            .storage(Arc::new(self.sim.clone()))
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .inline();
        match self.files {
            Some(files) => options.max_open_files(files),
            None => options,
        }
    }

    pub fn open_store(&self) -> Check<Store> {
        self.store.clone().ok_or_else(|| "no store".to_owned())
    }

    /// Whether the journal has failed, so that every later fact is refused.
    pub fn journal_failed(&self) -> bool {
        let health = self.store.as_ref().map(Store::health);
        health.is_some_and(|health| health.journal.is_some())
    }

    /// Writes an error down. Without a cause it is a finding.
    pub fn error(&mut self, what: &str, error: &Error) -> Check {
        let stopped = self.sim.has_stopped();
        self.sync_failed |= !stopped && is_failed_sync(error);
        self.say(format!("    {what}: {error}"));
        if stopped || self.troubled {
            return Ok(());
        }
        Err(format!("{what} for no reason: {error}"))
    }

    /// Notes what the disk holds now.
    pub fn take_print(&mut self) -> Check {
        let print = self.sim.fingerprint().map_err(|error| error.to_string())?;
        self.prints.push(print);
        Ok(())
    }

    /// Ends this life.
    pub fn crash(&mut self, second: bool) -> Check {
        let crash = match self.dice.below(4) {
            0 => Crash::Kill,
            _ => Crash::Cut(Keep::Chance),
        };
        self.whole &= matches!(crash, Crash::Kill) && !self.sim.has_stopped() && !self.troubled;
        self.last_look_at_acks()?;
        self.sim.crash_after(0);
        if self.sim.free(Path::new("/")).is_ok() {
            return Err("the machine goes on".to_owned());
        }
        self.store = None;
        let report = self.sim.crash(crash).map_err(|error| error.to_string())?;
        self.say(format!("crash: {crash:?} {report:?}"));
        self.take_print()?;
        self.tally.images += 1;
        self.tally.sectors += u64::from(report.unsynced_sectors > 0);
        self.tally.names += u64::from(report.unsynced_names > 0);
        self.tally.second += u64::from(second);
        self.tally.syncs += u64::from(self.sync_failed);
        let journal = self.sim.list(&Path::new(ROOT).join("journal"));
        let journal = journal.unwrap_or_default();
        let any = |end| {
            journal
                .iter()
                .any(|entry: &Entry| entry.name.ends_with(end))
        };
        self.tally.copied += u64::from(any(".redo"));
        self.tally.used += u64::from(any(".used"));
        let mut parts = self.topics.values().flat_map(|topic| &topic.parts);
        self.tally.gone += u64::from(parts.any(|part| part.first > 0));
        self.sync_failed = false;
        self.closed = false;
        self.crashed = true;
        self.clock.advance(Duration::from_millis(10));
        Ok(())
    }

    /// Closes the store, which may fail.
    pub fn close(&mut self) -> Check {
        let store = self.open_store()?;
        self.store = None;
        self.say("close".to_owned());
        self.closed = match store.close() {
            Ok(()) => !self.sim.has_stopped(),
            Err(error) => {
                self.error("close", &error)?;
                false
            }
        };
        self.whole &= self.closed;
        self.last_look_at_acks()?;
        if self.sim.has_stopped() {
            return self.crash(false);
        }
        // What failed then is forgotten; orders to fail are not.
        self.sim.heal();
        Ok(())
    }
}

/// Whether a fact may be there after the reopen although stating it failed: its sync failed, or
/// the write of its last word. Then the store takes no writes any more.
pub fn in_doubt(error: &Error) -> bool {
    matches!(error, Error::StoreFailed { .. })
}

/// Whether a sync that failed is at the bottom of an error.
pub fn is_failed_sync(error: &Error) -> bool {
    match error {
        Error::InDoubt { cause, .. }
        | Error::Failed { cause, .. }
        | Error::StoreFailed { cause } => is_failed_sync(cause),
        Error::Io { op, source, .. } => *op == "sync" && !is_crash(source),
        _ => false,
    }
}
