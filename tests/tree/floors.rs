//! The floors: a file may use its own module and those on lower floors, never a neighbour on its
//! own floor and nothing above. So whoever reads one floor need not know what stands on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::source::{Product, Token, closing, product, tokens};

/// The engine's modules by floor. A new module gets its line here, in `docs/architecture.md` too.
const FLOORS: &[(&str, u8)] = &[
    ("sync", 0),
    ("error", 0),
    ("options", 0),
    ("sys", 1),
    ("format", 2),
    ("board", 2),
    ("segment", 3),
    ("index", 3),
    ("flush", 3),
    ("partition", 4),
    ("journal", 5),
    ("store", 6),
    ("processor", 7),
    ("fuzzing", 7),
];

/// Upward arrows that stand on purpose: file, what it may use, why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "src/error.rs",
        "format::Flaw",
        "an error says what is wrong with a frame in the words of the format; a plain enum",
    ),
    (
        "src/error.rs",
        "format::Field",
        "the fields that such a flaw names; a plain enum",
    ),
    (
        "src/options.rs",
        "sys",
        "the caller chooses the disk, the clock and the back end that a store runs on",
    ),
];

fn floor(module: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(name, _)| *name == module)
        .map(|(_, floor)| *floor)
}

/// Where a path through the crate is used, from the crate's root on: `format::Flaw`.
#[derive(Debug, PartialEq, Eq)]
struct Use {
    path: String,
    line: usize,
}

/// The module of the crate's root that a file belongs to; `lib` for the root itself.
fn module(file: &Path) -> String {
    let inner = file.strip_prefix("src").unwrap_or(file);
    let first = inner.iter().next().unwrap_or_default();
    let first = first.to_str().unwrap_or_default();
    first.trim_end_matches(".rs").to_owned()
}

/// How many modules lie between the crate's root and what a file defines.
fn depth(file: &Path) -> usize {
    let inner = file.strip_prefix("src").unwrap_or(file);
    let steps = inner.iter().count();
    if inner.ends_with("mod.rs") {
        steps - 1
    } else {
        steps
    }
}

