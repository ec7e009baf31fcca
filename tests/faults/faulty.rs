//! A disk whose calls can be made to fail, or to wait: around the real one, or the simulated one, with
//! real threads.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tidelog::sys::{
    Access, Backend, Disk, Entry, File, Holder, Kind, Lock, LockError, Map, Mode, Stats, Storage,
    Volume,
};

/// A call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Create,
    Sync,
    SyncDir,
    Write,
    /// Writing the first sector of a segment, by which it takes over.
    Header,
    /// Writing one of the three sectors behind it.
    Slot,
    Map,
    Volume,
}

const SECTOR: usize = 512;

impl Call {
    /// What a write is, beside a write.
    fn of(place: u64, length: usize) -> Option<Call> {
        match place / SECTOR as u64 {
            0 if length == SECTOR => Some(Call::Header),
            1..=3 if length == SECTOR => Some(Call::Slot),
            _ => None,
        }
    }
}

/// An answer that is no error number: the call panics.
pub const PANIC: i32 = i32::MIN;

/// What the next calls of a kind, on paths that contain a part, are answered.
#[derive(Debug)]
struct Order {
    call: Call,
    part: String,
    answers: VecDeque<Option<i32>>,
    /// They wait until the orders are released.
    held: bool,
}

#[derive(Debug, Default)]
struct State {
    orders: Vec<Order>,
    holding: bool,
    /// How many calls wait.
    waiting: usize,
    /// How many files were made or opened to be written to.
    writable: usize,
    /// How many files of topics were made or opened.
    of_topics: usize,
    /// How many calls have failed.
    failed: usize,
    /// Files whose sync has failed, and how many of them were synced again.
    unsynced: Vec<PathBuf>,
    again: usize,
    /// Files whose sync is under way, and how many syncs of one there were at once at the most.
    syncing: Vec<PathBuf>,
    at_once: usize,
}

