//! The world below: files, mappings, the clock, and the owner's lock.
//!
//! Everything the engine does to a disk goes through [`Storage`] and [`File`], and all it knows
//! of time and chance comes from [`Clock`]. They are called rarely (create, sync, rename, list),
//! never per record, so trait objects cost nothing. [`Disk`] is the real one; the simulated disk
//! (`sim`, with the feature of that name) is the other, and it is the stricter of the two.
//!
//! # What is assumed of the machine
//!
//! * A 512-byte sector is written whole or not at all, and writing it harms no neighbour.
//! * An `fdatasync` that succeeds, with no failed one before it on the same file since its bytes
//!   were written, has reached the medium.
//! * A name is durable once its folder has been synced, not earlier.
//! * The kernel keeps clean pages intact.
//! * Bytes written through a descriptor are seen through a mapping of the same file, and the
//!   other way round (one page cache).
//!
//! Nothing is assumed of bytes and names that were not synced: any sector, any name may be there
//! after a power cut, or not. After a failed sync nothing is assumed of what it covered.

mod allocate;
mod append_map;
pub(crate) mod board;
mod clock;
#[cfg(test)]
mod contract;
mod disk;
mod lock;
#[cfg(any(test, feature = "sim"))]
pub mod sim;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use append_map::{AppendError, Kept, Map, Pattern, Tail, View, region};
pub use clock::{Clock, SystemClock};
pub use disk::{Disk, Mode};
pub(crate) use lock::Parentage;
pub use lock::{Holder, LockError};

/// How a [`Tail`] brings bytes into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Stores into a shared mapping: where the file system overwrites preallocated space in place.
    Mapped,
    /// Positioned writes: elsewhere, since a store into a mapping may end in a signal there when
    /// the disk is full.
    Pwrite,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

/// What a name in a folder leads to, itself not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, a device, a socket: nothing the engine would open.
    Other,
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, without its folder.
    pub name: String,
    /// What it leads to.
    pub kind: Kind,
}

/// The owner's lock, held until it is released or dropped, or the process ends.
pub trait Lock: fmt::Debug + Send + Sync {
    /// Lets go of the lock.
    fn release(&self) -> io::Result<()>;
}

/// Where the live board of a store lies: the memory in which readers of other processes find how far
/// its owner has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardPlace {
    /// The file.
    pub path: PathBuf,
    /// The user whose file it has to be.
    pub user: u32,
    /// Whether the user's group may read it.
    pub group: bool,
}

/// All of a file system, held open so that its syncs tell what could not be written since.
pub trait Volume: fmt::Debug + Send + Sync {
    /// Makes durable whatever was written or named on it before. Fails if anything could not be
    /// written since the volume was opened; like that of a file, such a sync must not be tried
    /// again, and nothing is known then of any file that had bytes to write.
    fn sync(&self) -> io::Result<()>;

    /// Whether a path lies on it, and not on another file system that is mounted in between.
    fn holds(&self, path: &Path) -> io::Result<bool>;
}

