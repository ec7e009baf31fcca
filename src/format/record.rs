//! A record as it lies in a segment: the frame.
//!
//! Encoding fills everything but the length word, which the caller stores last: a frame without a
//! length is not there, whatever else of it is. Decoding looks at the length before anything, at
//! the checksum next, and only then at what the bytes say.

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ALIGN;
use super::flaw::{Field, Flaw};
use super::headers::{Header, HeaderHead, Headers, MAX_HEADERS, take};
use super::oversize::Oversize;
use super::seed::Seed;

#[cfg(test)]
mod tests;

/// Bytes of the fixed part of a frame, and so the length of the shortest one.
pub(crate) const HEAD: usize = size_of::<Head>();

/// The longest frame: 1 GiB of payload, and 32 MiB for key, headers and the rest.
pub(crate) const MAX_FRAME: u32 = (1 << 30) + (32 << 20);

/// The fixed part of a frame. Stored, never reuse.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Head {
    pub(super) length: U32,
    pub(super) checksum: U32,
    pub(super) delta: U32,
    pub(super) lag: U32,
    pub(super) timestamp: I64,
    pub(super) epoch: U32,
    pub(super) key: U16,
    pub(super) flags: u8,
    pub(super) headers: u8,
}

/// What follows a producer's id. Stored, never reuse.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct ProducerTail {
    pub(super) epoch: U64,
    pub(super) sequence: U64,
}

/// Where the checksum ends and what it covers goes on.
const COVERED: usize = 8;

// Stored, never reuse.
pub(super) const MORE: u8 = 1;
pub(super) const KEY: u8 = 2;
pub(super) const TOMBSTONE: u8 = 4;
pub(super) const EVENT_ID: u8 = 8;
pub(super) const PRODUCER: u8 = 16;
const KNOWN: u8 = MORE | KEY | TOMBSTONE | EVENT_ID | PRODUCER;

/// Who wrote a record, and which of theirs it is: what duplicates are told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Producer<'a> {
    /// 1 to 255 bytes.
    pub(crate) id: &'a [u8],
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

/// What the log adds to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Offset less the segment's base.
    pub(crate) delta: u32,
    /// Offset less the durable watermark as it stood, saturating: tells a torn tail from rot.
    pub(crate) lag: u32,
    /// Nanoseconds since the Unix epoch.
    pub(crate) timestamp: i64,
    pub(crate) epoch: u32,
    /// Whether the batch goes on behind this frame.
    pub(crate) more: bool,
}

/// What a producer gives: a record on its way in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parts<'a> {
    /// An empty key is a key.
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) tombstone: bool,
    /// 1 to 255 bytes.
    pub(crate) event_id: Option<&'a [u8]>,
    pub(crate) producer: Option<Producer<'a>>,
    pub(crate) headers: &'a [Header<'a>],
    pub(crate) payload: &'a [u8],
}

/// What a frame of this length takes up.
pub(crate) const fn padded(length: u32) -> usize {
    (length as usize).next_multiple_of(ALIGN)
}

