//! Damage, and what is told of it.

use std::fs;

use crate::{Place, files, find};

/// Three records, and a bit of the second is flipped on the disk.
fn flipped() -> Place {
    let place = Place::new();
    place.feed(&["append", "t"], b"first\nsecond\nthird\n");
    let path = files(&place.store().join("topics"))
        .into_iter()
        .find(|path| find(&fs::read(path).unwrap(), b"second").is_some())
        .unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = find(&bytes, b"second").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    place
}

/// A sound store is verified: every partition is listed, and nothing is changed.
#[test]
fn a_sound_store_is_told_to_be_sound() {
    let place = Place::new();
    place.feed(&["append", "t"], b"one\ntwo\n");
    let before: Vec<_> = files(&place.store())
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    let text = place.ok(&["verify"]).text().to_owned();
    assert!(
        text.contains("t/0: sound, 2 records, offsets 0..2, 1 segment"),
        "{text}"
    );
    assert!(
        text.ends_with("2 records in 1 partition: all sound\n"),
        "{text}"
    );
    let report = &place.ok(&["verify", "--json"]).json()[0];
    assert_eq!(
        (&report["sound"], &report["was_closed"]),
        (&true.into(), &true.into())
    );
    assert_eq!(report["partitions"][0]["records"], 2);
    let after: Vec<_> = files(&place.store())
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    assert!(before == after);
}

/// A flipped bit is found with its coordinates, and the exit code says so.
#[test]
fn a_flipped_bit_is_told_with_its_coordinates() {
    let place = flipped();
    let done = place.run(&["verify"]);
    assert_eq!(done.code, Some(5));
    assert!(
        done.text().contains("t/0: DAMAGED, 2 records"),
        "{}",
        done.text()
    );
    assert!(done.text().contains("t/0@1 is damaged"), "{}", done.text());
    let done = place.run(&["verify", "--json"]);
    assert_eq!(done.code, Some(5));
    let report = &done.json()[0];
    let damage = &report["partitions"][0]["damage"][0];
    assert_eq!(report["sound"], false);
    assert_eq!(
        (damage["offset"].as_u64(), damage["next"].as_u64()),
        (Some(1), Some(2))
    );
    assert!(damage["file"].as_str().unwrap().ends_with(".seg"));
    assert!(damage["byte"].as_u64().is_some());
}

/// A reader comes upon the flipped bit: it tells so, and reads on behind it.
#[test]
fn a_reader_skips_damage_and_says_so() {
    let place = flipped();
    let done = place.run(&["read", "t"]);
    assert_eq!((done.code, done.text()), (Some(5), "first\nthird\n"));
    assert!(done.err.contains("t/0@1 is damaged"), "{}", done.err);
}
