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
//! There are three exceptions, and one thing stands behind all of it:
//!
//! * Recovery may rewrite published bytes, through the file, with equal bytes.
//! * After a failed sync the kernel may turn pages into zeroes; the views of that segment end with
//!   an error, and their bytes were checked before they were handed out.
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
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{Advice, MmapRaw};

use super::{Backend, File};
use crate::sync::{AtomicU64, Ordering};

#[cfg(any(test, feature = "sim"))]
pub(super) use heap::Heap;

#[cfg(any(test, feature = "sim"))]
mod heap;
#[cfg(test)]
mod tests;

/// The unit of a guarded first touch.
const MIB: usize = 1 << 20;
/// A scratch buffer that grew beyond this is given back after use.
const SCRATCH: usize = 1 << 20;

/// A mapped file, by itself without access to its bytes: see [`region`] and [`View::fixed`].
pub struct Map {
    memory: Memory,
    len: usize,
    writable: bool,
    /// The regions made so far: their bytes, and whether they are fixed.
    regions: Mutex<Vec<(Range<usize>, bool)>>,
}

enum Memory {
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
    pub(super) fn file(raw: MmapRaw, writable: bool) -> Self {
        let len = raw.len();
        Self::new(Memory::File(raw), len, writable)
    }

    /// A mapping of the first `len` bytes of a simulated file.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn shared(heap: Heap, len: usize, writable: bool) -> io::Result<Self> {
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
    fn start(&self) -> *mut u8 {
        match &self.memory {
            Memory::File(raw) => raw.as_mut_ptr(),
            #[cfg(any(test, feature = "sim"))]
            Memory::Heap { heap, .. } => heap.start(),
        }
    }

    /// Enters a region in the list; point 3 of the argument.
    fn claim(&self, range: Range<usize>, fixed: bool) -> io::Result<()> {
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

/// Makes a region out of `range` of a mapped file, whose first `published` bytes are there for
/// good and whose other bytes are to be written by the [`Tail`].
///
/// With [`Backend::Pwrite`] the map may be read-only. Fails with [`ErrorKind::InvalidInput`] if the
/// range is not inside the map, does not start at a multiple of 8, holds less than is published, or
/// overlaps another region of this map.
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
    let tail = Tail {
        region: Arc::clone(&region),
        backend,
        end: published,
        broken: false,
        scratch: Vec::new(),
    };
    Ok((tail, View { region }))
}

/// Why a [`Tail`] did not take bytes.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Nothing was written: the region has less room than that.
    #[error("the region has room for {room} more bytes, not for {needed}")]
    NoRoom {
        /// Bytes asked for.
        needed: u64,
        /// Bytes left.
        room: u64,
    },
    /// An earlier append failed half-way. What lies past `published` is never written over: the
    /// log goes on in a new segment.
    #[error("an earlier write to the region failed")]
    Broken,
    /// A word does not lie inside the bytes at a multiple of 4 of the file. The tail is broken.
    #[error("a word at {0} of the appended bytes is misplaced")]
    BadWord(usize),
    /// The write failed. The tail is broken.
    #[error("writing to the region failed")]
    Io(#[from] io::Error),
}

impl From<AppendError> for io::Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Io(e) => e,
            other => io::Error::other(other),
        }
    }
}

/// The one writer of a region.
pub struct Tail {
    region: Arc<Region>,
    backend: Backend,
    /// Where the next byte goes; nothing at or past it was written by this tail.
    end: usize,
    broken: bool,
    scratch: Vec<u8>,
}

impl Tail {
    /// Bytes from the start of the region that views see.
    pub fn published(&self) -> u64 {
        self.region.published() as u64
    }

    /// Bytes from the start of the region that have been written, seen or not.
    pub fn written_end(&self) -> u64 {
        self.end as u64
    }

    /// Length of the region.
    pub fn capacity(&self) -> u64 {
        self.region.len as u64
    }

    /// Bytes that can still be appended.
    pub fn room(&self) -> u64 {
        (self.region.len - self.end) as u64
    }

