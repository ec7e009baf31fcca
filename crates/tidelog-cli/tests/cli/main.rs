//! The command as a shell sees it: what goes in, what comes out, and the exit code.

mod append;
mod config;
mod demo;
mod export;
mod kill;
mod lag;
mod mend;
mod pipes;
mod read;
mod retention;
mod store;
mod subscriptions;
mod tail;
mod topics;
mod verify;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder that goes with the test, and the store in it.
struct Place {
    dir: TempDir,
}

/// What a command came to.
struct Done {
    code: Option<i32>,
    out: Vec<u8>,
    err: String,
}

impl Place {
    fn new() -> Place {
        Place {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn store(&self) -> PathBuf {
        self.path().join("data")
    }

    /// A command in that folder: its default store is the store.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidelog"));
        command.args(args).current_dir(self.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        Done::from(self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed.
    fn ok(&self, args: &[&str]) -> Done {
        let done = self.run(args);
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{args:?}");
        done
    }

    /// Runs a command with this on its standard input.
    fn feed(&self, args: &[&str], input: &[u8]) -> Done {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        match child.stdin.take().unwrap().write_all(input) {
            // A command that refuses need not have read all of it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written.unwrap(),
        }
        Done::from(child.wait_with_output().unwrap())
    }

    fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Done {
        Done {
            code: output.status.code(),
            out: output.stdout,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Done {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    /// Every line as a JSON object.
    fn json(&self) -> Vec<Value> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Every file below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // A running store may move a folder away while it is looked at.
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Where bytes stand in others.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
