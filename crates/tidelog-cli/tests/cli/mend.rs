//! Looking after a store: copies, repairs, what is left of a damaged one, and how it is doing.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidelog::{Store, TopicOptions};

use crate::{Place, files, find};

fn two() -> Place {
    let place = Place::new();
    place.feed(&["append", "t"], b"one\ntwo\n");
    place
}

fn segment(place: &Place) -> PathBuf {
    files(&place.store().join("topics"))
        .into_iter()
        .find(|path| find(&fs::read(path).unwrap(), b"two").is_some())
        .unwrap()
}

/// A copy is made, told, and a store like any other. Over something that is there none is made, and of a
/// store that has an owner, or is not there, neither.
#[test]
fn a_backup_is_a_store_and_overwrites_nothing() {
    let place = two();
    let done = place.ok(&["backup", "data", "copy"]);
    assert!(
        done.text().starts_with("1 topic, 1 partition, "),
        "{}",
        done.text()
    );
    assert_eq!(
        place.ok(&["read", "t", "--store", "copy"]).text(),
        "one\ntwo\n"
    );
    assert!(
        place
            .ok(&["verify", "--store", "copy"])
            .text()
            .ends_with("all sound\n")
    );
    let again = place.run(&["backup", "data", "copy"]);
    assert_eq!((again.code, again.text()), (Some(9), ""));
    assert_eq!(place.run(&["backup", "data", "data/copy"]).code, Some(9));
    let report = &place.ok(&["backup", "data", "other", "--json"]).json()[0];
    assert_eq!(report["partitions"], 1);
    let none = place.run(&["backup", "nowhere", "third"]);
    assert_eq!(none.code, Some(3));
    let owner = Store::open(place.store()).unwrap();
    assert_eq!(place.run(&["backup", "data", "third"]).code, Some(4));
    owner.close().unwrap();
    assert!(!place.path().join("third").exists() && !place.path().join("nowhere").exists());
}

