//! The pages against the tree: links lead somewhere, and a test that is named exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::source::{Token, tokens};

/// The pages of the repository.
fn pages() -> Vec<PathBuf> {
    let mut pages = crate::files(&["docs"], "md");
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from));
    pages
}

/// The lines of a page outside its fenced blocks, numbered from 1.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().filter_map(move |(i, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((i + 1, line))
    })
}

/// The targets of a page's links, with their lines: `[text](target)`, and `[text]: target`.
fn links(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(page) {
        for (start, _) in line.match_indices("](") {
            let target = &line[start + 2..];
            if let Some(end) = target.find(')') {
                found.push((number, &target[..end]));
            }
        }
        if line.starts_with('[')
            && let Some((_, target)) = line.split_once("]: ")
        {
            found.push((number, target.trim()));
        }
    }
    found
}

/// The anchors that a page's headings have.
fn anchors(page: &str) -> BTreeSet<String> {
    prose(page)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let mut findings = Vec::new();
    for page in pages() {
        let text = crate::read(&page);
        let folder = page.parent().unwrap_or(Path::new(""));
        for (line, target) in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() {
                page.clone()
            } else {
                folder.join(path)
            };
            let shown = page.display();
            if !crate::root().join(&file).exists() {
                findings.push(format!("{shown}:{line}: no {}", file.display()));
            } else if !anchor.is_empty() && !anchors(&crate::read(&file)).contains(anchor) {
                findings.push(format!("{shown}:{line}: no heading #{anchor}"));
            }
        }
    }
    crate::none("links that lead nowhere", &findings);
}

/// The cells of a table's row.
fn cells(line: &str) -> Vec<&str> {
    line.trim()
        .trim_matches('|')
        .split('|')
        .map(str::trim)
        .collect()
}