/// All paths that begin at the crate's root: `crate::..`, and `super::..` where it climbs there.
fn uses(file: &Path, code: &[Token]) -> Vec<Use> {
    let mut found = Vec::new();
    let mut blocks = Vec::new();
    let mut i = 0;
    while i < code.len() {
        let text = |k: usize| code.get(k).map_or("", |token| token.text.as_str());
        match text(i) {
            // Modules written in place count as steps for `super`.
            "mod" if text(i + 2) == "{" => blocks.push(closing(code, i + 2)),
            "crate" if text(i + 1) == "::" => paths(code, i + 2, "", &mut found),
            "super" if text(i.wrapping_sub(1)) != "::" => {
                let inner = blocks.iter().filter(|&&end| i < end).count();
                let mut climbed = 0;
                let mut k = i;
                while text(k) == "super" && text(k + 1) == "::" {
                    (climbed, k) = (climbed + 1, k + 2);
                }
                if climbed == depth(file) + inner {
                    paths(code, k, "", &mut found);
                }
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// Follows a path, and each branch of a group, to their ends.
fn paths(code: &[Token], mut i: usize, before: &str, found: &mut Vec<Use>) {
    let text = |k: usize| code.get(k).map_or("", |token| token.text.as_str());
    let mut path = before.to_owned();
    let line = code.get(i).map_or(0, |token| token.line);
    loop {
        if text(i) == "{" {
            let end = closing(code, i);
            let mut k = i + 1;
            while k + 1 < end {
                paths(code, k, &path, found);
                // On to the next branch: after the comma on this level.
                while k + 1 < end && text(k) != "," {
                    k = if text(k) == "{" {
                        closing(code, k)
                    } else {
                        k + 1
                    };
                }
                k += 1;
            }
            return;
        }
        if !path.is_empty() {
            path.push_str("::");
        }
        path.push_str(text(i));
        if text(i + 1) != "::" || text(i + 2) == "<" {
            found.push(Use { path, line });
            return;
        }
        i += 2;
    }
}

/// What the crate's root lends from its modules, by name: so `crate::Store` is known for the
/// upward arrow that it is.
fn lent(root: &[Token]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (i, token) in root.iter().enumerate() {
        if token.text != "use" {
            continue;
        }
        let mut found = Vec::new();
        paths(root, i + 1, "", &mut found);
        for Use { path, .. } in found {
            let path = path.trim_start_matches("crate::");
            if let Some((first, _)) = path.split_once("::")
                && floor(first).is_some()
            {
                let name = path.rsplit("::").next().unwrap_or(path);
                names.insert(name.to_owned(), path.to_owned());
            }
        }
    }
    names
}

/// The upward and sideways arrows in one file.
fn arrows(file: &Path, code: &[Token], lent: &BTreeMap<String, String>) -> Vec<String> {
    let own = module(file);
    if own == "lib" {
        return Vec::new();
    }
    let shown = file.display();
    let Some(own_floor) = floor(&own) else {
        return vec![format!(
            "{shown}: module {own} has no floor, see FLOORS in tests/tree/floors.rs"
        )];
    };
    let mut findings = Vec::new();
    for Use { path, line } in uses(file, code) {
        let first = path.split("::").next().unwrap_or(&path);
        let path = match lent.get(first) {
            Some(origin) if floor(first).is_none() => origin.clone(),
            _ => path,
        };
        let target = path.split("::").next().unwrap_or(&path).to_owned();
        let Some(target_floor) = floor(&target) else {
            // A macro of the crate, or a name of the root that comes from no module.
            continue;
        };
        // Floor 0 is what everybody may use, its own modules among them.
        let allowed = target == own || target_floor < own_floor || target_floor == 0;
        let excepted = EXCEPTIONS.iter().any(|(excepted, what, _)| {
            shown.to_string() == *excepted
                && (path == *what || path.starts_with(&format!("{what}::")))
        });
        if !allowed && !excepted {
            findings.push(format!(
                "{shown}:{line}: {own} (floor {own_floor}) uses {path} (floor {target_floor})"
            ));
        }
    }
    findings
}

/// Whether a file holds tests only, by the modules declared so next to it or above it.
fn is_test(file: &Path, tests: &[PathBuf]) -> bool {
    tests
        .iter()
        .any(|module| file == module.with_extension("rs") || file.starts_with(module))
}

#[test]
fn no_module_of_the_engine_uses_a_neighbour_or_a_higher_floor() {
    let files = crate::files(&["src"], "rs");
    let products: Vec<(PathBuf, Product)> = files
        .into_iter()
        .map(|file| {
            let code = product(&tokens(&crate::read(&file)));
            (file, code)
        })
        .collect();
    let mut tests = Vec::new();
    for (file, product) in &products {
        let folder = match file.file_name().and_then(|name| name.to_str()) {
            Some("mod.rs" | "lib.rs") => file.parent().unwrap_or(file).to_owned(),
            _ => file.with_extension(""),
        };
        tests.extend(product.test_modules.iter().map(|name| folder.join(name)));
    }
    let root = products
        .iter()
        .find(|(file, _)| file == Path::new("src/lib.rs"));
    let lent = lent(&root.expect("src/lib.rs").1.tokens);
    let findings: Vec<String> = products
        .iter()
        .filter(|(file, _)| !is_test(file, &tests))
        .flat_map(|(file, product)| arrows(file, &product.tokens, &lent))
        .collect();
    crate::none("arrows that lead up, or to a neighbour", &findings);
}

#[test]
fn the_architecture_page_names_every_module() {
    let page = crate::read(Path::new("docs/architecture.md"));
    let missing: Vec<String> = FLOORS
        .iter()
        .filter(|(name, _)| !page.contains(&format!("`{name}`")))
        .map(|(name, floor)| format!("docs/architecture.md: no `{name}`, floor {floor}"))
        .collect();
    crate::none("modules that the page leaves out", &missing);
}

#[test]
fn an_arrow_is_found_however_it_is_written() {
    let lent = lent(&tokens("mod store; pub use store::{Store, topic::Topic};"));
    let check = |file: &str, code: &str| arrows(Path::new(file), &tokens(code), &lent);
    for code in [
        "use crate::store::Topic;",
        "use crate::{error::Error, format::{Slot, Identity}};",
        "fn f() { crate::partition::open() }",
        "fn f(store: &crate::Store) {}",
        "use crate::Topic;",
        "use super::super::journal::Event;",
        "mod inner { use super::super::super::journal::Event; }",
        "type A = Vec<crate::format::Slot>;",
    ] {
        assert!(!check("src/sys/disk.rs", code).is_empty(), "{code}");
    }
    assert!(!check("src/sys/mod.rs", "use super::format;").is_empty());
    assert!(!check("src/segment/writer.rs", "use crate::index::Sparse;").is_empty());
    assert!(!check("src/error.rs", "use crate::format::Slot;").is_empty());
    assert!(!check("src/novel/mod.rs", "").is_empty());
}

#[test]
fn what_lies_below_may_be_used() {
    let lent = lent(&tokens("pub use error::{Error, Result};"));
    let check = |file: &str, code: &str| arrows(Path::new(file), &tokens(code), &lent);
    for code in [
        "use crate::sys::{Storage, sim::Sim};",
        "use crate::{Error, sync::Watermark, format};",
        "use super::super::format::Slot;",
        "use super::writer::Writer; use super::super::segment::reader;",
        "crate::macro_of_ours!(crate::segment::x::<crate::sys::Map>());",
    ] {
        assert_eq!(
            check("src/segment/reader.rs", code),
            Vec::<String>::new(),
            "{code}"
        );
    }
    assert!(check("src/error.rs", "pub use crate::format::Flaw;").is_empty());
    assert!(check("src/options.rs", "use crate::sys::{Clock, Storage};").is_empty());
    assert!(check("src/lib.rs", "pub use crate::store::Store;").is_empty());
}
