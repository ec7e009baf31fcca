//! The reading end of a segment that another process writes.

use std::io;
use std::sync::Arc;

use super::reader::{End, Segment};
use crate::format::{HEAD, MAX_FRAME, padded};
use crate::sys::Tail;

/// Where the delta of a frame lies in it.
const DELTA: u64 = 8;

/// Goes along behind a writer in another process: from frame to frame, by their length words. The
/// writer stores that word last of all that it stands for, so a frame that has one is there; whether
/// it is sound is looked at by whoever reads it.
#[derive(Debug)]
pub(crate) struct Follower {
    segment: Arc<Segment>,
    /// Publishes what was come by, in this process.
    tail: Tail,
    next: u64,
}

impl Follower {
    /// Goes on behind what `tail` holds, which is `segment`'s; `next` is the next record's offset.
    pub(crate) fn new(segment: Arc<Segment>, tail: Tail, next: u64) -> Follower {
        Follower {
            segment,
            tail,
            next,
        }
    }

    /// The segment.
    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The offset that follows what can be read.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The length word of the next frame, where that can be looked at.
    pub(crate) fn word(&self) -> Option<u32> {
        self.tail.peek(self.tail.written_end()).ok().flatten()
    }

    /// Comes by the frames of records below `to`, as far as they are there; the offset that follows
    /// what can be read.
    pub(crate) fn reach(&mut self, to: u64) -> io::Result<u64> {
        let mut at = self.tail.written_end();
        while self.next < to {
            let Some(length) = self.tail.peek(at)? else {
                break;
            };
            let end = at + padded(length) as u64;
            if (length as usize) < HEAD || length > MAX_FRAME || end > self.tail.capacity() {
                break;
            }
            let delta = self.tail.peek(at + DELTA)?.unwrap_or(0);
            let offset = self.segment.base() + u64::from(delta);
            if offset < self.next {
                break;
            }
            self.next = offset + 1;
            at = end;
        }
        self.tail.adopt(at)?;
        Ok(self.next)
    }

    /// Goes to a place that is known otherwise, past frames that cannot be come by.
    pub(crate) fn skip(&mut self, to: End) -> io::Result<()> {
        let at = to.place.saturating_sub(self.segment.start());
        if to.next >= self.next {
            self.tail.adopt(at)?;
            self.next = to.next;
        }
        Ok(())
    }

    /// The end of what can be read.
    pub(crate) fn end(&self) -> End {
        End {
            place: self.segment.start() + self.tail.written_end(),
            next: self.next,
        }
    }
}
