//! The journal's records, read with positioned reads from its first segment to its end.

use std::ops::Range;

use super::fold::Fold;
use super::record::{EventFlaw, REDO, TRANSACTION};
use super::redo::Pending;
use super::replay::Replay;
use super::side;
use crate::error::{Error, Flaw, Result};
use crate::format::Frame;
use crate::partition::{Damage, Promises, Site, Visitor, plan, visit};

/// What a journal says.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) fold: Fold,
    /// What logs may lack that is safe here.
    pub(crate) pending: Pending,
    /// The greatest epoch of its frames and headers.
    pub(crate) epoch: u32,
    /// Bytes of events since the newest snapshot, and of whatever.
    pub(crate) since: u64,
    pub(crate) written: u64,
    /// Bytes of payload of that snapshot's last part.
    pub(crate) snapshot: u64,
    /// The offsets of records that could not be read.
    pub(crate) damaged: Vec<Range<u64>>,
}

impl Read {
    /// How many records could not be read.
    pub(crate) fn damaged_records(&self) -> usize {
        let lengths = self.damaged.iter().map(|range| range.end - range.start);
        let count = lengths.fold(0, u64::saturating_add);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// Reads a whole journal.
pub(crate) fn read(site: &Site, promises: &Promises) -> Result<Read> {
    let plan = plan(site, promises)?;
    let mut reader = Reader {
        site,
        replay: Replay::default(),
        epoch: plan.seen,
        since: 0,
        written: 0,
        snapshot: 0,
        needed_from: 0,
    };
    visit(site, &plan, &promises.redo, &mut reader)?;
    for flaw in reader.replay.flaws() {
        tracing::error!(%flaw, "the journal states what cannot be");
    }
    let damaged = reader.replay.damaged().to_vec();
    let (fold, mut pending) = reader.replay.finish();
    side::add(site, &fold, &mut pending);
    Ok(Read {
        damaged,
        fold,
        pending,
        epoch: reader.epoch,
        since: reader.since,
        written: reader.written,
        snapshot: reader.snapshot,
    })
}

struct Reader<'a> {
    site: &'a Site,
    replay: Replay,
    epoch: u32,
    since: u64,
    written: u64,
    snapshot: u64,
    needed_from: u64,
}

impl Visitor for Reader<'_> {
    fn record(&mut self, segment: u32, offset: u64, frame: &Frame<'_>) -> Result<()> {
        let payload = frame.payload();
        self.epoch = self.epoch.max(frame.epoch());
        let read = self.replay.record(offset, payload);
        read.map_err(|flaw| self.unknown(segment, offset, flaw))?;
        self.written += payload.len() as u64;
        // Redo is no fact, and most of a transaction is none: a snapshot has nothing to say of it.
        if !matches!(payload.first(), Some(&(REDO | TRANSACTION))) {
            self.since += payload.len() as u64;
        }
        if self.replay.needed_from() > self.needed_from {
            self.needed_from = self.replay.needed_from();
            self.snapshot = payload.len() as u64;
            self.since = 0;
            self.written = 0;
        }
        Ok(())
    }

    fn damage(&mut self, damage: Damage, flaw: Flaw) -> Result<()> {
        if flaw.is_unsupported() {
            return Err(self.site.corrupt(damage, flaw));
        }
        tracing::error!(?damage, %flaw, "journal records that cannot be read");
        self.replay.skip(damage.offset..damage.next);
        Ok(())
    }
}

impl Reader<'_> {
    fn unknown(&self, segment: u32, offset: u64, flaw: EventFlaw) -> Error {
        let (found, known) = match flaw {
            EventFlaw::Unknown { found, known } => (found, known.join(", ")),
            other => (other.to_string(), String::new()),
        };
        Error::UnsupportedVersion {
            path: self.site.segment(segment),
            what: "journal record",
            found: format!("{offset}: {found}"),
            known,
        }
    }
}
