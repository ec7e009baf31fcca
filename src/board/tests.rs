//! What the board promises to either side.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Board, DELETED, FINISHED, Key, Marks, SLOTS, Shown, Watch};

const KEY: Key = Key {
    store: [7; 16],
    boot: [9; 16],
};

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
    user: u32,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let user = std::fs::metadata(dir.path()).unwrap().uid();
        let path = dir.path().join("board");
        Place {
            _dir: dir,
            path,
            user,
        }
    }

    fn own(&self) -> Arc<Board> {
        Board::open(&self.path, &KEY, self.user, false).unwrap()
    }

    fn watch(&self) -> std::io::Result<Watch> {
        Watch::open(&self.path, &KEY, self.user)
    }
}

fn shown(log: u64, next: u64) -> Shown {
    Shown {
        log,
        first: 3,
        first_segment: 1,
        next,
        state: 0,
    }
}

/// A log's watermarks move, it is finished, and its owner lets go of it. A reader sees each of these,
/// and nothing of it afterwards, also where another log has taken the place.
#[test]
fn a_reader_sees_what_the_owner_shows_of_its_log() {
    let place = Place::new();
    let board = place.own();
    let entry = board.entry(&shown(5, 10)).unwrap();
    let watch = place.watch().unwrap();
    let seen = watch.find(5).unwrap();
    assert!(watch.find(6).is_none());
    let marks = |written, durable, state| Marks {
        first: 3,
        first_segment: 1,
        written,
        durable,
        state,
    };
    assert_eq!(seen.read(), Some(marks(10, 10, 0)));
    entry.put_written(12);
    assert_eq!(seen.read(), Some(marks(12, 10, 0)));
    entry.put_durable(11);
    entry.put_state(FINISHED);
    assert_eq!(seen.read(), Some(marks(12, 11, FINISHED)));
    entry.put_state(DELETED);
    assert_eq!(seen.read().unwrap().state, FINISHED | DELETED);
    let changes = watch.changes();
    drop(entry);
    assert_eq!(seen.read(), None);
    assert_ne!(watch.changes(), changes);
    // The same log again, in the same place: what was seen before is not it.
    let again = board.entry(&shown(5, 4)).unwrap();
    assert_eq!(seen.read(), None);
    assert_eq!(watch.find(5).unwrap().read().unwrap().written, 4);
    drop(again);
    let other = board.entry(&shown(6, 1)).unwrap();
    assert_eq!(seen.read(), None);
    assert_eq!(watch.find(6).unwrap().read().unwrap().written, 1);
    drop(other);
}

/// More logs than one piece of the board has room for: it grows under readers that have it mapped.
#[test]
fn the_board_grows_under_its_readers() {
    let place = Place::new();
    let board = place.own();
    let watch = place.watch().unwrap();
    let logs = 0..3 * SLOTS as u64;
    let entries: Vec<_> = logs
        .clone()
        .map(|log| board.entry(&shown(log, log)).unwrap())
        .collect();
    for log in logs {
        assert_eq!(watch.find(log).unwrap().read().unwrap().written, log);
    }
    drop(entries);
    assert!(watch.find(1000).is_none());
}

/// An owner is killed and the next one takes the board over: what the first one showed does not count
/// any more, and its places are free. A closed store takes its board with it, and what its owner lets go
/// of later does not touch the next one's.
#[test]
fn an_owner_takes_over_from_one_that_was_killed_and_not_from_one_that_closed() {
    let place = Place::new();
    let killed = place.own();
    let old = killed.entry(&shown(5, 10)).unwrap();
    let watch = place.watch().unwrap();
    let seen = watch.find(5).unwrap();
    let board = place.own();
    assert_eq!(seen.read(), None);
    assert!(watch.find(5).is_none());
    let entry = board.entry(&shown(5, 20)).unwrap();
    assert_eq!(watch.find(5).unwrap().read().unwrap().written, 20);
    std::mem::forget(old);
    board.close();
    assert!(!watch.is_live());
    assert!(watch.find(5).is_none());
    assert!(place.watch().is_err());
    let next = place.own();
    let mine = next.entry(&shown(5, 30)).unwrap();
    drop(entry);
    assert_eq!(
        place
            .watch()
            .unwrap()
            .find(5)
            .unwrap()
            .read()
            .unwrap()
            .written,
        30
    );
    drop(mine);
}

/// What lies under the name is no board, one of another store or another boot, or one that lies about its
/// length. A reader refuses it, and an owner puts its own there.
#[test]
fn what_is_not_this_stores_board_is_not_believed() {
    let other = Key {
        store: [8; 16],
        ..KEY
    };
    let place = Place::new();
    drop(Board::open(&place.path, &other, place.user, false).unwrap());
    assert!(place.watch().is_err());
    for bytes in [vec![], vec![1; 100], vec![0; 1 << 16], vec![0xff; 1 << 17]] {
        std::fs::write(&place.path, &bytes).unwrap();
        assert!(place.watch().is_err());
    }
    let board = place.own();
    let watch = place.watch().unwrap();
    board.head.used().store(u32::MAX, super::Ordering::Relaxed);
    assert!(watch.find(5).is_none());
    let again = place.own();
    let entry = again.entry(&shown(5, 1));
    assert!(entry.is_some() && place.watch().unwrap().find(5).is_some());
}
