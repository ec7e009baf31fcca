//! A simulated file's bytes: in the cache, as of the last sync, and on the medium.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::ops::Range;

use super::chance::Chance;
use super::{CrashReport, Keep};
use crate::sys::append_map::Heap;

/// What is written whole or not at all.
pub(super) const SECTOR: usize = 512;
/// Room that a file gets from the start, so that it can grow while it is mapped.
const RESERVE: usize = 1 << 20;
/// Of a thousand dirty sectors under a sync that fails, how many get to the medium anyway.
const REACHED: u64 = 300;

#[derive(Debug)]
pub(super) struct Bytes {
    /// What everybody sees; shared with the mappings.
    cache: Heap,
    len: usize,
    /// The cache as of the last sync, also of one that failed.
    clean: Vec<u8>,
    /// What a power cut leaves of the sectors that are clean.
    durable: Vec<u8>,
    durable_len: Option<usize>,
    /// Sectors written through the file since the last sync, equal bytes or not.
    touched: BTreeSet<usize>,
    /// Open handles.
    pub(super) handles: usize,
    /// Belongs to somebody else.
    pub(super) foreign: bool,
}

impl Bytes {
    /// A file that was just made, nothing of it on the medium.
    pub(super) fn new(len: usize) -> io::Result<Self> {
        Ok(Self {
            cache: Heap::new(len.max(RESERVE))?,
            len,
            clean: vec![0; len],
            durable: vec![0; len],
            durable_len: None,
            touched: BTreeSet::new(),
            handles: 0,
            foreign: false,
        })
    }