/// A header has rotted. A dry run says so and changes nothing; the repair says the same, does it, and
/// the records are back. Then there is nothing left to do.
#[test]
fn a_dry_run_says_what_the_repair_then_does() {
    let place = two();
    let path = segment(&place);
    let mut bytes = fs::read(&path).unwrap();
    bytes[50] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(place.run(&["read", "t"]).code, Some(1));
    assert_eq!(place.run(&["health"]).code, Some(1));
    let dry = place.ok(&["repair", "--dry-run"]);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert!(dry.text().contains("t/0: "), "{}", dry.text());
    assert!(
        dry.text().contains("its header is written anew"),
        "{}",
        dry.text()
    );
    assert!(dry.text().ends_with("1 partition would be repaired\n"));
    let done = place.ok(&["repair"]);
    let steps = |text: &str| {
        text.lines()
            .rev()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(steps(dry.text()), steps(done.text()));
    assert_eq!(place.ok(&["read", "t"]).text(), "one\ntwo\n");
    assert_eq!(place.ok(&["repair"]).text(), "nothing to repair\n");
}

/// The only segment is gone: the repair says which offsets are lost, in words and as JSON, and its exit
/// code does, too.
#[test]
fn what_a_repair_cannot_bring_back_is_told() {
    let place = two();
    fs::remove_file(segment(&place)).unwrap();
    let plan = place.run(&["repair", "--dry-run", "--json"]);
    assert_eq!(plan.code, Some(5));
    let lost = &plan.json()[0]["lost"][0];
    assert_eq!((&lost["offset"], &lost["next"]), (&json!(0), &json!(2)));
    let done = place.run(&["repair"]);
    assert_eq!(done.code, Some(5));
    assert!(
        done.text().contains("lost: t/0@0 is damaged"),
        "{}",
        done.text()
    );
    assert!(done.text().contains("up to offset 1"), "{}", done.text());
    let ack = place.feed(&["append", "t", "--json"], b"next\n").json();
    assert_eq!(ack[0]["offset"], 2);
}

/// D16: somebody puts yesterday's segments back under today's journal. Nothing can be appended, and a dry run says
/// which offsets are lost and changes nothing; after the repair the next record gets an offset that nobody has seen,
/// and who reads is told of the loss.
#[test]
fn a_repair_of_a_store_restored_from_an_older_copy_gives_no_offset_again() {
    let place = Place::new();
    let append = |numbers: std::ops::Range<u32>| {
        let store = Store::open(place.store()).unwrap();
        let small = TopicOptions::new().first_segment_bytes(16 << 10);
        let topic = store
            .create_topic("t", small.max_segment_bytes(16 << 10))
            .unwrap();
        topic
            .append_batch(numbers.map(|number| format!("{number:050}")))
            .unwrap();
        store.close().unwrap();
    };
    append(0..900);
    let (topics, yesterday) = (place.store().join("topics"), place.path().join("yesterday"));
    copy(&topics, &yesterday);
    append(900..1200);
    fs::remove_dir_all(&topics).unwrap();
    copy(&yesterday, &topics);
    let before = files(&topics);
    assert_eq!(place.feed(&["append", "t"], b"refused\n").code, Some(1));

    let dry = place.run(&["repair", "--dry-run"]);
    assert_eq!(dry.code, Some(5), "{}", dry.text());
    assert!(dry.text().contains("lost: t/0@900 "), "{}", dry.text());
    assert!(dry.text().contains("up to offset 1199"), "{}", dry.text());
    assert!(dry.text().ends_with("1 partition would be repaired\n"));
    assert_eq!(files(&topics), before);
    let done = place.run(&["repair"]);
    assert_eq!(done.code, Some(5));
    assert!(done.text().contains("lost: t/0@900 "), "{}", done.text());
    let ack = place.feed(&["append", "t", "--json"], b"next\n").json();
    assert_eq!(ack[0]["offset"], 1200);
    let read = place.run(&["read", "t"]);
    assert_eq!(read.text().lines().count(), 901);
    assert!(
        read.text().ends_with("\nnext\n") && read.err.contains("t/0@900"),
        "{}",
        read.err
    );
}

/// A folder and all that is in it, once more.
fn copy(from: &Path, to: &Path) {
    for path in files(from) {
        let copied = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(copied.parent().unwrap()).unwrap();
        fs::copy(path, copied).unwrap();
    }
}

/// A record is damaged and the journal is gone: all others are in the new store, and what is missing
/// was told.
#[test]
fn a_salvage_tells_what_is_missing() {
    let place = Place::new();
    place.feed(&["append", "t"], b"one\ntwo\nthree\n");
    let path = segment(&place);
    let mut bytes = fs::read(&path).unwrap();
    let at = find(&bytes, b"two").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    fs::remove_dir_all(place.store().join("journal")).unwrap();
    let done = place.run(&["salvage", "data", "new"]);
    assert_eq!(done.code, Some(5));
    assert!(
        done.text()
            .contains("t/0: 2 records\n  lost: t/0@1 is damaged"),
        "{}",
        done.text()
    );
    assert_eq!(
        place.ok(&["read", "t", "--store", "new"]).text(),
        "one\nthree\n"
    );
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(place.run(&["salvage", "data", "new"]).code, Some(9));
    let report = &place.run(&["salvage", "data", "other", "--json"]).json()[0];
    assert_eq!(report["whole"], false);
    assert_eq!(report["partitions"][0]["lost"][0]["offset"], 1);
    let sound = place.ok(&["salvage", "new", "sound"]);
    assert!(
        sound
            .text()
            .ends_with("2 records salvaged: nothing is lost\n")
    );
}

/// How much there is, in a table and as JSON, also beside the owner.
#[test]
fn stats_tell_how_much_there_is() {
    let place = two();
    place.ok(&["create", "empty", "--partitions", "2"]);
    let owner = Store::open(place.store()).unwrap();
    let text = place.ok(&["stats"]).text().to_owned();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().any(|line| line.starts_with("t/0 ")), "{text}");
    let lines = place.ok(&["stats", "t", "--json"]).json();
    let line = &lines[0];
    assert_eq!((&line["records"], &line["end"]), (&json!(2), &json!(2)));
    assert!(line["bytes"].as_u64().unwrap() >= 4096 && line["oldest"].is_string());
    let empty = place.ok(&["stats", "empty", "--json"]).json();
    assert_eq!(
        (&empty[1]["records"], &empty[1]["newest"]),
        (&json!(0), &json!(null))
    );
    assert_eq!(place.run(&["stats", "other"]).code, Some(3));
    owner.close().unwrap();
}

/// A store in order is healthy, with its owner or without; one whose partition cannot be opened is not.
#[test]
fn health_tells_the_owner_and_what_has_failed() {
    let place = two();
    let text = place.ok(&["health"]).text().to_owned();
    assert!(text.contains("the last one closed the store"), "{text}");
    assert!(text.contains("\nfree: "), "{text}");
    assert!(text.ends_with("\nhealthy\n"), "{text}");
    let owner = Store::open(place.store()).unwrap();
    let health = &place.ok(&["health", "--json"]).json()[0];
    assert_eq!(health["owner"], std::process::id());
    assert!(health["free_bytes"].as_u64().unwrap() > 0);
    assert_eq!(health["in_doubt"], json!([]));
    assert!(health["redo_bytes"].is_u64() && health["unsettled_bytes"].is_null());
    owner.close().unwrap();
    fs::remove_file(segment(&place)).unwrap();
    let failed = place.run(&["health", "--json"]);
    assert_eq!(failed.code, Some(1));
    assert_eq!(failed.json()[0]["healthy"], false);
    assert!(
        failed.json()[0]["failed"][0]
            .as_str()
            .unwrap()
            .starts_with("t/0 failed")
    );
}
