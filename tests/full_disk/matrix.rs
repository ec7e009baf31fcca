//! The file system matrix: the tests of the suite that go to a real disk, on each kind of file system.
//!
//! They make their folders where `TMPDIR` says, so their programs are run as they are, one by one, with
//! that on a volume. The engine chooses the back end there as it does for a user; tests that name one
//! run with both everywhere.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs, mem};

use rustix::fs::{inotify, statfs};
use rustix::io::Errno;
use tidelog::Store;
use tidelog::sys::Backend;

use crate::volume::{GROUNDS, Ground, Kind, Volume};

/// A test program, and what of it is run: everything, where nothing is named.
type Part = (&'static str, &'static [&'static str]);

/// What runs each time. `tidelog` is the engine's own unit tests.
const PARTS: &[Part] = &[
    ("tidelog", &["sys::", "board::"]),
    ("acks", &[]),
    ("golden", &[]),
    ("headers", &[]),
    ("kill", &[]),
    ("lookups", &[]),
    ("owned", &[]),
    ("recovery_reads", &[]),
    ("rejections", &[]),
    ("transactions", &[]),
    ("visibility", &[]),
    ("lifecycle", &["boundaries::"]),
    (
        "faults",
        &[
            "damage::", "locks::", "mended::", "names::", "rot::", "tail::",
        ],
    ),
];
/// The same, where `TIDELOG_MATRIX` is set: whatever goes to a disk.
const ALL: &[Part] = &[
    ("tidelog", &[]),
    ("acks", &[]),
    ("faults", &[]),
    ("golden", &[]),
    ("headers", &[]),
    ("kill", &[]),
    ("lifecycle", &[]),
    ("lookups", &[]),
    ("metrics", &[]),
    ("owned", &[]),
    ("places", &[]),
    ("processes", &[]),
    ("processors", &[]),
    ("recovery_reads", &[]),
    ("rejections", &[]),
    ("retention", &[]),
    ("rounds", &[]),
    ("transacting", &[]),
    ("transactions", &[]),
    ("typed", &[]),
    ("visibility", &[]),
];
/// Room for the largest of them, in MiB. The image has holes: only what is written takes memory.
const ROOM: u64 = 2048;
/// Tests of the sync of a whole file system, which the engine does not use on btrfs.
const SYNCS_VOLUMES: &str = "sync_of_the_volume";
/// Kills, where nobody says how many.
const KILLS: &str = "20";

/// A topic's files, locks, mappings, and what a killed process leaves are the same on every file system:
/// the tests that say so pass on ext4, xfs, btrfs and tmpfs. Each program must have run tests, and made
/// folders on the volume.
#[test]
#[ignore = "mounts file systems, needs root; run by .ci/run with --ignored"]
fn the_storage_tests_of_the_suite_pass_on_every_file_system() {
    let parts = match env::var_os("TIDELOG_MATRIX") {
        Some(_) => ALL,
        None => PARTS,
    };
    let programs = programs(parts);
    let mut failed = Vec::new();
    for ground in GROUNDS.iter().filter(|ground| is_natural(**ground)) {
        let volume = Volume::with_megabytes(*ground, ROOM);
        looks_like(&volume, *ground);
        let begin = Instant::now();
        for (name, filters) in parts {
            let one = Instant::now();
            match run(&programs[*name], filters, &volume) {
                Ok(ran) if ran.tests > 0 && ran.folders > 0 => {
                    let (tests, folders) = (ran.tests, ran.folders);
                    let seconds = one.elapsed().as_secs_f32();
                    println!("  {name}: {tests} tests in {folders} folders, {seconds:.1} s");
                }
                Ok(ran) => failed.push(format!("{volume}: {name}: {ran:?}")),
                Err(said) => failed.push(format!("{volume}: {name}:\n{said}")),
            }
        }
        println!("{volume}: {} s", begin.elapsed().as_secs());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Whether the engine has this back end there by itself.
fn is_natural(ground: Ground) -> bool {
    ground.kind == Kind::Btrfs || ground.backend == Backend::Mapped
}

/// The volume is what it is called, and a store there has the back end that is written down for it.
fn looks_like(volume: &Volume, ground: Ground) {
    let magic = match ground.kind {
        Kind::Tmpfs => 0x0102_1994,
        Kind::Ext4 => 0xef53,
        Kind::Xfs => 0x5846_5342,
        Kind::Btrfs => 0x9123_683e,
    };
    assert_eq!(statfs(volume.dir()).unwrap().f_type as u32, magic);
    let store = Store::open(volume.dir().join("natural")).unwrap();
    assert_eq!(store.health().backend, ground.backend);
    store.close().unwrap();
}

/// The test programs of the suite by their names, as cargo has built them.
fn programs(parts: &[Part]) -> BTreeMap<String, PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args(["test", "--no-run", "--message-format=json", "--lib"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    for (name, _) in parts.iter().filter(|(name, _)| *name != "tidelog") {
        cargo.args(["--test", name]);
    }
    let built = cargo.output().unwrap();
    let complaints = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{complaints}");
    let messages = String::from_utf8(built.stdout).unwrap();
    let mut found = BTreeMap::new();
    for line in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = message["target"]["name"].as_str();
        if let (Some(name), Some(program)) = (name, message["executable"].as_str()) {
            found.insert(name.to_owned(), PathBuf::from(program));
        }
    }
    found
}

/// What a program has done.
#[derive(Debug)]
struct Ran {
    tests: usize,
    /// Folders and files made right on the volume.
    folders: usize,
}

/// Runs a test program on the volume; all that it said, if anything failed.
fn run(program: &Path, filters: &[&str], volume: &Volume) -> Result<Ran, String> {
    let folder = volume.dir().join("tmp");
    fs::create_dir(&folder).unwrap();
    let watch = watch(&folder);
    let mut command = Command::new(program);
    command.args(filters).env("TMPDIR", &folder);
    if volume.kind() == Kind::Btrfs {
        command.args(["--skip", SYNCS_VOLUMES]);
    }
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    if env::var_os("TIDELOG_KILLS").is_none() {
        command.env("TIDELOG_KILLS", KILLS);
    }
    let done = command.output().unwrap();
    let folders = made(&watch);
    fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    if !done.status.success() {
        let complaints = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{}\n{said}{complaints}", done.status));
    }
    let passed = said.lines().filter_map(|line| {
        let (passed, _) = line.strip_prefix("test result: ok. ")?.split_once(' ')?;
        passed.parse::<usize>().ok()
    });
    let tests = passed.sum();
    Ok(Ran { tests, folders })
}

/// Counts from now on what is made in a folder.
fn watch(folder: &Path) -> OwnedFd {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let watch = inotify::init(flags).unwrap();
    inotify::add_watch(&watch, folder, inotify::WatchFlags::CREATE).unwrap();
    watch
}

/// How much was made since.
fn made(watch: &OwnedFd) -> usize {
    let mut buffer = [mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(watch, &mut buffer);
    let mut made = 0;
    loop {
        match events.next() {
            Ok(_) => made += 1,
            Err(Errno::AGAIN) => return made,
            Err(error) => panic!("what was made: {error}"),
        }
    }
}
