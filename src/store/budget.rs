//! How many files of topics are open: a disk that counts them, and lets go of those of logs that
//! have not been used for long before it opens more than it may.
//!
//! Which ones is found as a clock finds it: the hand goes round over all open logs, passes by those
//! that were used since it came by last, and parks the others. A use costs one store of a flag.
//!
//! Each file is mapped once at the most, so what bounds the files bounds the mappings. What is in
//! use is never taken away, so the limit may be passed while everything is.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::partition::Log;
use crate::sys::{
    Access, Backend, Entry, File, Holder, Kind, Lock, LockError, Map, Stats, Storage, Volume,
};

/// So many logs are parked where the machine has no descriptor left, or no mapping.
const SEVERAL: usize = 8;

/// A disk that counts what is open on it.
#[derive(Debug)]
pub(super) struct Budget {
    storage: Arc<dyn Storage>,
    shared: Arc<Shared>,
    /// What is opened here counts.
    counts: bool,
}

#[derive(Debug)]
struct Shared {
    most: usize,
    open: AtomicUsize,
    /// The logs that may have files open; the hand is at the front.
    logs: Mutex<VecDeque<Weak<Log>>>,
    /// One at a time lets go of files.
    parking: Mutex<()>,
}

impl Budget {
    pub(super) fn new(storage: Arc<dyn Storage>, most: usize) -> Arc<Budget> {
        Arc::new(Budget {
            storage,
            shared: Arc::new(Shared {
                most,
                open: AtomicUsize::new(0),
                logs: Mutex::default(),
                parking: Mutex::default(),
            }),
            counts: true,
        })
    }

    /// The same disk for the journal, whose files come on top of the budget.
    pub(super) fn on_top(&self) -> Arc<dyn Storage> {
        Arc::new(Budget {
            storage: Arc::clone(&self.storage),
            shared: Arc::clone(&self.shared),
            counts: false,
        })
    }

    /// From now on the files of this log are among those that can be let go of.
    pub(super) fn watch(&self, log: &Arc<Log>) {
        self.shared.logs().push_back(Arc::downgrade(log));
    }

    /// Opens or makes a file, within the budget where that can be.
    fn counted(&self, open: impl Fn() -> io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
        if !self.counts {
            return self.shared.with_more(open);
        }
        let place = Place::take(&self.shared);
        let file = self.shared.with_more(open)?;
        Ok(Arc::new(Counted { file, place }))
    }
}

impl Shared {
    fn logs(&self) -> MutexGuard<'_, VecDeque<Weak<Log>>> {
        // Nothing that can panic runs under this mutex.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log under the hand, which moves on.
    fn next(&self) -> Option<Arc<Log>> {
        let mut logs = self.logs();
        while let Some(log) = logs.pop_front() {
            if let Some(alive) = log.upgrade() {
                logs.push_back(log);
                return Some(alive);
            }
        }
        None
    }

    /// Parks logs until it is enough, or none is left that can be; whether there was one. The
    /// caller may hold locks of a log: none is waited for here but short ones.
    fn park(&self, mut enough: impl FnMut(usize) -> bool) -> bool {
        let _one = self.parking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parked = 0;
        // The hand goes round twice: the first time everything may have been used.
        let looks = 2 * self.logs().len();
        for _ in 0..looks {
            if enough(parked) {
                break;
            }
            let Some(log) = self.next() else { break };
            if !log.was_used() && log.park() {
                parked += 1;
            }
        }
        parked > 0
    }

    /// Does what needs a descriptor or a mapping; once more, after letting go of some, where there
    /// was none.
    fn with_more<T>(&self, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match act() {
            Err(error) if is_scarce(&error) && self.park(|parked| parked >= SEVERAL) => act(),
            done => done,
        }
    }
}

/// Whether descriptors have run out, of the process or the machine, or mappings.
fn is_scarce(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    matches!(number, Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// What one open file takes of the budget.
#[derive(Debug)]
struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Place {
        let place = Place(Arc::clone(shared));
        if shared.open.fetch_add(1, Ordering::AcqRel) >= shared.most {
            shared.park(|_| shared.open.load(Ordering::Acquire) <= shared.most);
        }
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Storage for Budget {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.storage.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.shared.with_more(|| self.storage.list(dir))
    }

    fn create(&self, path: &Path, len: u64) -> io::Result<Arc<dyn File>> {
        self.counted(|| self.storage.create(path, len))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.counted(|| self.storage.open(path, access))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.storage.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.storage.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.storage.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match self.storage.sync_dir(dir) {
            // The folder was not opened: that was no sync that failed.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
                    && self.shared.park(|parked| parked >= SEVERAL) =>
            {
                self.storage.sync_dir(dir)
            }
            synced => synced,
        }
    }

    fn volume(&self, dir: &Path) -> io::Result<Arc<dyn Volume>> {
        self.storage.volume(dir)
    }

    fn most_open(&self) -> Option<u64> {
        self.storage.most_open()
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.storage.kind(path)
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        self.storage.free(dir)
    }

    fn backend(&self, dir: &Path) -> io::Result<Backend> {
        self.storage.backend(dir)
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn Lock>, LockError> {
        self.storage.lock(path, note)
    }

    fn holder(&self, path: &Path) -> io::Result<Option<Holder>> {
        self.storage.holder(path)
    }

    fn boot(&self) -> Option<[u8; 16]> {
        self.storage.boot()
    }

    fn stats(&self) -> &Stats {
        self.storage.stats()
    }
}

/// A file that counts while it is open. Its place goes last.
#[derive(Debug)]
struct Counted {
    file: Arc<dyn File>,
    place: Place,
}

impl File for Counted {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        self.file.read_at(buf, place)
    }

    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()> {
        self.file.write_at(buf, place)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.file.grow(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn drop_cached(&self, place: u64, len: u64) -> io::Result<()> {
        self.file.drop_cached(place, len)
    }

    fn map(&self, access: Access, len: u64) -> io::Result<Map> {
        self.place.0.with_more(|| self.file.map(access, len))
    }
}
