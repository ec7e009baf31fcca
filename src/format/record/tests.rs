use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::format::flaw::{Field, Flaw};
use crate::format::headers::Header;
use crate::format::oversize::Oversize;

const STAMP: Stamp = Stamp {
    delta: 7,
    lag: 3,
    timestamp: 1_700_000_000_000_000_000,
    epoch: 12,
    more: true,
};

fn seed() -> Seed {
    Seed::new(&[1; 16], 17, 2, 0xfeed)
}

/// A frame as it lies in a segment, length word and all.
fn written(parts: &Parts<'_>, stamp: Stamp, seed: Seed) -> Vec<u8> {
    let mut out = vec![0xaa; padded(parts.frame_len().unwrap())];
    let length = parts.encode(stamp, seed, &mut out).unwrap();
    assert_eq!(out[..4], [0; 4], "the length is for the caller to store");
    out[..4].copy_from_slice(&length.to_le_bytes());
    out
}

/// Makes the checksum agree with whatever the bytes now say.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let sum = checksum(seed(), length, &bytes[..length as usize]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn full<'a>(headers: &'a [Header<'a>]) -> Parts<'a> {
    Parts {
        key: Some(b"hv"),
        tombstone: true,
        event_id: Some(b"us7000abcd"),
        producer: Some(Producer {
            id: b"feed",
            epoch: 2,
            sequence: 40,
        }),
        headers,
        payload: b"M 4.6 Volcano, Hawaii",
    }
}

fn two_headers() -> [Header<'static>; 2] {
    [
        Header::new("status", b"ok".as_slice()),
        Header::new(String::from("\u{e4}"), Vec::new()),
    ]
}

prop_compose! {
    fn stamps()(
        delta: u32, lag: u32, timestamp: i64, epoch: u32, more: bool,
    ) -> Stamp {
        Stamp { delta, lag, timestamp, epoch, more }
    }
}

proptest! {
    #[test]
    fn what_went_in_comes_out(
        stamp in stamps(),
        key in option::of(vec(any::<u8>(), 0..40)),
        tombstone: bool,
        event_id in option::of(vec(any::<u8>(), 1..=255)),
        producer in option::of((vec(any::<u8>(), 1..=255), any::<u64>(), any::<u64>())),
        headers in vec((".{0,12}", vec(any::<u8>(), 0..20)), 0..6),
        payload in vec(any::<u8>(), 0..200),
        behind in vec(any::<u8>(), 0..50),
    ) {
        let headers: Vec<Header<'_>> = headers
            .iter()
            .map(|(name, value)| Header::new(name.as_str(), value.as_slice()))
            .collect();
        let parts = Parts {
            key: key.as_deref(),
            tombstone,
            event_id: event_id.as_deref(),
            producer: producer
                .as_ref()
                .map(|(id, epoch, sequence)| Producer { id, epoch: *epoch, sequence: *sequence }),
            headers: &headers,
            payload: &payload,
        };
        let mut bytes = written(&parts, stamp, seed());
        let length = parts.frame_len().unwrap();
        prop_assert_eq!(bytes.len(), padded(length));
        prop_assert!(bytes[length as usize..].iter().all(|byte| *byte == 0));
        let checksum = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
        let Stamp { delta, lag, epoch, .. } = stamp;
        let peek = Peek { length, delta, lag, epoch, newer: false, checksum };
        prop_assert_eq!(Frame::peek(&bytes), Some(peek));
        let sums = [8, length as usize].map(|end| crc32c::crc32c(&bytes[..end]));
        prop_assert!(peek.agrees(seed(), sums[0], sums[1]));
        prop_assert!(!peek.agrees(seed(), sums[0], sums[1] ^ 1));

        bytes.extend(behind);
        let frame = Frame::decode(&bytes, seed()).unwrap();
        prop_assert_eq!(frame.len(), length);
        prop_assert_eq!(frame.padded_len(), padded(length));
        prop_assert_eq!(frame.stamp(), stamp);
        prop_assert_eq!(frame.key(), parts.key);
        prop_assert_eq!(frame.is_tombstone(), tombstone);
        prop_assert_eq!(frame.event_id(), parts.event_id);
        prop_assert_eq!(frame.producer(), parts.producer);
        prop_assert_eq!(frame.headers().len(), headers.len());
        prop_assert!(
            frame.headers().eq(headers.iter().map(|header| (&*header.name, &*header.value)))
        );
        prop_assert_eq!(frame.payload(), payload.as_slice());
    }

    #[test]
    fn arbitrary_bytes_are_refused_quietly(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(Frame::decode(&bytes, seed()).is_err());
        let _peeked: Option<Peek> = Frame::peek(&bytes);
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let headers = two_headers();
    let bytes = written(&full(&headers), STAMP, seed());
    let length = full(&headers).frame_len().unwrap() as usize;
    for bit in 0..length * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let flaw = Frame::decode(&bytes, seed()).expect_err("a flipped bit");
        assert!(!flaw.is_unsupported(), "bit {bit} reads as {flaw:?}");
    }
}

