//! The space of segments that the journal lets go of, for the next ones: on a full disk a file that
//! was removed could not be made again.
//!
//! Such a file first gets a name that no segment has, durably; then it is overwritten with zeroes,
//! durably; then it gets the name of the next segment, durably. So the chain loses it as it would lose
//! a file that is removed, nothing is written to it under the name that it had in the chain, and a
//! spare holds nothing but zeroes, as one that was just made. Should anything of its old life be there
//! all the same, the nonce of that life is not the one that frames are checked with then.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::appender::Appender;
use super::list::Link;
use super::log::Log;
use super::making::layout;
use super::site::Site;
use super::spare::Spare;
use crate::error::{Error, Result};
use crate::format::{Layout, PAGE};
use crate::segment::{Room, file_name, used_name, used_number_of};
use crate::sys::{Access, File};

/// How much is zeroed at once.
const WINDOW: u64 = 256 << 10;

/// A file whose space is kept for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Used {
    /// The number that it had as a segment.
    number: u32,
    pub(super) length: u64,
}

impl Used {
    fn path(&self, site: &Site) -> PathBuf {
        site.dir.join(used_name(self.number))
    }

    /// Removes it. It is only space: what cannot be removed now is found by the next owner.
    pub(super) fn discard(&self, site: &Site) {
        let path = self.path(site);
        if let Err(error) = site.storage.remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot be removed yet");
        }
    }

    /// Makes it the segment of that number, which nobody has taken over yet. After an error it is
    /// gone.
    pub(super) fn reuse(self, site: &Site, number: u32) -> Result<Spare> {
        let path = self.path(site);
        let renewed = renew(site, &path).inspect_err(|_| self.discard(site))?;
        let to = site.segment(number);
        if let Err(error) = site.storage.rename(&path, &to) {
            self.discard(site);
            return Err(Error::io("rename", &path, error));
        }
        if let Err(error) = site.sync_dir(&site.dir) {
            remove(site, &to);
            return Err(error);
        }
        tracing::info!(log = site.log, number, "uses the space of an old segment");
        let (file, layout) = renewed;
        Ok(Spare {
            number,
            file,
            layout,
            spoiled: false,
        })
    }
}

/// Overwrites a file with zeroes, durably. Its name, and that it has no other one, is made durable
/// before: a killed owner may have left that to do.
fn renew(site: &Site, path: &Path) -> Result<(Arc<dyn File>, Layout)> {
    site.sync_dir(&site.dir)?;
    let file = site.storage.open(path, Access::Write);
    let file = file.map_err(|error| Error::opening("open", path, error))?;
    let fail = |error| Error::io("renew", path, error);
    let length = file.len().map_err(fail)?;
    let length = length - length % PAGE;
    let layout = layout(path, length)?;
    zero(file.as_ref(), length).map_err(fail)?;
    Ok((file, layout))
}

/// All of it, whatever it reads as: what the cache holds need not be what the medium does.
fn zero(file: &dyn File, length: u64) -> io::Result<()> {
    let zeroes = vec![0; usize::try_from(WINDOW.min(length)).map_err(io::Error::other)?];
    let mut place = 0;
    while place < length {
        let some = usize::try_from((length - place).min(WINDOW)).map_err(io::Error::other)?;
        file.write_at(&zeroes[..some], place)?;
        place += some as u64;
    }
    file.sync()?;
    file.drop_cached(0, length)
}

/// Takes over a spare that an owner before has made, and that nobody has taken over: so that the space
/// of the next segment is there on a full disk, too. `None` if it is good for nothing.
pub(super) fn adopt(site: &Site, number: u32) -> Option<Layout> {
    let path = site.segment(number);
    let renewed = renew(site, &path).map(|(_, layout)| layout);
    renewed
        .inspect_err(|error| tracing::debug!(path = %path.display(), %error, "made anew"))
        .ok()
}

