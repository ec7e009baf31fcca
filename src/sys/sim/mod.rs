//! The simulated disk: a [`Storage`] in memory that forgets what was not synced.
//!
//! It is held to the same sentences as the real one, and is stricter wherever these leave a
//! choice. All of its choices come from a seed: the same calls in the same order give the same
//! disk.
//!
//! # What a power cut leaves
//!
//! * *Bytes.* A file has its cache, which everybody sees and maps, and its medium. A 512-byte
//!   sector is dirty if it was written through the file, or differs from what it was, since the
//!   last sync. Each dirty sector is on the medium after the cut, or not.
//! * *Lengths.* A file that was never synced may be empty; one that has grown may have its old
//!   length.
//! * *Names.* Each name that was made, changed or removed since its folder was synced is as it is
//!   now, or as it was then, whatever became of the others; so a thing that was renamed, in folders
//!   that were not synced, may be gone. It is never there twice.
//!
//! # What a failed sync leaves
//!
//! Some dirty sectors are on the medium, and all of them count as clean: they stay readable, later
//! syncs succeed without writing them, and those that did not get to the medium are gone at the
//! next cut, or when the cache drops them ([`File::drop_cached`]). Writing them again through the
//! file makes them dirty.
//!
//! A killed process ([`Crash::Kill`]) loses nothing but its handles and locks.

mod bytes;
mod chance;
mod clock;
mod faults;
mod file;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard};

pub use clock::SimClock;
pub use faults::{Call, Crashed, Fault, When, is_crash};

use super::{Access, Backend, Entry, File, Holder, Kind, Lock, LockError, Stats, Storage, Volume};
use bytes::{Bytes, SECTOR};
use chance::Chance;
use file::{SimFile, SimLock, SimVolume, hold};
use world::{Image, Names, Node, World};

/// How a life of the simulated machine ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: the cache survives.
    Kill,
    /// The power is cut: of what was not synced, this survives.
    Cut(Keep),
}

/// How much survives of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// One of the others, by the seed.
    Chance,
    /// Nothing.
    Nothing,
    /// Each sector and name with one chance in ten.
    Little,
    /// Each with an even chance.
    Half,
    /// Each with nine chances in ten.
    Most,
    /// Everything.
    Everything,
}

impl Keep {
    fn settled(self, chance: &mut Chance) -> Self {
        const ALL: [Keep; 5] = [
            Keep::Nothing,
            Keep::Little,
            Keep::Half,
            Keep::Most,
            Keep::Everything,
        ];
        match self {
            Self::Chance => ALL[usize::try_from(chance.below(5)).unwrap_or(0)],
            chosen => chosen,
        }
    }

    /// Whether one sector, name or length is kept.
    fn one(self, chance: &mut Chance) -> bool {
        match self {
            Self::Nothing => false,
            Self::Little => chance.per_mille(100),
            Self::Half | Self::Chance => chance.per_mille(500),
            Self::Most => chance.per_mille(900),
            Self::Everything => true,
        }
    }
}

/// What a crash found, and what it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CrashReport {
    /// Sectors that were not on the medium for certain.
    pub unsynced_sectors: u64,
    /// How many of these are there now.
    pub kept_sectors: u64,
    /// Names made, changed or removed since their folder was synced.
    pub unsynced_names: u64,
    /// How many of these are as they were before the crash.
    pub kept_names: u64,
}

/// What was durable at some moment: the copy that a backup holds.
#[derive(Debug, Clone)]
pub struct Snapshot(BTreeMap<u64, Image>);

/// A simulated disk. Clones are the same disk.
///
/// ```
/// use std::path::Path;
/// use tidelog::sys::{Access, Storage, sim::{Crash, Keep, Sim}};
///
/// let sim = Sim::new(7);
/// let file = sim.create(Path::new("/log"), 1024)?;
/// sim.sync_dir(Path::new("/"))?;
/// file.write_at(b"synced", 0)?;
/// file.sync()?;
/// file.write_at(b"not synced", 512)?;
/// sim.crash(Crash::Cut(Keep::Nothing))?;
///
/// let mut bytes = [0; 1024];
/// sim.open(Path::new("/log"), Access::Read)?.read_at(&mut bytes, 0)?;
/// assert_eq!(&bytes[..6], b"synced");
/// assert_eq!(bytes[512..], [0; 512]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sim {
    world: Arc<Mutex<World>>,
    stats: Arc<Stats>,
}

