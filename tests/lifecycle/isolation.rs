//! Row D34: one topic of many is broken. Elsewhere one damaged file of one stream kept a whole process
//! from starting.

use std::fs;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidelog::{Error, Record, Start, Store, StoreOptions};

use crate::common::copy;
use crate::kit::{Place, payloads};
use crate::process::{alone, passes};

const BROKEN: &str = "a";

fn names() -> impl Iterator<Item = String> {
    ('a'..='z').map(String::from)
}

/// A store of twenty-six topics with a record each, whose owner has closed it, or was killed.
fn alphabet(killed: bool) -> Place {
    let place = Place::quick();
    let store = Store::open(&place.root).unwrap();
    for name in names() {
        store.topic(&name).unwrap().append("before").unwrap();
    }
    let image = Place::quick();
    if killed {
        copy(&place.root, &image.root).unwrap();
    }
    store.close().unwrap();
    if killed { image } else { place }
}

/// Breaks topic A with `act`, which is handed the folders of the topic and of its log, and holds the
/// store to the row. `again` says whether a new topic can have the name once A is deleted.
fn breaks(what: &str, again: bool, act: impl Fn(&Path, &Path)) {
    for killed in [false, true] {
        let place = alphabet(killed);
        act(&place.root.join("topics").join(BROKEN), &place.log(BROKEN));
        refused_if_strict(what, &place);
        fails_alone(what, &place);
        is_deleted_alone(&place, again);
    }
}

fn refused_if_strict(what: &str, place: &Place) {
    let strict = Store::open_with(&place.root, StoreOptions::new().strict(true));
    names_the_broken_one(what, &strict.map(drop).unwrap_err());
}

fn fails_alone(what: &str, place: &Place) {
    for life in 1..3 {
        let store = Store::open(&place.root).unwrap();
        let topic = store.existing_topic(BROKEN).unwrap();
        topic.append("refused").unwrap_err();
        topic.partition(0).unwrap().end().unwrap_err();
        topic.follow(Start::Earliest).unwrap_err();
        is_told(what, &store);
        for name in names().skip(1) {
            works(&store, &name, life);
        }
        store.flush().unwrap();
        store.close().unwrap();
    }
}

fn is_deleted_alone(place: &Place, again: bool) {
    let store = Store::open(&place.root).unwrap();
    store.delete_topic(BROKEN).unwrap();
    assert!(store.health().failed.is_empty());
    assert_eq!(store.topics().len(), 25);
    for name in names().skip(1) {
        let topic = store.existing_topic(&name).unwrap();
        topic.finish().unwrap();
        topic.append("refused").unwrap_err();
    }
    store.close().unwrap();
    let store = Store::open_with(&place.root, StoreOptions::new().strict(true)).unwrap();
    assert!(store.existing_topic(BROKEN).is_err());
    if again {
        store.topic(BROKEN).unwrap().append("anew").unwrap();
        assert_eq!(payloads(&store, BROKEN), [b"anew"]);
    }
    store.close().unwrap();
}

/// The failure can be seen, with a reason and the topic's name.
fn is_told(what: &str, store: &Store) {
    let failed = store.health().failed;
    assert_eq!(failed.len(), 1, "{what}: {failed:?}");
    names_the_broken_one(what, &failed[0]);
    for info in store.topics() {
        assert_eq!(
            info.failed.is_some(),
            info.name == BROKEN,
            "{what}: {info:?}"
        );
    }
}

fn names_the_broken_one(what: &str, error: &Error) {
    match error {
        Error::Failed { topic, cause, .. } => {
            assert_eq!(topic, BROKEN, "{what}");
            let said = error.to_string();
            assert!(said.contains(&cause.to_string()), "{what}: {said}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

fn works(store: &Store, name: &str, life: usize) {
    let topic = store.existing_topic(name).unwrap();
    topic.append(Record::new(format!("{life}"))).unwrap();
    let found = payloads(store, name);
    assert_eq!(found.len(), life + 1);
    assert_eq!(found[0], b"before");
    let mut held = topic.subscribe("reader").unwrap();
    while held.next().unwrap().is_some() {}
    held.commit().unwrap();
}

fn segment(log: &Path) -> PathBuf {
    log.join("00000000.seg")
}

/// The header of the only segment is overwritten, and the slots in it: with noise, with zeroes.
#[test]
fn a_topic_with_an_overwritten_header_fails_alone() {
    breaks("noise", true, |_, log| {
        let mut noise = vec![0; 4096];
        let mut random = fs::File::open("/dev/urandom").unwrap();
        random.read_exact(&mut noise).unwrap();
        overwrite(&segment(log), &noise);
    });
    breaks("zeroes", true, |_, log| {
        overwrite(&segment(log), &[0; 4096])
    });
}

fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.rewind().unwrap();
    file.write_all(bytes).unwrap();
}

/// Something is not there that the journal knows of.
#[test]
fn a_topic_whose_files_are_missing_fails_alone() {
    breaks("no folder of the log", true, |_, log| {
        fs::remove_dir_all(log).unwrap();
    });
    breaks("no folder of the topic", true, |topic, _| {
        fs::remove_dir_all(topic).unwrap();
    });
    breaks("no segment", true, |_, log| {
        fs::remove_file(segment(log)).unwrap();
    });
    breaks("an empty segment", true, |_, log| {
        fs::write(segment(log), b"").unwrap();
    });
}

/// Something is of another kind: a file is a folder, or a folder is a file. What is not the store's
/// stays where it is, also when the topic is deleted.
#[test]
fn a_topic_whose_files_are_of_another_kind_fails_alone() {
    let stays = |path: &Path| fs::write(path, b"somebody else's").unwrap();
    breaks("a folder in place of a segment", true, |_, log| {
        fs::remove_file(segment(log)).unwrap();
        fs::create_dir(segment(log)).unwrap();
    });
    breaks("a file in place of the log's folder", true, |_, log| {
        fs::remove_dir_all(log).unwrap();
        stays(log);
    });
    breaks(
        "a file in place of the topic's folder",
        false,
        |topic, _| {
            fs::remove_dir_all(topic).unwrap();
            stays(topic);
        },
    );
}

/// Something may not be looked at. Nothing is forbidden to root, so another user runs this.
#[test]
fn a_topic_whose_files_may_not_be_read_fails_alone() {
    let test = "isolation::a_topic_whose_files_may_not_be_read_fails_alone";
    let act = || {
        let forbid = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
        };
        breaks("the segment", true, |_, log| forbid(&segment(log)));
        breaks("the log's folder", true, |_, log| forbid(log));
        breaks("the topic's folder", false, |topic, _| forbid(topic));
    };
    if !rustix::process::geteuid().is_root() {
        return alone(test, act);
    }
    // Somebody without any rights, with a folder and a copy of this program that he can reach.
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(program);
    command.uid(NOBODY).gid(NOBODY);
    command.env("TMPDIR", dir.path()).current_dir(dir.path());
    passes(command, test);
}
