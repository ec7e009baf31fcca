//! What the kernel knows of a process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

pub use crate::alone::{alone, passes};
pub use crate::child::{Other, part};

/// Looks again and again until it is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < HANG, "{what}: it never came to that");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Looks again and again until nothing is left of what there was.
pub fn until_none<T: std::fmt::Debug>(what: &str, mut left: impl FnMut() -> Vec<T>) {
    let begin = Instant::now();
    loop {
        match left() {
            none if none.is_empty() => return,
            some => assert!(begin.elapsed() < HANG / 2, "{what} stay: {some:?}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Longer than this nothing takes.
const HANG: Duration = Duration::from_secs(30);

/// Ends this process, and so the test, when what it watches over takes longer than anything may.
#[derive(Debug)]
pub struct Watch {
    _alive: Sender<()>,
}

impl Watch {
    pub fn over(what: String) -> Watch {
        let (alive, ended) = channel();
        thread::spawn(move || {
            if ended.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{what}: it hangs");
                std::process::abort();
            }
        });
        Watch { _alive: alive }
    }
}

/// Threads of stores in this process.
pub fn store_threads() -> Vec<PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let tasks = tasks.map(|task| task.unwrap().path());
    // One may end while it is looked at.
    let name = |task: &PathBuf| fs::read_to_string(task.join("comm")).unwrap_or_default();
    tasks
        .filter(|task| name(task).starts_with("tidelog-"))
        .collect()
}

/// How often threads of stores have gone to sleep so far: each of them that wakes up adds to it.
pub fn sleeps() -> u64 {
    let of = |task: &PathBuf| {
        let status = fs::read_to_string(task.join("status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    store_threads().iter().map(of).sum()
}

/// Where descriptors of this process lead to, of those that lead below a folder.
pub fn descriptors(folder: &Path) -> Vec<PathBuf> {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    // The one that lists them is gone by now.
    let links = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    links.filter(|it| it.starts_with(folder)).collect()
}

/// Mappings of this process of files below a folder.
pub fn mappings(folder: &Path) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let folder = folder.to_str().unwrap();
    let lines = maps.lines().filter(|line| line.contains(folder));
    lines.map(str::to_owned).collect()
}

/// Bytes of memory of this process that no file backs.
pub fn anonymous() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
    let number = line.unwrap().split_whitespace().next().unwrap();
    number.parse::<u64>().unwrap() << 10
}
