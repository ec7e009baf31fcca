//! What only a real disk has: modes, links, owners, processes.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Disk, Mode, backend_for, parse_uuid};
use crate::sys::{Access, Backend, Kind, Lock, LockError, Storage, View};

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn nobody_else_may_read_unless_the_group_is_asked_in() {
    for (mode, file, folder) in [
        (Mode::Private, 0o600, 0o700),
        (Mode::GroupReads, 0o640, 0o750),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(mode);
        disk.create(&dir.path().join("a"), 10).unwrap();
        disk.create_dir(&dir.path().join("b")).unwrap();
        disk.lock(&dir.path().join("LOCK"), "").unwrap();
        assert_eq!(mode_of(&dir.path().join("a")), file);
        assert_eq!(mode_of(&dir.path().join("LOCK")), file);
        assert_eq!(mode_of(&dir.path().join("b")), folder);
    }
}

#[test]
fn new_files_have_their_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let file = Disk::default()
        .create(&dir.path().join("a"), 1 << 20)
        .unwrap();
    let blocks = || fs::metadata(dir.path().join("a")).unwrap().blocks() * 512;
    assert!(blocks() >= 1 << 20);
    file.grow(2 << 20).unwrap();
    assert!(blocks() >= 2 << 20);
}

#[test]
fn links_pipes_and_sockets_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let disk = Disk::default();
    disk.create(&at("file"), 1).unwrap();
    symlink(at("file"), at("link")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(at("pipe"))
            .status()
            .unwrap()
            .success()
    );
    for name in ["link", "socket", "pipe"] {
        assert_eq!(disk.kind(&at(name)).unwrap(), Some(Kind::Other), "{name}");
        for access in [Access::Read, Access::Write] {
            let error = disk.open(&at(name), access).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name} {access:?}");
        }
        let Err(LockError::Io(error)) = disk.lock(&at(name), "") else {
            panic!("{name} was locked");
        };
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
    }
    let error = disk.create(&at("link"), 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_file_of_another_owner_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let disk = Disk::default();
    disk.create(&path, 1).unwrap();
    if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
        return; // Only root can give a file away.
    }
    let error = disk.open(&path, Access::Read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_file_cut_short_under_a_mapping_is_an_error_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = Disk::default().create(&path, 3 << 20).unwrap();
    let map = std::sync::Arc::new(file.map(Access::Read, 3 << 20).unwrap());
    let view = View::fixed(map.clone(), file, 0..3 << 20).unwrap();
    view.guard(0..1 << 20).unwrap();
    let outside = fs::OpenOptions::new().write(true).open(&path).unwrap();
    outside.set_len(1 << 20).unwrap();
    let error = view.guard(1 << 20..(1 << 20) + 8).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    // The kernel's own check, for a file that is cut between the two.
    let error = map.populate_read(1 << 20..2 << 20).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    assert_eq!(view.bytes()[0], 0);
}

#[test]
fn file_systems_are_told_apart() {
    for overwrites in [0xEF53, 0x5846_5342, 0x0102_1994] {
        assert_eq!(backend_for(overwrites).unwrap(), Backend::Mapped);
    }
    for other in [0x9123_683E, 0x2FC1_2FC1, 0x794C_7630, 0x6573_5546, 1] {
        assert_eq!(backend_for(other).unwrap(), Backend::Pwrite);
    }
    for remote in [0x6969, 0xFF53_4D42, 0x0102_1997, 0x00C3_6400] {
        assert_eq!(
            backend_for(remote).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let forced = Disk::with_backend(Mode::Private, Backend::Pwrite);
    assert_eq!(forced.backend(dir.path()).unwrap(), Backend::Pwrite);
}

#[test]
fn boot_ids_are_read() {
    let id = parse_uuid("00112233-4455-6677-8899-aabbccddeeff\n").unwrap();
    assert_eq!((id[0], id[1], id[15]), (0, 0x11, 0xff));
    for bad in ["", "0011", "zz112233-4455-6677-8899-aabbccddeeff"] {
        assert_eq!(parse_uuid(bad), None);
    }
}

/// Row D26: what a lock file says locks nobody out.
#[test]
fn a_stale_process_id_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let disk = Disk::default();
    for stale in ["1\n", &format!("{}\n", std::process::id()), "garbage", ""] {
        fs::write(&path, stale).unwrap();
        assert_eq!(disk.holder(&path).unwrap(), None);
        disk.lock(&path, "").unwrap().release().unwrap();
    }
}

/// Row D26: a program started by the owner does not keep the lock after the owner is gone.
#[test]
fn a_child_program_does_not_inherit_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let disk = Disk::default();
    let lock = disk.lock(&path, "").unwrap();
    let mut child = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // As when the owner is killed: the descriptor goes, nobody unlocks.
    close_without_unlocking(lock, &path);
    let freed = is_freed(&disk, &path);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(freed);
}

