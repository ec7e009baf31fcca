//! What must hold for any bytes: decoding does not panic, and what decodes encodes to the very
//! same bytes.
//!
//! A checksum stops nearly all arbitrary bytes at the door. So each property is asked twice: of
//! the bytes as they are, and of the same bytes with a checksum that agrees.

use std::borrow::Cow;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::record::{Frame, HEAD, Head, MAX_FRAME, Parts, checksum, padded};
use super::redo_file::{MAGIC as REDO_FILE, RedoFile, RedoFileHead};
use super::{Entry, Header, Identity, Layout, SECTOR, Sector, Seed, Slot, choose, entries};
use super::{identity, slot};

fn seed() -> Seed {
    Seed::new(&[1; 16], 17, 2, 0xfeed)
}

/// Arbitrary bytes as the frame of a record.
pub fn record(bytes: &[u8]) {
    frame_holds(bytes);
    let mut sealed = bytes.to_vec();
    if let Ok((head, _)) = Head::ref_from_prefix(bytes)
        && let Ok(have) = u32::try_from(bytes.len())
        && have <= MAX_FRAME
    {
        let said = head.length.get();
        let length = if (HEAD..=bytes.len()).contains(&(said as usize)) {
            said
        } else {
            have
        };
        sealed.truncate(length as usize);
        let sum = checksum(seed(), length, &sealed);
        if let Ok((head, _)) = Head::mut_from_prefix(&mut sealed) {
            head.length = length.into();
            head.checksum = sum.into();
        }
        sealed.resize(padded(length), 0);
    }
    frame_holds(&sealed);
}

fn frame_holds(bytes: &[u8]) {
    let peeked = Frame::peek(bytes);
    let Ok(frame) = Frame::decode(bytes, seed()) else {
        return;
    };
    let peeked = peeked.map(|seen| (seen.length, seen.delta, seen.lag, seen.epoch));
    let stamp = frame.stamp();
    assert_eq!(
        peeked,
        Some((frame.len(), stamp.delta, stamp.lag, stamp.epoch))
    );
    assert!(frame.padded_len() <= bytes.len());

    let headers: Vec<Header<'_>> = frame
        .headers()
        .map(|(name, value)| Header::new(name, value))
        .collect();
    assert_eq!(headers.len(), frame.headers().len());
    let parts = Parts {
        key: frame.key(),
        tombstone: frame.is_tombstone(),
        event_id: frame.event_id(),
        producer: frame.producer(),
        headers: &headers,
        payload: frame.payload(),
    };
    let mut again = vec![0xaa; frame.padded_len()];
    assert_eq!(parts.encode(stamp, seed(), &mut again), Ok(frame.len()));
    let (word, rest) = again.split_at(4);
    assert_eq!(word, [0; 4]);
    assert_eq!(bytes.get(..4), Some(frame.len().as_bytes()));
    let behind = (frame.len() as usize).saturating_sub(4);
    assert_eq!(bytes.get(4..frame.len() as usize), rest.get(..behind));
}

/// Arbitrary bytes as the first sector of a segment.
pub fn identity(bytes: &[u8]) {
    let sector = sector(bytes);
    identity_holds(&sector);
    let mut raw: identity::Raw = zerocopy::transmute!(sector);
    raw.magic = identity::MAGIC;
    raw.checksum = raw.checksum().into();
    identity_holds(&zerocopy::transmute!(raw));
}

fn identity_holds(sector: &[u8; SECTOR]) {
    let Ok(Some(identity)) = Identity::decode(sector) else {
        return;
    };
    assert_eq!(identity.encode().as_ref(), Ok(sector));
    assert_eq!(
        identity.topic.as_str().is_empty(),
        identity.topic.is_journal()
    );
    let layout = identity.layout;
    assert_eq!(
        u64::from(layout.index_at) + layout.index_len() + layout.records_len(),
        layout.capacity
    );
}

/// Arbitrary bytes as the header page's slots and seal.
pub fn slot(bytes: &[u8]) {
    slots_hold(bytes);
    let mut sealed = Vec::new();
    for chunk in bytes.chunks(SECTOR) {
        let mut raw: slot::Raw = zerocopy::transmute!(sector(chunk));
        raw.magic = slot::MAGIC;
        raw.checksum = raw.checksum(seed()).into();
        sealed.extend_from_slice(raw.as_bytes());
    }
    slots_hold(&sealed);
}

fn slots_hold(page: &[u8]) {
    let decoded = |at: Sector| {
        let sector = at.of(page)?;
        let slot = Slot::decode(sector, seed()).ok().flatten()?;
        assert_eq!(slot.encode(seed()).as_ref(), Ok(sector));
        Some(slot)
    };
    let (a, b) = (decoded(Sector::A), decoded(Sector::B));
    decoded(Sector::Seal);
    let choice = choose(a, b);
    assert_eq!(choice.slot.is_some(), a.is_some() || b.is_some());
    for slot in [a, b].into_iter().flatten() {
        assert!(
            choice
                .slot
                .is_some_and(|chosen| chosen.generation >= slot.generation)
        );
    }
    assert_ne!(choice.write_next, Sector::Seal);
}

