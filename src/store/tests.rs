//! What can only be seen from inside.

use std::fs;
use std::path::{Path, PathBuf};

use crate::flush::DirtyLog;
use crate::format::SUMMED;
use crate::{Error, Record, Store, StoreOptions, TopicOptions};

/// A subscription is paused and resumed for months. The journal snapshots and lets go of its old
/// segments, and what it says stays the same across a reopen.
#[test]
fn a_journal_with_many_events_stays_short() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let topic = store.topic("quakes").unwrap();
    topic.append(Record::new("M 4.6")).unwrap();
    let name = "a".repeat(200);
    let mut archive = topic.subscribe(&name).unwrap();
    archive.next().unwrap().unwrap();
    archive.commit().unwrap();
    for _ in 0..2500 {
        archive.pause().unwrap();
        archive.resume().unwrap();
    }
    archive.pause().unwrap();
    assert!(store.shared().journal.first() > 0, "segments were let go");
    drop(archive);
    store.close().unwrap();

    let store = Store::open(dir.path()).unwrap();
    let archive = store.topic("quakes").unwrap().subscribe(&name).unwrap();
    assert!(archive.is_paused());
    assert_eq!(archive.committed(0).unwrap(), 1);
    drop(archive);
    store.close().unwrap();
}

/// A spare waits while the preparer is asked for it again and again: it keeps its size, and
/// segments double as they should.
#[test]
fn a_spare_that_is_asked_for_again_does_not_grow() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let topic = store.topic("quakes").unwrap();
    let log = topic.log(0).unwrap();
    for n in 0..2000_u32 {
        topic
            .append(Record::new(vec![7; 200]).key(n.to_string()))
            .unwrap();
        log.make_ahead();
    }
    let folder = std::fs::read_dir(dir.path().join("topics/quakes")).unwrap();
    let folder = folder.flatten().next().unwrap().path();
    let mut sizes: Vec<u64> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    sizes.sort_unstable();
    let doubled: Vec<u64> = (0..)
        .map(|step| (64 << 10) << step)
        .take(sizes.len())
        .collect();
    assert_eq!(sizes, doubled);
    store.close().unwrap();
}

/// A thread that is about to make a segment is held up, and the store is closed meanwhile. Nothing is
/// made behind the close: the folder may have another owner by then, who has a file of that name.
#[test]
fn nothing_is_made_for_a_log_that_was_closed_or_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let log = |name: &str| {
        let topic = store.topic(name).unwrap();
        topic.append(Record::new("M 4.6")).unwrap();
        topic.log(0).unwrap()
    };
    let (deleted, closed) = (log("faults"), log("quakes"));
    store.delete_topic("faults").unwrap();
    store.clone().close().unwrap();
    let made = store.io().creates.get();
    deleted.prepare();
    closed.prepare();
    assert_eq!(store.io().creates.get(), made);
    assert!(!dir.path().join("topics/faults").exists());
}

/// A payload made of heads of frames that could follow, each of them nearly as long as all of it.
fn heads() -> Vec<u8> {
    let words: [u32; 8] = [200 << 10, 0, 11, 0, 0, 0, 9, 0];
    let head: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    head.repeat((256 << 10) / head.len())
}

/// Flips a bit at the end of that payload; how much of the log's file is not zero.
fn flip(root: &Path) {
    let only = |dir: PathBuf| fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let segment = only(root.join("topics/t")).join("00000000.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let payload = heads();
    let mut found = bytes.windows(payload.len());
    let at = found.position(|window| window == payload).unwrap();
    bytes[at + payload.len() - 1] ^= 1;
    fs::write(&segment, bytes).unwrap();
}

/// One record's payload looks like heads of frames all over, each of 200 KiB, and the record is damaged:
/// whoever looked for the next sound one computed the checksum of 200 KiB for each head, 1.6 GiB in all.
/// A reader, a verification, and a recovery after a kill find what is behind it for a block each.
#[test]
fn a_damaged_payload_that_looks_like_frames_costs_little_and_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [root, killed] = ["data", "killed"].map(|name| dir.path().join(name));
    let store = Store::open(&root).unwrap();
    let options = TopicOptions::new().first_segment_bytes(4 << 20);
    let topic = store.create_topic("t", options).unwrap();
    for number in 0..20 {
        let payload = if number == 10 { heads() } else { vec![7; 30] };
        topic.append(Record::new(payload)).unwrap();
    }
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&root, &killed])
        .status();
    assert!(copied.unwrap().success());
    store.close().unwrap();
    for root in [&root, &killed] {
        flip(root);
        SUMMED.set(0);
        let report = crate::verify(root, &StoreOptions::new()).unwrap();
        assert_eq!(
            (report.logs[0].records, report.logs[0].damage.len()),
            (19, 1)
        );
        let store = Store::open(root).unwrap();
        let partition = store.topic("t").unwrap().partition(0).unwrap();
        let (sound, damaged): (Vec<_>, Vec<_>) =
            partition.read(0..20).unwrap().partition(Result::is_ok);
        assert_eq!(sound.len(), 19);
        let [
            Err(Error::Corrupt {
                offset: 10,
                next: 11,
                ..
            }),
        ] = damaged[..]
        else {
            panic!("{damaged:?}")
        };
        let summed = SUMMED.get();
        assert!(summed < 64 << 20, "{summed}");
        store.close().unwrap();
    }
}
