use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::format::{SECTOR, Stretch};

fn one() -> RedoFile {
    let stretch = |number, identity| Redo {
        of: Stretch {
            log: 17,
            number,
            nonce: 9,
            first: 40,
            next: 41,
            place: 8192,
        },
        identity,
        frames: vec![0x5a; 48],
    };
    RedoFile {
        store: [3; 16],
        log: 17,
        nonce: 0xfeed,
        stretches: vec![stretch(2, None), stretch(3, Some(Box::new([7; SECTOR])))],
    }
}

/// The file with a field changed, and a checksum that agrees again.
fn sealed(change: impl FnOnce(&mut RedoFileHead)) -> Vec<u8> {
    let file = one().encode().unwrap();
    let (mut head, rest) = RedoFileHead::read_from_prefix(&file).unwrap();
    change(&mut head);
    head.checksum = head.checksum(rest).into();
    [head.as_bytes(), rest].concat()
}

/// What is written is read; so is a file without a stretch.
#[test]
fn a_file_reads_as_it_was_written() {
    let empty = RedoFile {
        stretches: Vec::new(),
        ..one()
    };
    for file in [one(), empty] {
        assert_eq!(RedoFile::decode(&file.encode().unwrap()), Ok(file));
    }
}

/// Any bit of the file flips, or it is cut short anywhere, or something is written behind it: it is
/// refused, as damage.
#[test]
fn whatever_happens_to_a_file_is_noticed() {
    let whole = one().encode().unwrap();
    let refused = |bytes: &[u8]| {
        let flaw = RedoFile::decode(bytes).unwrap_err();
        assert!(!flaw.is_unsupported(), "{flaw}");
    };
    for place in 0..whole.len() {
        refused(&whole[..place]);
        let mut flipped = whole.clone();
        flipped[place] ^= 1 << (place % 8);
        refused(&flipped);
    }
    refused(&[whole.as_slice(), &[0]].concat());
}

/// A later version wrote it, or one that knows more flags: it is not damage.
#[test]
fn a_version_or_a_flag_that_is_not_known_is_unsupported() {
    for later in [
        sealed(|head| head.version = 2.into()),
        sealed(|head| head.flags = 4.into()),
    ] {
        let flaw = RedoFile::decode(&later).unwrap_err();
        assert!(flaw.is_unsupported(), "{flaw}");
    }
}

/// The checksum agrees and the numbers do not: a length that is not the file's, no version, frames
/// of another log.
#[test]
fn numbers_that_cannot_be_are_refused() {
    for wrong in [
        sealed(|head| head.length = 8.into()),
        sealed(|head| head.version = 0.into()),
        sealed(|head| head.log = 18.into()),
    ] {
        let flaw = RedoFile::decode(&wrong).unwrap_err();
        assert!(!flaw.is_unsupported(), "{flaw}");
    }
}