/// Arbitrary bytes as index entries, and as the numbers a segment is laid out by.
pub fn index(bytes: &[u8]) {
    let read = entries(bytes);
    assert_eq!(read.is_ok(), bytes.len().is_multiple_of(Entry::SIZE));
    let read = read.unwrap_or(Cow::Borrowed(&[]));
    let (chunks, _) = bytes.as_chunks::<{ Entry::SIZE }>();
    for (chunk, entry) in chunks.iter().zip(read.iter()) {
        assert_eq!(Entry::decode(chunk), (entry.place() != 0).then_some(*entry));
        let (bare, place8) = entry.encode();
        assert_eq!(chunk.first_chunk::<12>(), bare.first_chunk());
        assert_eq!(chunk.last_chunk(), Some(&place8.to_le_bytes()));
    }

    if let Ok((capacity, rest)) = U64::read_from_prefix(bytes)
        && let Ok((interval, _)) = U32::read_from_prefix(rest)
    {
        let (capacity, interval) = (capacity.get(), interval.get());
        if let Ok(layout) = Layout::new(capacity, interval) {
            assert_eq!(layout.capacity, capacity);
            assert!(layout.records_at < capacity);
        }
        if let Some(layout) = Layout::for_records(capacity, interval) {
            assert!(layout.records_len() >= capacity);
        }
    }
}

/// Arbitrary bytes as a file of redo.
pub fn redo_file(bytes: &[u8]) {
    redo_file_holds(bytes);
    let Ok((mut head, stretches)) = RedoFileHead::read_from_prefix(bytes) else {
        return;
    };
    head.magic = REDO_FILE;
    head.length = (bytes.len() as u64).into();
    head.checksum = head.checksum(stretches).into();
    redo_file_holds(&[head.as_bytes(), stretches].concat());
}

fn redo_file_holds(bytes: &[u8]) {
    if let Ok(file) = RedoFile::decode(bytes) {
        assert_eq!(file.encode().as_deref(), Ok(bytes));
    }
}

/// The bytes as a sector, short ones filled up with zeroes.
fn sector(bytes: &[u8]) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    for (to, from) in sector.iter_mut().zip(bytes) {
        *to = *from;
    }
    sector
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::format::identity::MAX_PARTITIONS;
    use crate::format::record::Producer;
    use crate::format::{Predecessor, Redo, Stamp, Stretch, TopicName};

    /// Things that decode, as the fuzzer's seeds are.
    fn sound() -> Vec<Vec<u8>> {
        let parts = Parts {
            key: Some(b"hv"),
            tombstone: true,
            event_id: Some(b"us7000abcd"),
            producer: Some(Producer {
                id: b"feed",
                epoch: 2,
                sequence: 40,
            }),
            headers: &[Header::new("status", b"ok".as_slice())],
            payload: b"M 4.6 Volcano, Hawaii",
        };
        let stamp = Stamp {
            delta: 7,
            lag: 3,
            timestamp: -1,
            epoch: 12,
            more: true,
        };
        let mut frame = vec![0; padded(parts.frame_len().unwrap())];
        let length = parts.encode(stamp, seed(), &mut frame).unwrap();
        frame[..4].copy_from_slice(length.as_bytes());

        let identity = Identity {
            store: [1; 16],
            log: 17,
            topic: TopicName::new("agent.output").unwrap(),
            partition: MAX_PARTITIONS - 1,
            number: 2,
            nonce: 0xfeed,
            epoch: 12,
            base: 9_000,
            predecessor: Some(Predecessor {
                place: 8_192,
                next: 9_000,
            }),
            gaps_allowed: true,
            covers_to: Some(7),
            layout: Layout::new(1 << 20, 4096).unwrap(),
        };
        let slot = Slot {
            is_final: false,
            generation: 6,
            place: 8_200,
            next: 9_001,
            records: 1,
            greatest: Some(-5),
            epoch: 12,
            last_append: Some(1),
            index_entries: 1,
            index_checksum: 0xdead_beef,
        };
        let identity = identity.encode().unwrap().to_vec();
        let slot = slot.encode(seed()).unwrap();
        let page = [identity.as_slice(), &slot, &[0; SECTOR], &slot].concat();
        let (mut entry, place8) = Entry::new(None, 7, 8_200).unwrap().encode();
        entry[12..].copy_from_slice(place8.as_bytes());
        let redo = Redo {
            of: Stretch {
                log: 17,
                number: 2,
                nonce: 0xfeed,
                first: 9_000,
                next: 9_001,
                place: 8_192,
            },
            identity: None,
            frames: frame.clone(),
        };
        let redo = RedoFile {
            store: [1; 16],
            log: 17,
            nonce: 1,
            stretches: vec![redo],
        };
        let redo = redo.encode().unwrap();
        vec![frame, identity, page, entry.repeat(3), redo]
    }

    fn all_hold(bytes: &[u8]) {
        record(bytes);
        identity(bytes);
        slot(bytes);
        index(bytes);
        redo_file(bytes);
    }

    #[test]
    fn sound_bytes_and_their_damaged_kin() {
        all_hold(&[]);
        for bytes in sound() {
            all_hold(&bytes);
            for at in 0..bytes.len() {
                all_hold(&bytes[..at]);
                for value in [0, 1, 0x7f, 0xff, bytes[at] ^ 1] {
                    let mut bytes = bytes.clone();
                    bytes[at] = value;
                    all_hold(&bytes);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..2_100)) {
            all_hold(&bytes);
        }
    }
}
