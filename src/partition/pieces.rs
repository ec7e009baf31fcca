//! What is left of a log whose files are damaged, missing or short: each segment file by itself, and
//! the records that can be read in it.
//!
//! Recovery asks what was promised and refuses a log that lacks some of it. Here it is asked what there
//! is. A file that cannot be read in places reads as zeroes there, and so does what it lacks at its end;
//! over all of it lies what the journal holds for it, which may be all that there is. Where a header has
//! rotted, its identity is made again if that can be proven (`remake.rs`).
//!
//! However many segments there are, one file is open at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::mend::copies;
use super::overlay::{lay, over};
use super::patient::Patient;
use super::plan::{Aside, Promises};
use super::planner::unsupported;
use super::remake::{Before, brought, remake, seal_of};
use super::site::{Damage, Site};
use super::walked::At;
use super::{Visitor, plan, visit};
use crate::error::{Error, Flaw, Result};
use crate::format::{Frame, Identity, MAX_OFFSET, Slot};
use crate::segment::{Page, Walk, number_of, read_page};
use crate::sys::{Access, File};

/// A segment file of which it is known what it is.
#[derive(Debug)]
pub(super) struct Piece {
    /// Where it lies: under its name, or in the quarantine, where a repair that was cut off left the
    /// copy that was to take its place.
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    pub(super) seal: Option<Slot>,
    /// Its identity had to be made again.
    pub(super) remade: bool,
    /// Its length; `None` where there is no such file, and the journal alone has some of it.
    pub(super) length: Option<u64>,
    /// How many sectors of it cannot be read.
    pub(super) holes: u64,
    /// Where the last record ends that can be read or, where it has a seal, that.
    pub(super) end: At,
}

/// What lies under a segment's name.
#[derive(Debug)]
pub(super) enum Left {
    Piece(Box<Piece>),
    /// Something that nothing can be read from.
    Lost(Error),
    /// A file that cannot be opened now: nobody knows what is in it.
    Shut(Error),
    /// Nobody's yet.
    Spare,
}

impl Left {
    pub(super) fn piece(&self) -> Option<&Piece> {
        match self {
            Left::Piece(piece) => Some(piece),
            _ => None,
        }
    }

    /// Why it cannot be opened, if so.
    pub(super) fn shut(&self) -> Option<&Error> {
        match self {
            Left::Shut(error) => Some(error),
            _ => None,
        }
    }
}

/// Every segment of a log, by number: those that are there, and those that the journal holds some of.
pub(super) fn pieces(site: &Site, promises: &Promises) -> Result<BTreeMap<u32, Left>> {
    let entries = match site.storage.list(&site.dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries.map_err(|error| Error::io("list", &site.dir, error))?,
    };
    let there = entries.iter().filter_map(|entry| number_of(&entry.name));
    let there: BTreeSet<u32> = there.collect();
    let held = promises.redo.iter().map(|redo| redo.of.number);
    let named = held.chain(promises.end.map(|end| end.segment));
    // A name that no other one follows, and no fact, may have been taken away for good.
    let most = there.iter().copied().chain(named.clone()).max();
    let mut copies = copies(site)?;
    copies.retain(|number, _| !there.contains(number) && Some(*number) <= most);
    let mut numbers = there;
    numbers.extend(promises.redo.iter().map(|redo| redo.of.number));
    numbers.extend(copies.keys());
    let mut left = BTreeMap::new();
    let (mut before, mut expected) = (Before::default(), None);
    for number in numbers {
        if expected != Some(number) {
            before.end = None;
        }
        let path = copies.remove(&number);
        let path = path.unwrap_or_else(|| site.segment(number));
        let found = look((site, promises, number), path, &before)?;
        before.end = None;
        if let Left::Piece(piece) = &found {
            before.least = before.least.max(piece.end.next);
            before.exact = piece.ends_there(site, promises, number)?;
            before.end = Some(piece.end);
        }
        expected = number.checked_add(1);
        left.insert(number, found);
    }
    Ok(left)
}

