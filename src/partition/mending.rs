//! What makes a log open, and be read through, again, with nothing lost that can be read.
//!
//! There are five steps, and each leaves the log no worse if it is the last one that is made:
//!
//! 1. *Lengthen*: a file that was cut short gets its length back. What it lacks reads as zeroes, which
//!    recovery takes for damage if it was promised.
//! 2. *Reread*: a file with sectors that cannot be read is replaced by a copy with zeroes there.
//! 3. *Header*: an identity that can be proven is written anew.
//! 4. *Stand-in*: for a segment that is missing, or that nothing can be read from, a sealed one without
//!    a record takes over its offsets; what was there goes to the quarantine. So the chain is whole, and
//!    no offset is ever given to another record.
//! 5. *The end*: where the last segment is a stand-in, what the journal holds for others is written into
//!    their files, and the log's end is stated anew, which voids the rest.
//!
//! The steps are planned by reading only; repairing makes the very plan that a dry run prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::inspect::visit;
use super::making::ensure_dir;
use super::mark::{Mark, RecordedEnd};
use super::pieces::{Left, Nobody, Patient, Piece, pieces};
use super::plan::{Aside, Plan, Promises};
use super::planner::plan;
use super::site::Site;
use super::walked::At;
use crate::error::{Error, Result};
use crate::format::{Identity, Layout, PAGE, Predecessor, SECTOR, Sector};
use crate::index::INTERVAL;
use crate::segment::file_name;
use crate::sys::{Access, Kind};

/// How much is copied at once.
const CHUNK: usize = 256 << 10;

/// One step.
#[derive(Debug)]
pub(crate) enum Step {
    /// The file gets its length back.
    Lengthen { number: u32, to: u64 },
    /// The file is replaced by a copy of what can be read of it.
    Reread { number: u32 },
    /// The identity is written anew.
    Header { number: u32, identity: Identity },
    /// A segment without records stands for these offsets.
    StandIn { identity: Identity, next: u64 },
}

/// All that it takes.
#[derive(Debug)]
pub(crate) struct Mending {
    /// Why the log cannot be opened.
    pub(crate) why: Error,
    pub(crate) steps: Vec<Step>,
    /// The end that has to be stated, if that is not the one that was.
    pub(crate) end: Option<RecordedEnd>,
}

impl Step {
    /// The file that it changes.
    pub(crate) fn number(&self) -> u32 {
        match self {
            Step::Lengthen { number, .. }
            | Step::Reread { number }
            | Step::Header { number, .. } => *number,
            Step::StandIn { identity, .. } => identity.number,
        }
    }
}

/// What makes the log open and be read through again; nothing if it does. All of it is read. `start` is the offset that it begins with, `epoch`
/// that of its next owner; `draw` gives nonces.
///
/// # Errors
///
/// Files of a later version, or that are not the store's, are left as they are.
pub(crate) fn mending(
    site: &Site,
    promises: &Promises,
    (start, epoch): (u64, u32),
    draw: &mut dyn FnMut() -> u64,
) -> Result<Option<Mending>> {
    let why = match plan(site, promises).and_then(|plan| check(site, promises, &plan)) {
        Ok(_) => return Ok(None),
        Err(error @ (Error::UnsupportedVersion { .. } | Error::Refused { .. })) => {
            return Err(error);
        }
        Err(error) => error,
    };
    let first = promises.start.unwrap_or(0);
    let left = pieces(site, promises)?.split_off(&first);
    let mut mending = Mending {
        why,
        steps: Vec::new(),
        end: None,
    };
    let mut chain = Chain {
        site,
        left: &left,
        first,
        at: None,
        next: start,
        mending: &mut mending,
    };
    let last = left
        .iter()
        .rev()
        .find(|(_, left)| matches!(left, Left::Piece(_)));
    let last = last.map(|(number, _)| *number);
    for number in first..=last.unwrap_or(first) {
        if last.is_some() {
            chain.link(number, draw)?;
        }
    }
    let promised = promises.end.map_or(0, |end| end.mark.next);
    let promised = promised.max(promises.promised());
    let unfit = |(number, nonce)| match left.get(&number) {
        Some(Left::Piece(piece)) => piece.identity.nonce != nonce,
        _ => true,
    };
    let named = promises.end.map(|end| (end.segment, end.nonce));
    let redo = promises
        .redo
        .iter()
        .map(|redo| (redo.of.number, redo.of.nonce));
    let unfit = named
        .into_iter()
        .chain(redo)
        .filter(|(number, _)| *number >= first)
        .any(unfit);
    if chain.next < promised || unfit || last.is_none() {
        let number = last.map_or(Some(first), |last| last.checked_add(1));
        let number = number.ok_or_else(|| chain.site.mismatch(&site.dir, "too many segments"))?;
        let next = chain.next.max(promised);
        let identity = chain.stand_in(number, epoch, draw())?;
        mending.end = Some(end_of(&identity, next));
        mending.steps.push(Step::StandIn { identity, next });
    }
    Ok(Some(mending))
}

