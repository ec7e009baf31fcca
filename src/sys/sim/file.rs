//! An open file, and a held lock, of the simulated disk.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::faults::{Call, crashed};
use super::world::World;
use crate::sys::append_map::Map;
use crate::sys::{Access, File, Lock, Stats, Volume};

/// Takes the world's lock. A test that panicked with it leaves nothing half done.
pub(super) fn hold(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct SimFile {
    world: Arc<Mutex<World>>,
    stats: Arc<Stats>,
    path: PathBuf,
    node: u64,
    generation: u64,
    access: Access,
}

impl SimFile {
    /// A handle on a node that is a file.
    pub(super) fn open(
        world: &Arc<Mutex<World>>,
        stats: &Arc<Stats>,
        held: &mut World,
        path: &Path,
        node: u64,
        access: Access,
    ) -> io::Result<Arc<dyn File>> {
        held.bytes_mut(node)?.handles += 1;
        Ok(Arc::new(Self {
            world: Arc::clone(world),
            stats: Arc::clone(stats),
            path: path.to_owned(),
            node,
            generation: held.generation,
            access,
        }))
    }

    /// The world, if this handle is of the present life; without counting a call.
    fn hold(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = hold(&self.world);
        if world.stopped || world.generation != self.generation {
            return Err(crashed());
        }
        Ok(world)
    }

    fn enter(&self, call: Call) -> io::Result<MutexGuard<'_, World>> {
        let mut world = hold(&self.world);
        if world.generation != self.generation {
            return Err(crashed());
        }
        world.enter(call, &self.path)?;
        Ok(world)
    }

    fn writable(&self) -> io::Result<()> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        let mut world = self.enter(Call::Len)?;
        Ok(world.bytes_mut(self.node)?.len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        self.stats.reads.add(1);
        let mut world = self.enter(Call::Read)?;
        let len = world.bytes_mut(self.node)?.read(buf, place)?;
        self.stats.bytes_read.add(len as u64);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()> {
        self.stats.writes.add(1);
        self.writable()?;
        match self.enter(Call::Write) {
            Ok(mut world) => world.bytes_mut(self.node)?.write(buf, place)?,
            Err(error) => {
                // Any part of it may have been written, unless the machine has stopped.
                if let Ok(mut world) = self.hold() {
                    let part = world.chance.below(buf.len() as u64 + 1);
                    let part = usize::try_from(part).unwrap_or(0);
                    world.bytes_mut(self.node)?.write(&buf[..part], place)?;
                }
                return Err(error);
            }
        }
        self.stats.bytes_written.add(buf.len() as u64);
        Ok(())
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        let mut world = self.enter(Call::Grow)?;
        let now = world.bytes_mut(self.node)?.len() as u64;
        let more = world.take_space(len.saturating_sub(now))?;
        let wanted = usize::try_from(now).unwrap_or(usize::MAX).checked_add(more);
        world
            .bytes_mut(self.node)?
            .grow(wanted.ok_or(ErrorKind::FileTooLarge)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.stats.syncs.add(1);
        match self.enter(Call::Sync) {
            Ok(mut world) => world.bytes_mut(self.node)?.sync(),
            Err(error) => {
                if let Ok(mut world) = self.hold() {
                    let mut chance = world.chance.clone();
                    world.bytes_mut(self.node)?.fail_sync(&mut chance)?;
                    world.chance = chance;
                }
                Err(error)
            }
        }
    }

    fn drop_cached(&self, place: u64, len: u64) -> io::Result<()> {
        let range = match (usize::try_from(place), usize::try_from(len)) {
            (Ok(place), Ok(len)) => place..place.saturating_add(len),
            _ => return Err(ErrorKind::InvalidInput.into()),
        };
        let mut world = self.hold()?;
        world.bytes_mut(self.node)?.evict(range)
    }

    fn map(&self, access: Access, len: u64) -> io::Result<Map> {
        if access == Access::Write && self.access == Access::Read {
            return Err(ErrorKind::PermissionDenied.into());
        }
        self.stats.maps.add(1);
        let mut world = self.enter(Call::Map)?;
        let bytes = world.bytes_mut(self.node)?;
        match usize::try_from(len) {
            Ok(0) | Err(_) => Err(ErrorKind::InvalidInput.into()),
            Ok(len) if len > bytes.len() => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => Map::shared(bytes.heap(), len, access == Access::Write),
        }
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile")
            .field("path", &self.path)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut world = hold(&self.world);
        if world.generation == self.generation {
            if let Ok(bytes) = world.bytes_mut(self.node) {
                bytes.handles -= 1;
            }
            world.forget(self.node);
        }
    }
}

/// The whole disk, as one life of the machine opened it.
#[derive(Debug)]
pub(super) struct SimVolume {
    world: Arc<Mutex<World>>,
    stats: Arc<Stats>,
    path: PathBuf,
    generation: u64,
}

impl SimVolume {
    pub(super) fn open(
        world: &Arc<Mutex<World>>,
        stats: &Arc<Stats>,
        path: &Path,
        generation: u64,
    ) -> Arc<dyn Volume> {
        Arc::new(Self {
            world: Arc::clone(world),
            stats: Arc::clone(stats),
            path: path.to_owned(),
            generation,
        })
    }
}

impl Volume for SimVolume {
    fn holds(&self, _: &Path) -> io::Result<bool> {
        Ok(true)
    }

    fn sync(&self) -> io::Result<()> {
        self.stats.volume_syncs.add(1);
        let mut world = hold(&self.world);
        if world.generation != self.generation {
            return Err(crashed());
        }
        match world.enter(Call::Sync, &self.path) {
            Ok(()) => world.sync_all(),
            Err(error) => {
                if !world.stopped {
                    world.fail_sync_all()?;
                }
                Err(error)
            }
        }
    }
}

/// A held lock.
pub(super) struct SimLock {
    world: Arc<Mutex<World>>,
    node: u64,
    generation: u64,
    released: AtomicBool,
}

impl SimLock {
    pub(super) fn new(world: &Arc<Mutex<World>>, node: u64, generation: u64) -> Self {
        Self {
            world: Arc::clone(world),
            node,
            generation,
            released: AtomicBool::new(false),
        }
    }
}

impl Lock for SimLock {
    fn release(&self) -> io::Result<()> {
        let mut world = hold(&self.world);
        if !self.released.swap(true, Ordering::Relaxed) && world.generation == self.generation {
            world.locks.remove(&self.node);
        }
        Ok(())
    }
}

impl fmt::Debug for SimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimLock").finish_non_exhaustive()
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        // Nothing in it can fail.
        self.release().unwrap_or(());
    }
}
