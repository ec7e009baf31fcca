//! Identities of segments whose header has rotted or is not there, where they can be proven.
//!
//! The proof is a checksum: one flipped bit makes that of the header agree, or under a nonce that is
//! known there is a sound frame, in the file or in what the journal holds for it. Where the segment
//! begins must be as certain: a record that came back under another offset would be worse than none.

use std::io;
use std::sync::Arc;

use super::mark::Mark;
use super::overlay::over;
use super::patient::Patient;
use super::plan::Promises;
use super::site::Site;
use super::walked::At;
use crate::format::{Frame, Identity, Layout, PAGE, Predecessor, Redo, SECTOR, Sector, Seed, Slot};
use crate::index::INTERVAL;
use crate::segment::Walk;
use crate::sys::File;

/// What is known of the segments before one.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// None begins below it that comes behind them.
    pub(super) least: u64,
    /// Where the one just before it ends, as far as it can be read.
    pub(super) end: Option<At>,
    /// That is its end for certain.
    pub(super) exact: bool,
}

/// The identity that the journal brings for a segment, while it is not safe in the file.
pub(super) fn brought(site: &Site, promises: &Promises, number: u32) -> Option<Identity> {
    let sectors = promises
        .redo_of(number)
        .filter_map(|redo| redo.identity.as_deref());
    let decoded = sectors.filter_map(|sector| Identity::decode(sector).ok().flatten());
    decoded
        .filter(|identity| site.owns(identity, number))
        .last()
}

