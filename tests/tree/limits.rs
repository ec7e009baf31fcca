//! Where danger may stand, and how long a file may get.

use std::path::Path;

use crate::source::tokens;

/// The files that may say `unsafe`, each for one danger of its own.
const UNSAFE: &[&str] = &[
    "src/sys/append_map.rs", // the mapped region
    "src/sys/board.rs",      // shared words between processes
    "src/sys/lock.rs",       // the one call that locks
    "src/sys/disk/tests.rs", // forks, and closes what was forgotten: tests only
];

/// Beyond this a file holds more than one idea.
const LINES: usize = 500;

/// Lines of a file that say `unsafe` in code.
fn unsafe_lines(source: &str) -> Vec<usize> {
    tokens(source)
        .into_iter()
        .filter(|token| token.text == "unsafe")
        .map(|token| token.line)
        .collect()
}

#[test]
fn unsafe_stands_only_in_the_files_meant_for_it() {
    let mut findings = Vec::new();
    for file in crate::files(&["src", "crates"], "rs") {
        if UNSAFE.iter().any(|allowed| file == Path::new(allowed)) {
            continue;
        }
        for line in unsafe_lines(&crate::read(&file)) {
            findings.push(format!("{}:{line}", file.display()));
        }
    }
    crate::none("unsafe outside the files meant for it", &findings);
}

#[test]
fn no_source_file_is_longer_than_500_lines() {
    let mut findings = Vec::new();
    for file in crate::files(&["src", "crates", "tests", "benches", "fuzz"], "rs") {
        let lines = crate::read(&file).lines().count();
        if lines > LINES {
            findings.push(format!(
                "{}: {lines} lines; which idea in it deserves a file of its own?",
                file.display()
            ));
        }
    }
    crate::none("files over 500 lines", &findings);
}

#[test]
fn only_code_counts_as_unsafe() {
    let source = "// unsafe\n#![expect(unsafe_code)]\nlet s = \"unsafe\";\nunsafe { f() }";
    assert_eq!(unsafe_lines(source), [4]);
}