impl Parts<'_> {
    /// The length of the frame, without padding.
    pub(crate) fn frame_len(&self) -> Result<u32, Oversize> {
        let mut size = HEAD as u64;
        if let Some(id) = self.event_id {
            event_id_len(id)?;
            size += 1 + id.len() as u64;
        }
        if let Some(producer) = self.producer {
            producer_len(producer.id)?;
            size += 1 + producer.id.len() as u64 + size_of::<ProducerTail>() as u64;
        }
        self.key_len()?;
        size += self.key.unwrap_or_default().len() as u64;
        self.header_count()?;
        for header in self.headers {
            let head = HeaderHead::of(header)?;
            size +=
                HeaderHead::SIZE as u64 + u64::from(head.name.get()) + u64::from(head.value.get());
        }
        size = size.saturating_add(self.payload.len() as u64);

        let limit = u64::from(MAX_FRAME);
        match u32::try_from(size) {
            Ok(length) if length <= MAX_FRAME => Ok(length),
            _ => Err(Oversize::Frame { size, limit }),
        }
    }

    /// Fills `out` with the frame, all but its length word, which is left zero; gives the length,
    /// to be stored there last.
    ///
    /// `out` is as long as the frame with its padding.
    pub(crate) fn encode(&self, stamp: Stamp, seed: Seed, out: &mut [u8]) -> Result<u32, Oversize> {
        let length = self.frame_len()?;
        let room = Oversize::Room {
            needed: padded(length),
            given: out.len(),
        };
        if out.len() != padded(length) {
            return Err(room);
        }
        let (frame, padding) = out.split_at_mut_checked(length as usize).ok_or(room)?;
        padding.fill(0);

        let mut rest = Room {
            left: &mut *frame,
            short: room,
        };
        rest.put(
            Head {
                length: U32::ZERO,
                checksum: U32::ZERO,
                delta: stamp.delta.into(),
                lag: stamp.lag.into(),
                timestamp: stamp.timestamp.into(),
                epoch: stamp.epoch.into(),
                key: self.key_len()?.into(),
                flags: self.flags(stamp.more),
                headers: self.header_count()?,
            }
            .as_bytes(),
        )?;
        if let Some(id) = self.event_id {
            rest.put(&[event_id_len(id)?])?;
            rest.put(id)?;
        }
        if let Some(producer) = self.producer {
            rest.put(&[producer_len(producer.id)?])?;
            rest.put(producer.id)?;
            rest.put(
                ProducerTail {
                    epoch: producer.epoch.into(),
                    sequence: producer.sequence.into(),
                }
                .as_bytes(),
            )?;
        }
        rest.put(self.key.unwrap_or_default())?;
        for header in self.headers {
            rest.put(HeaderHead::of(header)?.as_bytes())?;
            rest.put(header.name.as_bytes())?;
            rest.put(&header.value)?;
        }
        rest.put(self.payload)?;

        let checksum = checksum(seed, length, frame);
        let (head, _) = Head::mut_from_prefix(frame).map_err(|_| room)?;
        head.checksum = checksum.into();
        Ok(length)
    }

    fn flags(&self, more: bool) -> u8 {
        [
            (MORE, more),
            (KEY, self.key.is_some()),
            (TOMBSTONE, self.tombstone),
            (EVENT_ID, self.event_id.is_some()),
            (PRODUCER, self.producer.is_some()),
        ]
        .into_iter()
        .fold(
            0,
            |flags, (flag, set)| if set { flags | flag } else { flags },
        )
    }

    fn key_len(&self) -> Result<u16, Oversize> {
        let size = self.key.unwrap_or_default().len();
        u16::try_from(size).map_err(|_| Oversize::Key {
            size,
            limit: usize::from(u16::MAX),
        })
    }

    fn header_count(&self) -> Result<u8, Oversize> {
        let count = self.headers.len();
        u8::try_from(count).map_err(|_| Oversize::Headers {
            count,
            limit: MAX_HEADERS,
        })
    }
}

fn event_id_len(id: &[u8]) -> Result<u8, Oversize> {
    short_len(id).ok_or(Oversize::EventId {
        size: id.len(),
        limit: usize::from(u8::MAX),
    })
}

fn producer_len(id: &[u8]) -> Result<u8, Oversize> {
    short_len(id).ok_or(Oversize::Producer {
        size: id.len(),
        limit: usize::from(u8::MAX),
    })
}

fn short_len(id: &[u8]) -> Option<u8> {
    u8::try_from(id.len()).ok().filter(|len| *len > 0)
}

/// What is still to be filled.
struct Room<'a> {
    left: &'a mut [u8],
    short: Oversize,
}

impl Room<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Oversize> {
        self.left
            .split_off_mut(..bytes.len())
            .ok_or(self.short)?
            .copy_from_slice(bytes);
        Ok(())
    }
}

/// The checksum of a frame of this length, whatever its first 8 bytes say.
pub(super) fn checksum(seed: Seed, length: u32, frame: &[u8]) -> u32 {
    let covered = frame.get(COVERED..).unwrap_or_default();
    seed.checksum([&length.to_le_bytes(), covered])
}

/// What a frame says of itself before anything was checked: to search by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peek {
    /// Possible for a frame, and no more: it may point beyond the bytes.
    pub(crate) length: u32,
    pub(crate) delta: u32,
    pub(crate) lag: u32,
    pub(crate) epoch: u32,
}

