use std::ops::Range;

use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

#[cfg(any(test, fuzzing))]
use super::Stamp;
use super::{
    COVERED, EVENT_ID, HEAD, Head, KEY, KNOWN, MAX_FRAME, MORE, PRODUCER, Producer, ProducerTail,
};
use super::{TOMBSTONE, checksum, padded};
use crate::format::flaw::{Field, Flaw};
use crate::format::headers::{Headers, take};
use crate::format::seed::Seed;

/// What a frame says of itself before anything was checked: to search by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peek {
    /// Possible for a frame, and no more: it may point beyond the bytes.
    pub(crate) length: u32,
    pub(crate) delta: u32,
    pub(crate) lag: u32,
    pub(crate) epoch: u32,
    /// It has flags of a later version, if it is a frame.
    pub(crate) newer: bool,
    pub(super) checksum: u32,
}

impl Peek {
    /// The bytes that the checksum covers beside the length, if the head is that of a frame at `place`:
    /// never none.
    pub(crate) fn covered(&self, place: u64) -> Range<u64> {
        place + COVERED as u64..place + u64::from(self.length)
    }

    /// Whether the checksum agrees, by the plain checksums of some bytes before those that it covers, and
    /// of these together with them.
    pub(crate) fn agrees(&self, seed: Seed, before: u32, behind: u32) -> bool {
        let (length, covered) = (self.length.to_le_bytes(), self.length as usize - COVERED);
        seed.checksum_between(&length, (before, behind), covered) == self.checksum
    }
}

/// A record on its way out: borrowed from the segment, and checked in full.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    head: &'a Head,
    event_id: Option<&'a [u8]>,
    #[cfg_attr(
        not(any(test, fuzzing)),
        expect(
            dead_code,
            reason = "checked now, looked at by the duplicate check to come"
        )
    )]
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
            newer: head.flags & !KNOWN != 0,
            checksum: head.checksum.get(),
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

    #[cfg(any(test, fuzzing))]
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

    #[cfg(any(test, fuzzing))]
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

    #[cfg(any(test, fuzzing))]
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
