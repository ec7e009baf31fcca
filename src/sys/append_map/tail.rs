//! The one writer of a region: appends, then publishes.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::map::Memory;
use super::{Region, within};
use crate::sync::Ordering;
use crate::sys::Backend;

/// A scratch buffer that grew beyond this is given back after use.
const SCRATCH: usize = 1 << 20;

/// So many bytes, and more, go through the file where the region is mapped, too: a call for all of
/// them costs less than a fault for each of their pages, and leaves pages that are cheaper to sync
/// (decision 4).
pub(super) const LARGE: usize = 128 << 10;

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
    /// The write failed before the last word was stored: what that stands for is not there, now or
    /// later. The tail is broken.
    #[error("writing to the region failed")]
    Io(#[from] io::Error),
    /// Storing the last word failed, behind everything else: it may be there. The tail is broken.
    #[error("writing the last word of what was appended failed")]
    LastWord(#[source] io::Error),
}

impl From<AppendError> for io::Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Io(e) | AppendError::LastWord(e) => e,
            other => io::Error::other(other),
        }
    }
}

/// The one writer of a region.
pub struct Tail {
    pub(super) region: Arc<Region>,
    backend: Backend,
    /// Where the next byte goes; nothing at or past it was written by this tail.
    pub(super) end: usize,
    broken: bool,
    scratch: Vec<u8>,
}

impl Tail {
    /// The region's one tail; made once by [`region`](super::region).
    pub(super) fn new(region: Arc<Region>, backend: Backend, published: usize) -> Self {
        Self {
            region,
            backend,
            end: published,
            broken: false,
            scratch: Vec::new(),
        }
    }

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
    /// bytes may have been written, and the tail is broken. The last word is among them only after
    /// [`AppendError::LastWord`].
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
            #[cfg(any(test, feature = "sim"))]
            (Backend::Mapped, Memory::Heap { shared: false, .. }) => {
                self.store(len, fill, words)?;
            }
            (Backend::Mapped, _) if len >= LARGE => self.write(len, fill, words)?,
            (Backend::Mapped, Memory::File(_)) => self.store(len, fill, words)?,
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

    /// The word at a place of the region past what was written, as another process has stored it: with
    /// acquire ordering, so that whoever sees it sees what was written before it. A file that was cut
    /// short, or cannot be read, is an error the first time that a MiB of it is touched.
    pub fn peek(&self, place: u64) -> io::Result<Option<u32>> {
        let range = place..place.saturating_add(4);
        if range.end > self.capacity() {
            return Ok(None);
        }
        self.region.guard(&range)?;
        Ok(self.foreign_word(within(&range, self.region.len)?.start))
    }

    pub(super) fn check_word(&self, len: usize, place: usize) -> Result<(), AppendError> {
        let inside = place.checked_add(4).is_some_and(|end| end <= len);
        // The region starts at a multiple of 8, and its mapping at a page.
        if inside && (self.end + place).is_multiple_of(4) {
            Ok(())
        } else {
            Err(AppendError::BadWord(place))
        }
    }

    /// Writes through the file: all but the last word, and then that, so that a failure of the first
    /// and larger write leaves nothing that counts. Where the region is mapped, too, the word is
    /// stored there: both are the same memory, and a store does not fail.
    fn write(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        words: impl IntoIterator<Item = (usize, u32)>,
    ) -> Result<(), AppendError> {
        let mut bytes = self.zeroed(len)?;
        fill(&mut bytes);
        let mut last: Option<(usize, u32)> = None;
        for next in words {
            self.check_word(len, next.0)?;
            if let Some((place, word)) = last.replace(next) {
                bytes[place..place + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
        let start = self.region.start + self.end;
        self.region.file.write_at(&bytes, start as u64)?;
        self.keep(bytes);
        let Some((place, word)) = last else {
            return Ok(());
        };
        match self.backend {
            Backend::Mapped => self.store_word(len, place, word),
            Backend::Pwrite => {
                let (word, place) = (word.to_le_bytes(), (start + place) as u64);
                let written = self.region.file.write_at(&word, place);
                written.map_err(AppendError::LastWord)
            }
        }
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