/// A record on its way out: borrowed from the segment, and checked in full.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    head: &'a Head,
    event_id: Option<&'a [u8]>,
    producer: Option<Producer<'a>>,
    key: Option<&'a [u8]>,
    headers: Headers<'a>,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame at the start of `bytes`, which may go on behind it, and bound its length.
    ///
    /// The padding has to be there and is not looked at: it shares its 8 bytes with the end of
    /// the frame, and nothing is ever read from it.
    pub(crate) fn decode(bytes: &'a [u8], seed: Seed) -> Result<Self, Flaw> {
        let have = bytes.len();
        let short = Flaw::Short { needed: HEAD, have };
        let (word, _) = U32::ref_from_prefix(bytes).map_err(|_| short)?;
        let length = word.get();
        if length == 0 {
            return Err(Flaw::Empty);
        }
        let (head, _) = Head::ref_from_prefix(bytes).map_err(|_| short)?;
        if (length as usize) < HEAD || length > MAX_FRAME || padded(length) > have {
            return Err(Flaw::Length {
                found: length.into(),
                least: HEAD as u64,
                limit: u64::from(MAX_FRAME).min(have as u64),
            });
        }
        let frame = bytes.get(..length as usize).ok_or(short)?;
        let (expected, found) = (checksum(seed, length, frame), head.checksum.get());
        if found != expected {
            return Err(Flaw::Checksum { expected, found });
        }
        Self::fields(head, frame.get(HEAD..).unwrap_or_default())
    }

    /// What the bytes behind the fixed part say, now that they are known to be what was written.
    fn fields(head: &'a Head, mut rest: &'a [u8]) -> Result<Self, Flaw> {
        if head.flags & !KNOWN != 0 {
            return Err(Flaw::UnknownFlags {
                found: head.flags.into(),
                known: KNOWN.into(),
            });
        }
        let has = |flag| head.flags & flag != 0;
        let event_id = has(EVENT_ID)
            .then(|| take_short(&mut rest, Field::EventId))
            .transpose()?;
        let producer = has(PRODUCER)
            .then(|| take_producer(&mut rest))
            .transpose()?;
        let key_len = head.key.get();
        if key_len > 0 && !has(KEY) {
            return Err(Flaw::Field {
                field: Field::Key,
                found: key_len.into(),
            });
        }
        let key = take(&mut rest, key_len.into(), Field::Key)?;
        let headers = Headers::decode(head.headers, &mut rest)?;
        Ok(Self {
            head,
            event_id,
            producer,
            key: has(KEY).then_some(key),
            headers,
            payload: rest,
        })
    }

    /// A cheap look at what may be a frame: nothing is verified but that its length is possible.
    pub(crate) fn peek(bytes: &[u8]) -> Option<Peek> {
        let (head, _) = Head::ref_from_prefix(bytes).ok()?;
        let length = head.length.get();
        ((length as usize) >= HEAD && length <= MAX_FRAME).then(|| Peek {
            length,
            delta: head.delta.get(),
            lag: head.lag.get(),
            epoch: head.epoch.get(),
        })
    }

    /// The length of the frame, without padding.
    pub(crate) fn len(&self) -> u32 {
        self.head.length.get()
    }

    /// How far behind the start of this frame the next one begins.
    pub(crate) fn padded_len(&self) -> usize {
        padded(self.len())
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp {
            delta: self.delta(),
            lag: self.lag(),
            timestamp: self.timestamp(),
            epoch: self.epoch(),
            more: self.more(),
        }
    }

    pub(crate) fn delta(&self) -> u32 {
        self.head.delta.get()
    }

    pub(crate) fn lag(&self) -> u32 {
        self.head.lag.get()
    }

    pub(crate) fn timestamp(&self) -> i64 {
        self.head.timestamp.get()
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.head.epoch.get()
    }

    /// Whether the batch goes on behind this frame.
    pub(crate) fn more(&self) -> bool {
        self.head.flags & MORE != 0
    }

    pub(crate) fn is_tombstone(&self) -> bool {
        self.head.flags & TOMBSTONE != 0
    }

    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    pub(crate) fn event_id(&self) -> Option<&'a [u8]> {
        self.event_id
    }

    pub(crate) fn producer(&self) -> Option<Producer<'a>> {
        self.producer
    }

    pub(crate) fn headers(&self) -> Headers<'a> {
        self.headers
    }

    pub(crate) fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Bytes behind one that counts them; never none, since none has a flag of its own.
fn take_short<'a>(rest: &mut &'a [u8], field: Field) -> Result<&'a [u8], Flaw> {
    let len = match take(rest, 1, field)? {
        [len] if *len > 0 => usize::from(*len),
        _ => return Err(Flaw::Field { field, found: 0 }),
    };
    take(rest, len, field)
}

fn take_producer<'a>(rest: &mut &'a [u8]) -> Result<Producer<'a>, Flaw> {
    let id = take_short(rest, Field::Producer)?;
    let (tail, behind) = ProducerTail::ref_from_prefix(rest).map_err(|_| Flaw::Field {
        field: Field::Producer,
        found: rest.len() as u64,
    })?;
    *rest = behind;
    Ok(Producer {
        id,
        epoch: tail.epoch.get(),
        sequence: tail.sequence.get(),
    })
}
