//! Names that lead elsewhere.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use tidelog::sys::{Disk, Mode};
use tidelog::{Error, Record, Start, Store, StoreOptions, TopicOptions};

use crate::kit::{End, Place, end, fill, fingerprint, one, segments_of};
use crate::life;

const HOSTILE: [&str; 20] = [
    "",
    ".",
    "..",
    "../x",
    "../../../etc",
    "a/b",
    "/a",
    "a\0b",
    "CON",
    "a ",
    "a.\u{301}",
    "A",
    "é",
    "🦀",
    "%2e%2e%2f",
    "a\\b",
    "a:b",
    "-a",
    ".a",
    "a\n",
];

/// D27. A topic named `../../..` made folders outside of the store. No such name is one, and
/// nothing is made for it.
#[test]
fn a_hostile_name_is_refused_and_makes_nothing() {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    let topic = store.topic("good").unwrap();
    topic.append("one").unwrap();
    let outside = place.root.parent().unwrap();
    let before = fingerprint(outside);
    let long = "a".repeat(300);
    let refused = |what: Result<(), Error>, name: &str| {
        assert!(
            matches!(what, Err(Error::InvalidName { .. })),
            "{name:?}: {what:?}"
        );
    };
    for name in HOSTILE.into_iter().chain([long.as_str()]) {
        refused(
            store.create_topic(name, TopicOptions::new()).map(drop),
            name,
        );
        refused(store.topic(name).map(drop), name);
        refused(store.existing_topic(name).map(drop), name);
        refused(store.delete_topic(name), name);
        refused(topic.subscribe(name).map(drop), name);
    }
    assert_eq!(fingerprint(outside), before);
    assert_eq!(store.topics().len(), 1);
    drop(topic);
    store.close().unwrap();
}

/// D27. Names that differ have folders that differ, also those that are folders' names in part.
#[test]
fn names_that_look_alike_do_not_share_a_folder() {
    let long = "z".repeat(200);
    let names = [
        "a",
        "a.",
        "a..b",
        "a-0",
        "a_0",
        "000000-1",
        "journal",
        "0",
        long.as_str(),
    ];
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    for name in names {
        store
            .topic(name)
            .unwrap()
            .append(Record::new(name))
            .unwrap();
    }
    let folders = fs::read_dir(place.root.join("topics")).unwrap().count();
    assert_eq!(folders, names.len());
    store.close().unwrap();
    let store = Store::open(&place.root).unwrap();
    for name in names {
        let mut cursor = one(&store, name).cursor(Start::Earliest).unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().payload(), name.as_bytes());
        assert!(cursor.next().unwrap().is_none());
    }
    store.close().unwrap();
}

/// D27. A key is bytes, and never a name.
#[test]
fn hostile_keys_come_back_as_they_were() {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    let topic = store.topic("t").unwrap();
    for key in HOSTILE {
        topic
            .append(Record::new("value").key(key).header(key, key))
            .unwrap();
    }
    let read = one(&store, "t").read(0..99).unwrap();
    for (record, key) in read.zip(HOSTILE) {
        let record = record.unwrap();
        assert_eq!(record.key(), Some(key.as_bytes()));
        assert_eq!(record.headers().next(), Some((key, key.as_bytes())));
    }
    drop(topic);
    store.close().unwrap();
}

/// D27. A folder of the store, of a topic or of a log, or a segment, that somebody has replaced by
/// a link is refused, and what it leads to is not touched: not by opening, reading, appending,
/// verifying or deleting.
#[test]
fn a_symbolic_link_in_place_of_a_folder_or_a_file_is_refused() {
    for how in [End::Close, End::Kill] {
        let place = Place::new();
        let store = Store::open(&place.root).unwrap();
        store.create_topic("t", segments_of(64 << 10)).unwrap();
        fill(&one(&store, "t"), 0..1000, 100);
        let made = end(place, store, how);
        let log = made.log("t");
        let log = log.strip_prefix(&made.root).unwrap();
        let paths = [
            Path::new("journal").to_owned(),
            Path::new("topics").to_owned(),
            Path::new("topics/t").to_owned(),
            log.to_owned(),
            log.join("00000000.seg"),
            log.join(made.segments("t").last().unwrap().file_name().unwrap()),
            Path::new("journal/00000000.seg").to_owned(),
            Path::new("LOCK").to_owned(),
            Path::new("trash").to_owned(),
            Path::new("quarantine").to_owned(),
        ];
        for path in paths {
            replaced(&made, &path);
        }
    }
}

