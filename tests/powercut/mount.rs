//! Mounting and, whatever happens, unmounting.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, spawn_mount};

use crate::disk::Disk;
use crate::serve::Served;

/// The name under which the kernel lists our mounts.
const NAME: &str = "tidelog-powercut";
/// Longer than this no load takes.
const HANG: Duration = Duration::from_secs(100);

/// A disk that is mounted, until it is dropped.
pub struct Mounted {
    session: Option<BackgroundSession>,
    path: PathBuf,
}

impl Mounted {
    pub fn new(disk: &Arc<Mutex<Disk>>, write_back: bool, path: &Path) -> io::Result<Mounted> {
        fs::create_dir_all(path)?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(NAME.to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
        ];
        let disk = Arc::clone(disk);
        let session = spawn_mount(Served { disk, write_back }, path, &config)?;
        Ok(Mounted {
            session: Some(session),
            path: path.to_owned(),
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.path);
        // The kernel has let go of it, so the thread that serves it ends.
        drop(self.session.take().map(BackgroundSession::join));
    }
}

/// Requests that nobody answers are given up, and the mount goes.
fn unmount(path: &Path) {
    for option in ["-f", "-l"] {
        let mut umount = Command::new("umount");
        umount.arg(option).arg(path).stderr(Stdio::null());
        if umount.status().is_ok_and(|status| status.success()) {
            return;
        }
    }
}

/// Unmounts what a run that died has left.
pub fn clean() -> io::Result<()> {
    for line in fs::read_to_string("/proc/self/mounts")?.lines() {
        let mut words = line.split(' ');
        let (name, path) = (words.next(), words.next());
        if name != Some(NAME) {
            continue;
        }
        let path = Path::new(path.unwrap_or_default());
        // Where somebody still serves it, another run is at work.
        let error = fs::metadata(path).err();
        if error.and_then(|it| it.raw_os_error()) == Some(libc::ENOTCONN) {
            unmount(path);
        }
    }
    Ok(())
}

/// Ends this process when what it watches over takes longer than anything may.
pub struct Watch {
    _alive: Sender<()>,
}

impl Watch {
    pub fn over(what: String, mount: PathBuf) -> Watch {
        let (alive, ended) = channel();
        thread::spawn(move || {
            if ended.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{what}: it hangs");
                unmount(&mount);
                std::process::abort();
            }
        });
        Watch { _alive: alive }
    }
}
