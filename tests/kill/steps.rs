//! The real disk, at a certain call of which the process is killed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::process::{Signal, getpid, kill_process};
use tidelog::sys::{
    Access, Backend, Disk, Entry, File, Holder, Kind, Lock, LockError, Map, Stats, Storage, Volume,
};

use crate::load::say;

/// What the engine asks of a disk, by what it is for. `sys::Disk` does it; before or after it the
/// process may end.
pub const STEPS: [&str; 25] = [
    "create journal",
    "create log",
    "grow log",
    "make folder",
    "map journal",
    "map log",
    "open journal",
    "open log",
    "remove folder",
    "remove journal",
    "remove log",
    "remove trash",
    "rename log folder",
    "sync folder",
    "sync journal",
    "sync journal folder",
    "sync log",
    "sync log folder",
    "sync root",
    "write journal",
    "write journal header",
    "write journal slot",
    "write log",
    "write log header",
    "write log slot",
];

/// Where to end: at which call of a step, counted from 0, and whether before it or after.
#[derive(Debug, Clone)]
pub struct Target {
    pub step: String,
    pub nth: u64,
    pub after: bool,
}

#[derive(Debug, Default)]
struct Counts {
    target: Option<Target>,
    seen: Mutex<BTreeMap<String, u64>>,
}

impl Counts {
    /// Does one step, unless the process ends here.
    fn step<T>(&self, step: &str, act: impl FnOnce() -> T) -> T {
        let mut seen = self.seen.lock().unwrap();
        let count = seen.entry(step.to_owned()).or_default();
        let nth = *count;
        *count += 1;
        drop(seen);
        let target = self.target.as_ref();
        let here = target.filter(|it| it.step == step && it.nth == nth);
        if here.is_some_and(|it| !it.after) {
            end(step);
        }
        let done = act();
        if here.is_some() {
            end(step);
        }
        done
    }
}

fn end(step: &str) {
    say(&format!("killed {step}"));
    kill_process(getpid(), Signal::KILL).unwrap();
}

/// Which part of a store a path leads to.
fn area(path: &Path) -> &'static str {
    let is_file = path.extension().is_some();
    let inside = |folder: &str| path.components().any(|it| it.as_os_str() == folder);
    match () {
        () if inside("journal") && is_file => "journal",
        () if inside("journal") => "journal folder",
        () if inside("trash") => "trash",
        () if inside("quarantine") => "quarantine",
        () if inside("topics") && is_file => "log",
        () if inside("topics")
            && path
                .components()
                .rev()
                .nth(2)
                .is_some_and(|it| it.as_os_str() == "topics") =>
        {
            "log folder"
        }
        () if inside("topics") => "folder",
        () => "root",
    }
}

#[derive(Debug)]
pub struct Steps {
    disk: Disk,
    counts: Arc<Counts>,
}

impl Steps {
    pub fn new(disk: Disk, target: Option<Target>) -> Steps {
        let counts = Counts {
            target,
            ..Counts::default()
        };
        Steps {
            disk,
            counts: Arc::new(counts),
        }
    }

    fn at<T>(&self, call: &str, path: &Path, act: impl FnOnce() -> T) -> T {
        self.counts.step(&format!("{call} {}", area(path)), act)
    }

    fn file(&self, path: &Path, file: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
        let (area, counts) = (area(path), Arc::clone(&self.counts));
        file.map(|file| Arc::new(Stepped { file, area, counts }) as Arc<dyn File>)
    }
}

impl Storage for Steps {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.counts
            .step("make folder", || self.disk.create_dir(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(dir)
    }

    fn create(&self, path: &Path, len: u64) -> io::Result<Arc<dyn File>> {
        self.file(
            path,
            self.at("create", path, || self.disk.create(path, len)),
        )
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.file(path, self.at("open", path, || self.disk.open(path, access)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at("rename", from, || self.disk.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.at("remove", path, || self.disk.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.counts
            .step("remove folder", || self.disk.remove_dir(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.at("sync", dir, || self.disk.sync_dir(dir))
    }

    fn volume(&self, dir: &Path) -> io::Result<Arc<dyn Volume>> {
        self.disk.volume(dir)
    }

    fn most_open(&self) -> Option<u64> {
        self.disk.most_open()
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.disk.kind(path)
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free(dir)
    }

    fn backend(&self, dir: &Path) -> io::Result<Backend> {
        self.disk.backend(dir)
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn Lock>, LockError> {
        self.disk.lock(path, note)
    }

    fn holder(&self, path: &Path) -> io::Result<Option<Holder>> {
        self.disk.holder(path)
    }

    fn boot(&self) -> Option<[u8; 16]> {
        self.disk.boot()
    }

    fn stats(&self) -> &Stats {
        self.disk.stats()
    }
}

#[derive(Debug)]
struct Stepped {
    file: Arc<dyn File>,
    area: &'static str,
    counts: Arc<Counts>,
}

impl Stepped {
    fn at<T>(&self, call: &str, act: impl FnOnce() -> T) -> T {
        self.counts.step(&format!("{call} {}", self.area), act)
    }
}

impl File for Stepped {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        self.file.read_at(buf, place)
    }

    /// The first sectors are a file's header: who it is, slots, the seal.
    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()> {
        let what = match (place, buf.len()) {
            (0, _) => " header",
            (512 | 1024 | 1536, 512) => " slot",
            _ => "",
        };
        let step = format!("write {}{what}", self.area);
        self.counts.step(&step, || self.file.write_at(buf, place))
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.at("grow", || self.file.grow(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.at("sync", || self.file.sync())
    }

    fn drop_cached(&self, place: u64, len: u64) -> io::Result<()> {
        self.file.drop_cached(place, len)
    }

    fn map(&self, access: Access, len: u64) -> io::Result<Map> {
        self.at("map", || self.file.map(access, len))
    }
}
