//! The stores of version 1, which must be readable for good.
//!
//! Each case under `v1` is a whole store, packed as text, and what is to be read in it. Neither
//! ever changes again; `docs/format.md`, "Frozen", says why. A new case is made by
//!
//! ```text
//! cargo test --test golden -- --ignored make
//! ```
//!
//! which leaves those that are there alone.

mod cases;
mod keeping;
mod pack;
mod patch;
mod refusals;
mod snapshot;
mod tell;
mod unpack;

use std::fs;

use cases::{CASES, Case, Machine, QUAKES, ROOT};
use pack::{of_sim, pack, read, write};
use tell::LATER;
use tidelog::{Record, Store, StoreOptions};
use unpack::{Files, folder, unpack};

/// The files of a case, made now.
fn made(case: &Case) -> Files {
    let machine = Machine::new(1);
    (case.make)(&machine);
    let mut files = of_sim(&machine.sim, ROOT);
    files.insert("LOCK".to_owned(), Some(b"pid 1\n".to_vec()));
    files
}

/// What a store of these files says, from outside and to an owner.
fn told(case: &Case, files: &Files) -> String {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    write(files, &root);
    let options = StoreOptions::new();
    let mut told = tell::verified(&root, &options);
    assert!(read(&root) == *files, "{}: verify changed it", case.name);
    let store = Store::open_with(&root, options.inline()).unwrap();
    told.push_str(&tell::opened(&store, case.subscriptions));
    store.close().unwrap();
    told
}

fn expected(case: &Case) -> String {
    let path = folder(case.name).join("told.txt");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Equal line by line, so that a difference is found by whoever reads the failure.
fn same(case: &Case, found: &str, expected: &str) {
    for (line, (found, expected)) in (1..).zip(found.lines().zip(expected.lines())) {
        assert_eq!(found, expected, "{}: line {line}", case.name);
    }
    let count = |text: &str| text.lines().count();
    assert_eq!(count(found), count(expected), "{}: lines", case.name);
}

/// Makes the cases that are not there yet.
#[test]
#[ignore = "golden files are made once, and never changed"]
fn make() {
    for case in CASES {
        let folder = folder(case.name);
        if folder.exists() {
            continue;
        }
        let files = made(case);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("store.txt"), pack(&files)).unwrap();
        fs::write(folder.join("told.txt"), told(case, &files)).unwrap();
        println!("made {}", case.name);
    }
}

/// A golden store is looked at from outside, which changes no byte, then by an owner: every record,
/// key, header, time, offset and checkpoint is there, and all damage is told.
#[test]
fn every_golden_store_reads_as_it_did_when_it_was_made() {
    for case in CASES {
        same(case, &told(case, &unpack(case.name)), &expected(case));
    }
}

/// Its next owners go on behind what is there: what they append follows it, and it stays as it was.
#[test]
fn every_golden_store_can_be_written_to_and_opened_again() {
    for case in CASES {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        write(&unpack(case.name), &root);
        let expected = expected(case);
        let before = contents(&expected);
        for later in 1..4 {
            let store = Store::open(&root).unwrap();
            append_to_all(&store);
            let told = tell::contents(&store, case.subscriptions, later);
            same(case, &told, &before);
            store.close().unwrap();
        }
        let store = Store::open(&root).unwrap();
        let health = store.health();
        assert!(health.was_closed && health.failed.is_empty());
        assert_eq!((health.journal_damaged, health.unopened_redo), (0, 0));
        same(
            case,
            &tell::contents(&store, case.subscriptions, 3),
            &before,
        );
        store.close().unwrap();
    }
}

fn append_to_all(store: &Store) {
    for info in store.topics().iter().filter(|info| !info.finished) {
        let topic = store.existing_topic(&info.name).unwrap();
        for number in 0..info.partitions {
            let partition = topic.partition(number).unwrap();
            let end = partition.end().unwrap();
            let at = partition.append_nowait(Record::new(LATER)).unwrap();
            partition.flush().unwrap();
            assert_eq!(at.wait().unwrap().offset(), end);
        }
    }
}

/// Of what was told, what does not depend on how the store was found.
fn contents(told: &str) -> String {
    let found = |line: &&str| line.starts_with("verify") || line.starts_with("open:");
    let about = |line: &&str| line.starts_with("  damage: ") || line.starts_with("damage found");
    let kept = told.lines().filter(|line| !found(line) && !about(line));
    kept.fold(String::new(), |text, line| text + line + "\n")
}

/// The cases can be made again, by the writer of today, and read the same.
#[test]
fn what_made_the_golden_stores_makes_stores_that_read_the_same() {
    for case in CASES {
        same(case, &told(case, &made(case)), &expected(case));
    }
}

/// What was appended is what is told, by no other reader than this one: every earthquake of the data
/// that went into `clean` is there once.
#[test]
fn the_earthquakes_of_the_data_are_in_what_is_told() {
    let told = expected(&CASES[0]);
    for line in QUAKES.lines().take(75) {
        let payload = format!("payload \"{}\"", line.as_bytes().escape_ascii());
        assert_eq!(told.matches(&payload).count(), 1, "{line}");
    }
}

/// Text to files and back loses nothing, and the repository does not grow without notice.
#[test]
fn golden_stores_are_small_and_unpack_to_what_was_packed() {
    let mut bytes = 0;
    for case in CASES {
        let text = fs::read_to_string(folder(case.name).join("store.txt")).unwrap();
        assert_eq!(pack(&unpack(case.name)), text, "{}", case.name);
        bytes += text.len() + expected(case).len();
    }
    assert!(bytes < 300 << 10, "{bytes} bytes");
}
