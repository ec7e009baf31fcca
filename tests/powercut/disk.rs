//! The disk behind the file system: its files and names, its troubles, and the cuts that are taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use fuser::Errno;

use crate::bytes::Bytes;
use crate::dice::Dice;

pub const ROOT: u64 = 1;

/// What a path leads to.
#[derive(Debug, Clone)]
pub enum Body {
    File(Bytes),
    Folder(Names),
}

#[derive(Debug, Clone)]
pub struct Node {
    pub mode: u16,
    pub body: Body,
}

/// The names in a folder.
#[derive(Debug, Clone, Default)]
pub struct Names {
    pub now: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    /// What a name has led to since the last sync of the folder: any of it may be there.
    pending: BTreeMap<String, Vec<Option<u64>>>,
}

impl Names {
    pub fn set(&mut self, name: &str, node: Option<u64>) {
        match node {
            Some(node) => self.now.insert(name.to_owned(), node),
            None => self.now.remove(name),
        };
        let versions = self.pending.entry(name.to_owned()).or_default();
        versions.push(node);
    }

    pub fn sync(&mut self) {
        self.durable = self.now.clone();
        self.pending.clear();
    }

    /// How many names a power cut may or may not leave.
    pub fn unsynced(&self) -> usize {
        self.pending.len()
    }

    /// Whatever a name may lead to after a cut.
    fn all(&self) -> impl Iterator<Item = u64> + '_ {
        let pending = self.pending.values().flatten().flatten();
        let known = self.durable.values().chain(self.now.values());
        known.chain(pending).copied()
    }

    /// What a power cut leaves.
    pub fn cut(&self, share: u64, dice: &mut Dice) -> BTreeMap<String, u64> {
        let mut left = self.durable.clone();
        for (name, versions) in &self.pending {
            if dice.percent(share) {
                match versions[dice.below(versions.len() as u64) as usize] {
                    Some(node) => left.insert(name.clone(), node),
                    None => left.remove(name),
                };
            }
        }
        left
    }
}

/// What will go wrong, and how slow it is.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// The sync that fails, counted from the first.
    pub failed_sync: Option<u64>,
    /// The write that fails, likewise: one of the kernel's own, from a mapping, or one of a call.
    pub failed_write: Option<u64>,
    /// How many bytes there is room for.
    pub capacity: usize,
    /// Of a hundred syncs, how many take long.
    pub slow: u64,
    /// The change before which the first cut is taken, and how far the next ones are at most.
    pub first_cut: u64,
    pub next_cut: u64,
    /// How many are taken. With the last one the power is gone.
    pub cuts: usize,
}

/// The disk at the moment of a cut.
#[derive(Debug)]
pub struct Cut {
    pub nodes: HashMap<u64, Node>,
    /// How many of the writer's lines had been read by then.
    pub said: usize,
    /// A sync or a write had failed before.
    pub failed: bool,
}

/// What the writer has said.
pub type Said = Arc<Mutex<Vec<String>>>;

#[derive(Debug)]
pub struct Disk {
    pub nodes: HashMap<u64, Node>,
    next: u64,
    /// Changes so far.
    pub seq: u64,
    used: usize,
    syncs: u64,
    writes: u64,
    pub trouble: Trouble,
    next_cut: u64,
    pub dice: Dice,
    failed: bool,
    /// The power is gone: nothing is answered any more.
    pub dead: bool,
    pub cuts: Vec<Cut>,
    said: Said,
}

impl Disk {
    pub fn new(nodes: HashMap<u64, Node>, seed: u64, trouble: Trouble, said: Said) -> Disk {
        let files = nodes.values().map(|node| match &node.body {
            Body::File(bytes) => bytes.len(),
            Body::Folder(_) => 0,
        });
        Disk {
            used: files.sum(),
            next: nodes.keys().max().map_or(ROOT, |last| *last) + 1,
            nodes,
            seq: 0,
            syncs: 0,
            writes: 0,
            next_cut: trouble.first_cut,
            trouble,
            dice: Dice::new(seed),
            failed: false,
            dead: false,
            cuts: Vec::new(),
            said,
        }
    }

    /// Before each change: the moment at which a cut may come.
    pub fn change(&mut self) -> Result<u64, Errno> {
        self.alive()?;
        if self.seq >= self.next_cut && self.cuts.len() < self.trouble.cuts {
            self.take();
            self.next_cut = self.seq + 1 + self.dice.below(self.trouble.next_cut);
        }
        self.alive()?;
        self.seq += 1;
        Ok(self.seq)
    }