    /// A file that has these bytes on the medium.
    pub(super) fn settled(durable: Vec<u8>) -> io::Result<Self> {
        let cache = Heap::new(durable.len().max(RESERVE))?;
        cache.copy_in(0, &durable)?;
        Ok(Self {
            cache,
            len: durable.len(),
            clean: durable.clone(),
            durable_len: Some(durable.len()),
            durable,
            touched: BTreeSet::new(),
            handles: 0,
            foreign: false,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn heap(&self) -> Heap {
        self.cache.clone()
    }

    /// The bytes on the medium.
    pub(super) fn durable(&self) -> &[u8] {
        &self.durable[..self.durable_len.unwrap_or(0).min(self.durable.len())]
    }

    /// The bytes everybody sees.
    pub(super) fn cached(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len];
        self.cache.copy_out(0, &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn read(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        let Some(place) = usize::try_from(place)
            .ok()
            .filter(|place| *place < self.len)
        else {
            return Ok(0);
        };
        let len = buf.len().min(self.len - place);
        if self.cache.check(&(place..place + len)).is_err() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.cache.copy_out(place, &mut buf[..len])?;
        Ok(len)
    }

    pub(super) fn write(&mut self, bytes: &[u8], place: u64) -> io::Result<()> {
        let place = usize::try_from(place).map_err(|_| ErrorKind::InvalidInput)?;
        let end = place.checked_add(bytes.len());
        if end.is_none_or(|end| end > self.len) {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "a write past the end of the file",
            ));
        }
        self.cache.copy_in(place, bytes)?;
        if !bytes.is_empty() {
            let last = (place + bytes.len() - 1) / SECTOR;
            self.touched.extend(place / SECTOR..=last);
        }
        Ok(())
    }

    /// Lengthens; fails if that does not fit beside mappings that are alive.
    pub(super) fn grow(&mut self, len: usize) -> io::Result<()> {
        if len <= self.len {
            return Ok(());
        }
        if len > self.cache.len() {
            if self.cache.is_shared() {
                return Err(io::Error::new(
                    ErrorKind::Unsupported,
                    "a mapped simulated file has no room to grow to this length",
                ));
            }
            self.move_cache(len.max(RESERVE))?;
        }
        self.len = len;
        self.clean.resize(len, 0);
        self.durable.resize(len, 0);
        Ok(())
    }

    /// Leaves the present memory to the mappings it has: what they store is not seen any more.
    pub(super) fn detach(&mut self) -> io::Result<()> {
        self.move_cache(self.len.max(RESERVE))
    }

    fn move_cache(&mut self, len: usize) -> io::Result<()> {
        let fresh = Heap::new(len)?;
        fresh.copy_in(0, &self.cached()?)?;
        self.cache
            .spoiled()
            .into_iter()
            .for_each(|bad| fresh.spoil(bad));
        self.cache = fresh;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        let cached = self.cached()?;
        for sector in self.dirty(&cached) {
            self.put(&cached, sector);
        }
        self.durable_len = Some(self.len);
        self.settle(cached);
        Ok(())
    }

    /// A sync that fails: some sectors are on the medium, and all of them count as clean.
    pub(super) fn fail_sync(&mut self, chance: &mut Chance) -> io::Result<()> {
        let cached = self.cached()?;
        for sector in self.dirty(&cached) {
            if chance.per_mille(REACHED) {
                self.put(&cached, sector);
            }
        }
        if chance.per_mille(REACHED) {
            self.durable_len = Some(self.len);
        }
        self.settle(cached);
        Ok(())
    }

    /// The cache lets go of what is clean in a range: what never got to the medium is lost.
    pub(super) fn evict(&mut self, range: Range<usize>) -> io::Result<()> {
        let cached = self.cached()?;
        let dirty: BTreeSet<_> = self.dirty(&cached).into_iter().collect();
        // As the kernel does, only what lies in the range whole.
        for sector in range.start.div_ceil(SECTOR)..range.end.min(self.len) / SECTOR {
            if !dirty.contains(&sector) {
                let range = self.sector(sector);
                self.cache
                    .copy_in(range.start, &self.durable[range.clone()])?;
                self.clean[range.clone()].copy_from_slice(&self.durable[range]);
            }
        }
        Ok(())
    }

    /// The power goes.
    pub(super) fn cut(
        &mut self,
        keep: Keep,
        chance: &mut Chance,
        report: &mut CrashReport,
    ) -> io::Result<()> {
        let cached = self.cached()?;
        for sector in self.dirty(&cached) {
            report.unsynced_sectors += 1;
            if keep.one(chance) {
                report.kept_sectors += 1;
                self.put(&cached, sector);
            }
        }
        let durable_len = self.durable_len.unwrap_or(0);
        if durable_len != self.len && !keep.one(chance) {
            self.durable.truncate(durable_len);
        }
        let left = Self::settled(std::mem::take(&mut self.durable))?;
        self.cache
            .spoiled()
            .into_iter()
            .for_each(|bad| left.cache.spoil(bad));
        *self = Self {
            foreign: self.foreign,
            ..left
        };
        Ok(())
    }

    /// Somebody changes the file behind the engine's back, in the cache and on the medium.
    pub(super) fn tamper(&mut self, place: usize, bytes: &[u8]) -> io::Result<()> {
        let end = place
            .checked_add(bytes.len())
            .filter(|end| *end <= self.len);
        let end = end.ok_or(ErrorKind::InvalidInput)?;
        self.cache.copy_in(place, bytes)?;
        self.clean[place..end].copy_from_slice(bytes);
        self.durable[place..end].copy_from_slice(bytes);
        Ok(())
    }

    /// Somebody cuts the file short behind the engine's back.
    pub(super) fn truncate(&mut self, len: usize) -> io::Result<()> {
        if len > self.len {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.cache.copy_in(len, &vec![0; self.len - len])?;
        self.len = len;
        self.clean.truncate(len);
        self.durable.truncate(len);
        self.durable_len = Some(len);
        self.touched.retain(|sector| sector * SECTOR < len);
        Ok(())
    }

    pub(super) fn fingerprint(&self, crc: u32) -> io::Result<u32> {
        let crc = crc32c::crc32c_append(crc, &self.cached()?);
        let crc = crc32c::crc32c_append(crc, &self.clean);
        Ok(crc32c::crc32c_append(crc, self.durable()))
    }

    /// Sectors that a power cut may or may not leave.
    fn dirty(&self, cached: &[u8]) -> Vec<usize> {
        let changed = |sector: &usize| {
            let range = self.sector(*sector);
            self.touched.contains(sector) || cached[range.clone()] != self.clean[range]
        };
        (0..self.len.div_ceil(SECTOR)).filter(changed).collect()
    }

    fn sector(&self, sector: usize) -> Range<usize> {
        sector * SECTOR..((sector + 1) * SECTOR).min(self.len)
    }

    fn put(&mut self, cached: &[u8], sector: usize) {
        let range = self.sector(sector);
        self.durable[range.clone()].copy_from_slice(&cached[range]);
    }

    fn settle(&mut self, cached: Vec<u8>) {
        self.clean = cached;
        self.touched.clear();
    }
}