    /// Whether a write failed half-way, so that nothing more can be appended.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Appends `len` bytes behind what was appended before; views see them after
    /// [`publish`](Self::publish).
    ///
    /// `fill` gets exactly these bytes, holding what the file holds there (zeroes, in a file made
    /// for this) or zeroes. Then each word of `words`, at its place within these bytes, is stored
    /// little-endian with release ordering, one after another, so that the last one stands for all
    /// of them: the length of the first frame. `fill` leaves the places of the words alone.
    ///
    /// If this fails with anything but [`AppendError::NoRoom`], or `fill` panics, any part of the
    /// bytes may have been written, and the tail is broken.
    pub fn append(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        words: impl IntoIterator<Item = (usize, u32)>,
    ) -> Result<(), AppendError> {
        if self.broken {
            return Err(AppendError::Broken);
        }
        let room = self.region.len - self.end;
        if len > room {
            return Err(AppendError::NoRoom {
                needed: len as u64,
                room: room as u64,
            });
        }
        self.broken = true;
        match (self.backend, &self.region.map.memory) {
            (Backend::Pwrite, _) => self.write(len, fill, words)?,
            (Backend::Mapped, Memory::File(_)) => self.store(len, fill, words)?,
            #[cfg(any(test, feature = "sim"))]
            (Backend::Mapped, Memory::Heap { shared: false, .. }) => {
                self.store(len, fill, words)?;
            }
            #[cfg(any(test, feature = "sim"))]
            (Backend::Mapped, Memory::Heap { .. }) => self.copy(len, fill, words)?,
        }
        self.end += len;
        self.broken = false;
        Ok(())
    }

    /// Lets views see everything appended so far.
    pub fn publish(&mut self) {
        self.region
            .published
            .store(self.end as u64, Ordering::Release);
    }

    /// Publishes the bytes up to `to` that somebody else has written: a redo laid through the
    /// file, or the owner, in another process, that this one follows. Nobody may write to them
    /// any more. Does nothing if `to` is not past what has been written.
    pub fn adopt(&mut self, to: u64) -> io::Result<()> {
        let to = within(&(0..to), self.region.len)?.end;
        if to > self.end {
            self.end = to;
            self.publish();
        }
        Ok(())
    }

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

    fn check_word(&self, len: usize, place: usize) -> Result<(), AppendError> {
        let inside = place.checked_add(4).is_some_and(|end| end <= len);
        // The region starts at a multiple of 8, and its mapping at a page.
        if inside && (self.end + place).is_multiple_of(4) {
            Ok(())
        } else {
            Err(AppendError::BadWord(place))
        }
    }

    /// Writes through the file, in one call.
    fn write(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        words: impl IntoIterator<Item = (usize, u32)>,
    ) -> Result<(), AppendError> {
        let mut bytes = self.zeroed(len)?;
        fill(&mut bytes);
        for (place, word) in words {
            self.check_word(len, place)?;
            bytes[place..place + 4].copy_from_slice(&word.to_le_bytes());
        }
        let place = self.region.start + self.end;
        self.region.file.write_at(&bytes, place as u64)?;
        self.keep(bytes);
        Ok(())
    }

    /// Copies into memory that a simulated file looks at while this goes on.
    #[cfg(any(test, feature = "sim"))]
    fn copy(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        words: impl IntoIterator<Item = (usize, u32)>,
    ) -> Result<(), AppendError> {
        let mut bytes = self.zeroed(len)?;
        fill(&mut bytes);
        if let Memory::Heap { heap, .. } = &self.region.map.memory {
            heap.copy_in(self.region.start + self.end, &bytes)?;
        }
        for (place, word) in words {
            self.store_word(len, place, word)?;
        }
        self.keep(bytes);
        Ok(())
    }

    fn zeroed(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.try_reserve(len)?;
        bytes.resize(len, 0);
        Ok(bytes)
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() <= SCRATCH {
            self.scratch = bytes;
        }
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail")
            .field("backend", &self.backend)
            .field("published", &self.published())
            .field("written_end", &self.end)
            .field("capacity", &self.region.len)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
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
        let region = &*self.region;
        let range = within(&range, region.len)?;
        if range.is_empty() {
            return Ok(());
        }
        let base = region.start / MIB;
        let first = (region.start + range.start) / MIB - base;
        let last = (region.start + range.end - 1) / MIB - base;
        for chunk in first..=last {
            let (word, bit) = (&region.touched[chunk / 64], 1 << (chunk % 64));
            // No ordering: the bit carries nothing, the page is there for every thread.
            if word.load(Ordering::Relaxed) & bit == 0 {
                region.touch(chunk)?;
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        Ok(())
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
