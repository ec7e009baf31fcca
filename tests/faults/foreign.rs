//! Things in a store's folder that this version of the library did not put there.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use tidelog::{Error, Record, Store};

use crate::kit::{BACKENDS, Place, fill, fingerprint, one, segments_of};
use crate::segment::Segment;

/// A closed store with a topic of a few records.
fn closed() -> Place {
    let place = Place::new();
    let store = place.open(BACKENDS[0]);
    store.create_topic("t", segments_of(64 << 10)).unwrap();
    fill(&one(&store, "t"), 0..5, 100);
    store.close().unwrap();
    place
}

/// D27. Names led out of the data folder, and what lay there was removed. So let a topic's folder,
/// or a partition's, be a link: deleting the topic is refused, and nothing behind the link moves.
#[test]
fn deleting_a_topic_behind_a_link_is_refused_and_removes_nothing() {
    for whole in [true, false] {
        let place = closed();
        let log = place.log("t");
        let path = if whole { log.parent().unwrap() } else { &log };
        let outside = tempfile::tempdir().unwrap();
        let elsewhere = outside.path().join("elsewhere");
        fs::rename(path, &elsewhere).unwrap();
        symlink(&elsewhere, path).unwrap();
        let before = fingerprint(&elsewhere);
        for _ in 0..2 {
            let store = Store::open(&place.root).unwrap();
            let refused = store.delete_topic("t");
            assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
            assert_eq!(store.topics().len(), 1, "it is there as before");
            store.close().unwrap();
            assert_eq!(fingerprint(&elsewhere), before);
        }
        fs::remove_file(path).unwrap();
        fs::rename(&elsewhere, path).unwrap();
        let store = Store::open(&place.root).unwrap();
        store.delete_topic("t").unwrap();
        store.close().unwrap();
    }
}

/// D27. A link in the trash is not followed when the trash is emptied.
#[test]
fn emptying_the_trash_removes_nothing_behind_a_link() {
    let place = closed();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    let trash = place.root.join("trash");
    fs::create_dir_all(&trash).unwrap();
    symlink(outside.path(), trash.join("000000-9")).unwrap();
    let store = Store::open(&place.root).unwrap();
    store.delete_topic("t").unwrap();
    store.close().unwrap();
    assert!(outside.path().join("precious").exists());
}

/// Makes a segment's header that of a later version, soundly.
fn later(path: &Path) {
    let mut segment = Segment::read(path);
    segment.bytes[8] += 1;
    segment.fix_identity();
    segment.write();
}

/// A store that a later version wrote is refused as that, and left as it is: by a segment's header,
/// by the journal's, by a kind of journal record.
#[test]
fn what_a_later_version_wrote_is_refused_and_left_as_it_is() {
    let place = closed();
    later(&place.segment("t", 0));
    let before = fs::read(place.segment("t", 0)).unwrap();
    let store = Store::open(&place.root).unwrap();
    match one(&store, "t").append(Record::new("more")) {
        Err(Error::Failed { cause, .. }) => {
            assert!(
                matches!(*cause, Error::UnsupportedVersion { .. }),
                "{cause}"
            );
        }
        other => panic!("{other:?}"),
    }
    store.close().unwrap();
    assert_eq!(fs::read(place.segment("t", 0)).unwrap(), before);

    let header: fn(&Path) = later;
    let kind: fn(&Path) = |path| {
        let mut segment = Segment::read(path);
        let first = segment.records_at();
        segment.bytes[first + 32] = 200;
        segment.fix(first);
        segment.write();
    };
    for change in [header, kind] {
        let place = closed();
        change(&place.root.join("journal/00000000.seg"));
        let before = fingerprint(&place.root);
        let refused = Store::open(&place.root);
        let told = matches!(refused, Err(Error::UnsupportedVersion { .. }));
        assert!(told, "{refused:?}");
        assert_eq!(fingerprint(&place.root), before);
    }
}

/// A folder below a topic has a log's name with the greatest number there is: counting on from it
/// overflowed. It is not ours, and stays; topics are made as before.
#[test]
fn a_folder_with_a_number_that_no_log_has_is_left_alone() {
    let place = Place::new();
    let store = place.open(BACKENDS[0]);
    store.topic("t").unwrap().append("fine").unwrap();
    store.close().unwrap();
    let foreign = place
        .root
        .join("topics/t")
        .join(format!("000000-{}", u64::MAX));
    fs::create_dir(&foreign).unwrap();
    let store = place.open(BACKENDS[0]);
    store.topic("t").unwrap().append("fine").unwrap();
    store.topic("new").unwrap().append("fine").unwrap();
    store.close().unwrap();
    assert!(foreign.is_dir());
}

/// Somebody looks after the store of a service with `sudo`: files of root in its folder were files that
/// the service could never open again. So root does not own the store of another user, nor an empty folder
/// of his; it is told whose it is, and nothing is made there. Reading is as before.
#[test]
#[ignore = "needs root, to give files to another user; run by .ci/run with --ignored"]
fn a_store_of_another_user_is_not_owned() {
    const NOBODY: u32 = 65534;
    let place = closed();
    fs::remove_file(place.root.join("LOCK")).unwrap();
    let before = fingerprint(&place.root);
    for (path, _) in &before {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let options = tidelog::StoreOptions::new();
    let refused = [
        Store::open(&place.root).map(drop),
        Store::open_with(&place.root, options.clone().existing()).map(drop),
        tidelog::repair(&place.root, &options).map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
        assert!(error.to_string().contains("user 65534"), "{error}");
    }
    assert_eq!(fingerprint(&place.root), before);
    assert!(!place.root.join("LOCK").exists());
    assert!(tidelog::verify(&place.root, &options).unwrap().is_sound());
    let reader = Store::open_read_only(&place.root).unwrap();
    assert_eq!(one(&reader, "t").end().unwrap(), 5);
    reader.close().unwrap();
    let empty = place.root.with_file_name("empty");
    fs::create_dir(&empty).unwrap();
    chown(&empty, Some(NOBODY), Some(NOBODY)).unwrap();
    Store::open(&empty).map(drop).unwrap_err();
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
}
