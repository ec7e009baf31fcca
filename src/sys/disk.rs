//! The real disk.
//!
//! Every descriptor is close-on-exec and opened without following a link. Files are private to
//! their owner, or to owner and group, whatever the process's umask says.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use memmap2::MmapOptions;
use rustix::fs::{Advice, CWD, FileType, IFlags, Mode as Bits, OFlags};
use rustix::io::Errno;

use super::allocate::allocate;
use super::append_map::{Map, Pattern};
use super::lock::{self, Holder};
use super::{
    Access, Backend, BoardPlace, Entry, File, Kind, Lock, LockError, Stats, Storage, Volume,
};

/// Where processes of this machine share memory by name.
const SHARED_MEMORY: &str = "/dev/shm";

/// Who may read what a [`Disk`] makes. Only its owner ever writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The owner: folders 0700, files 0600.
    #[default]
    Private,
    /// Owner and group: folders 0750, files 0640.
    GroupReads,
}

impl Mode {
    fn file(self) -> Bits {
        Bits::from_raw_mode(match self {
            Self::Private => 0o600,
            Self::GroupReads => 0o640,
        })
    }

    fn folder(self) -> Bits {
        Bits::from_raw_mode(match self {
            Self::Private => 0o700,
            Self::GroupReads => 0o750,
        })
    }
}

/// [`Storage`] on the machine's own file systems.
///
/// ```
/// use tidelog::sys::{Disk, Mode, Storage};
///
/// let dir = tempfile::tempdir()?;
/// let disk = Disk::new(Mode::Private);
/// let file = disk.create(&dir.path().join("00000000.seg"), 64 << 10)?;
/// file.write_at(b"header", 0)?;
/// file.sync()?;
/// disk.sync_dir(dir.path())?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Disk {
    mode: Mode,
    forced: Option<Backend>,
    stats: Arc<Stats>,
}

impl Disk {
    /// A disk whose files are made with `mode`.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }

    /// As [`new`](Self::new), with the choice of the back end taken from the file system. A remote
    /// file system is refused all the same.
    pub fn with_backend(mode: Mode, backend: Backend) -> Self {
        Self {
            mode,
            forced: Some(backend),
            ..Self::default()
        }
    }

    fn handle(&self, fd: OwnedFd) -> io::Result<Arc<dyn File>> {
        // Reading round the place asked for would leave large folios under a tail.
        rustix::fs::fadvise(&fd, 0, None, Advice::Random)?;
        Ok(Arc::new(DiskFile {
            fd,
            stats: Arc::clone(&self.stats),
        }))
    }
}

