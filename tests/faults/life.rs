//! Processes of their own: this test binary once more, told by a variable of the environment.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const ALONE: &str = "TIDELOG_FAULTS_ALONE";

/// Runs `act` in a process of its own, where nothing else runs: for what is counted per process.
/// `test` is the name of the calling test.
pub fn alone(test: &str, act: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return act();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .arg("--include-ignored")
        .env(ALONE, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}\n{said}\n{complained}",
        output.status
    );
    print!("{said}");
    assert!(
        said.contains("1 passed"),
        "{test} is not the name of one test: {said}"
    );
}

/// A number of `/proc/self/status`, in bytes.
fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() << 10
}

/// The most memory that this process ever had resident.
pub fn peak_memory() -> u64 {
    status("VmHWM:")
}

/// Looks again and again until it is so. Gives up after a minute.
pub fn until(mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "it never came to that"
        );
        thread::yield_now();
    }
}

const PART: &str = "TIDELOG_FAULTS_PART";

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
            .env(PART, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // A process that it leaves behind must not hold on to ours.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Other { child, said }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
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

/// Stands still until it is killed.
pub fn stand() -> ! {
    loop {
        thread::park();
    }
}