/// Replaces a path by a link to what it was, outside of the store.
fn replaced(made: &Place, path: &Path) {
    let place = made.killed();
    let elsewhere = tempfile::tempdir().unwrap();
    let (link, target) = (place.root.join(path), elsewhere.path().join("target"));
    match fs::rename(&link, &target) {
        Ok(()) => {}
        Err(_) => fs::create_dir(&target).unwrap(),
    }
    if target.is_dir() {
        fs::create_dir(target.join("000000-1")).ok();
        fs::write(target.join("000000-1/precious"), "precious").unwrap();
    }
    symlink(&target, &link).unwrap();
    let before = fingerprint(elsewhere.path());
    let shown = path.display();
    let is_refusal = |error: &Error| match error {
        Error::Refused { .. } => true,
        Error::Failed { cause, .. } => matches!(**cause, Error::Refused { .. }),
        _ => false,
    };
    if let Ok(report) = tidelog::verify(&place.root, &StoreOptions::new()) {
        let told = report
            .logs
            .iter()
            .flat_map(|log| &log.damage)
            .any(is_refusal);
        assert!(told || !path.starts_with("topics"), "{shown}: {report:?}");
    }
    match Store::open(&place.root) {
        Err(error) => assert!(is_refusal(&error), "{shown}: {error:?}"),
        Ok(store) => {
            let topic = store.existing_topic("t").unwrap();
            let read = topic.partition(0).unwrap().read(0..u64::MAX);
            let read = read.and_then(|mut records| records.next().unwrap().map(drop));
            let appended = topic.append("more").map(drop);
            for result in [read, appended] {
                assert!(
                    result.as_ref().is_err_and(is_refusal),
                    "{shown}: {result:?}"
                );
            }
            drop(topic);
            // Whether deleting is refused or removes the link: what it leads to stays.
            drop(store.delete_topic("t"));
            drop(store.close());
        }
    }
    assert_eq!(fingerprint(elsewhere.path()), before, "{shown}");
}

/// D27. Files are their owner's only, or also the group's to read, under any mask of the process.
#[test]
fn nobody_else_may_read_or_write_what_the_store_makes() {
    life::alone(
        "names::nobody_else_may_read_or_write_what_the_store_makes",
        || {
            for mask in [0o000, 0o022, 0o277] {
                rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
                for (mode, folder, file) in [
                    (Mode::Private, 0o700, 0o600),
                    (Mode::GroupReads, 0o750, 0o640),
                ] {
                    let dir = tempfile::tempdir().unwrap();
                    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
                    let root = dir.path().join("data");
                    let options = StoreOptions::new().storage(Arc::new(Disk::new(mode)));
                    let store = Store::open_with(&root, options).unwrap();
                    store.create_topic("t", segments_of(64 << 10)).unwrap();
                    fill(&one(&store, "t"), 0..1500, 100);
                    for (path, _) in fingerprint(&root).iter().chain([&(root.join("LOCK"), 0)]) {
                        let meta = fs::symlink_metadata(path).unwrap();
                        let wanted = if meta.is_dir() { folder } else { file };
                        assert_eq!(
                            meta.permissions().mode() & 0o7777,
                            wanted,
                            "{}",
                            path.display()
                        );
                    }
                    store.close().unwrap();
                }
            }
        },
    );
}
