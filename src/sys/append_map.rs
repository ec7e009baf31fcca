//! Mapped memory that is written once, front to back.
//!
//! # The argument
//!
//! A *region* is a range of a mapped file. It has one [`Tail`], which writes, and any number of
//! [`View`]s, which read, and a place between them: `published`.
//!
//! 1. **`[0, published)` never changes again.** `published` only grows; a `View` hands out slices
//!    of these bytes and of no others, so a shared slice never covers a byte that changes.
//! 2. **Only the `Tail` touches the rest.** It is neither `Clone` nor shared, and a region has one:
//!    so the exclusive slice it lends to `fill`, all of it past `published`, is the only one.
//! 3. **Regions of one [`Map`] do not overlap**, unless all of them are fixed, that is, published
//!    whole from the start. The `Map` keeps the list and refuses.
//! 4. `published` is stored with release and loaded with acquire ordering, so who sees it sees the
//!    bytes below it.
//!
//! A tail may write its bytes through the file, which is the same memory: large batches do (see
//! `LARGE`). It is still the tail that writes, past `published`, and nobody holds a reference there.
//!
//! There are three exceptions, and one thing stands behind all of it:
//!
//! * Recovery may rewrite published bytes, through the file, with equal bytes.
//! * After a failed sync the kernel may turn pages into zeroes; the views of that segment end with
//!   an error, and their bytes were checked before they were handed out. A [`Kept`] is made of
//!   bytes that a sync has covered.
//! * [`Tail::adopt`] publishes what another process has written, which is held to the same rules.
//! * Only the holder of `LOCK` changes these files. What somebody else does to them behind our
//!   back no program that maps files can be safe against; see [`View::guard`] for what is caught.
//!
//! The memory of the simulated disk is a [`Heap`], which a file and its mappings share. Whoever
//! changes it does so by relaxed atomic stores of the bytes that differ, and the file looks by
//! relaxed atomic loads, so that a sync may look at the very bytes a tail is writing.

#![expect(
    unsafe_code,
    reason = "the mapped region: one file with one argument, told above"
)]

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::slice;
use std::sync::Arc;
#[cfg(any(test, feature = "sim"))]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU32;

use super::{Backend, File};
use crate::sync::{AtomicU64, Ordering};

#[cfg(any(test, feature = "sim"))]
pub(super) use heap::Heap;
pub use map::{Map, Pattern};
pub use tail::{AppendError, Tail};

#[cfg(any(test, feature = "sim"))]
mod heap;
mod map;
mod tail;
#[cfg(test)]
mod tests;

/// The unit of a guarded first touch.
const MIB: usize = 1 << 20;

/// What tail and views of a region share.
struct Region {
    map: Arc<Map>,
    file: Arc<dyn File>,
    start: usize,
    len: usize,
    published: AtomicU64,
    /// A bit for each MiB of the mapping that the region lies in: known to be there.
    touched: Box<[AtomicU64]>,
}

