//! The writer held to the bytes of version 1: a golden store shows whether old bytes can still be
//! read, and this shows whether the same bytes would still be written.

use std::fs;

use super::record::Producer;
use super::*;

#[path = "../../tests/golden/unpack.rs"]
mod unpack;

/// Holds what is written today to a list of what version 1 wrote, under `tests/golden/v1/bytes`.
/// Whatever is not in the list yet is new, and `make` puts it there.
pub(crate) fn hold(list: &str, made: &[(impl AsRef<str>, Vec<u8>)], make: bool) {
    let folder = unpack::folder("bytes");
    let path = folder.join(format!("{list}.txt"));
    let mut text = fs::read_to_string(&path).unwrap_or_default();
    for (name, bytes) in made {
        let name = name.as_ref();
        let found = text
            .lines()
            .find(|line| line.split(' ').next() == Some(name));
        let line = format!("{name} {}", told(bytes));
        match found {
            Some(found) => assert_eq!(found, line, "{list}"),
            None if make => text.push_str(&(line + "\n")),
            None => panic!("{name} is not in {path:?}"),
        }
    }
    assert_eq!(
        text.lines().count(),
        made.len(),
        "{list}: some are not made any more"
    );
    if make {
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, text).unwrap();
    }
}

/// Bytes as text, with the zeroes at their end counted.
fn told(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let (said, zeroes) = bytes.split_at(end);
    format!("{} and {} zeroes", said.escape_ascii(), zeroes.len())
}

/// The segments of all golden stores, with their names.
fn segments() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for case in fs::read_dir(unpack::folder("")).unwrap() {
        let case = case.unwrap().file_name().into_string().unwrap();
        if case == "bytes" {
            continue;
        }
        let files = unpack::unpack(&case).into_iter();
        let segments = files.filter_map(|(path, bytes)| Some((format!("{case}/{path}"), bytes?)));
        found.extend(segments.filter(|(_, bytes)| bytes.starts_with(&identity::MAGIC)));
    }
    assert!(found.len() > 15, "{}", found.len());
    found
}

/// The sound frames of a segment from its first one on, each as its bytes.
fn frames(bytes: &[u8]) -> Vec<&[u8]> {
    let identity = Identity::decode(bytes.first_chunk().unwrap())
        .unwrap()
        .unwrap();
    let records_at = usize::try_from(identity.layout.records_at).unwrap();
    let (mut rest, mut found) = (&bytes[records_at..], Vec::new());
    while let Ok(frame) = Frame::decode(rest, identity.seed()) {
        let (this, behind) = rest.split_at(frame.padded_len());
        found.push(this);
        rest = behind;
    }
    found
}

/// The payloads of the golden journals.
pub(crate) fn journal_payloads() -> Vec<Vec<u8>> {
    let journals = segments()
        .into_iter()
        .filter(|(path, _)| path.contains("/journal/"));
    let payload = |frame: &[u8]| frame[HEAD..Frame::peek(frame).unwrap().length as usize].to_vec();
    let payloads = |(_, bytes): (_, Vec<u8>)| frames(&bytes).into_iter().map(payload).collect();
    journals.flat_map::<Vec<_>, _>(payloads).collect()
}

fn identities() -> [Identity; 2] {
    let journal = Identity {
        store: [0x11; 16],
        log: 0,
        topic: TopicName::JOURNAL,
        partition: 0,
        number: 0,
        nonce: 0xfeed,
        epoch: 1,
        base: 0,
        predecessor: None,
        gaps_allowed: false,
        covers_to: None,
        layout: Layout::new(64 << 10, 4096).unwrap(),
    };
    let whole = Identity {
        log: 17,
        topic: TopicName::new("agent.output").unwrap(),
        partition: 65_534,
        number: 2,
        nonce: 0x0102_0304_0506_0708,
        epoch: 12,
        base: 9_000,
        predecessor: Some(Predecessor {
            place: 8_192,
            next: 8_999,
        }),
        gaps_allowed: true,
        covers_to: Some(7),
        layout: Layout {
            records_at: 64 << 10,
            ..Layout::new(1 << 20, 512).unwrap()
        },
        ..journal
    };
    [journal, whole]
}

fn slots() -> [Slot; 2] {
    let bare = Slot {
        is_final: false,
        generation: 1,
        place: 8_192,
        next: 0,
        records: 0,
        greatest: None,
        epoch: 1,
        last_append: None,
        index_entries: 0,
        index_checksum: 0,
    };
    let seal = Slot {
        is_final: true,
        generation: 0x0102_0304_0506_0708,
        place: 8_200,
        next: 9_001,
        records: 3,
        greatest: Some(-5),
        epoch: 12,
        last_append: Some(1_700_000_000_000_000_000),
        index_entries: 4,
        index_checksum: 0xdead_beef,
    };
    [bare, seal]
}