#[derive(Debug, Default)]
struct Orders {
    state: Mutex<State>,
    changed: Condvar,
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn check(&self, call: Call, path: &Path) -> io::Result<()> {
        match self.answer(call, path) {
            None => Ok(()),
            Some(PANIC) => panic!("the disk's driver panics"),
            Some(errno) => {
                self.lock().failed += 1;
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    fn answer(&self, call: Call, path: &Path) -> Option<i32> {
        let path = path.to_string_lossy();
        let mut state = self.lock();
        let mut meant = state.orders.iter_mut().filter(|order| {
            order.call == call && !order.answers.is_empty() && path.contains(&order.part)
        });
        let order = meant.next()?;
        let answer = order.answers.pop_front().flatten();
        if order.held {
            state.waiting += 1;
            let limit = Duration::from_secs(60);
            let holding = |state: &mut State| state.holding;
            let waited = self.changed.wait_timeout_while(state, limit, holding);
            assert!(
                !waited.unwrap().1.timed_out(),
                "nobody let a held call through"
            );
        }
        answer
    }
}

/// The real disk, with orders.
#[derive(Debug, Clone)]
pub struct Faulty {
    disk: Arc<dyn Storage>,
    orders: Arc<Orders>,
}

impl Faulty {
    pub fn new(backend: Backend) -> Faulty {
        Self::over(Arc::new(Disk::with_backend(Mode::Private, backend)))
    }

    pub fn over(disk: Arc<dyn Storage>) -> Faulty {
        Faulty {
            disk,
            orders: Arc::default(),
        }
    }

    /// How many calls have failed so far.
    pub fn failed(&self) -> usize {
        self.orders.lock().failed
    }

    /// How many syncs were made of files of which one had failed.
    pub fn synced_again(&self) -> usize {
        self.orders.lock().again
    }

    /// How many syncs of one file were under way at once, at the most.
    pub fn syncs_at_once(&self) -> usize {
        self.orders.lock().at_once
    }

    /// Answers the next such calls with these errors, `None` being success.
    pub fn answer(&self, call: Call, part: &str, answers: &[Option<i32>]) {
        self.order(call, part, answers, false);
    }

    /// The same, and all of them wait until [`Faulty::release`].
    pub fn hold(&self, call: Call, part: &str, answers: &[Option<i32>]) {
        self.order(call, part, answers, true);
    }

    fn order(&self, call: Call, part: &str, answers: &[Option<i32>], held: bool) {
        let mut state = self.orders.lock();
        state.holding |= held;
        state.orders.push(Order {
            call,
            part: part.to_owned(),
            answers: answers.iter().copied().collect(),
            held,
        });
    }

    /// Lets held calls through.
    pub fn release(&self) {
        self.orders.lock().holding = false;
        self.orders.changed.notify_all();
    }

    /// How many calls wait to be let through, or have waited.
    pub fn waiting(&self) -> usize {
        self.orders.lock().waiting
    }

    /// How many files were made, or opened to be written to.
    pub fn opened_for_writing(&self) -> usize {
        self.orders.lock().writable
    }

    /// How many files of topics were made or opened.
    pub fn opened_of_topics(&self) -> usize {
        self.orders.lock().of_topics
    }

    fn note(&self, path: &Path) {
        let of_topics = path.to_string_lossy().contains("/topics/");
        self.orders.lock().of_topics += usize::from(of_topics);
    }

    /// Takes all orders back.
    pub fn heal(&self) {
        self.orders.lock().orders.clear();
    }

    fn wrap(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile {
            path: path.to_owned(),
            file,
            orders: Arc::clone(&self.orders),
        })
    }
}

impl Storage for Faulty {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(dir)
    }

    fn create(&self, path: &Path, len: u64) -> io::Result<Arc<dyn File>> {
        self.orders.check(Call::Create, path)?;
        let mut state = self.orders.lock();
        state.writable += 1;
        state.unsynced.retain(|it| it != path);
        drop(state);
        self.note(path);
        Ok(self.wrap(path, self.disk.create(path, len)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.orders.lock().writable += usize::from(access == Access::Write);
        self.note(path);
        Ok(self.wrap(path, self.disk.open(path, access)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.orders.check(Call::SyncDir, dir)?;
        self.disk.sync_dir(dir)
    }

    fn volume(&self, dir: &Path) -> io::Result<Arc<dyn Volume>> {
        let volume = self.disk.volume(dir)?;
        let orders = Arc::clone(&self.orders);
        Ok(Arc::new(FaultyVolume { volume, orders }))
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.disk.kind(path)
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free(dir)
    }

    fn backend(&self, dir: &Path) -> io::Result<Backend> {
        self.disk.backend(dir)
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn Lock>, LockError> {
        self.disk.lock(path, note)
    }

    fn holder(&self, path: &Path) -> io::Result<Option<Holder>> {
        self.disk.holder(path)
    }

    fn boot(&self) -> Option<[u8; 16]> {
        self.disk.boot()
    }

    fn stats(&self) -> &Stats {
        self.disk.stats()
    }
}

#[derive(Debug)]
struct FaultyVolume {
    volume: Arc<dyn Volume>,
    orders: Arc<Orders>,
}

impl Volume for FaultyVolume {
    fn sync(&self) -> io::Result<()> {
        self.orders.check(Call::Volume, Path::new(""))?;
        self.volume.sync()
    }

    fn holds(&self, path: &Path) -> io::Result<bool> {
        self.volume.holds(path)
    }
}

#[derive(Debug)]
struct FaultyFile {
    path: PathBuf,
    file: Arc<dyn File>,
    orders: Arc<Orders>,
}

impl File for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        self.file.read_at(buf, place)
    }

    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()> {
        self.orders.check(Call::Write, &self.path)?;
        if let Some(call) = Call::of(place, buf.len()) {
            self.orders.check(call, &self.path)?;
        }
        self.file.write_at(buf, place)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.file.grow(len)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.orders.lock();
        state.again += usize::from(state.unsynced.contains(&self.path));
        state.syncing.push(self.path.clone());
        let mine = state.syncing.iter().filter(|path| **path == self.path);
        state.at_once = state.at_once.max(mine.count());
        drop(state);
        let synced = self.orders.check(Call::Sync, &self.path);
        let done = synced.is_ok().then(|| self.file.sync());
        let mut state = self.orders.lock();
        let mine = state.syncing.iter().position(|path| *path == self.path);
        mine.map(|at| state.syncing.swap_remove(at));
        if synced.is_err() {
            state.unsynced.push(self.path.clone());
        }
        drop(state);
        synced.and_then(|()| done.unwrap_or(Ok(())))
    }

    fn drop_cached(&self, place: u64, len: u64) -> io::Result<()> {
        self.file.drop_cached(place, len)
    }

    fn map(&self, access: Access, len: u64) -> io::Result<Map> {
        self.orders.check(Call::Map, &self.path)?;
        self.file.map(access, len)
    }
}
