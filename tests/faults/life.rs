//! Processes of their own: this test binary once more, told by a variable of the environment.

use std::env;
use std::fs;
use std::process::{Command, Stdio};
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
