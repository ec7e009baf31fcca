//! The owner's lock: an open-file-description lock, held by the descriptor and not by the process.
//!
//! The kernel's lock decides; what the file says is information only, and may be anybody's. The
//! file's first line is the process id of whoever took the lock last, the rest is the note.
//!
//! The lock goes with the last descriptor of its open file: with the process when it dies, unless
//! it has forked and the child has neither run another program (the descriptor is close-on-exec)
//! nor ended. So releasing unlocks explicitly; and since that would unlock for parent and child
//! alike, a forked child never does it: see [`Parentage`].

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;
use rustix::mm::{Advice, madvise};

use super::Lock;
use super::disk::{retry, write_all};

/// Longest content of a lock file that is looked at.
pub(super) const CONTENT: usize = 4096;

/// Why the owner's lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else holds it.
    #[error("the lock is held{}", .pid.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Held {
        /// Who seems to hold it, where the file says so.
        pid: Option<u32>,
    },
    /// The lock file could not be opened, locked or written.
    #[error("the lock file could not be used")]
    Io(#[from] io::Error),
}

/// What can be learnt of whoever holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, where the file says so.
    pub pid: Option<u32>,
    /// The note it left.
    pub note: String,
}

impl Holder {
    /// What the lock file of a process says.
    pub(super) fn content(pid: u32, note: &str) -> String {
        format!("{pid}\n{note}\n")
    }

    /// Takes what can be made of a lock file's content, which may be anything.
    pub(super) fn parse(content: &[u8]) -> Self {
        let text = String::from_utf8_lossy(content);
        let (pid, note) = text.split_once('\n').unwrap_or((&text, ""));
        Self {
            pid: pid.parse().ok().filter(|pid| *pid != 0),
            note: note.trim_end_matches('\n').to_owned(),
        }
    }
}

/// A lock that is held.
#[derive(Debug)]
struct Owned {
    fd: OwnedFd,
    /// Who took it: a forked child has another id.
    process: u32,
    released: AtomicBool,
}

/// Takes the lock on the file open at `fd`, which `path` led to.
pub(super) fn take(fd: OwnedFd, path: &Path, note: &str) -> Result<Box<dyn Lock>, LockError> {
    let mut wanted = whole_file(libc::F_WRLCK);
    if let Err(error) = fcntl(fd.as_fd(), libc::F_OFD_SETLK, &mut wanted) {
        return match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Err(LockError::Held {
                pid: content(&fd).ok().and_then(|holder| holder.pid),
            }),
            _ => Err(error.into()),
        };
    }
    let owned = Owned {
        fd,
        process: process::id(),
        released: AtomicBool::new(false),
    };
    let held = rustix::fs::fstat(&owned.fd).map_err(io::Error::from)?;
    let named = fs::symlink_metadata(path)?;
    if (held.st_dev, held.st_ino) != (named.dev(), named.ino()) {
        // Somebody put another file there between opening and locking.
        return Err(io::Error::new(ErrorKind::Interrupted, "the lock file was replaced").into());
    }
    match owned.write(note) {
        // A store can be opened on a full disk, and the note is information only.
        Err(error) if is_full(&error) => {
            tracing::warn!(%error, "the lock file could not be written");
        }
        done => done?,
    }
    Ok(Box::new(owned))
}

/// Who holds the lock on an open file, asked without taking it.
pub(super) fn holder(fd: &OwnedFd) -> io::Result<Option<Holder>> {
    let mut asked = whole_file(libc::F_WRLCK);
    fcntl(fd.as_fd(), libc::F_OFD_GETLK, &mut asked)?;
    if asked.l_type == libc::F_UNLCK as libc::c_short {
        return Ok(None);
    }
    content(fd).map(Some)
}

impl Owned {
    fn write(&self, note: &str) -> io::Result<()> {
        let content = Holder::content(self.process, note);
        // Longer first, then cut: whoever reads in between finds a whole first line.
        write_all(self.fd.as_fd(), content.as_bytes(), 0)?;
        Ok(retry(|| {
            rustix::fs::ftruncate(&self.fd, content.len() as u64)
        })?)
    }
}

impl Lock for Owned {
    fn release(&self) -> io::Result<()> {
        if self.process != process::id() || self.released.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        fcntl(
            self.fd.as_fd(),
            libc::F_OFD_SETLK,
            &mut whole_file(libc::F_UNLCK),
        )
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            tracing::warn!(%error, "the owner's lock could not be released");
        }
    }
}

/// Tells a forked child, whose handles are copies of its parent's, that it owns nothing.
///
/// It is a page that the kernel hands a child empty, so that asking costs a load and no call; where
/// the kernel cannot do that (before Linux 4.14), it is the process id.
#[derive(Debug)]
pub(crate) struct Parentage {
    page: Option<MmapMut>,
    process: u32,
}

impl Parentage {
    /// The mark of this process.
    pub(crate) fn new() -> Parentage {
        let page = marked_page();
        Parentage {
            page: page
                .inspect_err(|error| tracing::debug!(%error, "forks are told by process ids"))
                .ok(),
            process: process::id(),
        }
    }

    /// Whether this process is a child of the one that made the mark.
    pub(crate) fn is_child(&self) -> bool {
        match &self.page {
            // Looked at anew each time: a fork changes it behind the compiler's back.
            Some(page) => std::hint::black_box(page)[0] == 0,
            None => process::id() != self.process,
        }
    }

    /// For whoever is about to take a lock or to wait: in a forked child nobody does what would be
    /// waited for, and locks may be held for ever.
    pub(crate) fn check(&self) -> crate::Result<()> {
        match self.is_child() {
            true => Err(crate::Error::Forked),
            false => Ok(()),
        }
    }
}

fn marked_page() -> io::Result<MmapMut> {
    let mut page = MmapMut::map_anon(1)?;
    wipe_on_fork(&mut page)?;
    page[0] = 1;
    Ok(page)
}

#[expect(
    unsafe_code,
    reason = "nothing safe asks for a page that a fork empties"
)]
fn wipe_on_fork(page: &mut MmapMut) -> io::Result<()> {
    let (start, len) = (page.as_mut_ptr(), page.len());
    // SAFETY: the range is a private mapping of its own, borrowed exclusively; what the advice
    // changes is what a forked child finds there.
    Ok(unsafe { madvise(start.cast(), len, Advice::LinuxWipeOnFork) }?)
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

fn content(fd: &OwnedFd) -> io::Result<Holder> {
    let mut buf = vec![0; CONTENT];
    let len = retry(|| rustix::io::pread(fd, &mut buf[..], 0))?;
    Ok(Holder::parse(&buf[..len]))
}

fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[expect(
    unsafe_code,
    reason = "nothing safe offers open-file-description locks"
)]
fn fcntl(fd: BorrowedFd<'_>, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the lock commands take a pointer to a `flock`, which outlives the call.
    match unsafe { libc::fcntl(fd.as_raw_fd(), command, std::ptr::from_mut(lock)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