/// Whether a log that can be opened can be read through, and none of its segments is missing.
fn check(site: &Site, promises: &Promises, plan: &Plan) -> Result<()> {
    visit(site, plan, &promises.redo, &mut Nobody)?;
    for number in plan.last.into_iter().flat_map(|last| plan.first..=last) {
        let (file, header) = site.header_with(number, &promises.redo)?;
        let length = file
            .len()
            .map_err(|error| site.io("inspect", number, error))?;
        let capacity = header.identity.layout.capacity;
        if length < capacity {
            let reason = format!("{length} bytes long, not {capacity}");
            return Err(site.mismatch(&site.segment(number), reason));
        }
    }
    // A segment is only made when its predecessor's name is safe: a crash leaves no hole.
    let next = plan.last.map_or(plan.first, |last| last.saturating_add(1));
    let behind = plan.later.iter().filter(|(number, _)| *number >= next);
    let there = behind.clone().any(|(number, _)| *number == next);
    match behind.clone().find(|(_, aside)| *aside == Aside::Keep) {
        Some((number, _)) if !there => {
            let reason = format!("it is missing, and there is segment {number}");
            Err(site.mismatch(&site.segment(next), reason))
        }
        _ => Ok(()),
    }
}

fn end_of(identity: &Identity, next: u64) -> RecordedEnd {
    RecordedEnd {
        segment: identity.number,
        nonce: identity.nonce,
        epoch: identity.epoch,
        mark: sealed_at(identity, next),
    }
}

fn sealed_at(identity: &Identity, next: u64) -> Mark {
    Mark::empty(identity.layout.records_at, next)
}

/// The chain as far as it is whole.
struct Chain<'a> {
    site: &'a Site,
    left: &'a BTreeMap<u32, Left>,
    first: u32,
    /// Where the segment before ends in its file.
    at: Option<At>,
    /// The offset behind all of it.
    next: u64,
    mending: &'a mut Mending,
}

