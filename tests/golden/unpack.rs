//! A packed store: one text file, of what is not zero. `docs/format.md`, "Frozen", has the rules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What lies below a store's folder, by its path there; a folder has no bytes. A folder comes
/// before what is in it.
pub type Files = BTreeMap<String, Option<Vec<u8>>>;

/// The folder of a case.
pub fn folder(case: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    golden.join(case)
}

/// A packed store, unpacked.
pub fn unpack(case: &str) -> Files {
    let path = folder(case).join("store.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut files = Files::new();
    let mut name = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["folder", path] => drop(files.insert(path.to_owned(), None)),
            ["file", path, length] => {
                name = path.to_owned();
                files.insert(name.clone(), Some(vec![0; length.parse().unwrap()]));
            }
            [place, hex] => {
                let (place, bytes): (usize, _) = (place.parse().unwrap(), bytes(hex));
                let file = files.get_mut(&name).and_then(Option::as_mut).unwrap();
                file[place..place + bytes.len()].copy_from_slice(&bytes);
            }
            _ => panic!("{line}"),
        }
    }
    files
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let pairs = pairs.map(|pair| std::str::from_utf8(pair).unwrap());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}
