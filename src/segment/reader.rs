//! A segment as readers see it: frames in place, below what is published.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::sums::Sums;
use crate::format::{
    ALIGN, Entry, Flaw, Frame, HEAD, Identity, Peek, Seed, entries, most_frames, padded,
};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::sys::{File, Kept, View};

/// What a bad sector makes unreadable: so many bytes of the file around it.
const GUARDED: u64 = 1 << 20;

/// Where a segment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// The end of its last frame, in the file.
    pub(crate) place: u64,
    /// The offset with which the next segment begins.
    pub(crate) next: u64,
}

/// Why a frame cannot be read.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Its bytes do not fit.
    Flaw(Flaw),
    /// They cannot be had: a bad sector, or a file that was cut short.
    Io(io::Error),
}

impl Trouble {
    /// Whether the frame is sound, and of a later version.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self, Trouble::Flaw(flaw) if flaw.is_unsupported())
    }
}

/// A segment that is open for reading, active or done.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<dyn File>,
    pub(crate) identity: Identity,
    seed: Seed,
    records: View,
    index: View,
    end: OnceLock<End>,
    /// The place up to which its pages can be stored to without a fault, as far as is known.
    ready: AtomicU64,
    /// Another view of the same file has taken its place.
    retired: AtomicBool,
}

impl Segment {
    /// A segment with its two regions. `end` is known for one that is done.
    pub(crate) fn new(
        file: Arc<dyn File>,
        identity: Identity,
        (records, index): (View, View),
        end: Option<End>,
    ) -> Segment {
        let seed = identity.seed();
        Segment {
            file,
            identity,
            seed,
            records,
            index,
            end: end.map_or_else(OnceLock::new, OnceLock::from),
            ready: AtomicU64::new(0),
            retired: AtomicBool::new(false),
        }
    }

    /// The place up to which its pages were made ready.
    pub(crate) fn ready(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    /// Notes how far its pages are ready.
    pub(crate) fn set_ready(&self, place: u64) {
        self.ready.store(place, Ordering::Release);
    }

    /// Makes the pages of a range of the file ready to be stored to: dirty, and unchanged.
    pub(crate) fn populate(&self, range: Range<u64>) -> io::Result<()> {
        self.records.populate(range)
    }

    /// The segment's number in its log.
    pub(crate) fn number(&self) -> u32 {
        self.identity.number
    }

    /// The offset of its first record.
    pub(crate) fn base(&self) -> u64 {
        self.identity.base
    }

    /// The place of its first record.
    pub(crate) fn start(&self) -> u64 {
        self.identity.layout.records_at
    }

    /// What its frames are checked with.
    pub(crate) fn seed(&self) -> Seed {
        self.seed
    }

    /// Where it ends, once that is settled; before that it may still grow.
    pub(crate) fn end(&self) -> Option<End> {
        self.end.get().copied()
    }

    /// Settles where it ends. What was said first stays.
    pub(crate) fn set_end(&self, end: End) {
        self.end.get_or_init(|| end);
    }

    /// Nothing is published here any more: who goes on reading takes the view that has taken its
    /// place.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Whether another view has taken its place.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// The place up to which frames have been published.
    pub(crate) fn published(&self) -> u64 {
        self.start() + self.records.published()
    }

    /// The published frame at `place`, checked; `None` where nothing has been published yet.
    pub(crate) fn frame_at(&self, place: u64) -> Result<Option<Frame<'_>>, Trouble> {
        let published = self.records.published();
        let Some(at) = place.checked_sub(self.start()).filter(|at| *at < published) else {
            return Ok(None);
        };
        let rest = self.guarded(at, published, HEAD as u64)?;
        let length = Frame::peek(rest).map_or(HEAD, |peek| padded(peek.length));
        let frame = self.guarded(at, published, length as u64)?;
        Frame::decode(frame, self.seed)
            .map(Some)
            .map_err(Trouble::Flaw)
    }

    /// The place of the frame with this delta, by the lengths that the frames from `place` on name.
    /// None of them is checked: who goes there looks what lies there.
    pub(crate) fn hop(&self, mut place: u64, delta: u64) -> Option<u64> {
        let published = self.records.published();
        loop {
            let at = place.checked_sub(self.start())?;
            let head = self.guarded(at, published, HEAD as u64).ok()?;
            let peek = Frame::peek(head)?;
            if u64::from(peek.delta) >= delta {
                return (u64::from(peek.delta) == delta).then_some(place);
            }
            place += padded(peek.length) as u64;
        }
    }

