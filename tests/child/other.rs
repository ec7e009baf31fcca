//! The other process of a test, which is killed in the end.

use std::env;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Names the folder for the other process of a test.
pub const PART: &str = "TIDELOG_TEST_PART";

/// The folder that the other process of a test was given, if this is that process.
pub fn part() -> Option<PathBuf> {
    env::var_os(PART).map(PathBuf::from)
}

/// The other process of a test: killed, at the latest, when it is dropped.
#[derive(Debug)]
pub struct Other {
    pub child: Child,
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
            // A process that it leaves behind must not hold on to ours.
            .stderr(Stdio::null())
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
