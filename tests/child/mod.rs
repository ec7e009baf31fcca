//! Processes of their own for a test: its binary once more, told by a variable of the environment.

pub mod other;

use std::env;
use std::process::{Command, Stdio};

pub use other::{Other, part};

const ALONE: &str = "TIDELOG_TEST_ALONE";

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
