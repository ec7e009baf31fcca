//! Headers that rot, and files that are lost: nothing starts again from nothing.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::copy;
use tidelog::{Error, Record, Store, TopicOptions};

/// A store with a topic over several segments, all of it read by a subscription that committed;
/// closed, or left as a kill would leave it.
fn used(closed: bool) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    let options = TopicOptions::new()
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(16 << 10);
    let store = Store::open(&live).unwrap();
    let topic = store.create_topic("t", options).unwrap();
    for n in 0..70_u32 {
        topic
            .append(Record::new(vec![b'x'; 500]).key(n.to_string()))
            .unwrap();
    }
    let mut archive = topic.subscribe("archive").unwrap();
    while archive.next().unwrap().is_some() {}
    archive.commit().unwrap();
    drop(archive);
    if closed {
        store.close().unwrap();
        return (dir, live);
    }
    let killed = dir.path().join("killed");
    copy(&live, &killed).unwrap();
    store.close().unwrap();
    (dir, killed)
}

fn flip(path: &Path, place: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[place] ^= 4;
    fs::write(path, bytes).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The segment files that somebody has taken over: a spare may go.
fn segments(log: &Path) -> Vec<String> {
    let taken = |name: &String| {
        fs::read(log.join(name))
            .unwrap()
            .iter()
            .take(8)
            .any(|b| *b != 0)
    };
    names(log).into_iter().filter(taken).collect()
}

/// Each way a log can lose what its offsets stand on, after a kill and after a close.
#[test]
fn a_log_that_lost_a_header_or_a_file_fails_and_gives_no_offset_again() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 5] = [
        ("first header rots", |log| {
            flip(&log.join("00000000.seg"), 40)
        }),
        ("last header rots", |log| {
            flip(&log.join(segments(log).last().unwrap()), 40)
        }),
        ("first file cut short", |log| {
            let file = fs::OpenOptions::new()
                .write(true)
                .open(log.join("00000000.seg"));
            file.unwrap().set_len(100).unwrap();
        }),
        ("first file lost", |log| {
            fs::remove_file(log.join("00000000.seg")).unwrap()
        }),
        ("all but the first lost", |log| {
            for name in &segments(log)[1..] {
                fs::remove_file(log.join(name)).unwrap();
            }
        }),
    ];
    for closed in [false, true] {
        for (what, harm) in harms {
            let (_dir, path) = used(closed);
            let log = path.join("topics/t/000000-1");
            harm(&log);
            let before = segments(&log);
            let store = Store::open(&path).unwrap();
            match store.topic("t").unwrap().append("again") {
                Err(Error::Failed { cause, .. }) => {
                    assert!(matches!(*cause, Error::Mismatch { .. }), "{what}: {cause}");
                }
                // What nobody needs for appending may be found missing only when it is read.
                Ok(at) => assert!(closed && at.offset() == 70, "{what}: {at}"),
                Err(other) => panic!("{what}: {other:?}"),
            }
            let after = segments(&log);
            assert!(
                before.iter().all(|name| after.contains(name)),
                "{what}: {after:?}"
            );
            store.topic("other").unwrap().append("healthy").unwrap();
        }
    }
}

/// One bit of the journal rots: of the fact that made a topic. The topic is not known any more,
/// and its folder stays.
#[test]
fn a_topic_whose_making_has_rotted_keeps_its_files() {
    let (_dir, path) = used(true);
    let journal = path.join("journal/00000000.seg");
    let bytes = fs::read(&journal).unwrap();
    let at = bytes
        .windows(10)
        .position(|ten| ten == b"\"name\":\"t\"")
        .unwrap();
    flip(&journal, at + 8);
    let before = names(&path.join("topics/t/000000-1"));
    let store = Store::open(&path).unwrap();
    assert_eq!(store.health().journal_damaged, 1);
    assert!(store.topics().is_empty());
    assert_eq!(names(&path.join("topics/t/000000-1")), before);
    store.close().unwrap();
}

/// The header of the journal's first segment rots: nothing is opened, nothing moved.
#[test]
fn a_journal_that_lost_its_header_is_not_begun_anew() {
    let (_dir, path) = used(true);
    flip(&path.join("journal/00000000.seg"), 40);
    let before = names(&path.join("journal"));
    match Store::open(&path) {
        Err(Error::Mismatch { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(names(&path.join("journal")), before);
}
