//! What a power cut leaves, as a tree: written to a folder, or made a disk again.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::bytes::{Bytes, SECTOR};
use crate::dice::Dice;
use crate::disk::{Body, Cut, Names, Node, ROOT};

/// What one image had to do without, or with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lost {
    pub sectors: usize,
    pub names: usize,
}

/// A file or folder that survived.
#[derive(Debug, Clone)]
pub enum Left {
    File(u16, Vec<u8>),
    Folder(u16, BTreeMap<String, Left>),
}

/// One image of a cut: each unsynced sector, name and length is there or not.
pub fn image(cut: &Cut, dice: &mut Dice) -> (Left, Lost) {
    let share = dice.pick(&[0, 10, 50, 50, 50, 90, 100]);
    let mut lost = Lost::default();
    let left = leave(cut, ROOT, share, dice, &mut lost);
    (left, lost)
}

fn leave(cut: &Cut, at: u64, share: u64, dice: &mut Dice, lost: &mut Lost) -> Left {
    let node = &cut.nodes[&at];
    match &node.body {
        Body::File(bytes) => {
            lost.sectors += bytes.unsynced();
            Left::File(node.mode, bytes.cut(share, dice))
        }
        Body::Folder(names) => {
            lost.names += names.unsynced();
            let names = names.cut(share, dice).into_iter();
            let names = names.map(|(name, at)| (name, leave(cut, at, share, dice, lost)));
            Left::Folder(node.mode, names.collect())
        }
    }
}

/// Writes it to a folder that is there.
pub fn write(left: &Left, to: &Path) -> io::Result<()> {
    match left {
        Left::Folder(mode, names) => {
            if !to.exists() {
                fs::create_dir(to)?;
            }
            fs::set_permissions(to, fs::Permissions::from_mode(u32::from(*mode)))?;
            for (name, left) in names {
                write(left, &to.join(name))?;
            }
        }
        Left::File(mode, bytes) => {
            let file = File::create(to)?;
            file.set_permissions(fs::Permissions::from_mode(u32::from(*mode)))?;
            file.set_len(bytes.len() as u64)?;
            for (n, chunk) in bytes.chunks(8 * SECTOR).enumerate() {
                if chunk.iter().any(|byte| *byte != 0) {
                    file.write_all_at(chunk, (n * 8 * SECTOR) as u64)?;
                }
            }
        }
    }
    Ok(())
}

/// The same as the contents of a disk, all of it on the medium.
pub fn nodes(left: &Left) -> HashMap<u64, Node> {
    let mut nodes = HashMap::new();
    let mut next = ROOT;
    settle(left, &mut nodes, &mut next);
    nodes
}

fn settle(left: &Left, nodes: &mut HashMap<u64, Node>, next: &mut u64) -> u64 {
    let at = *next;
    *next += 1;
    let (mode, body) = match left {
        Left::File(mode, bytes) => (*mode, Body::File(Bytes::settled(bytes.clone()))),
        Left::Folder(mode, left) => {
            let mut names = Names::default();
            for (name, left) in left {
                let node = settle(left, nodes, next);
                names.set(name, Some(node));
            }
            names.sync();
            (*mode, Body::Folder(names))
        }
    };
    nodes.insert(at, Node { mode, body });
    at
}

/// A disk with nothing on it.
pub fn empty() -> Left {
    Left::Folder(0o700, BTreeMap::new())
}
