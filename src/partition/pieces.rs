//! What is left of a log whose files are damaged, missing or short: each segment file by itself, and
//! the records that can be read in it.
//!
//! Recovery asks what was promised and refuses a log that lacks some of it. Here it is asked what there
//! is. A file that cannot be read in places reads as zeroes there. Where a header has rotted, its
//! identity is made again if that can be proven: if one flipped bit makes its checksum agree, or if a
//! nonce is known under which a frame at the place of the first one is sound.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::mark::Mark;
use super::overlay::lay;
use super::plan::{Aside, Promises};
use super::planner::unsupported;
use super::site::{Damage, Site};
use super::walked::At;
use super::{Visitor, plan, visit};
use crate::error::{Error, Flaw, Result};
use crate::format::{Frame, Identity, Layout, MAX_OFFSET, PAGE, Predecessor, SECTOR, Seed, Slot};
use crate::index::INTERVAL;
use crate::segment::{Page, Walk, number_of, read_page};
use crate::sys::{Access, File, Map};

/// How much is read at once.
const CHUNK: usize = 256 << 10;

/// A segment file of which it is known what it is.
#[derive(Debug)]
pub(super) struct Piece {
    /// With redo laid over it, and zeroes where it cannot be read.
    pub(super) file: Arc<dyn File>,
    pub(super) identity: Identity,
    pub(super) seal: Option<Slot>,
    /// Why its identity had to be made again.
    pub(super) remade: Option<Flaw>,
    pub(super) length: u64,
    /// How many sectors of it cannot be read.
    pub(super) holes: u64,
}

/// What lies under a segment's name.
#[derive(Debug)]
pub(super) enum Left {
    Piece(Box<Piece>),
    /// Something that nothing can be read from.
    Lost(Error),
    /// Nobody's yet.
    Spare,
}

/// Every segment file of a log, by number.
pub(super) fn pieces(site: &Site, promises: &Promises) -> Result<BTreeMap<u32, Left>> {
    let entries = match site.storage.list(&site.dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries.map_err(|error| Error::io("list", &site.dir, error))?,
    };
    let numbers = entries.iter().filter_map(|entry| number_of(&entry.name));
    let mut left = BTreeMap::new();
    let mut before = None;
    for number in numbers {
        let found = look(site, promises, number, before)?;
        before = match &found {
            Left::Piece(piece) => Some(piece.survey(site, number, &mut Nobody)?),
            _ => None,
        };
        left.insert(number, found);
    }
    Ok(left)
}

fn look(site: &Site, promises: &Promises, number: u32, before: Option<At>) -> Result<Left> {
    let path = site.segment(number);
    let file = match site.storage.open(&path, Access::Read) {
        Ok(file) => Arc::new(Patient::new(file)),
        Err(error) => return Ok(Left::Lost(Error::opening("open", &path, error))),
    };
    let fail = |error| Error::io("read", &path, error);
    let holes = file.holes().map_err(fail)?;
    let file: Arc<dyn File> = file;
    let page = read_page(file.as_ref()).map_err(fail)?;
    if let Page::Bad(flaw) = page
        && flaw.is_unsupported()
    {
        return Err(unsupported(&path, flaw));
    }
    let (file, page) = lay(&file, page, promises.redo_of(number)).map_err(fail)?;
    let length = file.len().map_err(fail)?;
    let (identity, seal, remade) = match page {
        Page::Assigned(header) if site.owns(&header.identity, number) => {
            (header.identity, header.seal, None)
        }
        Page::Assigned(_) => {
            let elsewhere = site.mismatch(&path, "it belongs elsewhere");
            return Ok(Left::Lost(elsewhere));
        }
        Page::Unassigned | Page::Short => return Ok(Left::Spare),
        Page::Bad(_) | Page::Headless => {
            let flaw = match page {
                Page::Bad(flaw) => flaw,
                _ => Flaw::Empty,
            };
            let remade = remake(site, promises, number, &file, before).map_err(fail)?;
            let Some(identity) = remade else {
                let reason = format!("its header is damaged: {flaw}");
                return Ok(Left::Lost(site.mismatch(&path, reason)));
            };
            (identity, seal_of(&identity, file.as_ref()), Some(flaw))
        }
    };
    Ok(Left::Piece(Box::new(Piece {
        file,
        identity,
        seal,
        remade,
        length,
        holes,
    })))
}

/// The identity that a damaged sector held, if that can be proven.
fn remake(
    site: &Site,
    promises: &Promises,
    number: u32,
    file: &Arc<dyn File>,
    before: Option<At>,
) -> io::Result<Option<Identity>> {
    let mut sector = [0; SECTOR];
    if file.read_at(&mut sector, 0)? < SECTOR {
        return Ok(None);
    }
    for bit in 0..SECTOR * 8 {
        sector[bit / 8] ^= 1 << (bit % 8);
        if let Ok(Some(identity)) = Identity::decode(&sector)
            && site.owns(&identity, number)
        {
            return Ok(Some(identity));
        }
        sector[bit / 8] ^= 1 << (bit % 8);
    }
    let length = file.len()?;
    let Ok(layout) = Layout::new(length - length % PAGE, INTERVAL) else {
        return Ok(None);
    };
    let said = Said::of(&sector);
    let recorded = promises.end.filter(|end| end.segment == number);
    let recorded = recorded.map(|end| end.nonce);
    let redo = promises.redo_of(number).map(|redo| redo.of.nonce);
    for nonce in [said.nonce].into_iter().chain(recorded).chain(redo) {
        let seed = Seed::new(&site.store, site.log, number, nonce);
        let mut walk = Walk::new(Arc::clone(file), seed, layout.capacity);
        let Ok(frame) = walk.frame(layout.records_at)? else {
            continue;
        };
        let mark = promises.end.filter(|end| end.segment == number);
        let mark = mark.map(|end| end.mark);
        let Some((base, predecessor)) = said.place(number, before, mark) else {
            return Ok(None);
        };
        let identity = Identity {
            store: site.store,
            log: site.log,
            topic: site.topic,
            partition: site.partition,
            number,
            nonce,
            epoch: frame.epoch(),
            base,
            predecessor,
            gaps_allowed: false,
            covers_to: None,
            layout,
        };
        return Ok(identity.encode().is_ok().then_some(identity));
    }
    Ok(None)
}