impl Sim {
    /// An empty disk without limit, with one folder, `/`.
    pub fn new(seed: u64) -> Self {
        Self {
            world: Arc::new(Mutex::new(World::new(seed))),
            stats: Arc::default(),
        }
    }

    fn hold(&self) -> MutexGuard<'_, World> {
        hold(&self.world)
    }

    fn enter(&self, call: Call, path: &Path) -> io::Result<MutexGuard<'_, World>> {
        let mut world = self.hold();
        world.enter(call, path)?;
        Ok(world)
    }

    /// Ends this life of the machine: everything open is dead afterwards, locks are free, and no
    /// call fails any more by order.
    pub fn crash(&self, crash: Crash) -> io::Result<CrashReport> {
        self.hold().crash(crash)
    }

    /// Lets the machine stop after so many more calls: every later one fails with [`Crashed`] and
    /// changes nothing, until [`crash`](Self::crash).
    pub fn crash_after(&self, calls: u64) {
        self.hold().faults.calls_left = Some(calls);
    }

    /// Whether the machine has stopped and waits for [`crash`](Self::crash).
    pub fn has_stopped(&self) -> bool {
        self.hold().stopped
    }

    /// Calls since the last crash.
    pub fn calls(&self) -> u64 {
        self.hold().faults.calls
    }

    /// Lets calls fail.
    pub fn fail(&self, fault: Fault) {
        self.hold().faults.orders.push(fault);
    }

    /// Takes back every order to fail.
    pub fn heal(&self) {
        self.hold().faults.orders.clear();
    }

    /// Limits the disk to so many bytes of files, or lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.hold().capacity = bytes;
    }

    /// What [`Storage::backend`] answers.
    pub fn set_backend(&self, backend: Backend) {
        self.hold().backend = backend;
    }

    /// A checksum over everything, durable or not: equal for equal disks.
    pub fn fingerprint(&self) -> io::Result<u32> {
        self.hold().fingerprint()
    }

    /// What is durable now.
    pub fn snapshot(&self) -> Snapshot {
        self.hold().snapshot()
    }

    /// Puts back what was durable once; everything open is dead afterwards.
    pub fn restore(&self, snapshot: &Snapshot) -> io::Result<()> {
        self.hold().restore(snapshot)
    }

    /// A file's bytes, as everybody sees them.
    pub fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.with(path, |bytes| bytes.cached())
    }

    /// Flips the bits of `mask` in a byte of a file, in the cache and on the medium.
    pub fn flip(&self, path: &Path, place: usize, mask: u8) -> io::Result<()> {
        self.with(path, |bytes| {
            let mut byte = [0];
            bytes.heap().copy_out(place, &mut byte)?;
            bytes.tamper(place, &[byte[0] ^ mask])
        })
    }

    /// Puts other bytes into a file, in the cache and on the medium.
    pub fn overwrite(&self, path: &Path, place: usize, new: &[u8]) -> io::Result<()> {
        self.with(path, |bytes| bytes.tamper(place, new))
    }

    /// Cuts a file short, in the cache and on the medium.
    pub fn truncate(&self, path: &Path, len: usize) -> io::Result<()> {
        self.with(path, |bytes| bytes.truncate(len))
    }

    /// Makes the sector that holds `place` unreadable, for [`File::read_at`] and for
    /// [`View::guard`](super::View::guard).
    pub fn spoil(&self, path: &Path, place: usize) -> io::Result<()> {
        self.with(path, |bytes| {
            let start = place / SECTOR * SECTOR;
            bytes.heap().spoil(start..start + SECTOR);
            Ok(())
        })
    }

    /// Gives a file to somebody else, so that opening it is refused.
    pub fn disown(&self, path: &Path) -> io::Result<()> {
        self.with(path, |bytes| {
            bytes.foreign = true;
            Ok(())
        })
    }

    /// Puts a symbolic link there, or something else that is neither file nor folder.
    pub fn plant_link(&self, path: &Path) -> io::Result<()> {
        self.hold().insert(path, Node::Other).map(drop)
    }

    fn with<T>(&self, path: &Path, act: impl FnOnce(&mut Bytes) -> io::Result<T>) -> io::Result<T> {
        let mut world = self.hold();
        let node = world.find(path)?;
        act(world.bytes_mut(node)?)
    }
}

