//! Arbitrary bytes on the live board of a store, before and while a reader follows it.
//!
//! The first byte says how much of the board stays as its owner left it; the rest goes over it from
//! there, and half of it only when the reader has begun. What must hold: nothing panics and no signal
//! comes, reading ends, and every record that is handed out is the one that was appended at its offset,
//! in order. How much is seen, the board may decide.

#![no_main]

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tidelog::{Durability, Error, Start, Store, TopicOptions, Visibility};

const RECORDS: u64 = 300;

struct Base {
    _dir: tempfile::TempDir,
    store: PathBuf,
    path: PathBuf,
    board: Vec<u8>,
}

fn payload(offset: u64) -> String {
    format!("record {offset} {}", ".".repeat((offset % 131) as usize))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).expect("a copy")),
        }
    }
}

/// A store as the killing of its owner has left it, and its board.
fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder");
        let live = dir.path().join("live");
        let owner = Store::open(&live).expect("a store");
        let shape = TopicOptions::new()
            .first_segment_bytes(16 << 10)
            .max_segment_bytes(16 << 10)
            .durability(Durability::Manual);
        let topic = owner.create_topic("t", shape).expect("a topic");
        let append = |offset| drop(topic.append_nowait(payload(offset).as_str()).expect("room"));
        (0..RECORDS / 2).for_each(append);
        topic.flush().expect("a flush");
        (RECORDS / 2..RECORDS).for_each(append);
        let board = fs::read(owner.health().board.expect("a board")).expect("its bytes");
        let (store, path) = (dir.path().join("killed"), dir.path().join("board"));
        copy(&live, &store);
        drop(topic);
        owner.close().expect("a close");
        fs::write(store.join("LOCK"), format!("1\nboard {}\n", path.display())).expect("a lock");
        Base {
            _dir: dir,
            store,
            path,
            board,
        }
    })
}

/// Reads what shows, up to more than there is.
fn read(store: &Store, visibility: Visibility, meanwhile: impl FnOnce()) -> tidelog::Result<()> {
    let mut tail = store
        .topic("t")?
        .follow(Start::Earliest)?
        .visibility(visibility);
    let mut meanwhile = Some(meanwhile);
    let (mut next, mut errors) = (0, 0);
    while next <= RECORDS && errors < 100 {
        if next == 20 {
            meanwhile.take().into_iter().for_each(|change| change());
        }
        match tail.try_next() {
            Ok(Some(record)) => {
                let offset = record.offset();
                assert!(offset >= next, "an offset comes twice");
                assert_eq!(record.payload(), payload(offset).as_bytes());
                next = offset + 1;
            }
            Ok(None) => break,
            Err(Error::Corrupt { .. } | Error::Unreadable { .. } | Error::Truncated { .. }) => {
                errors += 1;
            }
            Err(error) => return Err(error),
        }
    }
    assert!(next <= RECORDS, "more than was appended");
    Ok(())
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((from, bytes)) = bytes.split_first() else {
        return;
    };
    let base = base();
    fs::write(&base.path, &base.board).expect("a board");
    let board = fs::File::options()
        .write(true)
        .open(&base.path)
        .expect("the board");
    let (now, later) = bytes.split_at(bytes.len() / 2);
    let from = u64::from(*from) * 4;
    board.write_all_at(now, from).expect("room");
    let Ok(store) = Store::open_read_only(&base.store) else {
        return;
    };
    let change = || board.write_all_at(later, from).expect("room");
    // What went wrong is an error: only what is handed out has to be right.
    drop(read(&store, Visibility::Durable, change));
    drop(read(&store, Visibility::Written, || ()));
});
