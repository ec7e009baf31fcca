//! The pages against the tree: links lead somewhere, and a test that is named exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::source::tokens;

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

#[test]
fn the_testing_page_lists_every_known_fault_and_names_tests_that_exist() {
    let page = crate::read(Path::new("docs/testing.md"));
    let mut functions = BTreeSet::new();
    for file in crate::files(&["src", "crates", "tests", "fuzz"], "rs") {
        let code = tokens(&crate::read(&file));
        for pair in code.windows(2) {
            if pair[0].text == "fn" {
                functions.insert(pair[1].text.clone());
            }
        }
    }
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
        for name in named(test) {
            let function = name.rsplit("::").next().unwrap_or(name);
            if !functions.contains(function) {
                findings.push(format!("docs/testing.md:{line}: no test {name}"));
            }
        }
    }
    if rows != (1..=41).collect::<Vec<_>>() {
        findings.push(format!("docs/testing.md: rows {rows:?}, expected 1 to 41"));
    }
    crate::none("the table of known faults", &findings);
}

#[test]
fn links_are_found_in_prose_and_not_in_code() {
    let page = "see [a](b.md), [c](d#e)\n```\n[f](g)\n```\n[h]: i.md\n# One: two\n";
    assert_eq!(links(page), [(1, "b.md"), (1, "d#e"), (5, "i.md")]);
    assert!(anchors(page).contains("one-two"));
}