/// Row D26: a child that was forked and runs no other program keeps the lock until it ends, and
/// does not let go of it on its own.
#[test]
fn a_forked_child_keeps_the_lock_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let disk = Disk::default();
    let lock = disk.lock(&path, "").unwrap();
    let child = fork_and_sleep(|| lock.release().is_ok());
    close_without_unlocking(lock, &path);
    std::thread::sleep(Duration::from_millis(50));
    let held = disk.holder(&path).unwrap();
    let Err(LockError::Held { pid }) = disk.lock(&path, "") else {
        panic!("the child holds it");
    };
    assert_eq!(pid, Some(std::process::id()));
    assert_eq!(held.unwrap().pid, pid);
    let child = rustix::process::Pid::from_raw(child).unwrap();
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
    let options = rustix::process::WaitOptions::empty();
    rustix::process::waitpid(Some(child), options).unwrap();
    assert!(is_freed(&disk, &path));
}

/// Whether the lock can be taken, soon: another test may be about to start a program, with a copy
/// of all our descriptors until it has.
fn is_freed(disk: &Disk, path: &Path) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        disk.lock(path, "").is_ok()
    })
}

/// Closes the descriptor of a lock, so that nobody unlocks.
fn close_without_unlocking(lock: Box<dyn Lock>, path: &Path) {
    let wanted = fs::metadata(path).unwrap();
    std::mem::forget(lock);
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let entry = entry.unwrap();
        let fd: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
        let same = |meta: fs::Metadata| (meta.dev(), meta.ino()) == (wanted.dev(), wanted.ino());
        if fs::metadata(entry.path()).is_ok_and(same) {
            close(fd);
        }
    }
}

#[expect(
    unsafe_code,
    reason = "the test closes the forgotten lock's descriptor"
)]
fn close(fd: i32) {
    // SAFETY: the owner of this descriptor was forgotten just now.
    assert_eq!(unsafe { libc::close(fd) }, 0);
}

#[expect(unsafe_code, reason = "nothing safe forks")]
fn fork_and_sleep(act: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child makes plain system calls only, until it ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        act();
        std::thread::sleep(Duration::from_secs(20));
        std::process::abort();
    }
    assert!(child > 0);
    child
}

#[test]
fn a_lock_file_replaced_while_it_is_held_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let disk = Disk::default();
    let _first = disk.lock(&path, "").unwrap();
    fs::rename(&path, dir.path().join("aside")).unwrap();
    // A new file under the name is another lock; the old one's holder is still found by it.
    let _second = disk.lock(&path, "").unwrap();
    assert!(disk.holder(&dir.path().join("aside")).unwrap().is_some());
}

#[test]
fn a_write_at_the_end_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = Disk::default().create(&path, 300_000).unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    file.write_at(&bytes, 0).unwrap();
    let mut read = vec![0; bytes.len()];
    fs::File::open(&path)
        .unwrap()
        .read_exact_at(&mut read, 0)
        .unwrap();
    assert_eq!(read, bytes);
}
