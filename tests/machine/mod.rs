//! A simulated machine, which stops and starts again.

use std::path::Path;
use std::sync::Arc;

use tidelog::sys::sim::{Crash, Keep, Sim, SimClock};
use tidelog::sys::{Clock, Storage};
use tidelog::{Store, StoreOptions};

/// Where the store lies.
pub const ROOT: &str = "/store";
const START: i64 = 1_700_000_000_000_000_000;

/// A machine of its own, with a clock that stands still until somebody moves it.
#[derive(Debug)]
pub struct Machine {
    pub sim: Sim,
    pub clock: Arc<SimClock>,
}

impl Machine {
    pub fn new(seed: u64) -> Machine {
        Machine {
            sim: Sim::new(seed),
            clock: Arc::new(SimClock::new(seed, START)),
        }
    }

    pub fn options(&self) -> StoreOptions {
        StoreOptions::new()
            .storage(Arc::new(self.sim.clone()))
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    /// Rounds run on the thread that waits, so what rides is known.
    pub fn open(&self) -> Store {
        Store::open_with(ROOT, self.options().inline()).unwrap()
    }

    /// The power fails, and the next owner opens what is left.
    pub fn cut(&self, store: Store, keep: Keep) -> Store {
        self.stop(store, Crash::Cut(keep));
        self.open()
    }

    /// The machine stops, and nobody opens the store.
    pub fn stop(&self, store: Store, crash: Crash) {
        self.sim.crash_after(0);
        self.sim.free(Path::new("/")).unwrap_err();
        drop(store);
        self.sim.crash(crash).unwrap();
        self.sim.heal();
    }
}
