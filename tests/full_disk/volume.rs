//! Small file systems, mounted for one test, and what fills them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use tempfile::TempDir;
use tidelog::sys::{Backend, Disk, Mode};
use tidelog::{Store, StoreOptions};

/// A file system, and how the engine brings bytes into files there.
#[derive(Debug, Clone, Copy)]
pub struct Ground {
    pub kind: Kind,
    pub backend: Backend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tmpfs,
    Ext4,
    Xfs,
    Btrfs,
}

const fn ground(kind: Kind, backend: Backend) -> Ground {
    Ground { kind, backend }
}

/// Every file system with each way that the engine has there: a mapped store on btrfs can end in a
/// signal, so it never makes one.
pub const GROUNDS: [Ground; 7] = [
    ground(Kind::Tmpfs, Backend::Mapped),
    ground(Kind::Tmpfs, Backend::Pwrite),
    ground(Kind::Ext4, Backend::Mapped),
    ground(Kind::Ext4, Backend::Pwrite),
    ground(Kind::Xfs, Backend::Mapped),
    ground(Kind::Xfs, Backend::Pwrite),
    ground(Kind::Btrfs, Backend::Pwrite),
];

/// A mounted file system of its own, which goes with the value, whatever the test comes to.
#[derive(Debug)]
pub struct Volume {
    /// Mounts to take down again, the last one first.
    mounts: Vec<TempDir>,
    ground: Ground,
}

impl Volume {
    /// One that is as small as its kind can be.
    pub fn new(ground: Ground) -> Volume {
        let least = match ground.kind {
            Kind::Tmpfs => 32,
            Kind::Ext4 => 48,
            Kind::Xfs => 320,
            Kind::Btrfs => 128,
        };
        Volume::with_megabytes(ground, least)
    }

    pub fn with_megabytes(ground: Ground, megabytes: u64) -> Volume {
        assert!(
            rustix::process::geteuid().is_root(),
            "this test mounts file systems, and must run as root"
        );
        let mut volume = Volume {
            mounts: Vec::new(),
            ground,
        };
        if ground.kind == Kind::Tmpfs {
            volume.mount_tmpfs(megabytes);
            return volume;
        }
        // The image lies in memory: what is tested is the file system, not the disk below it.
        volume.mount_tmpfs(megabytes + 64);
        let image = volume.dir().join("image");
        let make: &[&str] = match ground.kind {
            Kind::Tmpfs => unreachable!("made above"),
            // Without what it keeps for root, who runs this.
            Kind::Ext4 => &["mkfs.ext4", "-q", "-m", "0"],
            Kind::Xfs => &["mkfs.xfs", "-q"],
            Kind::Btrfs => &["mkfs.btrfs", "-q"],
        };
        let file = File::create(&image).unwrap();
        file.set_len(megabytes << 20).unwrap();
        run(
            make[0],
            make[1..].iter().map(OsStr::new).chain([image.as_os_str()]),
        );
        let path = image.to_str().unwrap().to_owned();
        volume.mount("loop", &["-o", "loop", &path]);
        volume
    }

    fn mount_tmpfs(&mut self, megabytes: u64) {
        let size = format!("size={megabytes}m");
        self.mount("memory", &["-t", "tmpfs", "-o", &size, "tmpfs"]);
    }

    /// Mounts with these arguments on a new folder.
    fn mount(&mut self, name: &str, arguments: &[&str]) {
        let folder = tempfile::Builder::new().prefix(name).tempdir().unwrap();
        let arguments = arguments.iter().map(OsStr::new);
        run("mount", arguments.chain([folder.path().as_os_str()]));
        self.mounts.push(folder);
    }

    pub fn kind(&self) -> Kind {
        self.ground.kind
    }

    /// Its root.
    pub fn dir(&self) -> &Path {
        self.mounts.last().unwrap().path()
    }

    /// Opens a store here.
    pub fn try_open(&self, name: &str) -> tidelog::Result<Store> {
        let store = Store::open_with(self.dir().join(name), self.options())?;
        assert_eq!(store.health().backend, self.ground.backend);
        Ok(store)
    }

