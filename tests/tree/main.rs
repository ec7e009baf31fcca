//! The source tree itself, held to the rules that no compiler checks.
//!
//! Each check is a function from text to findings, tried here on a text that breaks its rule and
//! then run over the tree; a finding names the file, the line and what to do.

mod docs;
mod floors;
mod limits;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

/// Where the repository lies.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files with this extension below some folders or files of the repository, as paths relative
/// to it, sorted. Build output is left out; a folder that is not there is empty.
fn files(below: &[&str], extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = below.iter().map(PathBuf::from).collect();
    while let Some(path) = open.pop() {
        let full = root().join(&path);
        if full.is_dir() {
            if path.file_name().is_some_and(|name| name == "target") {
                continue;
            }
            for entry in fs::read_dir(&full).expect("a readable folder") {
                open.push(path.join(entry.expect("a readable entry").file_name()));
            }
        } else if full.is_file() && path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A file of the repository.
fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Fails with all findings at once, each on its line.
fn none(rule: &str, findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{rule}:\n  {}\n",
        findings.join("\n  ")
    );
}
