//! Reading where no owner is, and what becomes of readers when one comes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tidelog::{Error, Start, Store, StoreOptions, Visibility};

use crate::child::{Other, part};
use crate::kit::{HANG, append, asked, opened, payload, reader, reads, small, tell, until};

/// Each file below a folder: its bytes, and when it was last changed.
type Tree = BTreeMap<PathBuf, (Vec<u8>, i64, i64)>;

fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let bytes = match meta.is_dir() {
            true => {
                open.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
                Vec::new()
            }
            false => fs::read(&path).unwrap(),
        };
        found.insert(path, (bytes, meta.mtime(), meta.mtime_nsec()));
    }
    found
}

/// Where the board of a store lies, as its lock file says.
fn board(store: &Path) -> PathBuf {
    let lock = fs::read_to_string(store.join("LOCK")).unwrap();
    let path = lock.lines().find_map(|line| line.strip_prefix("board "));
    PathBuf::from(path.unwrap())
}

/// A store was closed. Whoever reads it sees all of it, and leaves every byte as it was; a store that is
/// not there is not made.
#[test]
fn a_closed_store_is_read_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let none = Store::open_read_only(&place);
    assert!(matches!(none, Err(Error::NoStore { .. })), "{none:?}");
    assert!(!place.exists());
    let store = Store::open(&place).unwrap();
    let topic = store.create_topic("quakes", small()).unwrap();
    append(&topic, 5000, 100);
    let mut archive = topic.subscribe("archive").unwrap();
    (0..17).for_each(|_| assert!(archive.next().unwrap().is_some()));
    archive.commit().unwrap();
    drop(archive);
    store.close().unwrap();
    assert!(!board(&place).exists(), "a closed store leaves no board");
    let before = tree(&place);
    let store = reader(&place);
    let topic = store.topic("quakes").unwrap();
    let partition = topic.partition(0).unwrap();
    assert_eq!(
        (partition.first().unwrap(), partition.end().unwrap()),
        (0, 5000)
    );
    let mut next = 0;
    for record in partition.read(0..u64::MAX).unwrap() {
        assert_eq!(record.unwrap().text().unwrap(), payload(next));
        next += 1;
    }
    assert_eq!(next, 5000);
    let subscriptions = topic.subscriptions().unwrap();
    assert_eq!(subscriptions[0].committed, [17]);
    assert_eq!(subscriptions[0].lag.records, 4983);
    assert_eq!((store.health().owner, store.health().board), (None, None));
    store.close().unwrap();
    assert!(tree(&place) == before, "nothing may change");
}

/// The owner was killed. In this boot of the machine a reader sees what it had shown as durable, and all
/// that was acknowledged is among it; with the board gone, what the files promise, and never more than
/// was durable. Nothing is changed, so the next owner finds everything.
#[test]
fn after_a_killed_owner_a_reader_sees_what_was_durable() {
    const NAME: &str = "still::after_a_killed_owner_a_reader_sees_what_was_durable";
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let topic = store.create_topic("quakes", small()).unwrap();
        append(&topic, 3000, 50);
        for at in 3000..3100 {
            drop(topic.append_nowait(payload(at).as_str()).unwrap());
        }
        topic.flush().unwrap();
        for at in 3100..3110 {
            drop(topic.append_nowait(payload(at).as_str()).unwrap());
        }
        println!("appended");
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let mut owner = Other::start(NAME, dir.path());
    owner.says("appended");
    owner.kill();
    let before = tree(&place);
    for with_board in [true, false] {
        if !with_board {
            fs::remove_file(board(&place)).unwrap();
        }
        let store = reader(&place);
        let topic = store.topic("quakes").unwrap();
        let end = topic.partition(0).unwrap().end().unwrap();
        assert!(end <= 3110, "{end}");
        assert!(end >= 3100 || !with_board, "{end}");
        reads(&mut topic.follow(Start::Earliest).unwrap(), 0, end);
        let written = topic.follow(Start::Earliest).unwrap();
        reads(&mut written.visibility(Visibility::Written), 0, 3110);
        assert_eq!(store.health().owner, None);
        store.close().unwrap();
        assert!(tree(&place) == before, "nothing may change");
    }
    let store = Store::open(&place).unwrap();
    let end = store.topic("quakes").unwrap().partition(0).unwrap().end();
    assert_eq!(end.unwrap(), 3110);
    store.close().unwrap();
}

/// A reader was there first, with a follower that had read everything. An owner comes, is killed, closes,
/// comes back: the follower goes on each time, also over empty segments and ones that begin at once.
#[test]
fn a_follower_goes_over_to_each_owner_that_comes() {
    const NAME: &str = "still::a_follower_goes_over_to_each_owner_that_comes";
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let topic = store.create_topic("quakes", small()).unwrap();
        println!("appends");
        append(&topic, 3000, 100);
        println!("appended");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        if line.trim() == "close" {
            store.close().unwrap();
            println!("closed");
        }
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let store = Store::open(&place).unwrap();
    append(&store.create_topic("quakes", small()).unwrap(), 10, 10);
    store.close().unwrap();
    let store = reader(&place);
    let mut tail = opened(&store, "quakes").follow(Start::Earliest).unwrap();
    reads(&mut tail, 0, 10);
    for round in 0..6 {
        let mut owner = Other::start(NAME, dir.path());
        let from = 10 + 3000 * round;
        reads(&mut tail, from, from + 3000);
        owner.says("appended");
        if round % 2 == 0 {
            tell(&mut owner, "close");
            owner.says("closed");
        }
        owner.kill();
    }
}

