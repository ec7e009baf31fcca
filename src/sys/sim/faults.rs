//! Calls that fail on demand, and the moment at which the machine stops.

use std::io;
use std::path::Path;

use super::chance::Chance;

/// What can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// Making a folder.
    CreateDir,
    /// Listing a folder.
    List,
    /// Making a file.
    Create,
    /// Opening a file.
    Open,
    /// Renaming.
    Rename,
    /// Removing a file or folder.
    Remove,
    /// Syncing a folder.
    SyncDir,
    /// Taking the lock, or asking for it.
    Lock,
    /// Asking what a path leads to, for free space, or for the back end.
    Ask,
    /// Asking for a file's length.
    Len,
    /// Reading through a file.
    Read,
    /// Writing through a file.
    Write,
    /// Lengthening a file.
    Grow,
    /// Syncing a file.
    Sync,
    /// Mapping a file.
    Map,
}

/// Which of the calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The n-th from now on, counted from 0, and no other.
    Nth(u64),
    /// The n-th from now on, and every later one.
    From(u64),
    /// So many in a thousand, by the seed.
    PerMille(u64),
}

/// An order to let calls fail.
///
/// ```
/// use std::path::Path;
/// use tidelog::sys::{Storage, sim::{Call, Fault, Sim, When}};
///
/// let sim = Sim::new(1);
/// let file = sim.create(Path::new("/a"), 512)?;
/// sim.fail(Fault::new(Call::Sync, When::Nth(0), 5).on("a"));
/// assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
/// assert!(file.sync().is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Fault {
    call: Call,
    when: When,
    errno: i32,
    part: Option<String>,
    seen: u64,
}

impl Fault {
    /// Lets calls fail with the error of that number (`libc::EIO`, `libc::ENOSPC`, ...).
    pub fn new(call: Call, when: When, errno: i32) -> Self {
        Self {
            call,
            when,
            errno,
            part: None,
            seen: 0,
        }
    }

    /// Only those on a path that contains `part`; only those are counted.
    #[must_use]
    pub fn on(mut self, part: &str) -> Self {
        self.part = Some(part.to_owned());
        self
    }

    fn strikes(&mut self, call: Call, path: &Path, chance: &mut Chance) -> bool {
        let meant = call == self.call
            && self
                .part
                .as_ref()
                .is_none_or(|part| path.to_string_lossy().contains(part.as_str()));
        if !meant {
            return false;
        }
        let n = self.seen;
        self.seen += 1;
        match self.when {
            When::Nth(wanted) => n == wanted,
            When::From(wanted) => n >= wanted,
            When::PerMille(rate) => chance.per_mille(rate),
        }
    }
}

/// The error of every call after the machine has stopped, and of every file from before.
#[derive(Debug, thiserror::Error)]
#[error("the simulated machine has stopped")]
pub struct Crashed;

/// Whether an error says that the simulated machine has stopped.
pub fn is_crash(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Crashed>())
}

pub(super) fn crashed() -> io::Error {
    io::Error::other(Crashed)
}

/// All orders, and the countdown to the stop.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) orders: Vec<Fault>,
    pub(super) calls_left: Option<u64>,
    pub(super) calls: u64,
}

impl Faults {
    /// Counts a call; true if the machine stops before it.
    pub(super) fn count(&mut self) -> bool {
        self.calls += 1;
        match &mut self.calls_left {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    pub(super) fn check(&mut self, call: Call, path: &Path, chance: &mut Chance) -> io::Result<()> {
        let mut struck = None;
        for order in &mut self.orders {
            if order.strikes(call, path, chance) && struck.is_none() {
                struck = Some(order.errno);
            }
        }
        struck.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }
}