/// The identity that a damaged sector held, or that of a segment that only the journal has some of, if
/// it can be proven.
pub(super) fn remake(
    (site, promises, number): (&Site, &Promises, u32),
    file: Option<&Arc<dyn File>>,
    before: &Before,
) -> io::Result<Option<Identity>> {
    let patient = Patient::new(file.cloned(), SECTOR as u64);
    let mut sector = [0; SECTOR];
    patient.read_at(&mut sector, 0)?;
    if let Some(identity) = flipped(site, number, &mut sector) {
        return Ok(Some(identity));
    }
    let recorded = promises.end.filter(|end| end.segment == number);
    let there = file.map_or(Ok(0), |file| file.len())?;
    let said = Said::of(&sector);
    let redo = || promises.redo_of(number);
    let nonces = [said.nonce].into_iter().chain(recorded.map(|it| it.nonce));
    let nonces = nonces.chain(redo().map(|redo| redo.of.nonce));
    for nonce in nonces.filter(|nonce| *nonce > 0) {
        let of_life = || redo().filter(|redo| redo.of.nonce == nonce);
        let recorded = recorded.filter(|end| end.nonce == nonce);
        let recorded = recorded.map(|end| end.mark);
        let seed = Seed::new(&site.store, site.log, number, nonce);
        let Some(layout) = layout(there, recorded, seed, of_life()) else {
            continue;
        };
        let whole: Arc<dyn File> = Arc::new(Patient::new(file.cloned(), layout.capacity));
        let mark = sealed(whole.as_ref(), seed).map(|seal| Mark::of(&seal));
        let whole = over(&whole, (nonce, None), of_life()).unwrap_or(whole);
        let Some(epoch) = epoch(&mut Walk::new(whole, seed, layout.capacity), layout)? else {
            continue;
        };
        let begins = of_life().find_map(|redo| begins(redo, seed));
        let Some((base, predecessor)) = said.place(number, before, begins, mark.or(recorded))
        else {
            continue;
        };
        let identity = Identity {
            store: site.store,
            log: site.log,
            topic: site.topic,
            partition: site.partition,
            number,
            nonce,
            epoch,
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

/// What a sector says that is sound, or has one bit that is not.
fn flipped(site: &Site, number: u32, sector: &mut [u8; SECTOR]) -> Option<Identity> {
    let owned = |sector: &[u8; SECTOR]| {
        let identity = Identity::decode(sector).ok().flatten();
        identity.filter(|identity| site.owns(identity, number))
    };
    if let Some(identity) = owned(sector) {
        return Some(identity);
    }
    for bit in 0..SECTOR * 8 {
        sector[bit / 8] ^= 1 << (bit % 8);
        if let Some(identity) = owned(sector) {
            return Some(identity);
        }
        sector[bit / 8] ^= 1 << (bit % 8);
    }
    None
}

/// How a file is laid out of which so much is there: long enough for what the journal knows of it.
fn layout<'a>(
    there: u64,
    recorded: Option<Mark>,
    seed: Seed,
    redo: impl Iterator<Item = &'a Redo> + Clone,
) -> Option<Layout> {
    let held = redo.clone().map(|redo| {
        let length = redo.frames.len() as u64;
        redo.of.place.saturating_add(length)
    });
    let least = held.chain(recorded.map(|end| end.place)).max();
    let least = least.unwrap_or(0).checked_next_multiple_of(PAGE)?;
    let mut layout = Layout::new(least.max(there - there % PAGE), INTERVAL).ok()?;
    // The first record lies where the records begin: the longer the file, the further behind.
    let first = |redo: &Redo| {
        let frame = Frame::decode(&redo.frames, seed).ok()?;
        (frame.delta() == 0).then_some(redo.of.place)
    };
    let first = redo.clone().find_map(first).unwrap_or(0);
    while layout.records_at < first {
        layout = Layout::new(layout.capacity + PAGE, INTERVAL).ok()?;
    }
    Some(layout)
}

/// The offset that a segment begins with, by what the journal holds of it.
fn begins(redo: &Redo, seed: Seed) -> Option<u64> {
    let frame = Frame::decode(&redo.frames, seed).ok()?;
    redo.of.first.checked_sub(u64::from(frame.delta()))
}

/// The epoch of the first sound frame, which proves the nonce.
fn epoch(walk: &mut Walk, layout: Layout) -> io::Result<Option<u32>> {
    let at = layout.records_at;
    if let Ok(frame) = walk.frame(at)? {
        return Ok(Some(frame.epoch()));
    }
    let Some((at, _)) = walk.resume((at, 0), layout.capacity, 0, |_, _| true)? else {
        return Ok(None);
    };
    Ok(walk.frame(at)?.ok().map(|frame| frame.epoch()))
}

/// The seal of a segment, whatever its header says.
fn sealed(file: &dyn File, seed: Seed) -> Option<Slot> {
    let mut page = [0; 4 * SECTOR];
    file.read_at(&mut page, 0).ok()?;
    let seal = Slot::decode(Sector::Seal.of(&page)?, seed).ok()?;
    seal.filter(|seal| seal.is_final)
}

/// The seal behind an identity that was made again.
pub(super) fn seal_of(identity: &Identity, file: Option<&Arc<dyn File>>) -> Option<Slot> {
    sealed(file?.as_ref(), identity.seed())
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

    /// Where the segment begins: as the journal's own copy of its records has it; where it says so
    /// twice; where the one before it ends for certain; where its seal, or its recorded end, leads
    /// back to. None of them counts if its seal or its recorded end has more records than fit behind.
    fn place(
        &self,
        number: u32,
        before: &Before,
        begins: Option<u64>,
        mark: Option<Mark>,
    ) -> Option<(u64, Option<Predecessor>)> {
        if number == 0 {
            return Some((0, None));
        }
        let most = mark.map_or(before.least.saturating_add(u32::MAX.into()), |it| it.next);
        let fits = |base: &u64| {
            let room = mark.map_or(Some(0), |mark| mark.next.checked_sub(*base));
            let records = mark.map_or(0, |mark| mark.records);
            *base >= before.least && room.is_some_and(|room| room >= records)
        };
        let twice = Some(self.base)
            .filter(|base| *base > 0 && *base == self.predecessor.next && *base <= most);
        let exact = before.end.filter(|_| before.exact).map(|end| end.next);
        let counted = mark.and_then(|mark| mark.next.checked_sub(mark.records));
        let known = [begins, twice, exact, counted];
        let base = known.into_iter().flatten().find(fits)?;
        let twice = twice == Some(base);
        let said = self.predecessor.place;
        let place = match before.end {
            Some(end) if !twice || said < end.place => Some(end.place),
            _ if twice => Some(said),
            // A stand-in that is sealed takes the place of the one before it.
            _ => None,
        };
        let next = base;
        Some((base, place.map(|place| Predecessor { place, next })))
    }
}
