//! Shared words: memory that several processes map, an atomic word at each place, and the kernel's
//! call to sleep on one.
//!
//! # The argument
//!
//! The memory is only ever touched through atomics, by every process that maps it, so no value that
//! anybody writes there is a data race; what the words mean is for those above to doubt. A [`Words`]
//! keeps its mapping for as long as it lives. Its bytes are allocated before it is mapped, so a full
//! disk shows as an error there and not as a signal here. Whoever cuts the file short from outside can
//! cause one: the file is in a folder where only its owner can, and no part of this program does.

#![expect(
    unsafe_code,
    reason = "words shared between processes: one file with one argument, told above"
)]

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{CWD, FileType, Mode as Bits, OFlags};
use rustix::io::Errno;
use rustix::thread::futex::{self, WaitFlags, WaitvFlags};
use rustix::time::{ClockId, Timespec};

use super::Access;
use super::allocate::allocate;
use super::disk::{flags, retry};

/// The kernel's limit for one call.
pub(crate) const MOST_WORDS: usize = 128;
/// Where the kernel cannot sleep on several words, one of them is slept on, so long at a time.
const IN_TURN: Duration = Duration::from_millis(10);

/// A file of shared words.
#[derive(Debug)]
pub(crate) struct Sheet {
    fd: OwnedFd,
    access: Access,
}

impl Sheet {
    /// Makes a new file, for its owner, and for its group to read if `group` says so.
    pub(crate) fn create(path: &Path, group: bool) -> io::Result<Sheet> {
        let mode = Bits::from_raw_mode(if group { 0o640 } else { 0o600 });
        let flags = flags(Access::Write) | OFlags::CREATE | OFlags::EXCL;
        let fd = retry(|| rustix::fs::openat(CWD, path, flags, mode))?;
        rustix::fs::fchmod(&fd, mode)?;
        let access = Access::Write;
        Ok(Sheet { fd, access })
    }

    /// Opens a file that belongs to this user, to the superuser or to whoever asks; for reading only where
    /// no more is allowed.
    pub(crate) fn open(path: &Path, user: u32) -> io::Result<Sheet> {
        let open = |access| {
            let fd = retry(|| rustix::fs::openat(CWD, path, flags(access), Bits::empty()))?;
            Ok(Sheet { fd, access })
        };
        let sheet = match open(Access::Write) {
            Err(Errno::ACCESS | Errno::ROFS | Errno::PERM) => open(Access::Read),
            opened => opened,
        }?;
        let stat = rustix::fs::fstat(&sheet.fd)?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let ours = [user, 0, rustix::process::geteuid().as_raw()];
        if !regular || !ours.contains(&stat.st_uid) {
            return Err(ErrorKind::InvalidInput.into());
        }
        Ok(sheet)
    }

    /// Whether its words may be changed.
    pub(crate) fn is_writable(&self) -> bool {
        self.access == Access::Write
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.fd)?;
        u64::try_from(stat.st_size).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// Makes it longer, its new bytes allocated and zero.
    pub(crate) fn grow(&self, len: u64) -> io::Result<()> {
        allocate(self.fd.as_fd(), self.len()?, len)
    }

    /// Which file it is, whatever it is called.
    pub(crate) fn id(&self) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.fd)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Maps a range, which begins at a page.
    pub(crate) fn map(&self, range: Range<u64>) -> io::Result<Words> {
        if self.len()? < range.end {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let len = range.end.saturating_sub(range.start);
        let mut options = MmapOptions::new();
        options.offset(range.start);
        options.len(usize::try_from(len).map_err(io::Error::other)?);
        let map = match self.access {
            Access::Write => options.map_raw(&self.fd)?,
            Access::Read => options.map_raw_read_only(&self.fd)?,
        };
        Ok(Words { map })
    }
}

/// Which file a path leads to now; `None` where there is none.
pub(crate) fn named(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// A part of the memory, mapped. Of a sheet that is not [writable](Sheet::is_writable) only loads are
/// allowed: anything else ends in a signal.
#[derive(Debug)]
pub(crate) struct Words {
    map: MmapRaw,
}

impl Words {
    /// The word of four bytes at a place counted in fours.
    ///
    /// # Panics
    ///
    /// Where the mapping has no such place: places come from the program, never from the memory.
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at < self.map.len() / 4, "a place within the mapping");
        let word = self.map.as_mut_ptr().cast::<u32>().wrapping_add(at);
        // SAFETY: the four bytes lie in the mapping, which lives as long as `self` and starts at a
        // page; every process touches them by atomics only.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// The word of eight bytes at a place counted in eights.
    ///
    /// # Panics
    ///
    /// As for [`Words::word`].
    pub(crate) fn long(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.map.len() / 8, "a place within the mapping");
        let word = self.map.as_mut_ptr().cast::<u64>().wrapping_add(at);
        // SAFETY: as in `word`, with eight bytes.
        unsafe { AtomicU64::from_ptr(word) }
    }
}

/// Sleeps until somebody wakes one of these words, or one is not as it was seen, or the time is up;
/// or for no reason. At most [`MOST_WORDS`] of them count.
pub(crate) fn sleep(words: &[(&AtomicU32, u32)], limit: Duration) {
    let slept = match words {
        [] => {
            std::thread::sleep(limit);
            return;
        }
        [one] => sleep_on(*one, limit),
        several => sleep_on_any(several, limit),
    };
    match slept {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        // Where there is no such call, or it is not allowed.
        Err(_) => {
            let _woken = sleep_on(words[0], limit.min(IN_TURN));
        }
    }
}

fn sleep_on((word, seen): (&AtomicU32, u32), limit: Duration) -> rustix::io::Result<()> {
    futex::wait(word, futex::Flags::empty(), seen, Some(&timespec(limit)))
}

fn sleep_on_any(words: &[(&AtomicU32, u32)], limit: Duration) -> rustix::io::Result<()> {
    let wait = |(word, seen): &(&AtomicU32, u32)| {
        let mut wait = futex::Wait::new();
        wait.val = u64::from(*seen);
        wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
        wait.flags = WaitFlags::SIZE_U32;
        wait
    };
    let waits: Vec<_> = words.iter().take(MOST_WORDS).map(wait).collect();
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32);
    let end = timespec(now.saturating_add(limit));
    let woken = futex::waitv(&waits, WaitvFlags::empty(), Some(&end), ClockId::Monotonic);
    woken.map(|_| ())
}

/// Wakes all who sleep on a word, in every process.
pub(crate) fn wake(word: &AtomicU32) {
    // The only way to fail is to ask for something that is not there.
    let woken = futex::wake(word, futex::Flags::empty(), i32::MAX.unsigned_abs());
    if let Err(error) = woken {
        tracing::debug!(%error, "sleepers are not woken");
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

/// How long until then.
pub(crate) fn until(deadline: Option<Instant>, most: Duration) -> Duration {
    deadline.map_or(most, |at| {
        at.saturating_duration_since(Instant::now()).min(most)
    })
}