#[test]
fn every_cut_is_noticed() {
    let headers = two_headers();
    let bytes = written(&full(&headers), STAMP, seed());
    for len in 0..bytes.len() {
        assert!(Frame::decode(&bytes[..len], seed()).is_err(), "{len} bytes");
    }
}

#[test]
fn a_frame_of_another_life_is_never_ours() {
    let headers = two_headers();
    let bytes = written(&full(&headers), STAMP, seed());
    for other in [
        Seed::new(&[2; 16], 17, 2, 0xfeed),
        Seed::new(&[1; 16], 18, 2, 0xfeed),
        Seed::new(&[1; 16], 17, 3, 0xfeed),
        Seed::new(&[1; 16], 17, 2, 0xfeee),
    ] {
        assert!(matches!(
            Frame::decode(&bytes, other),
            Err(Flaw::Checksum { .. })
        ));
    }
    assert!(Frame::decode(&bytes, seed()).is_ok());
}

/// D21: the length is compared with what is there before anything is done with it.
#[test]
fn a_damaged_length_leads_nowhere() {
    let bytes = written(&Parts::default(), STAMP, seed());
    assert_eq!(bytes.len(), HEAD);
    let with_length = |length: u32| {
        let mut bytes = bytes.clone();
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        Frame::decode(&bytes, seed()).unwrap_err()
    };
    assert_eq!(with_length(0), Flaw::Empty);
    for length in [
        1,
        8,
        31,
        33,
        40,
        MAX_FRAME,
        MAX_FRAME + 1,
        0x7fff_ffff,
        u32::MAX,
    ] {
        assert_eq!(
            with_length(length),
            Flaw::Length {
                found: length.into(),
                least: 32,
                limit: 32
            }
        );
    }
    let mut peeked = bytes.clone();
    for (length, possible) in [
        (31, false),
        (32, true),
        (MAX_FRAME, true),
        (MAX_FRAME + 1, false),
    ] {
        peeked[..4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(Frame::peek(&peeked).is_some(), possible, "{length}");
    }
    assert_eq!(Frame::peek(&bytes[..31]), None);
}

#[test]
fn where_nothing_was_finished_there_is_nothing() {
    let mut unfinished = written(&Parts::default(), STAMP, seed());
    unfinished[..4].fill(0);
    assert_eq!(Frame::decode(&unfinished, seed()).unwrap_err(), Flaw::Empty);
    // Less than a frame's room at the end of a segment.
    assert_eq!(Frame::decode(&[0; 8], seed()).unwrap_err(), Flaw::Empty);
    for have in [0, 3] {
        assert_eq!(
            Frame::decode(&[0; 8][..have], seed()).unwrap_err(),
            Flaw::Short { needed: 32, have }
        );
    }
    assert_eq!(
        Frame::decode(&[40, 0, 0, 0, 0, 0, 0, 0], seed()).unwrap_err(),
        Flaw::Short {
            needed: 32,
            have: 8
        }
    );
}

#[test]
fn a_flag_of_a_later_version_is_not_damage() {
    for bit in 5..8 {
        let mut bytes = written(&Parts::default(), STAMP, seed());
        bytes[30] |= 1 << bit;
        let flaw = Frame::decode(&resealed(bytes), seed()).unwrap_err();
        assert!(flaw.is_unsupported());
        assert_eq!(
            flaw,
            Flaw::UnknownFlags {
                found: u32::from(MORE) | 1 << bit,
                known: 31
            }
        );
    }
}

/// Lengths inside the frame that its checksum vouches for are still compared with its end.
#[test]
fn lengths_beyond_the_frame_are_refused() {
    let blamed = |bytes: Vec<u8>| match Frame::decode(&resealed(bytes), seed()) {
        Err(Flaw::Field { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let plain = |parts: Parts<'_>| written(&parts, STAMP, seed());

    let mut key = plain(Parts {
        key: Some(b"key"),
        ..Parts::default()
    });
    key[28] = 4;
    assert_eq!(blamed(key.clone()), Field::Key);
    key[28..30].fill(0xff);
    assert_eq!(blamed(key), Field::Key);

    let mut without = plain(Parts {
        payload: b"key",
        ..Parts::default()
    });
    without[28] = 3;
    assert_eq!(blamed(without), Field::Key);

    let mut count = plain(Parts::default());
    count[31] = 1;
    assert_eq!(blamed(count), Field::HeaderName);

    let headers = [Header::new("n", b"v".as_slice())];
    let one = plain(Parts {
        headers: &headers,
        ..Parts::default()
    });
    for (at, field) in [(32, Field::HeaderName), (34, Field::HeaderValue)] {
        let mut one = one.clone();
        one[at] = 9;
        assert_eq!(blamed(one), field);
    }
    let mut huge = one.clone();
    huge[34..38].fill(0xff);
    assert_eq!(blamed(huge), Field::HeaderValue);
    let mut name = one.clone();
    name[38] = 0xff;
    assert_eq!(blamed(name), Field::HeaderName, "not text");

    let mut event_id = plain(Parts {
        event_id: Some(b"e"),
        ..Parts::default()
    });
    for len in [0, 2, 255] {
        event_id[32] = len;
        assert_eq!(blamed(event_id.clone()), Field::EventId);
    }

    let producer = Producer {
        id: b"p",
        epoch: 1,
        sequence: 1,
    };
    let mut producer = plain(Parts {
        producer: Some(producer),
        ..Parts::default()
    });
    for len in [0, 2, 17, 18, 255] {
        producer[32] = len;
        assert_eq!(blamed(producer.clone()), Field::Producer);
    }
    // Flags that promise what is not there.
    for (flag, field) in [(EVENT_ID, Field::EventId), (PRODUCER, Field::Producer)] {
        let mut none = plain(Parts::default());
        none[30] |= flag;
        assert_eq!(blamed(none), field);
    }
}

#[test]
fn an_empty_key_is_a_key() {
    let bytes = written(
        &Parts {
            key: Some(b""),
            ..Parts::default()
        },
        STAMP,
        seed(),
    );
    assert_eq!(Frame::decode(&bytes, seed()).unwrap().key(), Some(&[][..]));
    let bytes = written(&Parts::default(), STAMP, seed());
    assert_eq!(Frame::decode(&bytes, seed()).unwrap().key(), None);
}

#[test]
fn the_exact_limits_fit_and_one_more_does_not() {
    let big = vec![b'x'; 65_536];
    let text = std::str::from_utf8(&big).unwrap();
    let fits = |parts: Parts<'_>| {
        let bytes = written(&parts, STAMP, seed());
        Frame::decode(&bytes, seed()).unwrap();
    };

    fits(Parts {
        key: Some(&big[..65_535]),
        ..Parts::default()
    });
    let parts = Parts {
        key: Some(&big),
        ..Parts::default()
    };
    assert_eq!(
        parts.frame_len(),
        Err(Oversize::Key {
            size: 65_536,
            limit: 65_535
        })
    );

    let many = vec![Header::new("", &[][..]); 256];
    fits(Parts {
        headers: &many[..255],
        ..Parts::default()
    });
    let parts = Parts {
        headers: &many,
        ..Parts::default()
    };
    assert_eq!(
        parts.frame_len(),
        Err(Oversize::Headers {
            count: 256,
            limit: 255
        })
    );

    let longest = [Header::new(&text[1..], &[][..])];
    fits(Parts {
        headers: &longest,
        ..Parts::default()
    });
    let longer = [Header::new(text, &[][..])];
    let parts = Parts {
        headers: &longer,
        ..Parts::default()
    };
    assert_eq!(
        parts.frame_len(),
        Err(Oversize::HeaderName {
            size: 65_536,
            limit: 65_535
        })
    );

    fits(Parts {
        event_id: Some(&big[..255]),
        ..Parts::default()
    });
    for size in [0, 256] {
        let parts = Parts {
            event_id: Some(&big[..size]),
            ..Parts::default()
        };
        assert_eq!(
            parts.frame_len(),
            Err(Oversize::EventId { size, limit: 255 })
        );
    }

    let producer = |size| Producer {
        id: &big[..size],
        epoch: u64::MAX,
        sequence: u64::MAX,
    };
    fits(Parts {
        producer: Some(producer(255)),
        ..Parts::default()
    });
    for size in [0, 256] {
        let parts = Parts {
            producer: Some(producer(size)),
            ..Parts::default()
        };
        assert_eq!(
            parts.frame_len(),
            Err(Oversize::Producer { size, limit: 255 })
        );
    }
}

/// The memory is asked for and hardly touched.
#[test]
fn the_longest_frame_is_measured_exactly() {
    let limit = u64::from(MAX_FRAME);
    let payload = vec![0; MAX_FRAME as usize - HEAD + 1];
    let parts = Parts {
        payload: &payload[1..],
        ..Parts::default()
    };
    assert_eq!(parts.frame_len(), Ok(MAX_FRAME));
    let parts = Parts {
        payload: &payload,
        ..Parts::default()
    };
    assert_eq!(
        parts.frame_len(),
        Err(Oversize::Frame {
            size: limit + 1,
            limit
        })
    );
    let parts = Parts {
        payload: &payload,
        ..Parts::default()
    };
    assert!(parts.encode(STAMP, seed(), &mut []).is_err());

    // 255 headers that all borrow the same bytes: more than 32 bits can count.
    let headers = vec![Header::new("", &payload[..]); 255];
    let parts = Parts {
        headers: &headers,
        ..Parts::default()
    };
    let size = HEAD as u64 + 255 * (6 + payload.len() as u64);
    assert_eq!(parts.frame_len(), Err(Oversize::Frame { size, limit }));
}

#[test]
fn room_of_any_other_size_is_refused() {
    let parts = Parts {
        payload: b"x",
        ..Parts::default()
    };
    for given in [0, 8, 33, 39, 41, 48] {
        let mut out = vec![0xaa; given];
        assert_eq!(
            parts.encode(STAMP, seed(), &mut out),
            Err(Oversize::Room { needed: 40, given })
        );
        assert!(out.iter().all(|byte| *byte == 0xaa), "nothing was written");
    }
}

#[test]
fn padding_reaches_the_next_multiple_of_eight() {
    for (length, size) in [(32, 32), (33, 40), (39, 40), (40, 40), (u32::MAX, 1 << 32)] {
        assert_eq!(padded(length), size);
    }
}
