//! What makes a log open, and be read through, again, with nothing lost that can be read.
//!
//! There are these steps, and each leaves the log no worse if it is the last one that is made:
//!
//! 1. *Lengthen*: a file that was cut short gets its length back. What it lacks reads as zeroes, which
//!    recovery takes for damage if it was promised, unless the journal holds it.
//! 2. *Reread*: a file with sectors that cannot be read is replaced by a copy with zeroes there.
//! 3. *Header*: an identity that can be proven is written anew.
//! 4. *Make*: a file that is missing is made for what the journal holds of it.
//! 5. *Stand-in*: for a segment that is missing, or that nothing can be read from, a sealed one without
//!    a record takes over its offsets; what was there goes to the quarantine. So the chain is whole, and
//!    no offset is ever given to another record.
//! 6. *Aside*: what lies behind the last one, and nothing can be read from, goes to the quarantine.
//! 7. *The end*: where the last segment is a stand-in, what the journal holds for others is written into
//!    their files, and the log's end is stated anew, which voids the rest.
//!
//! The steps are planned by reading only; repairing makes the very plan that a dry run prints.

use std::collections::BTreeMap;

use super::inspect::visit;
use super::mark::{Mark, RecordedEnd};
use super::pieces::{Left, Nobody, Piece, pieces};
use super::plan::Promises;
use super::planner::plan;
use super::site::Site;
use super::walked::At;
use crate::error::{Error, Result};
use crate::format::{Identity, Layout, PAGE, Predecessor};
use crate::index::INTERVAL;

/// One step.
#[derive(Debug)]
pub(crate) enum Step {
    /// The file gets its length back.
    Lengthen { number: u32, to: u64 },
    /// The file is replaced by a copy of what can be read of it.
    Reread { number: u32 },
    /// The identity is written anew.
    Header { number: u32, identity: Identity },
    /// The file is made, for the records that the journal holds of it.
    Make { identity: Identity },
    /// The file is set aside, and nothing takes its place.
    Aside { number: u32 },
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
            | Step::Aside { number }
            | Step::Header { number, .. } => *number,
            Step::Make { identity } | Step::StandIn { identity, .. } => identity.number,
        }
    }
}

/// What makes the log open and be read through again; nothing if it does. All of it is read. `start` is
/// the offset that it begins with, `epoch` that of its next owner; `draw` gives nonces.
///
/// # Errors
///
/// Files of a later version, or that are not the store's, are left as they are. So are all files of the
/// log as long as one of them cannot be opened, for whatever reason: it may be sound.
pub(crate) fn mending(
    site: &Site,
    promises: &Promises,
    (start, epoch): (u64, u32),
    draw: &mut dyn FnMut() -> u64,
) -> Result<Option<Mending>> {
    let read_through =
        plan(site, promises).and_then(|plan| visit(site, &plan, &promises.redo, &mut Nobody));
    let why = match read_through {
        Ok(_) => return Ok(None),
        Err(error @ (Error::UnsupportedVersion { .. } | Error::Refused { .. })) => {
            return Err(error);
        }
        Err(error) => error,
    };
    let first = promises.start.unwrap_or(0);
    let left = pieces(site, promises)?.split_off(&first);
    if let Some(error) = left.values().find_map(Left::shut) {
        return Err(error.clone());
    }
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
    let pieces = left.iter().rev();
    let last = pieces
        .filter(|(_, left)| left.piece().is_some())
        .map(|(number, _)| *number)
        .next();
    for number in last.into_iter().flat_map(|last| first..=last) {
        chain.link(number, draw)?;
    }
    let behind = last.map_or(Some(first), |last| last.checked_add(1));
    let behind = behind.ok_or_else(|| site.mismatch(&site.dir, "too many segments"))?;
    chain.end(promises, (last.is_none(), behind), epoch, draw)?;
    Ok(Some(mending))
}

/// The offset up to which the journal knows of records.
fn known(promises: &Promises) -> u64 {
    let recorded = promises.end.map_or(0, |end| end.mark.next);
    recorded.max(promises.promised())
}

fn end_of(identity: &Identity, next: u64) -> RecordedEnd {
    RecordedEnd {
        segment: identity.number,
        nonce: identity.nonce,
        epoch: identity.epoch,
        mark: sealed_at(identity, next),
    }
}

/// Where a stand-in ends.
pub(super) fn sealed_at(identity: &Identity, next: u64) -> Mark {
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
    /// What has to be done behind the last segment: where the log does not reach as far as is known of
    /// it, or the journal speaks of other files, or what lies there would keep the log from opening, a
    /// stand-in is its end. `nothing`: there is no segment before it.
    fn end(
        &mut self,
        promises: &Promises,
        (nothing, behind): (bool, u32),
        epoch: u32,
        draw: &mut dyn FnMut() -> u64,
    ) -> Result<()> {
        let named = promises.end.map(|end| (end.segment, end.nonce));
        let redo = promises.redo.iter();
        let redo = redo.map(|redo| (redo.of.number, redo.of.nonce));
        let unfit = |(number, nonce): (u32, u64)| {
            let piece = self.left.get(&number).and_then(Left::piece);
            number >= self.first && piece.is_none_or(|piece| piece.identity.nonce != nonce)
        };
        let unfit = named.into_iter().chain(redo).any(unfit);
        let lost = self.left.range(behind..);
        let lost = lost.filter(|(_, left)| matches!(left, Left::Lost(_)));
        let lost: Vec<u32> = lost.map(|(number, _)| *number).collect();
        let known = known(promises);
        if self.next >= known && !unfit && !nothing && lost.is_empty() {
            return Ok(());
        }
        // The stand-in takes the place of the first one. The highest goes first: so there is no hole.
        for number in lost.into_iter().filter(|number| *number > behind).rev() {
            self.mending.steps.push(Step::Aside { number });
        }
        let next = self.next.max(known);
        let identity = self.stand_in(behind, epoch, draw())?;
        self.mending.end = Some(end_of(&identity, next));
        self.mending.steps.push(Step::StandIn { identity, next });
        Ok(())
    }

    fn link(&mut self, number: u32, draw: &mut dyn FnMut() -> u64) -> Result<()> {
        if let Some(piece) = self.left.get(&number).and_then(Left::piece) {
            self.piece(number, piece);
            return Ok(());
        }
        let mut behind = self.left.range(number..);
        let behind = behind.find_map(|(_, left)| Some(left.piece()?.identity));
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

    fn piece(&mut self, number: u32, piece: &Piece) {
        let identity = piece.identity;
        let to = identity.layout.capacity;
        let steps = &mut self.mending.steps;
        // A copy that an earlier repair made and did not put there takes its place.
        if piece.holes > 0 || piece.path != self.site.segment(number) {
            steps.push(Step::Reread { number });
        }
        match piece.length {
            None => steps.push(Step::Make { identity }),
            Some(length) if length < to => steps.push(Step::Lengthen { number, to }),
            Some(_) => {}
        }
        if piece.remade && piece.length.is_some() {
            steps.push(Step::Header { number, identity });
        }
        let successor = self.left.get(&number.saturating_add(1));
        let said = match successor.and_then(Left::piece) {
            Some(next) if piece.seal.is_none() => next.identity.predecessor,
            _ => None,
        };
        let said = said.map(|end| At {
            place: end.place,
            next: end.next,
        });
        let end = said.unwrap_or(piece.end);
        self.next = self.next.max(end.next);
        self.at = Some(end);
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
