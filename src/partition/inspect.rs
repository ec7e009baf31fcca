//! Every frame of a log, by positioned reads: what verifying sees.

use std::sync::Arc;

use super::plan::{Plan, Promises};
use super::planner::plan;
use super::site::{Damage, Site};
use crate::error::{Error, Flaw, Result};
use crate::format::{Frame, Redo};
use crate::segment::{End, Header, Trouble, Walk};
use crate::sys::File;

/// What a log holds.
#[derive(Debug, Default)]
pub(crate) struct Inspected {
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// Records that are sound.
    pub(crate) records: u64,
    pub(crate) segments: u32,
    /// Stretches that are not, each as an error with coordinates.
    pub(crate) damage: Vec<Error>,
    /// Bytes that are not zero beyond the end.
    pub(crate) beyond: u64,
}

/// What to do with the sound records of a log, in order.
pub(crate) trait Visitor {
    /// A sound record.
    fn record(&mut self, segment: u32, offset: u64, frame: &Frame<'_>) -> Result<()>;

    /// A stretch of records that are not there or not sound.
    fn damage(&mut self, damage: Damage, flaw: Flaw) -> Result<()>;

    /// A stretch whose bytes cannot be had, up to the segment's end: who does not mind goes on behind it.
    fn unreadable(&mut self, error: Error) -> Result<()> {
        Err(error)
    }

    /// A segment file that is shorter than it was made: readers cannot have it, whatever it lacks.
    fn short(&mut self, _: Error) -> Result<()> {
        Ok(())
    }
}

/// Reads a log as a recovery at this moment would leave it, and changes nothing.
pub(crate) fn inspect(site: &Site, promises: &Promises) -> Result<Inspected> {
    let plan = plan(site, promises)?;
    let mut tally = Tally {
        site,
        records: 0,
        damage: Vec::new(),
    };
    let first = visit(site, &plan, &promises.redo, &mut tally)?;
    let beyond = plan.cut.iter().map(|range| range.end - range.start).sum();
    Ok(Inspected {
        first: first.unwrap_or(plan.next),
        end: plan.next,
        records: tally.records,
        segments: plan.last.map_or(0, |last| last - plan.first + 1),
        damage: tally.damage,
        beyond,
    })
}

struct Tally<'a> {
    site: &'a Site,
    records: u64,
    damage: Vec<Error>,
}

impl Visitor for Tally<'_> {
    fn record(&mut self, _: u32, _: u64, _: &Frame<'_>) -> Result<()> {
        self.records += 1;
        Ok(())
    }

    fn damage(&mut self, damage: Damage, flaw: Flaw) -> Result<()> {
        self.damage.push(self.site.corrupt(damage, flaw));
        Ok(())
    }

    fn unreadable(&mut self, error: Error) -> Result<()> {
        self.damage.push(error);
        Ok(())
    }

    fn short(&mut self, error: Error) -> Result<()> {
        self.damage.push(error);
        Ok(())
    }
}

/// Hands every record of a planned log, with its redo laid over it, to the visitor, damage in its
/// place; the first offset.
pub(crate) fn visit(
    site: &Site,
    plan: &Plan,
    redo: &[Redo],
    visitor: &mut dyn Visitor,
) -> Result<Option<u64>> {
    let Some(last) = plan.last else {
        return Ok(None);
    };
    let mut next = site.header_with(plan.first, redo)?;
    let first = next.1.identity.base;
    for number in plan.first..=last {
        let (file, header) = next;
        if number == last {
            visit_segment(site, &file, &header, plan.end(), visitor)?;
            break;
        }
        next = site.header_with(number + 1, redo)?;
        let end = header
            .end(&next.1)
            .ok_or_else(|| site.mismatch(&site.segment(number), "nothing says where it ends"))?;
        visit_segment(site, &file, &header, end, visitor)?;
    }
    Ok(Some(first))
}

fn visit_segment(
    site: &Site,
    file: &Arc<dyn File>,
    header: &Header,
    end: End,
    visitor: &mut dyn Visitor,
) -> Result<()> {
    let (layout, base) = (header.identity.layout, header.identity.base);
    let number = header.identity.number;
    let fail = |error| site.io("read", number, error);
    let (length, capacity) = (file.len().map_err(fail)?, layout.capacity);
    if length < capacity {
        let reason = format!("{length} bytes long, not {capacity}");
        visitor.short(site.mismatch(&site.segment(number), reason))?;
    }
    let mut walk = Walk::new(Arc::clone(file), header.seed(), capacity);
    let (mut place, mut next) = (layout.records_at, base);
    while place < end.place && next < end.next {
        let rest = Damage {
            segment: number,
            place,
            offset: next,
            next: end.next,
        };
        let unreadable = |error| site.unreadable(rest, Trouble::Io(error));
        let frame = match walk.frame(place) {
            Ok(frame) => frame,
            Err(error) => return visitor.unreadable(unreadable(error)),
        };
        let flaw = match frame {
            Ok(frame) if base + u64::from(frame.delta()) == next => {
                visitor.record(number, next, &frame)?;
                place += frame.padded_len() as u64;
                next += 1;
                continue;
            }
            Ok(_) => Flaw::Stale,
            Err(flaw) => flaw,
        };
        let behind = walk.resume((place, next), end.place, base, |offset, _| {
            offset < end.next
        });
        let behind = match behind {
            Ok(behind) => behind,
            Err(error) => return visitor.unreadable(unreadable(error)),
        };
        let (to, offset) = behind.unwrap_or((end.place, end.next));
        let damage = Damage {
            next: offset,
            ..rest
        };
        visitor.damage(damage, flaw)?;
        (place, next) = (to, offset);
    }
    if next < end.next {
        let damage = Damage {
            segment: number,
            place,
            offset: next,
            next: end.next,
        };
        visitor.damage(damage, Flaw::Empty)?;
    }
    Ok(())
}