impl Chain<'_> {
    fn link(&mut self, number: u32, draw: &mut dyn FnMut() -> u64) -> Result<()> {
        if let Some(Left::Piece(piece)) = self.left.get(&number) {
            return self.piece(number, piece);
        }
        let behind = self.left.range(number..).find_map(|(_, left)| match left {
            Left::Piece(piece) => Some(&piece.identity),
            _ => None,
        });
        let (epoch, next) = behind.map_or((1, self.next), |it| (it.epoch, it.base));
        let last = self.left.get(&(number + 1));
        // Of several in a row the last one stands for all offsets.
        let next = match last {
            Some(Left::Piece(_)) => next.max(self.next),
            _ => self.next,
        };
        let identity = self.stand_in(number, epoch, draw())?;
        self.at = Some(At {
            place: identity.layout.records_at,
            next,
        });
        self.next = next;
        self.mending.steps.push(Step::StandIn { identity, next });
        Ok(())
    }

    fn piece(&mut self, number: u32, piece: &Piece) -> Result<()> {
        let steps = &mut self.mending.steps;
        if piece.holes > 0 {
            steps.push(Step::Reread { number });
        }
        let to = piece.identity.layout.capacity;
        if piece.length < to {
            steps.push(Step::Lengthen { number, to });
        }
        if piece.remade.is_some() {
            let identity = piece.identity;
            steps.push(Step::Header { number, identity });
        }
        let end = piece.survey(self.site, number, &mut Nobody)?;
        let successor = self.left.get(&number.saturating_add(1));
        let said = match successor {
            Some(Left::Piece(next)) if piece.seal.is_none() => next.identity.predecessor,
            _ => None,
        };
        let said = said.map(|end| At {
            place: end.place,
            next: end.next,
        });
        let end = said.unwrap_or(end);
        self.next = self.next.max(end.next);
        self.at = Some(end);
        Ok(())
    }

    /// A segment behind the chain.
    fn stand_in(&self, number: u32, epoch: u32, nonce: u64) -> Result<Identity> {
        let layout = Layout::new(3 * PAGE, INTERVAL);
        let layout = layout.map_err(|flaw| {
            let path = self.site.segment(number);
            self.site.mismatch(&path, flaw.to_string())
        })?;
        let before = self.at.filter(|_| number > self.first);
        Ok(Identity {
            store: self.site.store,
            log: self.site.log,
            topic: self.site.topic,
            partition: self.site.partition,
            number,
            nonce,
            epoch,
            base: self.next,
            predecessor: before.map(|end| Predecessor {
                place: end.place,
                next: end.next,
            }),
            gaps_allowed: false,
            covers_to: None,
            layout,
        })
    }
}

/// Makes the plan true, durably. What is replaced goes to the quarantine under a name with that epoch.
pub(crate) fn mend(site: &Site, promises: &Promises, mending: &Mending, epoch: u32) -> Result<()> {
    ensure_dir(site, &site.quarantine)?;
    ensure_dir(site, &site.dir)?;
    for step in &mending.steps {
        match step {
            Step::Lengthen { number, to } => {
                let (path, file) = open(site, *number)?;
                let grown = file.grow(*to).and_then(|()| file.sync());
                grown.map_err(|error| Error::io("lengthen", &path, error).needing(*to))?;
            }
            Step::Reread { number } => reread(site, *number, epoch)?,
            Step::Header { number, identity } => header(site, *number, identity, epoch)?,
            Step::StandIn { identity, next } => stand_in(site, identity, *next, epoch)?,
        }
    }
    if mending.end.is_some() {
        lay(site, promises)?;
    }
    sync_dir(site, &site.quarantine)?;
    sync_dir(site, &site.dir)
}

fn open(site: &Site, number: u32) -> Result<(std::path::PathBuf, Arc<dyn crate::sys::File>)> {
    let path = site.segment(number);
    let file = site.storage.open(&path, Access::Write);
    let file = file.map_err(|error| Error::opening("open", &path, error))?;
    Ok((path, file))
}

fn sync_dir(site: &Site, dir: &Path) -> Result<()> {
    let synced = site.storage.sync_dir(dir);
    synced.map_err(|error| Error::io("sync", dir, error))
}

fn aside(site: &Site, number: u32, epoch: u32, what: &str) -> std::path::PathBuf {
    let name = format!("{}-{epoch}-{}{what}", site.log, file_name(number));
    site.quarantine.join(name)
}

/// Makes a file in the quarantine, in place of one that an earlier attempt left.
fn fresh(site: &Site, path: &Path, length: u64) -> Result<Arc<dyn crate::sys::File>> {
    let fail = |error| Error::io("create", path, error).needing(length);
    if site.storage.kind(path).map_err(fail)? == Some(Kind::File) {
        site.storage.remove_file(path).map_err(fail)?;
    }
    site.storage.create(path, length).map_err(fail)
}

