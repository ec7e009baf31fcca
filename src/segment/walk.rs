//! Frames by positioned reads: for whoever must not trust the file (recovery, verify) or must
//! not map it (the journal).

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::sums::Sums;
use crate::format::{ALIGN, Flaw, Frame, HEAD, Peek, Seed, most_frames, padded};
use crate::sys::File;

/// How much is read at once.
const WINDOW: u64 = 64 << 10;
/// What is zeroed together.
const BLOCK: u64 = 4096;

/// Reads frames of one segment, keeping the last stretch that it read.
#[derive(Debug)]
pub(crate) struct Walk {
    file: Arc<dyn File>,
    seed: Seed,
    /// Where the segment's records end at the latest.
    limit: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Walk {
    /// A walk in `file`, whose frames are checked with `seed` and lie below `limit`.
    pub(crate) fn new(file: Arc<dyn File>, seed: Seed, limit: u64) -> Walk {
        Walk {
            file,
            seed,
            limit,
            window: Vec::new(),
            window_at: 0,
        }
    }

    /// The frame at `place`, checked. The outer error is the disk's.
    pub(crate) fn frame(&mut self, place: u64) -> io::Result<Result<Frame<'_>, Flaw>> {
        let seed = self.seed;
        let peek = Frame::peek(self.bytes(place, HEAD as u64)?);
        let length = peek.map_or(0, |peek| padded(peek.length) as u64);
        // A length that passes the segment's end is refused before anything is read for it.
        let fits = length <= self.limit.saturating_sub(place);
        let length = if fits {
            length.max(HEAD as u64)
        } else {
            HEAD as u64
        };
        Ok(Frame::decode(self.bytes(place, length)?, seed))
    }