/// The space that an owner before has kept: the longest file of that kind, and the others go.
pub(super) fn find(site: &Site) -> Option<Used> {
    let entries = site.storage.list(&site.dir).unwrap_or_default();
    let numbers = entries
        .iter()
        .filter_map(|entry| used_number_of(&entry.name));
    let is_there = |number| entries.iter().any(|entry| entry.name == file_name(number));
    let mut found: Option<Used> = None;
    for number in numbers {
        let used = used(site, number);
        if is_there(number) {
            // A second name of a segment, as some file systems may leave it after a power cut.
            used.discard(site);
            continue;
        }
        let shorter = match found {
            Some(before) if before.length >= used.length => Some(used),
            _ => found.replace(used),
        };
        if let Some(shorter) = shorter {
            shorter.discard(site);
        }
    }
    found
}

fn used(site: &Site, number: u32) -> Used {
    let path = site.dir.join(used_name(number));
    let file = site.storage.open(&path, Access::Read);
    let length = file.and_then(|file| file.len()).unwrap_or(0);
    Used { number, length }
}

fn remove(site: &Site, path: &Path) {
    if let Err(error) = site.storage.remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot be removed yet");
    }
}

impl Log {
    /// Sees to the next segment, which is to be there ahead, before anything else is written. Where
    /// there is no room for it, appending tells when it needs it.
    pub(crate) fn make_ahead(self: &Arc<Self>) {
        let seen = self.shelf.want(0);
        self.setting.preparer.assist(self.as_dirty());
        if let Err(error) = self.shelf.wait(seen, None, || self.gate.is_over()) {
            tracing::debug!(log = self.site.log, %error, "the next segment is not there ahead");
        }
    }

    /// Asks for the next segment, where it is to be there ahead and could not be made before.
    pub(crate) fn try_again(self: &Arc<Self>) {
        if self.limits.load().ahead && !self.shelf.has_spare() {
            self.ask_preparer();
        }
    }

    /// Whether there is no room for the next segment, as long as it should be, and there would be if
    /// old ones went.
    pub(crate) fn lacks_room(&self) -> bool {
        self.shelf.lacks_room(self.next_capacity()) && self.segments.now().len() > 1
    }

    /// The offset with which the last segment begins.
    pub(crate) fn last_base(&self) -> Result<u64> {
        let links = self.segments.now();
        links.last().map_or(Ok(0), |last| last.base(&self.site))
    }

    /// Whether a batch fits into the active segment, with what is to stay free behind it. In a short
    /// segment that is not more than half of it.
    pub(super) fn fits(&self, appender: &Appender, room: Room) -> bool {
        if room.keep == 0 || !appender.fits(room) {
            return appender.fits(room);
        }
        let layout = appender.identity().map(|identity| identity.layout);
        let half = layout.map_or(0, |layout| layout.records_len() / 2);
        let bytes = room.bytes.saturating_add(room.keep.min(half));
        appender.fits(Room { bytes, ..room }) || self.shelf.has_spare()
    }

    /// Takes the lowest segment's name from the folder, durably, before it leaves the list. On a
    /// full disk the space of a segment of the journal is kept, unless somebody holds it open: false if
    /// it has to stay for now.
    pub(super) fn unname(&self, lowest: &Link) -> Result<bool> {
        let site = &self.site;
        let path = site.segment(lowest.number);
        let keeps = self.limits.load().ahead && self.lacks_room();
        if keeps && lowest.is_open() {
            return Ok(false);
        }
        let aside = site.dir.join(used_name(lowest.number));
        let kept = keeps && self.rename_used(&path, &aside);
        if !kept {
            // Where it is not there, an earlier call has removed it, and could not make that durable.
            site.remove(lowest.number)?;
        }
        let synced = site.sync_dir(&site.dir);
        if kept {
            // Whoever could open it under its name has done so by now.
            if synced.is_err() || lowest.is_open() {
                remove(site, &aside);
            } else if let Some(other) = self.shelf.offer(used(site, lowest.number)) {
                other.discard(site);
            }
        }
        synced.map(|()| true)
    }

    fn rename_used(&self, from: &Path, to: &Path) -> bool {
        let renamed = self.site.storage.rename(from, to);
        renamed
            .inspect_err(|error| tracing::debug!(path = %from.display(), %error, "not kept"))
            .is_ok()
    }
}