fn reread(site: &Site, number: u32, epoch: u32) -> Result<()> {
    let path = site.segment(number);
    let copy = aside(site, number, epoch, ".copy");
    let from = site.storage.open(&path, Access::Read);
    let from = Patient::new(from.map_err(|error| Error::opening("open", &path, error))?);
    let fail = |error| Error::io("copy to", &copy, error);
    let length = crate::sys::File::len(&from).map_err(fail)?;
    let to = fresh(site, &copy, length)?;
    let mut bytes = vec![0; CHUNK];
    let mut at = 0;
    while at < length {
        let read = crate::sys::File::read_at(&from, &mut bytes, at).map_err(fail)?;
        if read == 0 {
            break;
        }
        to.write_at(&bytes[..read], at).map_err(fail)?;
        at += read as u64;
    }
    to.sync().map_err(fail)?;
    site.storage.rename(&copy, &path).map_err(fail)
}

fn header(site: &Site, number: u32, identity: &Identity, epoch: u32) -> Result<()> {
    let (path, file) = open(site, number)?;
    let fail = |error| Error::io("write", &path, error);
    let mut page = [0; 4 * SECTOR];
    let read = file.read_at(&mut page, 0).map_err(fail)?;
    let kept = aside(site, number, epoch, ".head");
    let copy = fresh(site, &kept, read as u64)?;
    let copied = copy.write_at(&page[..read], 0).and_then(|()| copy.sync());
    copied.map_err(|error| Error::io("copy to", &kept, error))?;
    sync_dir(site, &site.quarantine)?;
    let sector = identity.encode().map_err(std::io::Error::other);
    let sector = sector.map_err(fail)?;
    file.write_at(&sector, 0).map_err(fail)?;
    file.sync().map_err(fail)
}

fn stand_in(site: &Site, identity: &Identity, next: u64, epoch: u32) -> Result<()> {
    let number = identity.number;
    let path = site.segment(number);
    let made = aside(site, number, epoch, ".made");
    let fail = |error| Error::io("write", &made, error);
    let encode = |bytes: std::result::Result<[u8; SECTOR], crate::format::Flaw>| {
        bytes.map_err(|flaw| fail(std::io::Error::other(flaw)))
    };
    let file = fresh(site, &made, identity.layout.capacity)?;
    let seal = sealed_at(identity, next).seal(identity.epoch);
    let seal = encode(seal.encode(identity.seed()))?;
    file.write_at(&encode(identity.encode())?, 0)
        .map_err(fail)?;
    file.write_at(&seal, Sector::Seal.place()).map_err(fail)?;
    file.sync().map_err(fail)?;
    let there = site.storage.kind(&path);
    if there
        .map_err(|error| Error::io("inspect", &path, error))?
        .is_some()
    {
        let kept = aside(site, number, epoch, "");
        let moved = site.storage.rename(&path, &kept);
        moved.map_err(|error| Error::io("set aside", &path, error))?;
    }
    let renamed = site.storage.rename(&made, &path);
    renamed.map_err(|error| Error::io("rename to", &path, error))
}

/// Writes what the journal holds for segments that are there into their files.
fn lay(site: &Site, promises: &Promises) -> Result<()> {
    for redo in &promises.redo {
        let path = site.segment(redo.of.number);
        let there = site.storage.kind(&path);
        if there
            .map_err(|error| Error::io("inspect", &path, error))?
            .is_none()
        {
            continue;
        }
        let (file, header) = match site.header_with(redo.of.number, &promises.redo) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "what the journal holds is void");
                continue;
            }
        };
        if header.identity.nonce != redo.of.nonce {
            continue;
        }
        let (path, to) = open(site, redo.of.number)?;
        let fail = |error| Error::io("write", &path, error);
        let mut sector = [0; SECTOR];
        file.read_at(&mut sector, 0).map_err(fail)?;
        to.write_at(&sector, 0).map_err(fail)?;
        to.write_at(&redo.frames, redo.of.place).map_err(fail)?;
        to.sync().map_err(fail)?;
    }
    Ok(())
}