/// The tests that a cell names: what stands in it between back-ticks.
fn named(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The tests of the tree, by the names of their functions: where each stands, as the words of its path.
#[derive(Debug, Default)]
struct Tests {
    functions: BTreeMap<String, Vec<BTreeSet<String>>>,
    modules: BTreeSet<String>,
}

impl Tests {
    /// Those of a file.
    fn add(&mut self, file: &Path, code: &[Token]) {
        let path = file.with_extension("");
        let mut path: BTreeSet<String> = path
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        // The module `crew` has its tests in `crew_tests.rs`.
        let module = stem.strip_suffix("_tests").unwrap_or(&stem);
        path.insert(module.to_owned());
        let is_test = |at: &[Token]| {
            let sign = ["#", "[", "test", "]"];
            at.len() == 4 && at.iter().zip(sign).all(|(token, sign)| token.text == sign)
        };
        let mut marked = false;
        for (at, pair) in code.windows(2).enumerate() {
            marked |= code.get(at..at + 4).is_some_and(is_test);
            if pair[0].text == "fn" && std::mem::take(&mut marked) {
                let found = self.functions.entry(pair[1].text.clone()).or_default();
                found.push(path.clone());
                self.modules.insert(module.to_owned());
            }
        }
    }

    fn of_the_tree() -> Tests {
        let mut tests = Tests::default();
        for file in crate::files(&["src", "crates", "tests", "fuzz"], "rs") {
            tests.add(&file, &tokens(&crate::read(&file)));
        }
        tests
    }

    /// Whether a name is that of a test, of a file with tests, or of a file or folder: `a_test`,
    /// `module::a_test`, `folder::module`, `tests/folder`.
    fn know(&self, name: &str) -> bool {
        if name.contains('/') {
            return crate::root().join(name).exists();
        }
        let words: Vec<&str> = name.split("::").collect();
        let (last, above) = words.split_last().unwrap_or((&"", &[]));
        let inline = |word: &str| matches!(word, "tests" | "loom_tests");
        let below = |path: &BTreeSet<String>| {
            let fits = |word: &&str| inline(word) || path.contains(*word);
            above.iter().all(fits)
        };
        match self.functions.get(*last) {
            Some(places) => places.iter().any(below),
            None => {
                let file = if inline(last) {
                    above.last()
                } else {
                    Some(last)
                };
                file.is_some_and(|file| self.modules.contains(*file))
            }
        }
    }
}

/// What is wrong with the rows of the tables under headings that begin with `heading`: no row at all, or one
/// whose last cell names nothing, or something that is not there.
fn sentences_without_tests(page: &str, heading: &str, tests: &Tests) -> Vec<String> {
    let (mut findings, mut inside, mut rows) = (Vec::new(), false, 0);
    for (line, text) in prose(page) {
        if let Some(title) = text.strip_prefix("## ") {
            inside = title.starts_with(heading);
        }
        let cells = cells(text);
        let (true, true, [sentence, cell]) = (inside, text.starts_with('|'), cells.as_slice())
        else {
            continue;
        };
        if *sentence == "sentence" || sentence.starts_with("---") {
            continue;
        }
        rows += 1;
        if named(cell).next().is_none() && !cell.starts_with("wait for ") {
            findings.push(format!("docs/testing.md:{line}: no test of: {sentence}"));
        }
        for name in named(cell).filter(|name| !tests.know(name)) {
            findings.push(format!("docs/testing.md:{line}: no test {name}"));
        }
    }
    if rows == 0 {
        findings.push(format!("docs/testing.md: no table under {heading:?}"));
    }
    findings
}

#[test]
fn every_sentence_that_is_promised_names_tests_that_exist() {
    let page = crate::read(Path::new("docs/testing.md"));
    let tests = Tests::of_the_tree();
    let findings = sentences_without_tests(&page, "What is promised", &tests);
    crate::none("the tables of what is promised", &findings);
}

#[test]
fn the_testing_page_lists_every_known_fault_and_names_tests_that_exist() {
    let page = crate::read(Path::new("docs/testing.md"));
    let tests = Tests::of_the_tree();
    let mut findings = Vec::new();
    let mut rows = Vec::new();
    for (line, text) in prose(&page) {
        let cells = cells(text);
        let [row, _, test, issue] = cells.as_slice() else {
            continue;
        };
        let Some(number) = row
            .strip_prefix('D')
            .and_then(|number| number.parse::<usize>().ok())
        else {
            continue;
        };
        rows.push(number);
        if test.is_empty() && issue.is_empty() {
            findings.push(format!(
                "docs/testing.md:{line}: {row} has no test, no issue"
            ));
        }
        for name in named(test).filter(|name| !tests.know(name)) {
            findings.push(format!("docs/testing.md:{line}: no test {name}"));
        }
    }
    if rows != (1..=41).collect::<Vec<_>>() {
        findings.push(format!("docs/testing.md: rows {rows:?}, expected 1 to 41"));
    }
    crate::none("the table of known faults", &findings);
}

#[test]
fn a_sentence_that_names_no_test_or_a_wrong_one_is_found() {
    let mut tests = Tests::default();
    let code = "#[test]\n#[ignore = \"why\"]\nfn it_is_so() {}\nfn helper() {}";
    tests.add(Path::new("tests/faults/rot.rs"), &tokens(code));
    for known in [
        "it_is_so",
        "rot::it_is_so",
        "faults::rot::it_is_so",
        "faults::rot",
        "tests/tree",
    ] {
        assert!(tests.know(known), "{known}");
    }
    for unknown in [
        "helper",
        "faults::tail::it_is_so",
        "faults::tail",
        "tests/none",
        "why",
        "append",
        "",
    ] {
        assert!(!tests.know(unknown), "{unknown}");
    }
    let table = "## What is promised of x\n| sentence | tests |\n|---|---|\n| good | `it_is_so` |\n\
                 | none | |\n| wrong | `rot::it_was_so` |\n## Other\n| any | `thing` |\n";
    let findings = sentences_without_tests(table, "What is promised", &tests);
    let lines = [5, 6].map(|line| format!("docs/testing.md:{line}: no test"));
    assert_eq!(findings.len(), 2, "{findings:?}");
    for (finding, line) in findings.iter().zip(lines) {
        assert!(finding.starts_with(&line), "{findings:?}");
    }
    assert_eq!(sentences_without_tests(table, "Nothing", &tests).len(), 1);
}

#[test]
fn links_are_found_in_prose_and_not_in_code() {
    let page = "see [a](b.md), [c](d#e)\n```\n[f](g)\n```\n[h]: i.md\n# One: two\n";
    assert_eq!(links(page), [(1, "b.md"), (1, "d#e"), (5, "i.md")]);
    assert!(anchors(page).contains("one-two"));
}