    /// The bytes of the published frames from one place to another, each of them checked.
    pub(crate) fn sound_frames(&self, from: u64, to: u64) -> Result<&[u8], Trouble> {
        let mut at = from;
        while at < to {
            let frame = self.frame_at(at)?.ok_or(Trouble::Flaw(Flaw::Empty))?;
            at += frame.padded_len() as u64;
        }
        let published = self.records.published();
        let at = from.saturating_sub(self.start());
        self.guarded(at, published, to.saturating_sub(from))
    }

    /// Keeps bytes of one of its frames beyond its own life.
    pub(crate) fn keep(&self, bytes: &[u8]) -> io::Result<Kept> {
        let start = self.records.bytes().as_ptr().addr() as u64;
        let at = (bytes.as_ptr().addr() as u64).wrapping_sub(start);
        self.records.keep(at..at.saturating_add(bytes.len() as u64))
    }

    /// Up to `length` bytes of the records region from `at`, once they can be touched.
    fn guarded(&self, at: u64, published: u64, length: u64) -> Result<&[u8], Trouble> {
        let end = published.min(at.saturating_add(length));
        self.records.guard(at..end).map_err(Trouble::Io)?;
        let bytes = self.records.bytes();
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        Ok(bytes.get(index(at)..index(end)).unwrap_or(&[]))
    }

    /// The first sound frame at or after `place` with an offset in `from..below`, looked for in
    /// steps of the alignment: how a reader gets past a damaged one. One of a later version is sound.
    /// A head whose offset is too far away for the bytes between is not checked, nor one whose checksum
    /// cannot agree, so that a search through payloads stays linear.
    pub(crate) fn resume(&self, place: u64, from: u64, below: u64) -> Option<(u64, u64)> {
        let published = self.records.published();
        let (mut at, mut sums) = (place, Sums::new(place));
        while at < self.start() + published {
            let head = self.guarded(at - self.start(), published, HEAD as u64);
            let peek = head.ok().and_then(Frame::peek);
            let offset = peek.map(|peek| self.base() + u64::from(peek.delta));
            let frames = most_frames(at - place) + 1;
            if let (Some(peek), Some(offset)) = (peek, offset)
                && (from..below.min(from.saturating_add(frames))).contains(&offset)
                && self.agrees(&mut sums, at, peek, published)
                && self.is_sound(at)
            {
                return Some((at, offset));
            }
            at += ALIGN as u64;
        }
        None
    }

    /// Whether the checksum of an unchecked head agrees, and all of its frame is published.
    fn agrees(&self, sums: &mut Sums, place: u64, peek: Peek, published: u64) -> bool {
        if place + padded(peek.length) as u64 > self.start() + published {
            return false;
        }
        let agree = sums.agree(place, peek, self.seed, &mut |bytes, place| {
            let mut at = place - self.start();
            // What cannot be had is not compared: it counts as zeroes, as far as it shows.
            for part in parts(bytes, place) {
                if let Ok(found) = self.guarded(at, published, part.len() as u64) {
                    part[..found.len()].copy_from_slice(found);
                    part[found.len()..].fill(0);
                } else {
                    part.fill(0);
                }
                at += part.len() as u64;
            }
            Ok(bytes.len())
        });
        agree.unwrap_or(false)
    }

    fn is_sound(&self, place: u64) -> bool {
        match self.frame_at(place) {
            Ok(frame) => frame.is_some(),
            Err(trouble) => trouble.is_unsupported(),
        }
    }

    /// Makes sure that the published bytes between two places can be had.
    pub(crate) fn readable(&self, from: u64, to: u64) -> Result<(), Trouble> {
        let (start, published) = (self.start(), self.records.published());
        let at = |place: u64| place.saturating_sub(start).min(published);
        let guarded = self.records.guard(at(from)..at(to).max(at(from)));
        guarded.map_err(Trouble::Io)
    }

    /// The index, as far as it is published; empty where it cannot be read.
    pub(crate) fn entries(&self) -> Cow<'_, [Entry]> {
        let bytes = self.index.bytes();
        if self.index.guard(0..bytes.len() as u64).is_err() {
            return Cow::Borrowed(&[]);
        }
        entries(bytes).unwrap_or(Cow::Borrowed(&[]))
    }
}

/// Bytes for a place of the file, in parts each of which can be had, or not.
fn parts(bytes: &mut [u8], place: u64) -> impl Iterator<Item = &mut [u8]> {
    let first = (place.next_multiple_of(GUARDED) - place) as usize;
    let (first, rest) = bytes.split_at_mut(first.min(bytes.len()));
    std::iter::once(first).chain(rest.chunks_mut(GUARDED as usize))
}