/// What a damaged sector says, some of which may still be so.
struct Said {
    nonce: u64,
    base: u64,
    predecessor: Predecessor,
}

impl Said {
    fn of(sector: &[u8; SECTOR]) -> Said {
        let number = |at: usize| {
            let bytes = sector.get(at..at + 8).and_then(|it| it.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        Said {
            nonce: number(40),
            base: number(48),
            predecessor: Predecessor {
                place: number(56),
                next: number(64),
            },
        }
    }

    /// Where the segment begins: where it says so twice and can be believed, else where the one before
    /// it ends, else where its recorded end leads back to.
    fn place(
        &self,
        number: u32,
        before: Option<At>,
        recorded: Option<Mark>,
    ) -> Option<(u64, Option<Predecessor>)> {
        if number == 0 {
            return Some((0, None));
        }
        let least = before.map_or(0, |end| end.next);
        let most = recorded.map_or(least.saturating_add(u64::from(u32::MAX)), |end| end.next);
        let twice = self.base == self.predecessor.next && (least..=most).contains(&self.base);
        let counted = recorded.and_then(|end| end.next.checked_sub(end.records));
        let base = match (twice, before) {
            (true, _) => self.base,
            (false, Some(end)) => end.next,
            (false, None) => counted?,
        };
        let said = self.predecessor.place;
        let place = match before {
            Some(end) if !twice || said < end.place => end.place,
            _ if twice => said,
            _ => 0,
        };
        let next = base;
        Some((base, Some(Predecessor { place, next })))
    }
}

/// The seal behind an identity that was made again.
fn seal_of(identity: &Identity, file: &dyn File) -> Option<Slot> {
    let mut page = [0; 4 * SECTOR];
    file.read_at(&mut page, 0).ok()?;
    let sector = crate::format::Sector::Seal.of(&page)?;
    let seal = Slot::decode(sector, identity.seed()).ok()?;
    seal.filter(|seal| seal.is_final)
}

impl Piece {
    /// Hands every sound record to the visitor, and what lies between them; where the last one ends.
    /// Where the segment has a seal, that is its end.
    pub(super) fn survey(&self, site: &Site, number: u32, visitor: &mut dyn Visitor) -> Result<At> {
        let fail = |error| site.io("read", number, error);
        let identity = &self.identity;
        let (base, layout) = (identity.base, identity.layout);
        let limit = layout.capacity.min(self.length);
        let mut walk = Walk::new(Arc::clone(&self.file), identity.seed(), limit);
        let (mut place, mut next, mut epoch) = (layout.records_at, base, identity.epoch);
        let end = self.seal.map(|seal| (seal.place, seal.next));
        let (to, most) = end.unwrap_or((limit, MAX_OFFSET));
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
            let behind = walk.resume((place, next), to.min(limit), base, |offset, peek| {
                offset < most && peek.epoch >= epoch
            });
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
                piece.survey(site, *number, &mut once)?;
            }
            Left::Lost(error) => lost.push(error.clone()),
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
}

/// A file that reads as zeroes where it cannot be read.
#[derive(Debug)]
pub(super) struct Patient(Arc<dyn File>);

impl Patient {
    pub(super) fn new(file: Arc<dyn File>) -> Patient {
        Patient(file)
    }

    /// How many sectors cannot be read: all of the file is.
    fn holes(&self) -> io::Result<u64> {
        let length = self.0.len()?;
        let mut bytes = vec![0; CHUNK];
        let (mut at, mut holes) = (0, 0);
        while at < length {
            let chunk = usize::try_from(length - at).unwrap_or(CHUNK).min(CHUNK);
            if self.0.read_at(&mut bytes[..chunk], at).is_err() {
                let mut sector_at = at;
                for sector in bytes[..chunk].chunks_mut(SECTOR) {
                    holes += u64::from(self.0.read_at(sector, sector_at).is_err());
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
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        let read = self.0.read_at(buf, place);
        if read.is_ok() {
            return read;
        }
        let there = self.0.len()?.saturating_sub(place);
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(buf.len());
        let mut at = place;
        for sector in buf[..there].chunks_mut(SECTOR) {
            if self.0.read_at(sector, at).is_err() {
                sector.fill(0);
            }
            at += sector.len() as u64;
        }
        Ok(there)
    }

    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()> {
        self.0.write_at(buf, place)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.0.grow(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn map(&self, access: Access, len: u64) -> io::Result<Map> {
        self.0.map(access, len)
    }
}
