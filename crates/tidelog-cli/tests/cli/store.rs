//! The store as such: none there, somebody else's, one that is no store.

use std::fs;
use std::os::unix::fs::symlink;

use tidelog::Store;

use crate::{Place, files};

/// Somebody looks in the wrong folder. He is told so, and finds no new store there afterwards.
#[test]
fn looking_makes_no_store() {
    let place = Place::new();
    for args in [&["read", "t"][..], &["tail", "t"], &["topics"], &["verify"]] {
        let done = place.run(args);
        assert_eq!((done.code, done.text()), (Some(3), ""), "{args:?}");
        assert!(
            done.err.contains("there is no store in data"),
            "{}",
            done.err
        );
        assert!(!place.store().exists(), "{args:?}");
    }
    fs::create_dir(place.store()).unwrap();
    for args in [&["read", "t"][..], &["topics"], &["verify"]] {
        assert_eq!(place.run(args).code, Some(3), "{args:?}");
    }
    assert_eq!(files(&place.store()), [""; 0].map(std::path::PathBuf::from));
}

/// A program has the store open. Commands that would change it say who has it; those that read need no
/// lock, and see what it does.
#[test]
fn a_store_in_use_is_read_and_not_changed() {
    let place = Place::new();
    let store = Store::open(place.store()).unwrap();
    store.topic("t").unwrap().append("one").unwrap();
    let pid = format!("process {}", std::process::id());
    let done = place.run(&["create", "u"]);
    assert_eq!(done.code, Some(4));
    assert!(done.err.contains(&pid), "{}", done.err);
    assert_eq!(place.ok(&["read", "t"]).text(), "one\n");
    let tail = ["tail", "t", "--from", "earliest", "--limit", "1"];
    assert_eq!(place.ok(&tail).text(), "one\n");
    assert!(place.ok(&["topics"]).text().contains('t'));
    assert_eq!(place.feed(&["append", "t"], b"two\n").code, Some(4));
    assert!(
        place
            .ok(&["verify"])
            .text()
            .contains("t/0: sound, 1 record,")
    );
    store.close().unwrap();
    assert_eq!(place.ok(&["read", "t"]).text(), "one\n");
}

/// A folder of the store has been replaced by a link: nobody follows it.
#[test]
fn a_store_with_a_link_in_the_place_of_a_folder_is_refused() {
    let place = Place::new();
    assert_eq!(place.feed(&["append", "t"], b"one\n").code, Some(0));
    fs::rename(place.store().join("topics"), place.path().join("elsewhere")).unwrap();
    symlink(place.path().join("elsewhere"), place.store().join("topics")).unwrap();
    let done = place.run(&["read", "t"]);
    assert_eq!(done.code, Some(9));
    assert!(done.err.contains("is refused"), "{}", done.err);
}
