//! Stores to text, and files to the disk and back.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use tidelog::sys::sim::Sim;
use tidelog::sys::{Kind, Storage};

use crate::unpack::Files;

/// What is packed together, without the zeroes behind it.
const SECTOR: usize = 512;

/// The text that unpacks to these files.
pub fn pack(files: &Files) -> String {
    let mut text = String::from(
        "# A store of version 1, frozen: see docs/format.md. Under each file, the place and the\n\
         # bytes of its sectors that are not zero.\n",
    );
    for (path, bytes) in files {
        let Some(bytes) = bytes else {
            writeln!(text, "folder {path}").unwrap();
            continue;
        };
        writeln!(text, "file {path} {}", bytes.len()).unwrap();
        for (place, sector) in (0..).step_by(SECTOR).zip(bytes.chunks(SECTOR)) {
            let Some(last) = sector.iter().rposition(|byte| *byte != 0) else {
                continue;
            };
            write!(text, "{place} ").unwrap();
            for byte in &sector[..=last] {
                write!(text, "{byte:02x}").unwrap();
            }
            text.push('\n');
        }
    }
    text
}

/// What lies in a folder of a simulated disk.
pub fn of_sim(sim: &Sim, root: &str) -> Files {
    let mut files = Files::new();
    gather(sim, Path::new(root), "", &mut files);
    files
}

fn gather(sim: &Sim, root: &Path, below: &str, files: &mut Files) {
    for entry in sim.list(&root.join(below)).unwrap() {
        let path = format!("{below}{}", entry.name);
        if entry.kind == Kind::Folder {
            files.insert(path.clone(), None);
            gather(sim, root, &format!("{path}/"), files);
        } else {
            let bytes = sim.bytes(&root.join(&path)).unwrap();
            files.insert(path, Some(bytes));
        }
    }
}

/// Writes files below a new folder, private to their owner, as the store makes them.
pub fn write(files: &Files, root: &Path) {
    let make = |path: &Path| DirBuilder::new().mode(0o700).create(path).unwrap();
    make(root);
    for (path, bytes) in files {
        let Some(bytes) = bytes else {
            make(&root.join(path));
            continue;
        };
        let mut new = OpenOptions::new();
        new.write(true).create_new(true).mode(0o600);
        let mut file = new.open(root.join(path)).unwrap();
        file.write_all(bytes).unwrap();
    }
}

/// What lies below a folder now.
pub fn read(root: &Path) -> Files {
    let mut files = Files::new();
    let mut open = vec![String::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(root.join(&below)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{below}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                open.push(format!("{path}/"));
                files.insert(path, None);
            } else {
                files.insert(path, Some(fs::read(entry.path()).unwrap()));
            }
        }
    }
    files
}

/// The same without what an owner writes into the lock's file before it looks at anything: the
/// file is a note to people and no part of the format.
pub fn but_for_the_lock(mut files: Files) -> Files {
    files.remove("LOCK");
    files
}
