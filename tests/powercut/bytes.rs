//! A file's bytes: what everybody sees, what the medium has, and what may get there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dice::Dice;

/// What is written whole or not at all.
pub const SECTOR: usize = 512;
/// Of a hundred sectors under a sync that fails, how many get to the medium anyway.
const REACHED: u64 = 30;

/// One thing that was written, and when.
type Version<T> = (u64, T);

#[derive(Debug, Clone, Default)]
pub struct Bytes {
    /// What everybody sees.
    now: Arc<Vec<u8>>,
    /// What a power cut leaves for certain.
    durable: Arc<Vec<u8>>,
    durable_len: usize,
    /// By sector, what was written since the last sync, oldest first: any of it may be there.
    pending: BTreeMap<usize, Vec<Version<Vec<u8>>>>,
    lengths: Vec<Version<usize>>,
}

impl Bytes {
    /// A file with these bytes on the medium.
    pub fn settled(bytes: Vec<u8>) -> Bytes {
        let now = Arc::new(bytes.clone());
        Bytes {
            durable_len: bytes.len(),
            durable: Arc::new(bytes),
            now,
            ..Bytes::default()
        }
    }

    pub fn len(&self) -> usize {
        self.now.len()
    }

    pub fn read(&self, place: usize, len: usize) -> &[u8] {
        let start = place.min(self.now.len());
        &self.now[start..place.saturating_add(len).clamp(start, self.now.len())]
    }

    /// Writes, and lengthens the file where need be.
    pub fn write(&mut self, seq: u64, place: usize, bytes: &[u8]) {
        let end = place + bytes.len();
        if end > self.now.len() {
            self.resize(seq, end);
        }
        Arc::make_mut(&mut self.now)[place..end].copy_from_slice(bytes);
        for sector in place / SECTOR..end.div_ceil(SECTOR) {
            let range = sector * SECTOR..((sector + 1) * SECTOR).min(self.now.len());
            // What a failed sync has lost looks right and is not there, so it counts as written.
            if self.latest(sector, range.len()) != self.now[range.clone()] {
                let written = self.now[range].to_vec();
                self.pending.entry(sector).or_default().push((seq, written));
            }
        }
    }

    /// What a sync would find on the medium, or bring there.
    fn latest(&self, sector: usize, len: usize) -> Vec<u8> {
        let last = self.pending.get(&sector).and_then(|all| all.last());
        let mut bytes = match last {
            Some((_, bytes)) => bytes.clone(),
            None => {
                let start = (sector * SECTOR).min(self.durable.len());
                self.durable[start..(start + len).min(self.durable.len())].to_vec()
            }
        };
        bytes.resize(len, 0);
        bytes
    }

    pub fn resize(&mut self, seq: u64, len: usize) {
        if len != self.now.len() {
            Arc::make_mut(&mut self.now).resize(len, 0);
            self.lengths.push((seq, len));
        }
    }

    /// What was written up to then is on the medium.
    pub fn sync(&mut self, upto: u64) {
        self.settle(upto, |_| true);
    }

    /// What was written up to then counts as clean, and only a part of it is on the medium.
    pub fn fail_sync(&mut self, upto: u64, dice: &mut Dice) {
        let none = dice.percent(50);
        self.settle(upto, |_| !none && dice.percent(REACHED));
    }

    fn settle(&mut self, upto: u64, mut reaches: impl FnMut(usize) -> bool) {
        let (done, later) = split(&mut self.lengths, upto);
        self.lengths = later;
        if let Some(len) = done.filter(|_| reaches(usize::MAX)) {
            self.durable_len = len;
        }
        for (sector, mut versions) in std::mem::take(&mut self.pending) {
            let (done, later) = split(&mut versions, upto);
            if let Some(bytes) = done.filter(|_| reaches(sector)) {
                put(Arc::make_mut(&mut self.durable), sector, &bytes);
            }
            if !later.is_empty() {
                self.pending.insert(sector, later);
            }
        }
    }

    /// How many sectors a power cut may or may not leave.
    pub fn unsynced(&self) -> usize {
        self.pending.len()
    }

    /// What a power cut leaves: of a hundred unsynced sectors so many are there.
    pub fn cut(&self, share: u64, dice: &mut Dice) -> Vec<u8> {
        let mut left = self.durable.to_vec();
        for (sector, versions) in &self.pending {
            if dice.percent(share) {
                let newest = versions.len() - 1;
                let which = match dice.percent(70) {
                    true => newest,
                    false => dice.below(versions.len() as u64) as usize,
                };
                put(&mut left, *sector, &versions[which].1);
            }
        }
        let len = match self.lengths.len() {
            count if count > 0 && dice.percent(share) => {
                self.lengths[dice.below(count as u64) as usize].1
            }
            _ => self.durable_len,
        };
        left.resize(len, 0);
        left
    }
}

/// The last version up to then, and those after it.
fn split<T>(versions: &mut Vec<Version<T>>, upto: u64) -> (Option<T>, Vec<Version<T>>) {
    let count = versions.partition_point(|(seq, _)| *seq <= upto);
    let later = versions.split_off(count);
    (versions.pop().map(|(_, value)| value), later)
}

fn put(to: &mut Vec<u8>, sector: usize, bytes: &[u8]) {
    let start = sector * SECTOR;
    if to.len() < start + bytes.len() {
        to.resize(start + bytes.len(), 0);
    }
    to[start..start + bytes.len()].copy_from_slice(bytes);
}
