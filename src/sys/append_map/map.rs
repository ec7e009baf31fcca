//! A mapping: how it is made and prepared. Nothing here touches its bytes.

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use memmap2::{Advice, MmapMut, MmapRaw};

#[cfg(any(test, feature = "sim"))]
use super::Heap;
use super::{invalid, within};

/// A mapped file, by itself without access to its bytes: see [`region`](super::region) and
/// [`View::fixed`](super::View::fixed).
pub struct Map {
    pub(super) memory: Memory,
    pub(super) len: usize,
    pub(super) writable: bool,
    /// The regions made so far: their bytes, and whether they are fixed.
    regions: Mutex<Vec<(Range<usize>, bool)>>,
}

pub(super) enum Memory {
    File(MmapRaw),
    /// The memory of a simulated file, or (`shared` false) of a test of this file alone.
    #[cfg(any(test, feature = "sim"))]
    Heap {
        heap: Heap,
        shared: bool,
    },
}

/// How the pages of a mapping are going to be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Here and there, or at a tail: small folios, nothing read around.
    Random,
    /// As the kernel sees fit: read around and ahead, large folios.
    Normal,
}

impl Map {
    pub(in crate::sys) fn file(raw: MmapRaw, writable: bool) -> Self {
        let len = raw.len();
        Self::new(Memory::File(raw), len, writable)
    }

    /// Memory of this process alone, which `fill` fills: in place of a file that lacks some of its bytes.
    pub fn filled(len: u64, fill: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mut memory = MmapMut::map_anon(len)?;
        fill(&mut memory)?;
        Ok(Self::new(Memory::File(memory.into()), len, false))
    }

    /// A mapping of the first `len` bytes of a simulated file.
    #[cfg(any(test, feature = "sim"))]
    pub(in crate::sys) fn shared(heap: Heap, len: usize, writable: bool) -> io::Result<Self> {
        if len > heap.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(Self::new(
            Memory::Heap { heap, shared: true },
            len,
            writable,
        ))
    }

    /// Zeroed memory that belongs to no file.
    #[cfg(any(test, feature = "sim"))]
    pub fn heap(len: usize) -> io::Result<Self> {
        let heap = Heap::new(len)?;
        let memory = Memory::Heap {
            heap,
            shared: false,
        };
        Ok(Self::new(memory, len, true))
    }

    fn new(memory: Memory, len: usize, writable: bool) -> Self {
        Self {
            memory,
            len,
            writable,
            regions: Mutex::default(),
        }
    }

    /// Length of the mapping in bytes.
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads the pages of `range` in, so that touching them faults no more. A bad sector, or a
    /// file cut short, is an error here and not a signal later. Makes no page dirty.
    ///
    /// [`ErrorKind::Unsupported`] where the kernel does not know this (before Linux 5.14).
    pub fn populate_read(&self, range: Range<u64>) -> io::Result<()> {
        self.populate(range, Advice::PopulateRead)
    }

    /// As [`populate_read`](Self::populate_read), and ready to be stored to. Makes every page
    /// dirty: the next sync writes them all.
    pub fn populate_write(&self, range: Range<u64>) -> io::Result<()> {
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        self.populate(range, Advice::PopulateWrite)
    }

    fn populate(&self, range: Range<u64>, advice: Advice) -> io::Result<()> {
        let range = within(&range, self.len)?;
        if range.is_empty() {
            return Ok(());
        }
        match &self.memory {
            Memory::File(raw) => loop {
                match raw.advise_range(advice, range.start, range.len()) {
                    Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {}
                    Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                        return Err(ErrorKind::Unsupported.into());
                    }
                    done => return done,
                }
            },
            #[cfg(any(test, feature = "sim"))]
            Memory::Heap { heap, .. } => heap.check(&range),
        }
    }

    /// Tells the kernel how the whole mapping is going to be touched.
    ///
    /// Every mapping of an active segment is [`Pattern::Random`]: with large folios under the
    /// tail, a small commit would write a hundred times its bytes.
    pub fn advise(&self, pattern: Pattern) -> io::Result<()> {
        let advice = match pattern {
            Pattern::Random => Advice::Random,
            Pattern::Normal => Advice::Normal,
        };
        match &self.memory {
            Memory::File(raw) => raw.advise(advice),
            #[cfg(any(test, feature = "sim"))]
            Memory::Heap { .. } => Ok(()),
        }
    }

    /// The first byte. Valid for `len` bytes as long as the map lives.
    pub(super) fn start(&self) -> *mut u8 {
        match &self.memory {
            Memory::File(raw) => raw.as_mut_ptr(),
            #[cfg(any(test, feature = "sim"))]
            Memory::Heap { heap, .. } => heap.start(),
        }
    }

    /// Enters a region in the list; point 3 of the argument.
    pub(super) fn claim(&self, range: Range<usize>, fixed: bool) -> io::Result<()> {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let clash = regions.iter().any(|(other, other_fixed)| {
            range.start < other.end && other.start < range.end && !(fixed && *other_fixed)
        });
        if clash {
            return Err(invalid("the region overlaps another"));
        }
        if !regions.contains(&(range.clone(), fixed)) {
            regions.push((range, fixed));
        }
        Ok(())
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("len", &self.len)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}
