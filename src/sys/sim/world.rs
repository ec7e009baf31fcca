//! What the simulated machine holds: folders, their names, files, locks, and what fails next.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use super::bytes::Bytes;
use super::chance::Chance;
use super::faults::{Call, Faults, crashed};
use super::{Crash, CrashReport, Keep, Snapshot};
use crate::sys::{Backend, Kind};

/// The root folder's number.
const ROOT: u64 = 0;

#[derive(Debug)]
pub(super) enum Node {
    Folder(Names),
    File(Bytes),
    /// A link, a pipe: nothing to open.
    Other,
}

/// The names in a folder, as everybody sees them and as of its last sync.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) now: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
}

/// What a snapshot keeps of a node.
#[derive(Debug, Clone)]
pub(super) enum Image {
    Folder(BTreeMap<String, u64>),
    File(Vec<u8>),
    Other,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) chance: Chance,
    pub(super) faults: Faults,
    pub(super) nodes: BTreeMap<u64, Node>,
    next: u64,
    /// Grows with every crash: handles of an earlier one are dead.
    pub(super) generation: u64,
    pub(super) boot: u64,
    /// The machine has stopped, and waits for the crash.
    pub(super) stopped: bool,
    pub(super) locks: BTreeSet<u64>,
    pub(super) capacity: Option<u64>,
    pub(super) backend: Backend,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed),
            faults: Faults::default(),
            nodes: BTreeMap::from([(ROOT, Node::Folder(Names::default()))]),
            next: ROOT + 1,
            generation: 0,
            boot: 0,
            stopped: false,
            locks: BTreeSet::new(),
            capacity: None,
            backend: Backend::Mapped,
        }
    }

    /// Every call comes through here first.
    pub(super) fn enter(&mut self, call: Call, path: &Path) -> io::Result<()> {
        if !self.stopped && self.faults.count() {
            self.stop()?;
        }
        if self.stopped {
            return Err(crashed());
        }
        self.faults.check(call, path, &mut self.chance)
    }

    /// The machine stops: what anybody stores into a mapping from now on is not seen any more.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.stopped = true;
        self.files().try_for_each(Bytes::detach)
    }

    fn files(&mut self) -> impl Iterator<Item = &mut Bytes> {
        self.nodes.values_mut().filter_map(|node| match node {
            Node::File(bytes) => Some(bytes),
            _ => None,
        })
    }

    // Paths and names.

    pub(super) fn find(&self, path: &Path) -> io::Result<u64> {
        let mut at = ROOT;
        for name in parts(path)? {
            let next = self.names(at)?.now.get(name);
            at = *next.ok_or(ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    /// The folder that a path's last name is in, and that name.
    pub(super) fn parent<'a>(&self, path: &'a Path) -> io::Result<(u64, &'a str)> {
        let names = parts(path)?;
        let name = names.last().ok_or(ErrorKind::InvalidInput)?;
        let folder = self.find(path.parent().ok_or(ErrorKind::InvalidInput)?)?;
        self.names(folder)?;
        Ok((folder, name))
    }

    pub(super) fn names(&self, node: u64) -> io::Result<&Names> {
        match self.nodes.get(&node) {
            Some(Node::Folder(names)) => Ok(names),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn names_mut(&mut self, node: u64) -> io::Result<&mut Names> {
        match self.nodes.get_mut(&node) {
            Some(Node::Folder(names)) => Ok(names),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn bytes_mut(&mut self, node: u64) -> io::Result<&mut Bytes> {
        match self.nodes.get_mut(&node) {
            Some(Node::File(bytes)) => Ok(bytes),
            _ => Err(io::Error::new(
                ErrorKind::InvalidInput,
                "not a regular file",
            )),
        }
    }

    pub(super) fn kind(&self, node: u64) -> Kind {
        match self.nodes.get(&node) {
            Some(Node::File(_)) => Kind::File,
            Some(Node::Folder(_)) => Kind::Folder,
            _ => Kind::Other,
        }
    }

    pub(super) fn insert(&mut self, path: &Path, node: Node) -> io::Result<u64> {
        let (folder, name) = self.parent(path)?;
        let number = self.next;
        let names = self.names_mut(folder)?;
        if names.now.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        names.now.insert(name.to_owned(), number);
        self.next += 1;
        self.nodes.insert(number, node);
        Ok(number)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (node, (old, old_name)) = (self.find(from)?, self.parent(from)?);
        let (new, new_name) = self.parent(to)?;
        if to.starts_with(from) && to != from {
            return Err(ErrorKind::InvalidInput.into());
        }
        let replaced = self.names(new)?.now.get(new_name).copied();
        match replaced.map(|there| (self.kind(node), self.kind(there), there)) {
            Some((_, _, there)) if there == node => return Ok(()),
            Some((Kind::Folder, Kind::Folder, there)) if self.names(there)?.now.is_empty() => {}
            Some((Kind::Folder, Kind::Folder, _)) => {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            Some((Kind::Folder, _, _)) => return Err(ErrorKind::NotADirectory.into()),
            Some((_, Kind::Folder, _)) => return Err(ErrorKind::IsADirectory.into()),
            _ => {}
        }
        self.names_mut(old)?.now.remove(old_name);
        self.names_mut(new)?.now.insert(new_name.to_owned(), node);
        replaced.into_iter().for_each(|gone| self.forget(gone));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path, folder_wanted: bool) -> io::Result<()> {
        let (node, (folder, name)) = (self.find(path)?, self.parent(path)?);
        match (self.kind(node), folder_wanted) {
            (Kind::Folder, true) if self.names(node)?.now.is_empty() => {}
            (Kind::Folder, true) => return Err(ErrorKind::DirectoryNotEmpty.into()),
            (_, true) => return Err(ErrorKind::NotADirectory.into()),
            (Kind::Folder, false) => return Err(ErrorKind::IsADirectory.into()),
            (_, false) => {}
        }
        self.names_mut(folder)?.now.remove(name);
        self.forget(node);
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, folder: u64) -> io::Result<()> {
        let names = self.names_mut(folder)?;
        let before = std::mem::replace(&mut names.durable, names.now.clone());
        before.into_values().for_each(|node| self.forget(node));
        Ok(())
    }

    /// Everything is synced, bytes and names.
    pub(super) fn sync_all(&mut self) -> io::Result<()> {
        self.files().try_for_each(Bytes::sync)?;
        let folders = self.nodes.iter();
        let folders = folders.filter(|(_, node)| matches!(node, Node::Folder(_)));
        let folders: Vec<u64> = folders.map(|(number, _)| *number).collect();
        for folder in folders {
            // One that was removed goes with the sync of that which it was in.
            if self.nodes.contains_key(&folder) {
                self.sync_dir(folder)?;
            }
        }
        Ok(())
    }

    /// A sync of everything fails: some bytes of each file got to the medium, no name did.
    pub(super) fn fail_sync_all(&mut self) -> io::Result<()> {
        let mut chance = self.chance.clone();
        let failed = self
            .files()
            .try_for_each(|bytes| bytes.fail_sync(&mut chance));
        self.chance = chance;
        failed
    }

    /// Drops a node that has no name left and that nobody holds open.
    pub(super) fn forget(&mut self, node: u64) {
        let open = matches!(self.nodes.get(&node), Some(Node::File(bytes)) if bytes.handles > 0);
        let named = self.nodes.values().any(|other| match other {
            Node::Folder(names) => names
                .now
                .values()
                .chain(names.durable.values())
                .any(|n| *n == node),
            _ => false,
        });
        if !open && !named {
            self.nodes.remove(&node);
        }
    }

    // Space.

    /// Bytes that can still be allocated.
    pub(super) fn free(&self) -> u64 {
        let lengths = self.nodes.values().map(|node| match node {
            Node::File(bytes) => bytes.len() as u64,
            _ => 0,
        });
        let used: u64 = lengths.sum();
        self.capacity
            .map_or(1 << 40, |all| all.saturating_sub(used))
    }

    pub(super) fn take_space(&self, wanted: u64) -> io::Result<usize> {
        if wanted > self.free() {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        usize::try_from(wanted).map_err(|_| ErrorKind::FileTooLarge.into())
    }

    // Crashes.

    pub(super) fn crash(&mut self, crash: Crash) -> io::Result<CrashReport> {
        let mut report = CrashReport::default();
        match crash {
            Crash::Kill if !self.stopped => self.stop()?,
            Crash::Kill => {}
            Crash::Cut(keep) => self.cut(keep, &mut report)?,
        }
        self.files().for_each(|bytes| bytes.handles = 0);
        self.drop_nameless();
        self.generation += 1;
        self.locks.clear();
        self.faults = Faults::default();
        self.stopped = false;
        Ok(report)
    }

    fn cut(&mut self, keep: Keep, report: &mut CrashReport) -> io::Result<()> {
        let keep = keep.settled(&mut self.chance);
        self.boot += 1;
        let chance = &mut self.chance;
        let mut renamed = Vec::new();
        for (folder, node) in &mut self.nodes {
            match node {
                Node::File(bytes) => bytes.cut(keep, chance, report)?,
                Node::Folder(names) => {
                    let old = names.cut(keep, chance, report);
                    renamed.extend(old.into_iter().map(|(name, node)| (*folder, name, node)));
                }
                Node::Other => {}
            }
        }
        self.drop_old_names(&renamed)
    }

    /// Of a thing that was renamed and is there under both names, the old one goes.
    fn drop_old_names(&mut self, renamed: &[(u64, String, u64)]) -> io::Result<()> {
        for (folder, name, node) in renamed {
            let count = self.nodes.values().map(|other| match other {
                Node::Folder(names) => names.now.values().filter(|n| *n == node).count(),
                _ => 0,
            });
            if count.sum::<usize>() > 1 {
                let names = self.names_mut(*folder)?;
                names.now.remove(name);
                names.durable.remove(name);
            }
        }
        Ok(())
    }

    fn drop_nameless(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut next = vec![ROOT];
        while let Some(node) = next.pop() {
            if let Some(Node::Folder(names)) = self.nodes.get(&node) {
                let below = names.now.values().chain(names.durable.values());
                next.extend(below.filter(|node| reached.insert(**node)));
            }
        }
        self.nodes.retain(|node, _| reached.contains(node));
    }

    // Copies.

    pub(super) fn snapshot(&self) -> Snapshot {
        let image = |node: &Node| match node {
            Node::Folder(names) => Image::Folder(names.durable.clone()),
            Node::File(bytes) => Image::File(bytes.durable().to_vec()),
            Node::Other => Image::Other,
        };
        let nodes = self
            .nodes
            .iter()
            .map(|(number, node)| (*number, image(node)));
        Snapshot(nodes.collect())
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let mut nodes = BTreeMap::new();
        for (number, image) in &snapshot.0 {
            let node = match image {
                Image::Folder(names) => Node::Folder(Names {
                    now: names.clone(),
                    durable: names.clone(),
                }),
                Image::File(bytes) => Node::File(Bytes::settled(bytes.clone())?),
                Image::Other => Node::Other,
            };
            nodes.insert(*number, node);
        }
        // The copy may be of another disk, with numbers that this one has not given yet.
        let above = nodes.last_key_value().map_or(ROOT, |(last, _)| *last) + 1;
        self.next = self.next.max(above);
        self.nodes = nodes;
        self.drop_nameless();
        self.generation += 1;
        self.locks.clear();
        self.stopped = false;
        Ok(())
    }

    pub(super) fn fingerprint(&self) -> io::Result<u32> {
        let mut crc = 0;
        for (number, node) in &self.nodes {
            crc = crc32c::crc32c_append(crc, &number.to_le_bytes());
            match node {
                Node::File(bytes) => crc = bytes.fingerprint(crc)?,
                Node::Folder(names) => {
                    for (name, node) in names.now.iter().chain(&names.durable) {
                        crc = crc32c::crc32c_append(crc, name.as_bytes());
                        crc = crc32c::crc32c_append(crc, &node.to_le_bytes());
                    }
                }
                Node::Other => {}
            }
        }
        Ok(crc)
    }
}

impl Names {
    /// Each name that was not synced is there, or not, or as it was before. Returns the names
    /// that are there although the cache had them gone.
    fn cut(
        &mut self,
        keep: Keep,
        chance: &mut Chance,
        report: &mut CrashReport,
    ) -> Vec<(String, u64)> {
        let mut back = Vec::new();
        let all: BTreeSet<_> = self
            .now
            .keys()
            .chain(self.durable.keys())
            .cloned()
            .collect();
        for name in all {
            let (now, then) = (
                self.now.get(&name).copied(),
                self.durable.get(&name).copied(),
            );
            if now == then {
                continue;
            }
            report.unsynced_names += 1;
            if keep.one(chance) {
                report.kept_names += 1;
                match now {
                    Some(node) => self.durable.insert(name, node),
                    None => self.durable.remove(&name),
                };
            } else if let Some(then) = then {
                back.push((name, then));
            }
        }
        self.now.clone_from(&self.durable);
        back
    }
}

/// The names along a path, from the root.
fn parts(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str().ok_or(ErrorKind::InvalidInput)?),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(names)
}
