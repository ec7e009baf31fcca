//! Memory that a simulated file shares with its mappings.
//!
//! Only ever read and changed by relaxed atomic accesses of the same four bytes (of single bytes
//! at a ragged end), and bytes that stay equal are not stored: so neither a sync that looks at a
//! region while its tail writes, nor a recovery that rewrites equal bytes under a view, is a data
//! race.

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapMut, MmapRaw};

/// Zeroed memory at a page's boundary, shared by its clones.
#[derive(Clone)]
pub(in crate::sys) struct Heap(Arc<Memory>);

struct Memory {
    raw: MmapRaw,
    /// Bytes that cannot be read, as if their sector were bad.
    bad: Mutex<Vec<Range<usize>>>,
}

impl Heap {
    pub(in crate::sys) fn new(len: usize) -> io::Result<Self> {
        // Anonymous memory: what is never touched costs nothing. At least one byte, since nothing
        // of no size is mapped.
        let raw = MmapRaw::from(MmapMut::map_anon(len.max(1))?);
        let bad = Mutex::default();
        Ok(Self(Arc::new(Memory { raw, bad })))
    }

    pub(in crate::sys) fn len(&self) -> usize {
        self.0.raw.len()
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.0.raw.as_mut_ptr()
    }

    /// Whether somebody else, a mapping for instance, holds this memory too.
    pub(in crate::sys) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Copies the bytes at `place` into `buf`.
    pub(in crate::sys) fn copy_out(&self, place: usize, buf: &mut [u8]) -> io::Result<()> {
        let (head, words) = self.split(place, buf.len())?;
        let (first, rest) = buf.split_at_mut(head);
        let (middle, last) = rest.split_at_mut(words * 4);
        for (i, byte) in first.iter_mut().enumerate() {
            *byte = self.byte(place + i).load(Ordering::Relaxed);
        }
        for (i, chunk) in middle.chunks_exact_mut(4).enumerate() {
            let word = self.word(place + head + i * 4).load(Ordering::Relaxed);
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        for (i, byte) in last.iter_mut().enumerate() {
            *byte = self
                .byte(place + head + words * 4 + i)
                .load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Copies `bytes` to `place`; those that are equal are left alone.
    pub(in crate::sys) fn copy_in(&self, place: usize, bytes: &[u8]) -> io::Result<()> {
        let (head, words) = self.split(place, bytes.len())?;
        let (first, rest) = bytes.split_at(head);
        let (middle, last) = rest.split_at(words * 4);
        for (i, byte) in first.iter().enumerate() {
            self.put_byte(place + i, *byte);
        }
        let (chunks, _) = middle.as_chunks::<4>();
        for (i, chunk) in chunks.iter().enumerate() {
            let (word, new) = (self.word(place + head + i * 4), u32::from_ne_bytes(*chunk));
            if word.load(Ordering::Relaxed) != new {
                word.store(new, Ordering::Relaxed);
            }
        }
        for (i, byte) in last.iter().enumerate() {
            self.put_byte(place + head + words * 4 + i, *byte);
        }
        Ok(())
    }

    /// From now on these bytes cannot be read.
    pub(in crate::sys) fn spoil(&self, range: Range<usize>) {
        self.bad().push(range);
    }

    /// The bytes that cannot be read.
    pub(in crate::sys) fn spoiled(&self) -> Vec<Range<usize>> {
        self.bad().clone()
    }

    /// Fails as the kernel would if a byte of `range` cannot be read.
    pub(in crate::sys) fn check(&self, range: &Range<usize>) -> io::Result<()> {
        let bad = |bad: &Range<usize>| bad.start < range.end && range.start < bad.end;
        if self.bad().iter().any(bad) {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        Ok(())
    }

    fn bad(&self) -> std::sync::MutexGuard<'_, Vec<Range<usize>>> {
        self.0.bad.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many single bytes come before the words, and how many words; checks the range.
    fn split(&self, place: usize, len: usize) -> io::Result<(usize, usize)> {
        if place.checked_add(len).is_none_or(|end| end > self.len()) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let head = (place.next_multiple_of(4) - place).min(len);
        Ok((head, (len - head) / 4))
    }

    fn put_byte(&self, place: usize, new: u8) {
        let byte = self.byte(place);
        if byte.load(Ordering::Relaxed) != new {
            byte.store(new, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("len", &self.len()).finish()
    }
}
