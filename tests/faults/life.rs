//! What is asked of this process, and of others.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

pub use crate::alone::alone;
pub use crate::child::{Other, part};

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

/// Stands still until it is killed.
pub fn stand() -> ! {
    loop {
        thread::park();
    }
}