fn frame(parts: Parts<'_>, more: bool) -> Vec<u8> {
    let stamp = Stamp {
        delta: 7,
        lag: 3,
        timestamp: -1,
        epoch: 12,
        more,
    };
    let mut frame = vec![0; padded(parts.frame_len().unwrap())];
    let length = parts
        .encode(stamp, identities()[1].seed(), &mut frame)
        .unwrap();
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame
}

fn whole_frame() -> Vec<u8> {
    let parts = Parts {
        key: Some(b"hv"),
        tombstone: true,
        event_id: Some(b"us7000"),
        producer: Some(Producer {
            id: b"feed",
            epoch: 2,
            sequence: 40,
        }),
        headers: &[
            Header::new("status", b"ok".as_slice()),
            Header::new("", b"".as_slice()),
        ],
        payload: b"M 4.6",
    };
    frame(parts, true)
}

/// One of each, with as little in it as there can be, and with all.
fn encoded() -> Vec<(&'static str, Vec<u8>)> {
    let bare_frame = frame(
        Parts {
            key: None,
            tombstone: false,
            event_id: None,
            producer: None,
            headers: &[],
            payload: b"",
        },
        false,
    );
    let [journal, whole] = identities();
    let [bare_slot, seal] = slots().map(|slot| slot.encode(whole.seed()).unwrap());
    let [first, later] =
        [(None, 0, 8_192), (Some(-1), 7, 9_000)].map(|(greatest, delta, place)| {
            let (mut entry, place8) = Entry::new(greatest, delta, place).unwrap().encode();
            entry[12..].copy_from_slice(&place8.to_le_bytes());
            entry.to_vec()
        });
    let mut redo = Vec::new();
    let of = Stretch {
        log: 17,
        number: 2,
        nonce: whole.nonce,
        first: 9_007,
        next: 9_008,
        place: 8_200,
    };
    of.encode(None, &whole_frame(), &mut redo).unwrap();
    let identity = whole.encode().unwrap();
    let bare = Stretch { next: 9_007, ..of };
    bare.encode(Some(&identity), &[], &mut redo).unwrap();
    vec![
        ("identity-of-a-journal", journal.encode().unwrap().to_vec()),
        ("identity", identity.to_vec()),
        ("slot", bare_slot.to_vec()),
        ("seal", seal.to_vec()),
        ("first-index-entry", first),
        ("index-entry", later),
        ("bare-frame", bare_frame),
        ("frame", whole_frame()),
        ("redo", redo),
    ]
}

/// Known values become the bytes that version 1 wrote for them.
#[test]
fn known_values_are_written_as_version_1_wrote_them() {
    hold("format", &encoded(), false);
}

#[test]
#[ignore = "golden files are made once, and never changed"]
fn make() {
    hold("format", &encoded(), true);
}

/// What the golden stores hold is read, and written again as the very same bytes: identity, slots,
/// seal, index and every frame.
#[test]
fn what_golden_stores_hold_is_written_as_the_same_bytes() {
    let (mut slots, mut entries, mut records) = (0, 0, 0);
    for (path, bytes) in segments() {
        let sector: &[u8; SECTOR] = bytes.first_chunk().unwrap();
        let identity = Identity::decode(sector).unwrap().unwrap();
        assert_eq!(identity.encode().as_ref(), Ok(sector), "{path}");
        let seed = identity.seed();
        for at in [Sector::A, Sector::B, Sector::Seal] {
            let sector = at.of(&bytes).unwrap();
            if let Some(slot) = Slot::decode(sector, seed).unwrap() {
                assert_eq!(slot.encode(seed).as_ref(), Ok(sector), "{path}");
                slots += 1;
            }
        }
        let [index_at, records_at] = [PAGE, identity.layout.records_at].map(usize::try_from);
        let room = &bytes[index_at.unwrap()..records_at.unwrap()];
        for chunk in room.as_chunks::<{ Entry::SIZE }>().0 {
            if let Some(entry) = Entry::decode(chunk) {
                let again = entry.encode();
                assert_eq!(
                    (&again.0[..12], again.1.to_le_bytes().as_slice()),
                    chunk.split_at(12)
                );
                entries += 1;
            }
        }
        for bytes in frames(&bytes) {
            assert_eq!(again(bytes, seed), bytes, "{path}");
            records += 1;
        }
    }
    assert!(
        slots > 15 && entries > 15 && records > 200,
        "{slots} {entries} {records}"
    );
}

/// A frame, read and written.
fn again(bytes: &[u8], seed: Seed) -> Vec<u8> {
    let frame = Frame::decode(bytes, seed).unwrap();
    let headers: Vec<Header<'_>> = frame
        .headers()
        .map(|(name, value)| Header::new(name, value))
        .collect();
    let parts = Parts {
        key: frame.key(),
        tombstone: frame.is_tombstone(),
        event_id: frame.event_id(),
        producer: frame.producer(),
        headers: &headers,
        payload: frame.payload(),
    };
    let mut again = vec![0; frame.padded_len()];
    let length = parts.encode(frame.stamp(), seed, &mut again).unwrap();
    again[..4].copy_from_slice(&length.to_le_bytes());
    again
}
