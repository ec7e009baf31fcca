//! Frames into a segment: copied, checked, and only then given their length.

use std::io;

use crate::format::{Oversize, Parts, Seed, Stamp, padded};
use crate::sys::{AppendError, Tail};

/// A record that is ready to be framed: its length is known and within all limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writable<'a> {
    pub(crate) parts: Parts<'a>,
    /// [`Parts::frame_len`].
    pub(crate) length: u32,
    pub(crate) timestamp: i64,
}

/// What a batch needs of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes of frames, padded.
    pub(crate) bytes: u64,
    /// Number of frames.
    pub(crate) records: u64,
    /// Bytes that must stay free behind it, unless the next segment is there.
    pub(crate) keep: u64,
}

impl Room {
    /// What these records need together.
    pub(crate) fn of(records: &[Writable<'_>]) -> Room {
        Room {
            bytes: records
                .iter()
                .map(|record| padded(record.length) as u64)
                .sum(),
            records: records.len() as u64,
            keep: 0,
        }
    }
}

/// Why a batch was not appended.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Bytes of it may be there, and none of them count: no recovery takes them for records.
    Harmless(io::Error),
    /// The word that makes it count may be there, too: a recovery may find it, whole.
    Doubtful(io::Error),
}

/// The writing end of the active segment.
#[derive(Debug)]
pub(crate) struct Writer {
    tail: Tail,
    seed: Seed,
    /// The place of the segment's first record.
    start: u64,
    base: u64,
    next: u64,
    broken: bool,
}

impl Writer {
    /// Goes on writing behind what `tail` holds; `next` is the next record's offset.
    pub(crate) fn new(tail: Tail, seed: Seed, start: u64, base: u64, next: u64) -> Writer {
        Writer {
            tail,
            seed,
            start,
            base,
            next,
            broken: false,
        }
    }

    /// The end of the last frame, in the file.
    pub(crate) fn place(&self) -> u64 {
        self.start + self.tail.written_end()
    }

    /// The offset of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether a write has failed.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether a batch fits behind what is there. Nothing fits after a failed write.
    pub(crate) fn fits(&self, room: Room) -> bool {
        let free = self.tail.capacity() - self.tail.written_end();
        let last = self.next - self.base + room.records;
        !self.broken && room.bytes <= free && last <= u64::from(u32::MAX)
    }

    /// Writes the frames of one batch, the first one's length last. They become visible by
    /// [`Writer::publish`]. After an error nothing fits any more, and nothing was published.
    pub(crate) fn append(
        &mut self,
        records: &[Writable<'_>],
        durable: u64,
        epoch: u32,
    ) -> Result<(), Unwritten> {
        let room = Room::of(records);
        let bytes = usize::try_from(room.bytes);
        let bytes = bytes.map_err(|error| Unwritten::Harmless(io::Error::other(error)))?;
        let framing = self.framing(durable, epoch);
        let mut flaw = None;
        let result = self.tail.append(
            bytes,
            |space| flaw = framing.fill(records, space).err(),
            Lengths {
                records,
                place: room.bytes,
            },
        );
        self.broken |= result.is_err() || flaw.is_some();
        match (result, flaw) {
            (Ok(()), None) => {
                self.next += room.records;
                Ok(())
            }
            (Ok(()), Some(flaw)) => Err(Unwritten::Doubtful(impossible(flaw))),
            (Err(AppendError::LastWord(error)), _) => Err(Unwritten::Doubtful(error)),
            (Err(error), _) => Err(Unwritten::Harmless(error.into())),
        }
    }

    /// The very bytes that [`Writer::append`] would write now, with the lengths.
    pub(crate) fn frames(
        &self,
        records: &[Writable<'_>],
        durable: u64,
        epoch: u32,
    ) -> io::Result<Vec<u8>> {
        let room = Room::of(records);
        let mut frames = vec![0; usize::try_from(room.bytes).map_err(io::Error::other)?];
        let framing = self.framing(durable, epoch);
        framing.fill(records, &mut frames).map_err(impossible)?;
        let lengths = Lengths {
            records,
            place: room.bytes,
        };
        for (place, length) in lengths {
            let word = frames.get_mut(place..).and_then(<[u8]>::first_chunk_mut);
            if let Some(word) = word {
                *word = length.to_le_bytes();
            }
        }
        Ok(frames)
    }

    fn framing(&self, durable: u64, epoch: u32) -> Framing {
        Framing {
            seed: self.seed,
            base: self.base,
            first: self.next,
            durable,
            epoch,
        }
    }

    /// Lets readers see what was appended.
    pub(crate) fn publish(&mut self) {
        self.tail.publish();
    }
}

/// What the frames of a batch have in common.
struct Framing {
    seed: Seed,
    base: u64,
    /// The offset of the first record.
    first: u64,
    durable: u64,
    epoch: u32,
}

impl Framing {
    /// Encodes frames one behind the other, without their lengths; the first flaw, if any.
    fn fill(&self, records: &[Writable<'_>], mut space: &mut [u8]) -> Result<(), Oversize> {
        let mut filled = Ok(());
        for (index, record) in records.iter().enumerate() {
            let (frame, rest) = space.split_at_mut(padded(record.length));
            space = rest;
            let offset = self.first + index as u64;
            let lag = offset.saturating_sub(self.durable);
            let stamp = Stamp {
                delta: u32::try_from(offset - self.base).unwrap_or(u32::MAX),
                lag: u32::try_from(lag).unwrap_or(u32::MAX),
                timestamp: record.timestamp,
                epoch: self.epoch,
                more: index + 1 < records.len(),
            };
            filled = filled.and(record.parts.encode(stamp, self.seed, frame).map(|_| ()));
        }
        filled
    }
}

/// A frame was not what its length, computed from the same parts, had promised.
fn impossible(flaw: Oversize) -> io::Error {
    io::Error::other(flaw)
}

/// The length words of a batch with their places, from the last frame to the first.
struct Lengths<'a, 'r> {
    records: &'r [Writable<'a>],
    place: u64,
}

impl Iterator for Lengths<'_, '_> {
    type Item = (usize, u32);

    fn next(&mut self) -> Option<(usize, u32)> {
        let (record, before) = self.records.split_last()?;
        self.records = before;
        self.place -= padded(record.length) as u64;
        Some((
            usize::try_from(self.place).unwrap_or(usize::MAX),
            record.length,
        ))
    }
}
