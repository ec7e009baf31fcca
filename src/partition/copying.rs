//! A copy of a log as it stood at one moment, made while it goes on.
//!
//! What lies below a log's end never changes again, so nothing has to be stopped: the end is written
//! down, with the sums there ([`Log::standing`]); no segment is removed from then on ([`Kept`]); and
//! when all below it is durable, the segments up to it are copied through descriptors. Beyond the end
//! a copy has zeroes, and its header says no more than that it ends there: what a log has that was
//! closed.

use std::path::Path;
use std::sync::Arc;

use super::log::Log;
use super::mark::{Mark, RecordedEnd};
use super::site::Site;
use crate::error::{Error, Result};
use crate::format::{Entry, SECTOR, Sector, Slot};
use crate::segment::{End, Header, file_name};
use crate::sys::{File, Storage};

/// How much is copied at once.
const CHUNK: usize = 256 << 10;

/// Where a log ended at some moment.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) end: RecordedEnd,
    /// The sums at the ends of segments before the last one, of those that need not be sealed yet.
    ended: Vec<(u32, Mark)>,
}

/// No segment of the log is removed for as long as this is there.
#[derive(Debug)]
pub(crate) struct Kept(Arc<Log>);

impl Drop for Kept {
    fn drop(&mut self) {
        let log = &self.0;
        log.segments.unkeep();
        if log.has_stuck()
            && let Err(error) = log.start_at(0, 0)
        {
            tracing::warn!(log = log.site.log, %error, "cannot be removed yet");
        }
    }
}

impl Log {
    /// Keeps all segments that are there now. Where the log begins moves on all the same.
    pub(crate) fn keep(self: &Arc<Self>) -> Kept {
        self.segments.keep();
        Kept(Arc::clone(self))
    }

    /// Where the log ends now, durable or not; nothing if it has no segment.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the log has failed: nobody knows what its files hold.
    pub(crate) fn standing(&self) -> Result<Option<Standing>> {
        let appender = self.lock();
        self.check_whole()?;
        let Some(last) = appender.last else {
            return Ok(None);
        };
        let open = self.ledger.read().open;
        let ended = open
            .iter()
            .filter_map(|open| Some((open.segment.number(), open.done?)));
        Ok(Some(Standing {
            end: RecordedEnd {
                segment: last.number,
                nonce: last.nonce,
                epoch: self.epoch,
                mark: appender.mark,
            },
            ended: ended.collect(),
        }))
    }

    /// Whether the log has not failed.
    pub(crate) fn check_whole(&self) -> Result<()> {
        match self.gate.failure() {
            Some(_) => Err(self.gate.failed(&self.site)),
            None => Ok(()),
        }
    }

    /// Copies the log's segments, from that number up to where it stood, to an empty folder, and makes
    /// them durable there; not their names. How many bytes were copied. `made` is told of each file.
    pub(crate) fn copy_to(
        &self,
        first: u32,
        standing: &Standing,
        storage: &dyn Storage,
        dir: &Path,
        made: &mut dyn FnMut(&Path),
    ) -> Result<u64> {
        let last = standing.end.segment;
        let mut bytes = 0;
        for number in first..=last {
            let (from, header) = self.site.header(number)?;
            let part = match number == last {
                true => Part::last(&self.site, header, &standing.end)?,
                false => {
                    let ended = standing.ended.iter().find(|(ended, _)| *ended == number);
                    Part::ended(&self.site, header, ended.map(|(_, mark)| *mark))?
                }
            };
            let path = dir.join(file_name(number));
            let to = storage.create(&path, part.header.identity.layout.capacity);
            let to = to.map_err(|error| Error::io("create", &path, error))?;
            made(&path);
            bytes += part.copy(&self.site, from.as_ref(), to.as_ref(), &path)?;
        }
        Ok(bytes)
    }
}