fn look(
    (site, promises, number): (&Site, &Promises, u32),
    path: PathBuf,
    before: &Before,
) -> Result<Left> {
    let mut raw = match site.storage.open(&path, Access::Read) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Ok(Left::Shut(Error::opening("open", &path, error))),
    };
    let fail = |error| Error::io("read", &path, error);
    let length = |raw: &Option<Arc<dyn File>>| raw.as_ref().map(|file| file.len()).transpose();
    let brought = brought(site, promises, number);
    let least = brought.map_or(0, |identity| identity.layout.capacity);
    let patient = Patient::new(raw.clone(), least);
    let mut holes = patient.holes().map_err(fail)?;
    let file: Arc<dyn File> = Arc::new(patient);
    let page = read_page(file.as_ref()).map_err(fail)?;
    if let Page::Bad(flaw) = page
        && flaw.is_unsupported()
    {
        return Err(unsupported(&path, flaw));
    }
    let (_, page) = lay(&file, page, promises.redo_of(number)).map_err(fail)?;
    let known = match &page {
        Page::Assigned(header) if site.owns(&header.identity, number) => {
            Some((header.identity, header.seal))
        }
        _ => None,
    };
    let remade = known.is_none();
    if remade && matches!(page, Page::Assigned(_)) {
        // It is somebody else's: of this segment there is what the journal has.
        (raw, holes) = (None, 0);
    }
    let known = match known {
        Some(known) => Some(known),
        None => {
            let remade = remake((site, promises, number), raw.as_ref(), before).map_err(fail)?;
            remade.map(|identity| (identity, seal_of(&identity, raw.as_ref())))
        }
    };
    let Some((identity, seal)) = known else {
        let reason = match page {
            Page::Assigned(_) => "it belongs elsewhere".to_owned(),
            Page::Bad(flaw) => format!("its header is damaged: {flaw}"),
            Page::Headless => format!("its header is damaged: {}", Flaw::Empty),
            _ if raw.is_none() => "it is not there".to_owned(),
            _ if holes > 0 => "its header cannot be read".to_owned(),
            _ => return Ok(Left::Spare),
        };
        return Ok(Left::Lost(site.mismatch(&path, reason)));
    };
    let length = length(&raw).map_err(fail)?;
    let end = At {
        place: identity.layout.records_at,
        next: identity.base,
    };
    let mut piece = Piece {
        path,
        identity,
        seal,
        remade,
        length,
        holes,
        end,
    };
    piece.end = piece.survey(site, promises, number, &mut Nobody)?;
    Ok(Left::Piece(Box::new(piece)))
}

impl Piece {
    /// The file as long as it should be, with what the journal holds for it.
    fn walk(&self, site: &Site, promises: &Promises, number: u32) -> Result<Walk> {
        let file = match self.length {
            Some(_) => {
                let file = site.storage.open(&self.path, Access::Read);
                Some(file.map_err(|error| Error::opening("open", &self.path, error))?)
            }
            None => None,
        };
        let capacity = self.identity.layout.capacity;
        let file: Arc<dyn File> = Arc::new(Patient::new(file, capacity));
        let life = (self.identity.nonce, None);
        let file = over(&file, life, promises.redo_of(number)).unwrap_or(file);
        Ok(Walk::new(file, self.identity.seed(), capacity))
    }

    /// Whether it surely ends where its last record that can be read does: nothing lies behind that.
    fn ends_there(&self, site: &Site, promises: &Promises, number: u32) -> Result<bool> {
        if self.seal.is_some() {
            return Ok(true);
        }
        let capacity = self.identity.layout.capacity;
        let mut walk = self.walk(site, promises, number)?;
        let anything = walk.holds_anything(self.end.place, capacity);
        anything
            .map(|anything| !anything)
            .map_err(|error| Error::io("read", &self.path, error))
    }

    /// Hands every sound record to the visitor, and what lies between them; where the last one ends.
    /// Where the segment has a seal, that is its end.
    pub(super) fn survey(
        &self,
        site: &Site,
        promises: &Promises,
        number: u32,
        visitor: &mut dyn Visitor,
    ) -> Result<At> {
        let fail = |error| Error::io("read", &self.path, error);
        let identity = &self.identity;
        let (base, layout) = (identity.base, identity.layout);
        let mut walk = self.walk(site, promises, number)?;
        let (mut place, mut next, mut epoch) = (layout.records_at, base, identity.epoch);
        let end = self.seal.map(|seal| (seal.place, seal.next));
        let (to, most) = end.unwrap_or((layout.capacity, MAX_OFFSET));
        while place < to && next < most {
            let flaw = match walk.frame(place).map_err(fail)? {
                Ok(frame) if base + u64::from(frame.delta()) == next && frame.epoch() >= epoch => {
                    visitor.record(number, next, &frame)?;
                    epoch = frame.epoch();
                    place += frame.padded_len() as u64;
                    next += 1;
                    continue;
                }
                Ok(_) => Flaw::Stale,
                Err(flaw) => flaw,
            };
            let behind = walk.resume(
                (place, next),
                to.min(layout.capacity),
                base,
                |offset, peek| offset < most && peek.epoch >= epoch,
            );
            let Some((at, offset)) = behind.map_err(fail)? else {
                break;
            };
            visitor.damage(gap(number, place, next..offset), flaw)?;
            (place, next) = (at, offset);
        }
        let Some((place_at_end, next_at_end)) = end else {
            return Ok(At { place, next });
        };
        if next < next_at_end {
            visitor.damage(gap(number, place, next..next_at_end), Flaw::Empty)?;
        }
        Ok(At {
            place: place_at_end,
            next: next_at_end,
        })
    }
}