    pub fn open(&self, name: &str) -> Store {
        self.try_open(name)
            .unwrap_or_else(|error| panic!("{self}: opening: {error}"))
    }

    pub fn options(&self) -> StoreOptions {
        options(self.ground.backend)
    }

    /// What another process is told, for [`open_part`].
    pub fn part(&self) -> PathBuf {
        self.dir().join(match self.ground.backend {
            Backend::Mapped => "mapped",
            Backend::Pwrite => "pwrite",
        })
    }

    /// Bytes that can still be had.
    pub fn free(&self) -> u64 {
        let stat = statvfs(self.dir()).unwrap();
        stat.f_bavail * stat.f_frsize
    }

    /// Takes all of the space but so many bytes.
    pub fn leave(&self, free: u64) -> Ballast {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.dir().join(format!("ballast-{number}"));
        let mut ballast = Ballast { path, held: 0 };
        let file = match File::create(&ballast.path) {
            // Fuller than that it cannot be.
            Err(error) if error.kind() == ErrorKind::StorageFull => return ballast,
            made => made.unwrap(),
        };
        let mut held = 0;
        let mut piece = self.free().saturating_sub(free);
        // What a file system says is free it need not give.
        while self.free() > free && piece >= 4096 {
            let wanted = piece.min(self.free() - free);
            match fallocate(file.as_fd(), FallocateFlags::empty(), held, wanted) {
                Ok(()) => held += wanted,
                Err(rustix::io::Errno::NOSPC) => piece /= 2,
                Err(error) => panic!("{self}: the ballast: {error}"),
            }
        }
        file.sync_all().unwrap();
        // Also what was given in part before it was refused.
        ballast.held = file.metadata().unwrap().blocks() * 512;
        ballast
    }
}

impl std::fmt::Display for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} by {:?}", self.ground.kind, self.ground.backend)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        while let Some(folder) = self.mounts.pop() {
            // Lazily: a test that failed may still have files open here.
            let down = Command::new("umount").arg("-l").arg(folder.path()).status();
            if !down.is_ok_and(|status| status.success()) {
                eprintln!("{} stays mounted", folder.path().display());
            }
        }
    }
}

fn options(backend: Backend) -> StoreOptions {
    let disk = Disk::with_backend(Mode::Private, backend);
    StoreOptions::new().storage(Arc::new(disk))
}

/// In another process: opens the store of [`Volume::part`].
pub fn open_part(part: &Path) -> Store {
    let backend = match part.ends_with("mapped") {
        true => Backend::Mapped,
        false => Backend::Pwrite,
    };
    let root = part.parent().unwrap().join("data");
    Store::open_with(root, options(backend)).unwrap()
}

/// Space that is taken until this goes.
#[derive(Debug)]
pub struct Ballast {
    path: PathBuf,
    held: u64,
}

impl Ballast {
    fn release(&self) -> std::io::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let dir = File::open(self.path.parent().unwrap())?;
        let free = || statvfs(self.path.parent().unwrap()).map(|it| it.f_bavail * it.f_frsize);
        let before = free()?;
        fs::remove_file(&self.path)?;
        rustix::fs::syncfs(&dir)?;
        // Some file systems give back a little later what is removed.
        let deadline = Instant::now() + Duration::from_secs(2);
        while free()? < before + self.held / 8 * 7 && Instant::now() < deadline {
            rustix::fs::syncfs(&dir)?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            eprintln!("{}: {error}", self.path.display());
        }
    }
}

/// Runs a program that must be there and succeed.
fn run<'a>(program: &str, arguments: impl Iterator<Item = &'a OsStr>) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{program} is needed (util-linux, e2fsprogs, xfsprogs, btrfs-progs): {error}")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} failed: {said}");
}

/// Runs a situation on every ground. The others are run, too, when one fails.
pub fn everywhere(situation: impl Fn(&Volume)) {
    let mut failed = Vec::new();
    for ground in GROUNDS {
        let volume = Volume::new(ground);
        let run = std::panic::AssertUnwindSafe(|| situation(&volume));
        if std::panic::catch_unwind(run).is_err() {
            failed.push(volume.to_string());
        }
    }
    assert!(failed.is_empty(), "failed on {failed:?}");
}