/// What is copied of a segment.
struct Part {
    header: Header,
    end: End,
    index_entries: u32,
    /// What the copy's header says beside its identity.
    says: Option<(Sector, Slot)>,
}

impl Part {
    /// The last segment, which ends at the log's end, whatever has come to it since.
    fn last(site: &Site, header: Header, end: &RecordedEnd) -> Result<Part> {
        if header.identity.nonce != end.nonce {
            let path = site.segment(end.segment);
            return Err(site.mismatch(&path, "it is not the segment that it was"));
        }
        let sealed = header.seal.filter(|seal| Mark::of(seal) == end.mark);
        let says = match sealed {
            Some(seal) => (Sector::Seal, seal),
            None => (Sector::A, end.mark.slot(end.epoch, 1)),
        };
        Ok(Part {
            header,
            end: end.mark.end(),
            index_entries: end.mark.index_entries,
            says: Some(says),
        })
    }

    /// A segment that others have followed: it ends at its seal, or where the next one says.
    fn ended(site: &Site, header: Header, ended: Option<Mark>) -> Result<Part> {
        let number = header.identity.number;
        let (_, successor) = site.header(number + 1)?;
        let end = header.end(&successor);
        let end =
            end.ok_or_else(|| site.mismatch(&site.segment(number), "nothing says where it ends"))?;
        let epoch = successor.identity.epoch;
        let seal = ended.filter(|mark| mark.end() == end);
        let seal = header.seal.or(seal.map(|mark| mark.seal(epoch)));
        Ok(Part {
            header,
            end,
            index_entries: seal.map_or(0, |seal| seal.index_entries),
            says: seal.map(|seal| (Sector::Seal, seal)),
        })
    }

    fn copy(&self, site: &Site, from: &dyn File, to: &dyn File, path: &Path) -> Result<u64> {
        let identity = &self.header.identity;
        let layout = identity.layout;
        let index_at = u64::from(layout.index_at);
        let entries = u64::from(self.index_entries) * Entry::SIZE as u64;
        let entries = entries.min(layout.index_len());
        let mut bytes = 0;
        for range in [
            index_at..index_at + entries,
            layout.records_at..self.end.place.min(layout.capacity),
        ] {
            bytes += copy_range((site, identity.number, from), (to, path), range)?;
        }
        let write = |bytes: &[u8], place| {
            let written = to.write_at(bytes, place);
            written.map_err(|error| Error::io("write", path, error))
        };
        // The other sectors may be changing just now.
        write(&self.header.bytes[..SECTOR], 0)?;
        if let Some((sector, slot)) = &self.says {
            let encoded = slot.encode(identity.seed()).map_err(std::io::Error::other);
            let encoded = encoded.map_err(|error| Error::io("encode", path, error))?;
            write(&encoded, sector.place())?;
        }
        to.sync().map_err(|error| Error::io("sync", path, error))?;
        if let Err(error) = to.drop_cached(0, layout.capacity) {
            tracing::debug!(path = %path.display(), %error, "stays in the cache");
        }
        Ok(bytes)
    }
}

fn copy_range(
    (site, number, from): (&Site, u32, &dyn File),
    (to, path): (&dyn File, &Path),
    range: std::ops::Range<u64>,
) -> Result<u64> {
    let length = range.end.saturating_sub(range.start);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(CHUNK).min(CHUNK)];
    let mut at = range.start;
    while at < range.end {
        let most = usize::try_from(range.end - at).unwrap_or(CHUNK);
        let chunk = most.min(bytes.len());
        let read = from.read_at(&mut bytes[..chunk], at);
        let read = read.map_err(|error| site.io("read", number, error))?;
        if read < chunk {
            let path = site.segment(number);
            return Err(site.mismatch(&path, "the segment is shorter than it was"));
        }
        let written = to.write_at(&bytes[..chunk], at);
        written.map_err(|error| Error::io("write", path, error))?;
        at += chunk as u64;
    }
    Ok(length)
}