impl Region {
    fn new(
        map: Arc<Map>,
        file: Arc<dyn File>,
        range: &Range<usize>,
        published: usize,
    ) -> Arc<Self> {
        let chunks = range.end.div_ceil(MIB) - range.start / MIB;
        Arc::new(Self {
            map,
            file,
            start: range.start,
            len: range.len(),
            published: AtomicU64::new(published as u64),
            touched: (0..chunks.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
        })
    }

    fn published(&self) -> usize {
        // Only `Region::new` and `Tail` store here, and they store a `usize`.
        self.published.load(Ordering::Acquire) as usize
    }

    /// The byte at `place` of the region, which is at most its length.
    fn at(&self, place: usize) -> *mut u8 {
        self.map.start().wrapping_add(self.start + place)
    }

    /// Makes sure of one MiB of the mapping: the file is long enough, and can be read.
    fn touch(&self, chunk: usize) -> io::Result<()> {
        let from = ((self.start / MIB + chunk) * MIB).max(self.start);
        let to = ((self.start / MIB + chunk + 1) * MIB).min(self.start + self.len);
        if self.file.len()? < to as u64 {
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "the file is shorter than its mapping",
            ));
        }
        match self.map.populate_read(from as u64..to as u64) {
            Err(e) if e.kind() == ErrorKind::Unsupported => self.read_through(from, to)?,
            done => done?,
        }
        Ok(())
    }

    /// See [`View::guard`].
    fn guard(&self, range: &Range<u64>) -> io::Result<()> {
        let range = within(range, self.len)?;
        if range.is_empty() {
            return Ok(());
        }
        let base = self.start / MIB;
        let first = (self.start + range.start) / MIB - base;
        let last = (self.start + range.end - 1) / MIB - base;
        for chunk in first..=last {
            let (word, bit) = (&self.touched[chunk / 64], 1 << (chunk % 64));
            // No ordering: the bit carries nothing, the page is there for every thread.
            if word.load(Ordering::Relaxed) & bit == 0 {
                self.touch(chunk)?;
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Reads a range through the file, where pages cannot be populated: a bad sector shows here.
    fn read_through(&self, from: usize, to: usize) -> io::Result<()> {
        let mut page = [0; 4096];
        for place in (from..to).step_by(page.len()) {
            let wanted = page.len().min(to - place);
            if self.file.read_at(&mut page[..wanted], place as u64)? < wanted {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

// What touches memory of a tail and of the simulated disk stands here, beside the argument; the
// rest of them is in files of their own.
impl Tail {
    /// Stores straight into the mapping.
    fn store(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        words: impl IntoIterator<Item = (usize, u32)>,
    ) -> Result<(), AppendError> {
        // SAFETY: `len` bytes at `end` lie in the region, past `published`, where only this tail
        // goes, and it is borrowed exclusively (points 1 to 3).
        fill(unsafe { slice::from_raw_parts_mut(self.region.at(self.end), len) });
        for (place, word) in words {
            self.store_word(len, place, word)?;
        }
        Ok(())
    }

    fn store_word(&mut self, len: usize, place: usize, word: u32) -> Result<(), AppendError> {
        self.check_word(len, place)?;
        let at = self.region.at(self.end + place).cast::<u32>();
        // SAFETY: the four bytes lie in the region past `published`, at a multiple of 4.
        let at = unsafe { AtomicU32::from_ptr(at) };
        at.store(word.to_le(), Ordering::Release);
        Ok(())
    }
}

impl Tail {
    /// The word at a place past what was written here, which somebody else writes, in another process,
    /// and last of all that it stands for; `None` outside the region.
    pub(super) fn foreign_word(&self, place: usize) -> Option<u32> {
        let inside = place >= self.end && place.checked_add(4)? <= self.region.len;
        if !inside || !(self.region.start + place).is_multiple_of(4) {
            return None;
        }
        let at = self.region.at(place).cast::<u32>();
        // SAFETY: the four bytes lie in the region past `published`, at a multiple of 4, where no
        // slice covers them and whoever writes does so by an atomic store of this very word.
        let word = unsafe { AtomicU32::from_ptr(at) };
        Some(u32::from_le(word.load(Ordering::Acquire)))
    }
}

#[cfg(any(test, feature = "sim"))]
impl Heap {
    fn byte(&self, place: usize) -> &AtomicU8 {
        // SAFETY: `split` has checked that the byte lies in the memory.
        unsafe { AtomicU8::from_ptr(self.start().wrapping_add(place)) }
    }

    fn word(&self, place: usize) -> &AtomicU32 {
        // SAFETY: `split` has checked that the four bytes lie in the memory, at a multiple of 4.
        unsafe { AtomicU32::from_ptr(self.start().wrapping_add(place).cast()) }
    }
}

/// Makes a region out of `range` of a mapped file, whose first `published` bytes are there for
/// good and whose other bytes are to be written by the [`Tail`].
///
/// With [`Backend::Pwrite`] the map may be read-only. Fails with [`ErrorKind::InvalidInput`] if the
/// range is not inside the map, does not start at a multiple of 8, holds less than is published, or
/// overlaps any region that was ever made of this map.
pub fn region(
    map: Arc<Map>,
    file: Arc<dyn File>,
    backend: Backend,
    range: Range<u64>,
    published: u64,
) -> io::Result<(Tail, View)> {
    let range = within(&range, map.len)?;
    let published = within(&(0..published), range.len())?.end;
    if range.start % 8 != 0 {
        return Err(invalid("the region does not start at a multiple of 8"));
    }
    if backend == Backend::Mapped && !map.writable {
        return Err(invalid("the mapping is read-only"));
    }
    map.claim(range.clone(), false)?;
    let region = Region::new(map, file, &range, published);
    let tail = Tail::new(Arc::clone(&region), backend, published);
    Ok((tail, View { region }))
}

/// A reader of a region; keeps its mapping alive.
#[derive(Clone)]
pub struct View {
    region: Arc<Region>,
}

impl View {
    /// A view of `range` of a mapped file, all of it there for good: of a sealed segment.
    pub fn fixed(map: Arc<Map>, file: Arc<dyn File>, range: Range<u64>) -> io::Result<Self> {
        let range = within(&range, map.len)?;
        map.claim(range.clone(), true)?;
        let region = Region::new(map, file, &range, range.len());
        Ok(Self { region })
    }

    /// Bytes from the start of the region that can be read.
    pub fn published(&self) -> u64 {
        self.region.published() as u64
    }

    /// The published bytes.
    ///
    /// Touch none of them that [`guard`](Self::guard) has not passed: where the file was cut
    /// short, or the disk cannot read, touching is a signal.
    pub fn bytes(&self) -> &[u8] {
        let published = self.region.published();
        // SAFETY: these bytes lie in the region, which lives as long as `self`, and below
        // `published`, where nothing changes any more (point 1).
        unsafe { slice::from_raw_parts(self.region.at(0), published) }
    }

    /// Makes sure that `range` of the region can be touched, a MiB of the file at a time, the
    /// first time it is asked for: the file is compared with the length of the mapping, and its
    /// pages are read in. A file cut short is [`ErrorKind::UnexpectedEof`], a bad sector the
    /// kernel's own error. What was passed before costs a load.
    ///
    /// It does not help against a file cut short later on, nor against a sector that goes bad
    /// after its page was dropped from memory.
    pub fn guard(&self, range: Range<u64>) -> io::Result<()> {
        self.region.guard(&range)
    }
}

/// Published bytes that outlive their view: they keep the mapping alive, and no descriptor.
pub struct Kept {
    map: Arc<Map>,
    /// Where in the map they are.
    range: Range<usize>,
}

impl View {
    /// Makes pages of the file that the region lies in ready to be stored to, wherever in it: see
    /// [`Map::populate_write`].
    pub fn populate(&self, range: Range<u64>) -> io::Result<()> {
        self.region.map.populate_write(range)
    }

    /// Keeps `range` of the published bytes, which must have been synced: of others a failed sync may
    /// let go.
    pub fn keep(&self, range: Range<u64>) -> io::Result<Kept> {
        self.guard(range.clone())?;
        let range = within(&range, self.region.published())?;
        let start = self.region.start;
        Ok(Kept {
            map: Arc::clone(&self.region.map),
            range: start + range.start..start + range.end,
        })
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        let start = self.map.start().wrapping_add(self.range.start);
        // SAFETY: these bytes lie in the map, which lives as long as `self`, and were published when
        // they were kept, so nothing changes them any more (point 1).
        unsafe { slice::from_raw_parts(start, self.range.len()) }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("published", &self.published())
            .field("capacity", &self.region.len)
            .finish_non_exhaustive()
    }
}

/// `range` in memory's own measure, if it lies within `len` bytes.
fn within(range: &Range<u64>, len: usize) -> io::Result<Range<usize>> {
    match (usize::try_from(range.start), usize::try_from(range.end)) {
        (Ok(start), Ok(end)) if start <= end && end <= len => Ok(start..end),
        _ => Err(invalid("the range is not within its bounds")),
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}