impl Storage for Sim {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.enter(Call::CreateDir, path)?;
        world.insert(path, Node::Folder(Names::default())).map(drop)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.stats.lists.add(1);
        let world = self.enter(Call::List, dir)?;
        let names = world.names(world.find(dir)?)?;
        let entry = |(name, node): (&String, &u64)| Entry {
            name: name.clone(),
            kind: world.kind(*node),
        };
        Ok(names.now.iter().map(entry).collect())
    }

    fn create(&self, path: &Path, len: u64) -> io::Result<Arc<dyn File>> {
        self.stats.creates.add(1);
        let mut world = self.enter(Call::Create, path)?;
        if world.find(path).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let len = world.take_space(len)?;
        let node = world.insert(path, Node::File(Bytes::new(len)?))?;
        SimFile::open(
            &self.world,
            &self.stats,
            &mut world,
            path,
            node,
            Access::Write,
        )
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.stats.opens.add(1);
        let mut world = self.enter(Call::Open, path)?;
        let node = world.find(path)?;
        if world.bytes_mut(node)?.foreign {
            return Err(ErrorKind::InvalidInput.into());
        }
        SimFile::open(&self.world, &self.stats, &mut world, path, node, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.enter(Call::Rename, from)?.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.enter(Call::Remove, path)?.remove(path, false)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.enter(Call::Remove, path)?.remove(path, true)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.stats.dir_syncs.add(1);
        let mut world = self.enter(Call::SyncDir, dir)?;
        let folder = world.find(dir)?;
        world.sync_dir(folder)
    }

    fn volume(&self, dir: &Path) -> io::Result<Arc<dyn Volume>> {
        let world = self.enter(Call::Ask, dir)?;
        world.find(dir)?;
        let generation = world.generation;
        drop(world);
        let (world, stats) = (&self.world, &self.stats);
        Ok(SimVolume::open(world, stats, dir, generation))
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let world = self.enter(Call::Ask, path)?;
        match world.find(path) {
            Ok(node) => Ok(Some(world.kind(node))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        let world = self.enter(Call::Ask, dir)?;
        world.find(dir)?;
        Ok(world.free())
    }

    fn backend(&self, dir: &Path) -> io::Result<Backend> {
        let world = self.enter(Call::Ask, dir)?;
        world.find(dir)?;
        Ok(world.backend)
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn Lock>, LockError> {
        let mut world = self.enter(Call::Lock, path)?;
        let node = match world.find(path) {
            Ok(node) => node,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                world.insert(path, Node::File(Bytes::new(0)?))?
            }
            Err(e) => return Err(e.into()),
        };
        if world.locks.contains(&node) {
            let content = world.bytes_mut(node)?.cached()?;
            return Err(LockError::Held {
                pid: Holder::parse(&content).pid,
            });
        }
        let content = Holder::content(process::id(), note);
        let bytes = world.bytes_mut(node)?;
        bytes.truncate(0)?;
        bytes.grow(content.len())?;
        bytes.write(content.as_bytes(), 0)?;
        world.locks.insert(node);
        Ok(Box::new(SimLock::new(&self.world, node, world.generation)))
    }

    fn holder(&self, path: &Path) -> io::Result<Option<Holder>> {
        let mut world = self.enter(Call::Lock, path)?;
        match world.find(path) {
            Ok(node) if world.locks.contains(&node) => {
                let content = world.bytes_mut(node)?.cached()?;
                Ok(Some(Holder::parse(&content)))
            }
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(None),
        }
    }

    fn boot(&self) -> Option<[u8; 16]> {
        Some(u128::from(self.hold().boot).to_be_bytes())
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}
