//! A file of which as much is read as can be.

use std::io;
use std::sync::Arc;

use crate::format::SECTOR;
use crate::sys::{Access, File, Map};

/// How much is read at once.
const CHUNK: usize = 256 << 10;

/// A file that reads as zeroes where it cannot be read, and where it is shorter than it should be or not
/// there at all.
#[derive(Debug)]
pub(super) struct Patient {
    file: Option<Arc<dyn File>>,
    least: u64,
}

impl Patient {
    /// The file, if there is one, as long as it is and at least `least` bytes.
    pub(super) fn new(file: Option<Arc<dyn File>>, least: u64) -> Patient {
        Patient { file, least }
    }

    fn there(&self) -> io::Result<u64> {
        self.file.as_ref().map_or(Ok(0), |file| file.len())
    }

    fn file(&self) -> io::Result<&Arc<dyn File>> {
        let none = || io::ErrorKind::NotFound.into();
        self.file.as_ref().ok_or_else(none)
    }

    /// How many sectors cannot be read: all of the file is.
    pub(super) fn holes(&self) -> io::Result<u64> {
        let Some(file) = &self.file else {
            return Ok(0);
        };
        let length = self.there()?;
        let mut bytes = vec![0; CHUNK];
        let (mut at, mut holes) = (0, 0);
        while at < length {
            let chunk = usize::try_from(length - at).unwrap_or(CHUNK).min(CHUNK);
            if file.read_at(&mut bytes[..chunk], at).is_err() {
                let mut sector_at = at;
                for sector in bytes[..chunk].chunks_mut(SECTOR) {
                    holes += u64::from(file.read_at(sector, sector_at).is_err());
                    sector_at += sector.len() as u64;
                }
            }
            at += chunk as u64;
        }
        Ok(holes)
    }
}

impl File for Patient {
    fn len(&self) -> io::Result<u64> {
        Ok(self.there()?.max(self.least))
    }

    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let there = size(self.there()?.saturating_sub(place)).min(buf.len());
        let all = size(self.len()?.saturating_sub(place)).min(buf.len());
        let (held, lacking) = buf[..all].split_at_mut(there);
        lacking.fill(0);
        let Some(file) = self.file.as_ref().filter(|_| there > 0) else {
            return Ok(all);
        };
        if file.read_at(held, place).is_err() {
            let mut at = place;
            for sector in held.chunks_mut(SECTOR) {
                if file.read_at(sector, at).is_err() {
                    sector.fill(0);
                }
                at += sector.len() as u64;
            }
        }
        Ok(all)
    }

    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()> {
        self.file()?.write_at(buf, place)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.file()?.grow(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file()?.sync()
    }

    fn map(&self, access: Access, len: u64) -> io::Result<Map> {
        self.file()?.map(access, len)
    }
}