    pub fn alive(&self) -> Result<(), Errno> {
        if self.dead { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Takes a cut: what was said up to now must hold for it.
    pub fn take(&mut self) {
        let said = self.said.lock().unwrap().len();
        let mut reachable = BTreeSet::new();
        let mut next = vec![ROOT];
        while let Some(node) = next.pop() {
            if let (true, Some(Node { body, .. })) = (reachable.insert(node), self.nodes.get(&node))
                && let Body::Folder(names) = body
            {
                next.extend(names.all());
            }
        }
        let nodes = self.nodes.iter().filter(|(at, _)| reachable.contains(at));
        self.cuts.push(Cut {
            nodes: nodes.map(|(at, node)| (*at, node.clone())).collect(),
            said,
            failed: self.failed,
        });
        self.dead = self.cuts.len() >= self.trouble.cuts;
    }

    /// The power goes now, if it has not gone before.
    pub fn end(&mut self) {
        if !self.dead {
            self.take();
            self.dead = true;
        }
    }

    pub fn node(&self, at: u64) -> Result<&Node, Errno> {
        self.nodes.get(&at).ok_or(Errno::ENOENT)
    }

    pub fn names(&mut self, at: u64) -> Result<&mut Names, Errno> {
        match self.nodes.get_mut(&at).map(|node| &mut node.body) {
            Some(Body::Folder(names)) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub fn bytes(&mut self, at: u64) -> Result<&mut Bytes, Errno> {
        match self.nodes.get_mut(&at).map(|node| &mut node.body) {
            Some(Body::File(bytes)) => Ok(bytes),
            _ => Err(Errno::EISDIR),
        }
    }

    pub fn find(&mut self, folder: u64, name: &str) -> Result<u64, Errno> {
        let found = self.names(folder)?.now.get(name);
        found.copied().ok_or(Errno::ENOENT)
    }

    /// Makes a file or folder.
    pub fn make(&mut self, folder: u64, name: &str, mode: u16, body: Body) -> Result<u64, Errno> {
        self.change()?;
        if self.find(folder, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let at = self.next;
        self.next += 1;
        self.nodes.insert(at, Node { mode, body });
        self.names(folder)?.set(name, Some(at));
        Ok(at)
    }

    pub fn remove(&mut self, folder: u64, name: &str) -> Result<(), Errno> {
        self.change()?;
        let at = self.find(folder, name)?;
        match &self.node(at)?.body {
            Body::Folder(names) if !names.now.is_empty() => return Err(Errno::ENOTEMPTY),
            Body::Folder(_) => {}
            Body::File(bytes) => self.used = self.used.saturating_sub(bytes.len()),
        }
        self.names(folder)?.set(name, None);
        Ok(())
    }

    pub fn rename(&mut self, from: (u64, &str), to: (u64, &str)) -> Result<(), Errno> {
        self.change()?;
        let at = self.find(from.0, from.1)?;
        self.names(from.0)?.set(from.1, None);
        self.names(to.0)?.set(to.1, Some(at));
        Ok(())
    }

    /// Makes room up to a length.
    pub fn allocate(&mut self, at: u64, len: usize) -> Result<(), Errno> {
        let seq = self.change()?;
        let more = len.saturating_sub(self.bytes(at)?.len());
        if self.used + more > self.trouble.capacity {
            return Err(Errno::ENOSPC);
        }
        self.used += more;
        let bytes = self.bytes(at)?;
        if more > 0 {
            bytes.resize(seq, len);
        }
        Ok(())
    }

    pub fn truncate(&mut self, at: u64, len: usize) -> Result<(), Errno> {
        let seq = self.change()?;
        self.bytes(at)?.resize(seq, len);
        Ok(())
    }

    pub fn write(&mut self, at: u64, place: usize, data: &[u8]) -> Result<(), Errno> {
        self.writes += 1;
        if self.trouble.failed_write == Some(self.writes) {
            self.failed = true;
            return Err(Errno::EIO);
        }
        let end = place + data.len();
        if self.bytes(at)?.len() < end {
            self.allocate(at, end)?;
        }
        let seq = self.change()?;
        self.bytes(at)?.write(seq, place, data);
        Ok(())
    }

    /// The moment up to which a sync that is asked for now must bring everything to the medium.
    pub fn begin_sync(&mut self) -> Result<(u64, bool), Errno> {
        let seq = self.change()?;
        self.syncs += 1;
        let fails = self.trouble.failed_sync == Some(self.syncs);
        self.failed |= fails;
        Ok((seq, fails))
    }

    pub fn end_sync(&mut self, at: u64, (upto, fails): (u64, bool)) -> Result<(), Errno> {
        self.alive()?;
        let mut dice = self.dice.clone();
        let node = self.nodes.get_mut(&at).ok_or(Errno::ENOENT)?;
        match (&mut node.body, fails) {
            (Body::File(bytes), true) => bytes.fail_sync(upto, &mut dice),
            (Body::File(bytes), false) => bytes.sync(upto),
            // Its names may be there or not, as before.
            (Body::Folder(_), true) => {}
            (Body::Folder(names), false) => names.sync(),
        }
        self.dice = dice;
        if fails { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Blocks of 4 KiB: all, and free ones.
    pub fn room(&self) -> (u64, u64) {
        let free = self.trouble.capacity.saturating_sub(self.used);
        ((self.trouble.capacity / 4096) as u64, (free / 4096) as u64)
    }
}