    /// Looks at every place from `from` to below `to` where a frame may begin, in the order of
    /// the file, and hands the unchecked heads of those that are not zero to `look`, which says
    /// whether it is worth checking. `Break` ends the search. Tells which blocks are not zero.
    pub(crate) fn search(
        &mut self,
        from: u64,
        to: u64,
        mut look: impl FnMut(&mut Walk, u64, Peek) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<Vec<Range<u64>>> {
        let mut dirty: Vec<Range<u64>> = Vec::new();
        let to = to.min(self.limit);
        let mut place = from;
        while place < to {
            let zeroes = self.zeroes(place, to)?;
            if zeroes > 0 {
                place += zeroes;
                continue;
            }
            note_block(&mut dirty, place, from, to);
            let head = self.bytes(place, HEAD as u64)?;
            if let Some(peek) = Frame::peek(head)
                && look(self, place, peek)?.is_break()
            {
                break;
            }
            place += ALIGN as u64;
        }
        Ok(dirty)
    }

    /// The first sound frame behind the bad one at `place`, where the offset `next` should have
    /// been: below `to`, in a segment that begins with the offset `base`, with an offset and a head
    /// that `fits` would have. One of a later version is sound. It takes no longer than the stretch, and
    /// what the heads in it claim, are long.
    pub(crate) fn resume(
        &mut self,
        (place, next): (u64, u64),
        to: u64,
        base: u64,
        fits: impl Fn(u64, Peek) -> bool,
    ) -> io::Result<Option<(u64, u64)>> {
        let from = place + ALIGN as u64;
        let (mut found, mut sums) = (None, Sums::new(from));
        self.search(from, to, |walk, at, peek| {
            let offset = base + u64::from(peek.delta);
            let behind = next + 1..=next.saturating_add(most_frames(at - place));
            if behind.contains(&offset)
                && fits(offset, peek)
                && walk.agrees(&mut sums, at, peek)?
                && walk
                    .frame(at)?
                    .map_or_else(|flaw| flaw.is_unsupported(), |_| true)
            {
                found = Some((at, offset));
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Whether the checksum of an unchecked head at `place` agrees, and it does not lead beyond the
    /// segment: cheap to ask, however long a frame it claims to be that of.
    pub(crate) fn agrees(&self, sums: &mut Sums, place: u64, peek: Peek) -> io::Result<bool> {
        if padded(peek.length) as u64 > self.limit.saturating_sub(place) {
            return Ok(false);
        }
        sums.agree(place, peek, self.seed, &mut |bytes, at| {
            let most = index(self.limit.saturating_sub(at)).min(bytes.len());
            self.file.read_at(&mut bytes[..most], at)
        })
    }

    /// The greatest epoch above `above` of a sound frame from `from` to below `to`, the records
    /// beginning at `start`; `above` if there is none.
    pub(crate) fn epoch(&mut self, start: u64, from: u64, to: u64, above: u32) -> io::Result<u32> {
        let (mut greatest, mut budget) = (above, Budget::of(to.saturating_sub(from)));
        self.search(from, to, |walk, place, peek| {
            if peek.epoch > greatest
                && could_be(peek, place - start, to - place)
                && budget.affords(peek)
                && walk.frame(place)?.is_ok()
            {
                greatest = peek.epoch;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(greatest)
    }

    /// Whether anything from `from` to below `to` is not zero.
    pub(crate) fn holds_anything(&mut self, from: u64, to: u64) -> io::Result<bool> {
        let stop = |_: &mut Walk, _, _| Ok(ControlFlow::Break(()));
        Ok(!self.search(from, to, stop)?.is_empty())
    }

    /// How many bytes from `place` on are zero, in whole words, within what is read at once.
    fn zeroes(&mut self, place: u64, to: u64) -> io::Result<u64> {
        let here = self.bytes(place, WINDOW.min(to - place))?;
        let words = here.chunks(ALIGN);
        let zero = words.take_while(|word| word.iter().all(|byte| *byte == 0));
        Ok(zero.map(|word| word.len() as u64).sum())
    }

    /// Up to `length` bytes at `place`; fewer where the segment or the file ends.
    pub(crate) fn bytes(&mut self, place: u64, length: u64) -> io::Result<&[u8]> {
        let end = place.saturating_add(length).min(self.limit);
        let held = self.window_at..self.window_at + self.window.len() as u64;
        if place < held.start || end > held.end {
            self.fill(place, end)?;
        }
        let at = index(place.saturating_sub(self.window_at)).min(self.window.len());
        let to = index(end.saturating_sub(self.window_at)).clamp(at, self.window.len());
        Ok(&self.window[at..to])
    }

    /// Reads the stretch from `place` to at least `end`; nothing that is held is read twice.
    fn fill(&mut self, place: u64, end: u64) -> io::Result<()> {
        let held_end = self.window_at + self.window.len() as u64;
        if (self.window_at..=held_end).contains(&place) {
            self.window.drain(..index(place - self.window_at));
        } else {
            self.window.clear();
        }
        self.window_at = place;
        let from = place + self.window.len() as u64;
        let to = end.max((from + WINDOW).min(self.limit));
        let kept = self.window.len();
        self.window.resize(kept + index(to.saturating_sub(from)), 0);
        let read = self.file.read_at(&mut self.window[kept..], from);
        self.window.truncate(kept + *read.as_ref().unwrap_or(&0));
        read.map(|_| ())
    }
}

/// Whether a head can be that of a frame with so many bytes of records before it, and no more than
/// `most` from it on: cheap to ask before its checksum is.
pub(crate) fn could_be(peek: Peek, before: u64, most: u64) -> bool {
    u64::from(peek.delta) <= most_frames(before) && u64::from(peek.length) <= most
}

/// How many bytes may still be checked in a search that nothing depends on but who wrote there
/// once: payloads that look like heads all over cannot make it take longer than its stretch does.
#[derive(Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    /// Enough for all frames that a stretch of so many bytes can hold, and some that are none.
    pub(crate) fn of(bytes: u64) -> Budget {
        Budget(bytes.saturating_mul(4))
    }

    /// Takes what checking a frame with this head costs, if it is there.
    pub(crate) fn affords(&mut self, peek: Peek) -> bool {
        let left = self.0.checked_sub(u64::from(peek.length));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Adds the block around `place` to the blocks that are not zero.
fn note_block(dirty: &mut Vec<Range<u64>>, place: u64, from: u64, to: u64) {
    let start = place - place % BLOCK;
    let block = start.max(from)..(start + BLOCK).min(to);
    match dirty.last_mut() {
        Some(last) if last.end >= block.end => {}
        Some(last) if last.end == block.start => last.end = block.end,
        _ => dirty.push(block),
    }
}

/// A length within a file as an index; places are far below what an index can say.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
