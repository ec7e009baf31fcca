//! The journal's records, read with positioned reads from its first segment to its end.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::fold::Fold;
use super::record::EventFlaw;
use super::replay::Replay;
use crate::error::{Error, Result};
use crate::format::ALIGN;
use crate::partition::{Plan, Promises, Site, plan};
use crate::segment::{End, Header, Page, Walk, read_page};
use crate::sys::{Access, File};

/// What a journal says.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) fold: Fold,
    /// The greatest epoch of its frames and headers.
    pub(crate) epoch: u32,
    /// Bytes of payload since the newest snapshot.
    pub(crate) since: u64,
    /// Bytes of payload of that snapshot, or of all if there is none.
    pub(crate) snapshot: u64,
    /// Records that could not be read.
    pub(crate) damaged: usize,
}

/// Reads a whole journal.
pub(crate) fn read(site: &Site, promises: &Promises) -> Result<Read> {
    let plan = plan(site, promises)?;
    let mut reader = Reader {
        site,
        replay: Replay::default(),
        epoch: plan.epoch,
        since: 0,
        snapshot: 0,
        needed_from: 0,
    };
    reader.segments(&plan)?;
    let damaged = reader.replay.damaged().len();
    for flaw in reader.replay.flaws() {
        tracing::error!(%flaw, "the journal states what cannot be");
    }
    Ok(Read {
        fold: reader.replay.into_fold(),
        epoch: reader.epoch,
        since: reader.since,
        snapshot: reader.snapshot,
        damaged,
    })
}

struct Reader<'a> {
    site: &'a Site,
    replay: Replay,
    epoch: u32,
    since: u64,
    snapshot: u64,
    needed_from: u64,
}

impl Reader<'_> {
    fn segments(&mut self, plan: &Plan) -> Result<()> {
        let Some(last) = plan.last else {
            return Ok(());
        };
        let mut next = self.open(plan.first)?;
        for number in plan.first..=last {
            let (file, header) = next;
            let successor = if number < last { Some(self.open(number + 1)?) } else { None };
            let end = match &successor {
                None => plan.end(),
                Some((_, successor)) => self.end(number, &header, successor)?,
            };
            self.records(number, &file, &header, end)?;
            match successor {
                Some(successor) => next = successor,
                None => break,
            }
        }
        Ok(())
    }

    fn open(&self, number: u32) -> Result<(Arc<dyn File>, Header)> {
        let path = self.site.segment(number);
        let file = self.site.storage.open(&path, Access::Read);
        let file = file.map_err(|error| Error::io("open", &path, error))?;
        let page = read_page(file.as_ref()).map_err(|error| Error::io("read", &path, error))?;
        match page {
            Page::Assigned(header) if self.site.owns(&header.identity, number) => Ok((file, *header)),
            _ => Err(self.site.mismatch(&path, "its header is damaged")),
        }
    }

    fn end(&self, number: u32, header: &Header, successor: &Header) -> Result<End> {
        if let Some(seal) = &header.seal {
            return Ok(End {
                place: seal.place,
                next: seal.next,
            });
        }
        let end = successor.identity.predecessor.ok_or_else(|| {
            let path = self.site.segment(number);
            self.site.mismatch(&path, "nothing says where it ends")
        })?;
        Ok(End {
            place: end.place,
            next: end.next,
        })
    }

    /// Every record of a segment; what cannot be read is passed over and counted.
    fn records(
        &mut self,
        number: u32,
        file: &Arc<dyn File>,
        header: &Header,
        end: End,
    ) -> Result<()> {
        let layout = header.identity.layout;
        let base = header.identity.base;
        let fail = |error| self.site.io("read", number, error);
        self.epoch = self.epoch.max(header.identity.epoch);
        let mut walk = Walk::new(Arc::clone(file), header.seed(), layout.capacity);
        let (mut place, mut next) = (layout.records_at, base);
        while place < end.place {
            let frame = walk.frame(place).map_err(fail)?;
            if let Ok(frame) = frame
                && base + u64::from(frame.delta()) == next
            {
                let (length, epoch) = (frame.padded_len() as u64, frame.epoch());
                self.epoch = self.epoch.max(epoch);
                let read = self.replay.record(next, frame.payload());
                read.map_err(|flaw| unknown(self.site.segment(number), flaw))?;
                let bytes = frame.payload().len() as u64;
                self.count(bytes);
                place += length;
                next += 1;
                continue;
            }
            let mut found = None;
            walk.search(place + ALIGN as u64, end.place, |walk, at, peek| {
                let offset = base + u64::from(peek.delta);
                if offset > next && offset < end.next && walk.frame(at)?.is_ok() {
                    found = Some((at, offset));
                    return Ok(ControlFlow::Break(()));
                }
                Ok(ControlFlow::Continue(()))
            })
            .map_err(fail)?;
            let (at, offset) = found.unwrap_or((end.place, end.next));
            self.skip(next, offset);
            (place, next) = (at, offset);
        }
        self.skip(next, end.next);
        Ok(())
    }

    fn skip(&mut self, from: u64, to: u64) {
        for offset in from..to {
            tracing::error!(offset, "a journal record cannot be read");
            self.replay.skip(offset);
        }
    }

    /// Counts a payload: since the last snapshot, or into the one that it completes.
    fn count(&mut self, bytes: u64) {
        self.since += bytes;
        if self.replay.needed_from() > self.needed_from {
            self.needed_from = self.replay.needed_from();
            self.snapshot = bytes;
            self.since = 0;
        }
    }
}

fn unknown(path: PathBuf, flaw: EventFlaw) -> Error {
    let (found, known) = match flaw {
        EventFlaw::Unknown { found, known } => (found, known.join(", ")),
        other => (other.to_string(), String::new()),
    };
    Error::UnsupportedVersion {
        path,
        what: "journal record",
        found,
        known,
    }
}
