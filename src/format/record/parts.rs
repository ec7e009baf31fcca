use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::{EVENT_ID, HEAD, Head, KEY, MAX_FRAME, MORE, PRODUCER, Producer, ProducerTail, Stamp};
use super::{TOMBSTONE, checksum, padded};
use crate::format::headers::{Header, HeaderHead, MAX_HEADERS};
use crate::format::oversize::Oversize;
use crate::format::seed::Seed;

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