pub(super) fn gap(segment: u32, place: u64, offsets: std::ops::Range<u64>) -> Damage {
    Damage {
        segment,
        place,
        offset: offsets.start,
        next: offsets.end,
    }
}

/// Hands every record of a log that can be read to the visitor, in order and none twice, and in their
/// places the offsets that cannot: what a recovery would find or, where that refuses the log, what its
/// files hold by themselves. Returns the files that nothing can be read from.
///
/// # Errors
///
/// Those of the visitor, and files of a later version.
pub(crate) fn gather(
    site: &Site,
    promises: &Promises,
    visitor: &mut dyn Visitor,
) -> Result<Vec<Error>> {
    // Whether records below the first one were lost or let go of is known if the journal knows the log.
    let from_the_first = promises.exists && promises.start == Some(0);
    let mut once = Once {
        visitor,
        next: from_the_first.then_some(0),
        failed: None,
    };
    let whole = plan(site, promises).and_then(|plan| {
        visit(site, &plan, &promises.redo, &mut once)?;
        // What a recovery would set aside may be all that is left of what was acknowledged.
        Ok(plan.later.iter().all(|(_, aside)| *aside == Aside::Remove))
    });
    if let Some(error) = once.failed.take() {
        return Err(error);
    }
    match whole {
        Ok(true) => return Ok(Vec::new()),
        Ok(false) => {}
        Err(error @ Error::UnsupportedVersion { .. }) => return Err(error),
        Err(error) => tracing::info!(log = site.log, %error, "file by file"),
    }
    let mut lost = Vec::new();
    let start = promises.start.unwrap_or(0);
    for (number, left) in pieces(site, promises)?.range(start..) {
        match left {
            Left::Piece(piece) => {
                let base = piece.identity.base;
                once.reach(*number, base)?;
                piece.survey(site, promises, *number, &mut once)?;
            }
            Left::Lost(error) | Left::Shut(error) => lost.push(error.clone()),
            Left::Spare => {}
        }
    }
    once.reach(start, promises.promised())?;
    Ok(lost)
}

/// Passes each record on once, and counts what is missing between them.
struct Once<'a> {
    visitor: &'a mut dyn Visitor,
    /// The offset behind what was passed on.
    next: Option<u64>,
    /// What the visitor itself failed of.
    failed: Option<Error>,
}

impl Once<'_> {
    /// All that is there below an offset has been seen.
    fn reach(&mut self, segment: u32, offset: u64) -> Result<()> {
        let next = self.next.unwrap_or(offset);
        if next < offset {
            self.damage(gap(segment, 0, next..offset), Flaw::Empty)?;
        }
        self.next = self.next.max(Some(offset));
        Ok(())
    }
}

impl Visitor for Once<'_> {
    fn record(&mut self, segment: u32, offset: u64, frame: &Frame<'_>) -> Result<()> {
        if self.next.is_some_and(|next| offset < next) {
            return Ok(());
        }
        self.next = Some(offset + 1);
        let done = self.visitor.record(segment, offset, frame);
        done.inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn damage(&mut self, mut damage: Damage, flaw: Flaw) -> Result<()> {
        damage.offset = damage.offset.max(self.next.unwrap_or(0));
        if damage.offset >= damage.next {
            return Ok(());
        }
        self.next = Some(damage.next);
        let done = self.visitor.damage(damage, flaw);
        done.inspect_err(|error| self.failed = Some(error.clone()))
    }
}

/// Who only wants to know where it ends.
pub(super) struct Nobody;

impl Visitor for Nobody {
    fn record(&mut self, _: u32, _: u64, _: &Frame<'_>) -> Result<()> {
        Ok(())
    }

    fn damage(&mut self, _: Damage, _: Flaw) -> Result<()> {
        Ok(())
    }

    fn short(&mut self, error: Error) -> Result<()> {
        Err(error)
    }
}
