//! What the kernel knows of a process, and processes of their own: this test binary once more, told
//! by a variable of the environment.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

const ALONE: &str = "TIDELOG_LIFECYCLE_ALONE";
const PART: &str = "TIDELOG_LIFECYCLE_PART";

/// Runs `act` in a process of its own, where nothing else runs: for what is counted per process.
/// `test` is the name of the calling test.
pub fn alone(test: &str, act: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return act();
    }
    passes(Command::new(env::current_exe().unwrap()), test);
}

/// Lets a program run the test of that name by itself, and demands that it passes.
pub fn passes(mut program: Command, test: &str) {
    program
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .arg("--include-ignored")
        .env(ALONE, "1")
        .stdin(Stdio::null());
    let output = program.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}\n{said}\n{complained}",
        output.status
    );
    print!("{said}");
    assert!(said.contains("1 passed"), "{test} is no test: {said}");
}

/// The folder that the other process of a test was given, if this is that process.
pub fn part() -> Option<PathBuf> {
    env::var_os(PART).map(PathBuf::from)
}

/// The other process of a test: killed, at the latest, when it is dropped.
#[derive(Debug)]
pub struct Other {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Runs the test of that name in another process, which plays its part in `folder`.
    pub fn start(test: &str, folder: &Path) -> Other {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .arg("--include-ignored")
            .env(PART, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Other { child, said }
    }

    /// Waits for a line with this mark; the word that follows on it.
    pub fn says(&mut self, mark: &str) -> String {
        for line in &mut self.said {
            // The first line stands behind the harness's own words.
            let line = line.unwrap();
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.split_whitespace().next().unwrap_or("").to_owned();
            }
        }
        panic!("the other process ended without saying {mark:?}");
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may be gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

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
