//! Giving a file real blocks, so that a later store into it cannot meet a full disk.

use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fdatasync, fstat};
use rustix::io::Errno;

use super::disk::write_all;

/// Zeroes written in one call where a file system cannot reserve.
const CHUNK: usize = 128 << 10;

/// Allocates the bytes from `from`, the present end of the file, up to `to`, which read as zeroes.
/// Never shortens the file, whatever fails: somebody may have it mapped.
pub(super) fn allocate(fd: BorrowedFd<'_>, from: u64, to: u64) -> io::Result<()> {
    let Some(len) = to.checked_sub(from).filter(|len| *len > 0) else {
        return Ok(());
    };
    while let Err(errno) = fallocate(fd, FallocateFlags::empty(), from, len) {
        match after(errno) {
            Next::Retry => {}
            Next::WriteZeroes => return write_zeroes(fd, from, to),
            Next::Fail => return Err(errno.into()),
        }
    }
    let stat = fstat(fd)?;
    if u64::try_from(stat.st_size).is_ok_and(|now| now >= to) {
        Ok(())
    } else {
        Err(io::Error::new(
            ErrorKind::Unsupported,
            "the file system did not lengthen the file",
        ))
    }
}

/// What to do when space could not be reserved.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Retry,
    WriteZeroes,
    Fail,
}

fn after(errno: Errno) -> Next {
    match errno {
        Errno::INTR => Next::Retry,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL => Next::WriteZeroes,
        _ => Next::Fail,
    }
}

/// Writes the zeroes, so that blocks are truly there, and drops them from the cache again, where
/// they would lie in large folios.
fn write_zeroes(fd: BorrowedFd<'_>, from: u64, to: u64) -> io::Result<()> {
    let zeroes = vec![0; CHUNK];
    let mut place = from;
    while place < to {
        let left = usize::try_from(to - place).unwrap_or(CHUNK).min(CHUNK);
        write_all(fd, &zeroes[..left], place)?;
        place += left as u64;
    }
    fdatasync(fd)?;
    Ok(fadvise(
        fd,
        from,
        NonZeroU64::new(to - from),
        Advice::DontNeed,
    )?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    use rustix::io::Errno;

    use super::{Next, after, write_zeroes};

    #[test]
    fn each_refusal_has_its_answer() {
        for (errno, next) in [
            (Errno::INTR, Next::Retry),
            (Errno::OPNOTSUPP, Next::WriteZeroes),
            (Errno::NOSYS, Next::WriteZeroes),
            (Errno::INVAL, Next::WriteZeroes),
            (Errno::NOSPC, Next::Fail),
            (Errno::DQUOT, Next::Fail),
            (Errno::IO, Next::Fail),
            (Errno::FBIG, Next::Fail),
            (Errno::PERM, Next::Fail),
            (Errno::BADF, Next::Fail),
        ] {
            assert_eq!(after(errno), next, "{errno:?}");
        }
    }

    #[test]
    fn only_a_full_disk_looks_like_a_full_disk() {
        use std::io::ErrorKind;
        let kind = |errno: Errno| std::io::Error::from(errno).kind();
        assert_eq!(kind(Errno::NOSPC), ErrorKind::StorageFull);
        assert_eq!(kind(Errno::DQUOT), ErrorKind::QuotaExceeded);
        for other in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::INTR] {
            assert!(!matches!(
                kind(other),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded
            ));
        }
    }

    #[test]
    fn zeroes_written_by_hand_have_blocks_and_spare_what_is_there() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        write_zeroes(file.as_fd(), 6, 300_000).unwrap();
        let meta = file.metadata().unwrap();
        assert_eq!(meta.len(), 300_000);
        assert!(meta.blocks() * 512 >= 300_000);
        let mut bytes = Vec::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(&bytes[..6], b"before");
        assert!(bytes[6..].iter().all(|b| *b == 0));
    }
}
