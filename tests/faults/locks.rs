//! The owner's lock: who holds it, and when it ends.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tidelog::{Error, Record, Store};

use crate::kit::{Place, one, payloads};
use crate::life::{self, Other};

fn own(root: &Path) -> Store {
    let store = Store::open(root).unwrap();
    let topic = store.topic("t").unwrap();
    topic.append(Record::new("acknowledged")).unwrap();
    store
}

fn continues(root: &Path) {
    let store = Store::open(root).unwrap();
    let partition = one(&store, "t");
    assert_eq!(payloads(&partition), [b"acknowledged"]);
    assert_eq!(partition.append("next").unwrap().offset(), 1);
    store.close().unwrap();
}

fn end_process(id: &str) {
    let id = Pid::from_raw(id.parse().unwrap()).unwrap();
    kill_process(id, Signal::KILL).unwrap();
}

/// D26. The lock was a file with a process id; that id was alive again, and start-up was refused
/// for ever. So kill the owner and put every sort of id there: the file is information only.
#[test]
fn a_killed_owners_lock_is_free_whatever_the_file_says() {
    if let Some(root) = life::part() {
        let _store = own(&root);
        println!("=> owns");
        life::stand();
    }
    let unrelated = std::os::unix::process::parent_id().to_string();
    let own = std::process::id().to_string();
    let says: [&[u8]; 8] = [
        b"",
        b"1\n",
        b"0",
        b"4294967296\n",
        b"not a number\n",
        &[0xff; 9000],
        unrelated.as_bytes(),
        own.as_bytes(),
    ];
    let place = Place::new();
    let mut other = Other::start(
        "locks::a_killed_owners_lock_is_free_whatever_the_file_says",
        &place.root,
    );
    other.says("=> owns");
    // While it lives the lock holds, whatever the file says.
    for content in says {
        let refused = Store::open(&place.root);
        assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
        fs::write(place.root.join("LOCK"), content).unwrap();
    }
    other.kill();
    for content in says {
        let image = place.killed();
        fs::write(image.root.join("LOCK"), content).unwrap();
        continues(&image.root);
    }
    continues(&place.root);
}

/// D26. A program that the owner had started kept the lock after the owner's death. The descriptor
/// ends where another program begins.
#[test]
fn a_program_that_the_owner_started_does_not_keep_the_lock() {
    if let Some(root) = life::part() {
        let _store = own(&root);
        let sleep = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        println!("=> started {}", sleep.id());
        // Nobody waits for it here: this process is killed first.
        std::mem::forget(sleep);
        life::stand();
    }
    let place = Place::new();
    let mut other = Other::start(
        "locks::a_program_that_the_owner_started_does_not_keep_the_lock",
        &place.root,
    );
    let sleep = other.says("=> started");
    let refused = Store::open(&place.root);
    let owner = Some(other.child.id());
    assert!(
        matches!(&refused, Err(Error::Locked { pid, .. }) if *pid == owner),
        "{refused:?}"
    );
    other.kill();
    continues(&place.root);
    assert!(
        Path::new("/proc").join(&sleep).exists(),
        "it had to outlive its owner"
    );
    end_process(&sleep);
}

/// D26. A forked child that runs no other program does hold on to the lock: that is said, with the
/// id of whoever took it, and it ends with the child.
#[test]
fn a_forked_child_keeps_the_lock_until_it_ends() {
    if let Some(root) = life::part() {
        let _store = own(&root);
        match fork() {
            0 => life::stand(),
            child => println!("=> forked {child}"),
        }
        life::stand();
    }
    let place = Place::new();
    let mut other = Other::start(
        "locks::a_forked_child_keeps_the_lock_until_it_ends",
        &place.root,
    );
    let child = other.says("=> forked");
    let owner = Some(other.child.id());
    other.kill();
    let refused = Store::open(&place.root);
    assert!(
        matches!(&refused, Err(Error::Locked { pid, .. }) if *pid == owner),
        "{refused:?}"
    );
    end_process(&child);
    // The kernel takes a moment to end it.
    life::until(|| !matches!(Store::open(&place.root), Err(Error::Locked { .. })));
    continues(&place.root);
}

#[expect(unsafe_code, reason = "nothing safe forks")]
fn fork() -> i32 {
    // SAFETY: the child does nothing but stand still.
    unsafe { libc::fork() }
}

/// D26. Two handles of one process are two owners, too.
#[test]
fn a_second_owner_in_the_same_process_is_refused_until_the_first_has_closed() {
    let place = Place::new();
    let store = own(&place.root);
    for _ in 0..3 {
        let refused = Store::open(&place.root);
        let own = Some(std::process::id());
        assert!(
            matches!(&refused, Err(Error::Locked { pid, .. }) if *pid == own),
            "{refused:?}"
        );
    }
    store.close().unwrap();
    continues(&place.root);
}