impl Storage for Disk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        rustix::fs::mkdir(path, self.mode.folder())?;
        set_mode(&open_dir(path)?, self.mode.folder())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.stats.lists.add(1);
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                let kind = kind_of(entry.file_type()?);
                entries.push(Entry { name, kind });
            }
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create(&self, path: &Path, len: u64) -> io::Result<Arc<dyn File>> {
        self.stats.creates.add(1);
        let flags = flags(Access::Write) | OFlags::CREATE | OFlags::EXCL;
        let fd = retry(|| rustix::fs::open(path, flags, self.mode.file()))?;
        let made = set_mode(&fd, self.mode.file())
            .map(|()| overwrite_in_place(&fd))
            .and_then(|()| allocate(fd.as_fd(), 0, len))
            .and_then(|()| self.handle(fd));
        if made.is_err()
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!(path = %path.display(), %error, "a half-made file could not be removed");
        }
        made
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.stats.opens.add(1);
        let fd = open_own(path, flags(access), Bits::empty())?;
        self.handle(fd)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.stats.dir_syncs.add(1);
        let fd = open_dir(dir)?;
        Ok(rustix::fs::fsync(fd)?)
    }

    /// Before Linux 5.8 the sync of a file system kept quiet about what it could not write; and not
    /// every file system passes it on to where the bytes come to lie.
    fn volume(&self, dir: &Path) -> io::Result<Arc<dyn Volume>> {
        let release = rustix::system::uname();
        let magic = retry(|| rustix::fs::statfs(dir))?.f_type as u32;
        if !tells_of_syncs(release.release().to_bytes()) || !is_in_place(magic) {
            return Err(ErrorKind::Unsupported.into());
        }
        let (fd, stats) = (open_dir(dir)?, Arc::clone(&self.stats));
        Ok(Arc::new(DiskVolume { fd, stats }))
    }

    fn most_open(&self) -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match fs::symlink_metadata(path) {
            Ok(meta) => Ok(Some(kind_of(meta.file_type()))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn stranger(&self, dir: &Path) -> io::Result<Option<u32>> {
        match fs::metadata(dir) {
            Ok(meta) => {
                let ours = rustix::process::geteuid().as_raw();
                Ok(Some(meta.uid()).filter(|user| *user != ours))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        let fs = retry(|| rustix::fs::statvfs(dir))?;
        Ok(fs.f_bavail.saturating_mul(fs.f_frsize))
    }

    fn backend(&self, dir: &Path) -> io::Result<Backend> {
        let fs = retry(|| rustix::fs::statfs(dir))?;
        // The magic has 32 bits; what carries it differs from machine to machine.
        let natural = backend_for(fs.f_type as u32)?;
        Ok(self.forced.unwrap_or(natural))
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn Lock>, LockError> {
        let flags = flags(Access::Write) | OFlags::CREATE;
        let fd = open_own(path, flags, self.mode.file())?;
        set_mode(&fd, self.mode.file())?;
        lock::take(fd, path, note)
    }

    fn holder(&self, path: &Path) -> io::Result<Option<Holder>> {
        match open_own(path, flags(Access::Read), Bits::empty()) {
            Ok(fd) => lock::holder(&fd),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn board(&self, root: &Path, chosen: Option<&Path>) -> io::Result<Option<BoardPlace>> {
        let meta = fs::metadata(root)?;
        let name = format!("tidelog-{:x}-{:x}", meta.dev(), meta.ino());
        let path = match chosen {
            Some(folder) => folder.join(name),
            None if Path::new(SHARED_MEMORY).is_dir() => Path::new(SHARED_MEMORY).join(name),
            None => return Ok(None),
        };
        Ok(Some(BoardPlace {
            path,
            user: meta.uid(),
            group: self.mode == Mode::GroupReads,
        }))
    }

    fn boot(&self) -> Option<[u8; 16]> {
        parse_uuid(&fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[derive(Debug)]
struct DiskVolume {
    fd: OwnedFd,
    stats: Arc<Stats>,
}

impl Volume for DiskVolume {
    fn sync(&self) -> io::Result<()> {
        self.stats.volume_syncs.add(1);
        Ok(rustix::fs::syncfs(&self.fd)?)
    }

    fn holds(&self, path: &Path) -> io::Result<bool> {
        let volume = rustix::fs::fstat(&self.fd)?;
        Ok(rustix::fs::stat(path)?.st_dev == volume.st_dev)
    }
}

/// Whether a kernel of that release tells the caller of `syncfs` what could not be written.
fn tells_of_syncs(release: &[u8]) -> bool {
    let mut numbers = release
        .split(|byte| !byte.is_ascii_digit())
        .map(|digits| str::from_utf8(digits).ok()?.parse::<u32>().ok());
    let mut number = || numbers.next().flatten();
    number()
        .zip(number())
        .is_some_and(|version| version >= (5, 8))
}

#[derive(Debug)]
struct DiskFile {
    fd: OwnedFd,
    stats: Arc<Stats>,
}

impl File for DiskFile {
    fn len(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.fd)?;
        u64::try_from(stat.st_size).map_err(|_| ErrorKind::InvalidData.into())
    }

    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        self.stats.reads.add(1);
        let mut done = 0;
        while done < buf.len() {
            let at = place + done as u64;
            match retry(|| rustix::io::pread(&self.fd, &mut buf[done..], at))? {
                0 => break,
                n => done += n,
            }
        }
        self.stats.bytes_read.add(done as u64);
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()> {
        self.stats.writes.add(1);
        write_all(self.fd.as_fd(), buf, place)?;
        self.stats.bytes_written.add(buf.len() as u64);
        Ok(())
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        let now = self.len()?;
        if len <= now {
            return Ok(());
        }
        allocate(self.fd.as_fd(), now, len)
    }

    /// An interrupted sync counts as a failed one: it tells neither what it has written nor
    /// whether an error was reported to it and so to nobody any more.
    fn sync(&self) -> io::Result<()> {
        self.stats.syncs.add(1);
        Ok(rustix::fs::fdatasync(&self.fd)?)
    }

    fn drop_cached(&self, place: u64, len: u64) -> io::Result<()> {
        let len = std::num::NonZeroU64::new(len);
        Ok(rustix::fs::fadvise(&self.fd, place, len, Advice::DontNeed)?)
    }

    fn map(&self, access: Access, len: u64) -> io::Result<Map> {
        if self.len()? < len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let wanted = match usize::try_from(len) {
            Ok(wanted) if wanted > 0 => wanted,
            _ => return Err(ErrorKind::InvalidInput.into()),
        };
        self.stats.maps.add(1);
        let mut options = MmapOptions::new();
        options.len(wanted);
        match access {
            Access::Read => Ok(Map::file(options.map_raw_read_only(&self.fd)?, false)),
            Access::Write => {
                let map = Map::file(options.map_raw(&self.fd)?, true);
                map.advise(Pattern::Random)?;
                Ok(map)
            }
        }
    }
}

/// Writes all of `buf`, going on after short and interrupted writes.
pub(super) fn write_all(fd: BorrowedFd<'_>, mut buf: &[u8], mut place: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match retry(|| rustix::io::pwrite(fd, buf, place))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            n => {
                buf = &buf[n..];
                place += n as u64;
            }
        }
    }
    Ok(())
}

/// Goes on after interruptions. Never around a sync.
pub(super) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// A pipe in place of a file must not hold us up before we have seen that it is one.
pub(super) fn flags(access: Access) -> OFlags {
    let access = match access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::RDWR,
    };
    access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
}

/// Opens a regular file whose owner is its folder's.
fn open_own(path: &Path, flags: OFlags, mode: Bits) -> io::Result<OwnedFd> {
    let opened = retry(|| rustix::fs::openat(CWD, path, flags, mode));
    let fd = opened.map_err(|errno| match errno {
        Errno::LOOP | Errno::ISDIR | Errno::NXIO => refuse("not a regular file"),
        other => other.into(),
    })?;
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refuse("not a regular file"));
    }
    if stat.st_uid != fs::metadata(folder_of(path))?.uid() {
        return Err(refuse("the file's owner is not the folder's"));
    }
    Ok(fd)
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(retry(|| rustix::fs::open(path, flags, Bits::empty()))?)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// The mode a file was made with is at most what was asked for, less what the umask took away:
/// this gives the rest back.
fn set_mode(fd: &OwnedFd, mode: Bits) -> io::Result<()> {
    let now = rustix::fs::fstat(fd)?.st_mode;
    if Bits::from_raw_mode(now) != mode {
        rustix::fs::fchmod(fd, mode)?;
    }
    Ok(())
}

fn kind_of(kind: fs::FileType) -> Kind {
    if kind.is_file() {
        Kind::File
    } else if kind.is_dir() {
        Kind::Folder
    } else {
        Kind::Other
    }
}

/// Has btrfs write into the blocks that the file has, and not into new ones, which a full disk does
/// not give: decision 8. Where that cannot be had, writing may need room that was not reserved.
fn overwrite_in_place(fd: &OwnedFd) {
    const BTRFS: u32 = 0x9123_683E;
    let magic = retry(|| rustix::fs::fstatfs(fd)).map(|fs| fs.f_type as u32);
    if magic != Ok(BTRFS) {
        return;
    }
    let flags = rustix::fs::ioctl_getflags(fd);
    let set = flags.and_then(|flags| rustix::fs::ioctl_setflags(fd, flags | IFlags::NOCOW));
    if let Err(error) = set {
        tracing::debug!(%error, "a file is copied on write");
    }
}

/// Whether it is ext2, ext3, ext4, xfs or tmpfs.
fn is_in_place(magic: u32) -> bool {
    matches!(magic, 0xEF53 | 0x5846_5342 | 0x0102_1994)
}

/// Where a store into preallocated pages cannot fail: file systems that overwrite in place. Remote
/// ones keep none of the promises of a shared page cache.
fn backend_for(magic: u32) -> io::Result<Backend> {
    match magic {
        magic if is_in_place(magic) => Ok(Backend::Mapped),
        // nfs, smb, smb2, cifs, 9p, ceph, afs (two of them), coda, ncp, lustre, gpfs, gfs2, ocfs2,
        // vboxsf: remote, or shared between machines.
        0x6969 | 0x517B | 0xFE53_4D42 | 0xFF53_4D42 | 0x0102_1997 | 0x00C3_6400 | 0x5346_414F
        | 0x6B41_4653 | 0x7375_7245 | 0x564C | 0x0BD0_0BD0 | 0x4750_4653 | 0x0116_1970
        | 0x7461_636F | 0x786F_4256 => Err(io::Error::new(
            ErrorKind::Unsupported,
            "a remote or clustered file system",
        )),
        _ => Ok(Backend::Pwrite),
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 {
        return None;
    }
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

fn refuse(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests;