/// Somebody cuts a file of the store short, or removes it. A reader in another process is told so, with
/// coordinates.
#[test]
fn files_that_are_cut_or_gone_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let store = Store::open(&place).unwrap();
    append(&store.create_topic("quakes", small()).unwrap(), 10_000, 100);
    store.close().unwrap();
    let segment = |number: u32| place.join(format!("topics/quakes/000000-1/{number:08}.seg"));
    fs::File::options()
        .write(true)
        .open(segment(1))
        .unwrap()
        .set_len(9000)
        .unwrap();
    fs::File::options()
        .write(true)
        .open(segment(2))
        .unwrap()
        .set_len(0)
        .unwrap();
    let store = reader(&place);
    let partition = store.topic("quakes").unwrap().partition(0).unwrap();
    let mut cursor = partition.cursor(Start::Earliest).unwrap();
    let error = loop {
        match cursor.next() {
            Ok(record) => assert!(record.is_some(), "it does not get past the damage"),
            Err(error) => break error,
        }
    };
    assert!(
        error.to_string().contains("topics/quakes/000000-1/0000000"),
        "{error}"
    );
    let last = partition
        .cursor(Start::Offset(9_999))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .offset();
    assert_eq!(last, 9_999);
    fs::remove_file(segment(3)).unwrap();
    let store = reader(&place);
    let gone = store.topic("quakes").unwrap().partition(0).unwrap().end();
    assert!(matches!(gone, Err(Error::Failed { .. })), "{gone:?}");
}

/// How an owner is opened whose board cannot be made.
fn without_board() -> StoreOptions {
    StoreOptions::new().board_folder("/proc/no-such-folder")
}

/// Readers of all kinds stand at the end of a store that nobody owns. An owner comes, appends, finishes
/// the topic and is gone at once, before anybody could look at its board; or it has no board at all. Each
/// reader sees every record, and then the end.
#[test]
fn an_owner_that_comes_and_goes_at_once_is_seen() {
    for options in [StoreOptions::new(), without_board()] {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("store");
        let owner = Store::open(&place).unwrap();
        append(&owner.create_topic("quakes", small()).unwrap(), 10, 10);
        owner.close().unwrap();
        let store = reader(&place);
        let topic = store.topic("quakes").unwrap();
        let mut followers = Vec::new();
        for _ in 0..3 {
            let mut tail = topic.follow(Start::Earliest).unwrap();
            reads(&mut tail, 0, 10);
            followers.push(tail);
        }
        let [mut sleeps, spins, mut asks] = <[_; 3]>::try_from(followers).unwrap();
        let mut spins = spins.spinning();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                reads(&mut sleeps, 10, 2010);
                assert!(sleeps.next_timeout(HANG).unwrap().is_none());
                assert!(sleeps.is_ended());
            });
            scope.spawn(|| {
                reads(&mut spins, 10, 2010);
                assert!(spins.next_timeout(HANG).unwrap().is_none());
                assert!(spins.is_ended());
            });
            let owner = Store::open_with(&place, options).unwrap();
            let quakes = owner.topic("quakes").unwrap();
            append(&quakes, 2000, 100);
            quakes.finish().unwrap();
            drop(quakes);
            owner.close().unwrap();
        });
        let mut next = 10;
        until("it has all of it", || {
            topic.partition(0).unwrap().end().unwrap() == 2010
        });
        while let Some(record) = asks.try_next().unwrap() {
            assert_eq!(record.offset(), next);
            next += 1;
        }
        assert_eq!(next, 2010);
    }
}

/// An owner was killed, and its board is still there. The next one has its board elsewhere, or none; who
/// followed the first, and who comes now, follow it all the same.
#[test]
fn an_owner_with_another_board_or_none_is_followed() {
    const NAME: &str = "still::an_owner_with_another_board_or_none_is_followed";
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let topic = store.create_topic("quakes", small()).unwrap();
        append(&topic, 100, 10);
        println!("appended");
        return asked();
    }
    for (round, options) in [StoreOptions::new(), without_board()]
        .into_iter()
        .enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("store");
        let mut killed = Other::start(NAME, dir.path());
        killed.says("appended");
        let store = reader(&place);
        let mut tail = opened(&store, "quakes").follow(Start::Earliest).unwrap();
        reads(&mut tail, 0, 100);
        killed.kill();
        let elsewhere = tempfile::tempdir().unwrap();
        let options = match round {
            0 => options.board_folder(elsewhere.path()),
            _ => options,
        };
        let owner = Store::open_with(&place, options).unwrap();
        append(&owner.topic("quakes").unwrap(), 3000, 50);
        reads(&mut tail, 100, 3100);
        let late = reader(&place);
        let mut tail = opened(&late, "quakes").follow(Start::Earliest).unwrap();
        reads(&mut tail, 0, 3100);
        assert_eq!(late.health().board.is_some(), round == 0);
        owner.close().unwrap();
    }
}