/// A disk: folders, names and files.
///
/// One suite of tests (`sys/contract.rs`) holds every implementation to these sentences.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Makes one folder, private to its owner (and group by option). An existing one is
    /// [`io::ErrorKind::AlreadyExists`].
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder, sorted. Names that are not UTF-8 are not ours and are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;

    /// Makes a new file of `len` bytes that are allocated and read as zeroes. On failure no file
    /// of that name remains. An existing name is [`io::ErrorKind::AlreadyExists`]; a full disk is
    /// [`io::ErrorKind::StorageFull`] or [`io::ErrorKind::QuotaExceeded`].
    fn create(&self, path: &Path, len: u64) -> io::Result<Arc<dyn File>>;

    /// Opens an existing regular file. A symbolic link as the last component, a folder, or a file
    /// whose owner is not the folder's is refused with [`io::ErrorKind::InvalidInput`].
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;

    /// Gives a file or folder another name on the same disk, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names of a folder durable: what was created, renamed or removed in it.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// The file system that holds `dir`, with all files and names on it: for many syncs in one.
    /// [`io::ErrorKind::Unsupported`] where such a sync does not tell what it could not write.
    fn volume(&self, _dir: &Path) -> io::Result<Arc<dyn Volume>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// How many files the process may hold open, where that is limited.
    fn most_open(&self) -> Option<u64> {
        None
    }

    /// What a path leads to, itself not followed; `None` where there is nothing.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;

    /// The user whose folder `dir` is, if that is somebody else than who runs this: what is made there
    /// would not be theirs. `None` also where there is nothing, or files have no owners.
    fn stranger(&self, _dir: &Path) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Bytes that an unprivileged process may still allocate on the disk that holds `dir`.
    fn free(&self, dir: &Path) -> io::Result<u64>;

    /// How a tail should write to files in `dir`. A remote file system is refused with
    /// [`io::ErrorKind::Unsupported`].
    fn backend(&self, dir: &Path) -> io::Result<Backend>;

    /// Takes the owner's lock on `path`, making the file where there is none, and writes `note`
    /// into it as information. The kernel's lock decides; the file's content never does.
    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn Lock>, LockError>;

    /// Who holds the lock on `path`, asked without taking it; `None` if nobody does.
    fn holder(&self, path: &Path) -> io::Result<Option<Holder>>;

    /// What the lock file says, whether anybody holds the lock or not.
    fn said(&self, path: &Path) -> io::Result<Holder> {
        let mut content = vec![0; lock::CONTENT];
        let read = self.open(path, Access::Read)?.read_at(&mut content, 0)?;
        Ok(Holder::parse(&content[..read]))
    }

    /// Where the live board of the store in `root` lies if nobody chooses another folder than
    /// `chosen`; `None` on a disk that other processes cannot see.
    fn board(&self, _root: &Path, _chosen: Option<&Path>) -> io::Result<Option<BoardPlace>> {
        Ok(None)
    }

    /// Which boot of the machine this is, where that can be known.
    fn boot(&self) -> Option<[u8; 16]>;

    /// What has been asked of this disk so far.
    fn stats(&self) -> &Stats;
}

/// An open file.
pub trait File: fmt::Debug + Send + Sync {
    /// The file's length now.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Reads at `place` until `buf` is full or the file ends; the number of bytes read. Leaves
    /// no large folios behind in the page cache.
    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize>;

    /// Writes all of `buf` at `place`, which must lie within the file: what a write past its end
    /// does is not promised. After an error any part of it may have been written.
    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()>;

    /// Lengthens the file to `len` allocated bytes that read as zeroes; never shortens it.
    fn grow(&self, len: u64) -> io::Result<()>;

    /// Makes the file's bytes and length durable. A sync that failed must not be tried again:
    /// the next one may succeed without having written anything.
    fn sync(&self) -> io::Result<()>;

    /// Drops what is clean in a range from the cache: after writing through the file, and syncing,
    /// under a tail, which large folios left there would slow down.
    fn drop_cached(&self, _place: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Maps the first `len` bytes; fails with [`io::ErrorKind::UnexpectedEof`] if there are fewer.
    fn map(&self, access: Access, len: u64) -> io::Result<Map>;
}

/// Counts of what was asked of a [`Storage`]: for tests, benchmarks and health.
#[derive(Debug, Default)]
pub struct Stats {
    /// Calls of [`File::read_at`].
    pub reads: Counter,
    /// Bytes read through [`File::read_at`].
    pub bytes_read: Counter,
    /// Calls of [`File::write_at`].
    pub writes: Counter,
    /// Bytes written through [`File::write_at`].
    pub bytes_written: Counter,
    /// Calls of [`File::sync`].
    pub syncs: Counter,
    /// Calls of [`Volume::sync`].
    pub volume_syncs: Counter,
    /// Calls of [`Storage::sync_dir`].
    pub dir_syncs: Counter,
    /// Files made.
    pub creates: Counter,
    /// Files opened.
    pub opens: Counter,
    /// Mappings made.
    pub maps: Counter,
    /// Folders listed.
    pub lists: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
