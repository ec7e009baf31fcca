//! Computing the plan: the algorithm that `plan.rs` tells.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::mark::Mark;
use super::overlay::lay;
use super::plan::{Plan, Promises};
use super::site::{Damage, Site};
use super::walked::{At, Beyond, Walked};
use crate::error::{Error, Flaw, Result};
use crate::format::{MAX_OFFSET, Redo};
use crate::segment::{Header, Page, number_of, read_page, used_number_of};
use crate::sys::{Access, File, Kind};

/// A segment file of the log's folder.
pub(super) struct Found {
    pub(super) file: Arc<dyn File>,
    /// The file with the redo laid over it, and what the header page says then.
    pub(super) seen: Arc<dyn File>,
    pub(super) page: Page,
}

/// Computes the plan for a log. Reads only, and opens no file for more than that.
pub(crate) fn plan(site: &Site, promises: &Promises) -> Result<Plan> {
    let floor = promises.promised();
    if floor > MAX_OFFSET {
        let reason = format!("offset {floor} is promised, which no log reaches");
        return Err(site.mismatch(&site.dir, reason));
    }
    let numbers = list(site, promises)?;
    let first = promises.start.or(numbers.first().copied()).unwrap_or(0);
    let chain = numbers
        .iter()
        .copied()
        .filter(|number| *number >= first)
        .zip(first..)
        .take_while(|(number, expected)| number == expected)
        .map(|(number, _)| number);
    let mut planner = Planner {
        site,
        promises,
        pages: BTreeMap::new(),
        numbers: chain.collect(),
    };
    let plan = match planner.untouched(first)? {
        Some(plan) => plan,
        None => match planner.start()? {
            Some((number, mark, epoch)) => planner.walk(first, number, mark, epoch)?,
            None => planner.nothing(first)?,
        },
    };
    planner.finish(plan, numbers)
}

/// The numbers of the segment files in the log's folder, ascending.
fn list(site: &Site, promises: &Promises) -> Result<Vec<u32>> {
    let entries = match site.storage.list(&site.dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !promises.exists => Vec::new(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(site.mismatch(&site.dir, "the folder of a log that held records is gone"));
        }
        Err(error) => return Err(Error::io("list", &site.dir, error)),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let Some(number) = number_of(&entry.name) else {
            // Beside the journal's segments lie files of redo, and those that it has used before.
            if !entry.name.ends_with(".redo") && used_number_of(&entry.name).is_none() {
                tracing::warn!(dir = %site.dir.display(), name = entry.name, "not ours, left alone");
            }
            continue;
        };
        if entry.kind != Kind::File {
            return Err(Error::Refused {
                path: site.segment(number),
                reason: "a segment must be a regular file",
            });
        }
        numbers.push(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

pub(super) struct Planner<'a> {
    pub(super) site: &'a Site,
    pub(super) promises: &'a Promises,
    pub(super) pages: BTreeMap<u32, Found>,
    /// The candidates for the chain, ascending without a hole.
    numbers: Vec<u32>,
}

impl Planner<'_> {
    /// The file and header page of a segment, read once.
    pub(super) fn found(&mut self, number: u32) -> Result<&Found> {
        if !self.pages.contains_key(&number) {
            let path = self.site.segment(number);
            let open = self.site.storage.open(&path, Access::Read);
            let file = open.map_err(|error| Error::opening("open", &path, error))?;
            let page = read_page(file.as_ref()).map_err(|e| self.site.io("read", number, e))?;
            if let Page::Bad(flaw) = page
                && flaw.is_unsupported()
            {
                return Err(unsupported(&path, flaw));
            }
            let redo = self.promises.redo_of(number);
            let laid = lay(&file, page, redo).map_err(|e| self.site.io("read", number, e))?;
            let (seen, page) = laid;
            self.pages.insert(number, Found { file, seen, page });
        }
        Ok(&self.pages[&number])
    }

    /// The header of a segment that belongs to this log; `None` where it does not.
    fn header(&mut self, number: u32) -> Result<Option<&Header>> {
        if !self.numbers.contains(&number) {
            return Ok(None);
        }
        self.header_of(number)
    }

    /// The header of a segment file, in the chain or not, that belongs to this log.
    pub(super) fn header_of(&mut self, number: u32) -> Result<Option<&Header>> {
        let site = self.site;
        match &self.found(number)?.page {
            Page::Assigned(header) if site.owns(&header.identity, number) => Ok(Some(header)),
            _ => Ok(None),
        }
    }

    /// The plan of a log that nobody has used since its end was recorded: without a walk, if its
    /// last segment's header says the same.
    fn untouched(&mut self, first: u32) -> Result<Option<Plan>> {
        let Some(end) = self.promises.end.filter(|_| self.promises.is_clean()) else {
            return Ok(None);
        };
        let beyond = end.segment.checked_add(1);
        if let Some(beyond) = beyond
            && self.header(beyond)?.is_some()
        {
            return Ok(None);
        }
        let Some(header) = self.header(end.segment)? else {
            return Ok(None);
        };
        // Without a slot just there the file may be an older one, restored from a copy.
        let slot = header.seal.or(header.slots.slot);
        let agrees = slot.is_some_and(|slot| Mark::of(&slot) == end.mark);
        if header.identity.nonce != end.nonce || !agrees {
            return Ok(None);
        }
        let sealed = header.seal.is_some();
        let mut plan = Plan::empty(first, end.epoch);
        plan.walked.push(self.enter(end.segment, end.mark)?);
        plan.last = Some(end.segment);
        plan.next = end.mark.next;
        plan.sealed = sealed;
        plan.untouched = true;
        Ok(Some(plan))
    }

    /// Where the walk starts: the highest segment of which more is known than its base.
    fn start(&mut self) -> Result<Option<(u32, Mark, u32)>> {
        let mut lowest = None;
        for number in self.numbers.clone().into_iter().rev() {
            let recorded = self.promises.end.filter(|end| end.segment == number);
            let Some(header) = self.header(number)? else {
                lowest = None;
                continue;
            };
            let identity = &header.identity;
            let empty = Mark::empty(identity.layout.records_at, identity.base);
            lowest = Some((number, empty, identity.epoch));
            let slot = header.seal.or(header.slots.slot);
            let slot = slot.map(|slot| (Mark::of(&slot), slot.epoch.max(identity.epoch)));
            let recorded = recorded
                .filter(|end| end.nonce == identity.nonce)
                .map(|end| (end.mark, end.epoch));
            let best = match (slot, recorded) {
                (Some(slot), Some(recorded)) if recorded.0.next > slot.0.next => Some(recorded),
                (slot, recorded) => slot.or(recorded),
            };
            if let Some((mark, epoch)) = best {
                return Ok(Some((number, mark, epoch)));
            }
        }
        Ok(lowest.filter(|(number, ..)| Some(number) == self.numbers.first()))
    }

    /// The plan of a log of which no segment is there.
    fn nothing(&self, first: u32) -> Result<Plan> {
        let promises = self.promises;
        if promises.exists || promises.promised() > 0 || promises.end.is_some() {
            let reason = format!(
                "it held records (offset {} is promised), and its first segment is not there",
                promises.promised()
            );
            return Err(self.site.mismatch(&self.site.dir, reason));
        }
        Ok(Plan::empty(first, 0))
    }

    /// Walks from a mark in a segment to the end of the log.
    fn walk(&mut self, first: u32, number: u32, mark: Mark, epoch: u32) -> Result<Plan> {
        let mut plan = Plan::empty(first, epoch);
        plan.walked.push(self.enter(number, mark)?);
        while !plan.sealed {
            let at = plan.at();
            if let Some(next) = self.crossing(&plan)? {
                let walked = self.enter_at_start(next)?;
                plan.epoch = plan.epoch.max(walked.header.identity.epoch);
                plan.walked.push(walked);
                continue;
            }
            if plan.last().seal() == Some(at) {
                plan.sealed = true;
                break;
            }
            let epoch = plan.epoch;
            let batch = plan.last_mut().batch(epoch);
            let batch = batch.map_err(|error| self.site.io("read", plan.number(), error))?;
            let Some(flaw) = batch.flaw else {
                plan.take(batch.frames);
                continue;
            };
            if flaw.is_unsupported() {
                return Err(self.newer(plan.number(), batch.end, flaw));
            }
            let beyond = self.beyond(&mut plan, batch.end)?;
            plan.seen = plan.seen.max(beyond.epoch);
            match beyond.promise.filter(|promise| *promise > at.next) {
                None => {
                    plan.cut = beyond.dirty;
                    plan.cut_is_sound = beyond.sound;
                    break;
                }
                Some(promise) => {
                    plan.take(batch.frames);
                    self.pass(&mut plan, flaw, promise)?;
                }
            }
        }
        plan.next = plan.at().next;
        plan.last = Some(plan.number());
        self.check(plan)
    }

    fn enter(&mut self, number: u32, mark: Mark) -> Result<Walked> {
        let site = self.site;
        let found = self.found(number)?;
        let Page::Assigned(header) = &found.page else {
            return Err(gone(site, number));
        };
        let layout = header.identity.layout;
        let length = found
            .file
            .len()
            .map_err(|e| site.io("inspect", number, e))?;
        if length < layout.capacity {
            let reason = format!("{length} bytes long, not {}", layout.capacity);
            return Err(site.mismatch(&site.segment(number), reason));
        }
        let slot = header.slots.slot;
        if slot.is_some_and(|slot| slot.generation == u64::MAX) {
            let reason = "no slot can follow the last one";
            return Err(site.mismatch(&site.segment(number), reason));
        }
        let seal = header.seal.as_ref().map(Mark::of);
        for stated in [Some(mark), seal].into_iter().flatten() {
            let ended = seal.is_some_and(|seal| seal.end() == stated.end());
            let fits = stated.check(&header.identity, ended);
            fits.map_err(|reason| site.mismatch(&site.segment(number), reason))?;
        }
        Ok(Walked::new(
            Arc::clone(&found.file),
            Arc::clone(&found.seen),
            (**header).clone(),
            mark,
        ))
    }

    fn enter_at_start(&mut self, number: u32) -> Result<Walked> {
        let site = self.site;
        let header = self.header(number)?.ok_or_else(|| gone(site, number))?;
        let start = Mark::empty(header.identity.layout.records_at, header.identity.base);
        self.enter(number, start)
    }

    /// The number of the next segment, if the walk stands at the end of the present one.
    fn crossing(&mut self, plan: &Plan) -> Result<Option<u32>> {
        let (at, seal) = (plan.at(), plan.last().seal());
        let Some(number) = plan.number().checked_add(1) else {
            return Ok(None);
        };
        let Some(successor) = self.header(number)? else {
            return Ok(None);
        };
        let identity = &successor.identity;
        let fits = match seal {
            Some(seal) => seal == at && identity.base == at.next,
            None => identity
                .predecessor
                .is_some_and(|end| end.place == at.place && end.next == at.next),
        };
        Ok((fits && identity.epoch >= plan.epoch).then_some(number))
    }

    /// What lies beyond a bad frame, and the greatest offset of which it is known that all below
    /// it was durable. Later segments are searched, too, as far as the reach goes.
    fn beyond(&mut self, plan: &mut Plan, bad: At) -> Result<Beyond> {
        let epoch = plan.epoch;
        let mut number = plan.number();
        let beyond = plan.last_mut().beyond(bad, epoch, self.promises.reach);
        let mut beyond = beyond.map_err(|error| self.site.io("read", number, error))?;
        if let Some((at, flaw)) = beyond.newer {
            return Err(self.newer(number, at, flaw));
        }
        let sealed = plan.last().seal().map(|seal| seal.next);
        let recorded = self.promises.end.map(|end| end.mark.next);
        let known = sealed.max(recorded).max(Some(self.promises.promised()));
        beyond.promise = beyond.promise.max(known);
        let mut left = self.promises.reach.saturating_sub(beyond.passed);
        while left > 0 {
            let Some(next) = number.checked_add(1) else {
                break;
            };
            number = next;
            if self.header(number)?.is_none() {
                break;
            }
            let nowhere = At { place: 0, ..bad };
            let later = self.enter_at_start(number)?.beyond(nowhere, epoch, left);
            let later = later.map_err(|error| self.site.io("read", number, error))?;
            if let Some((at, flaw)) = later.newer {
                return Err(self.newer(number, at, flaw));
            }
            beyond.promise = beyond.promise.max(later.promise);
            beyond.epoch = beyond.epoch.max(later.epoch);
            left = left.saturating_sub(later.passed);
        }
        Ok(beyond)
    }

    /// A record of a later version: the log is left as it is.
    fn newer(&self, segment: u32, at: At, flaw: Flaw) -> Error {
        let at = Damage {
            segment,
            place: at.place,
            offset: at.next,
            next: at.next,
        };
        self.site.corrupt(at, flaw)
    }

    /// Gets past the bad frame where the walk stands, which lies below a promise: to the next
    /// sound frame, or the segment's end, that is not above it. Where there is none the log is
    /// sealed at the bad place, with the promise as its next offset.
    fn pass(&mut self, plan: &mut Plan, flaw: Flaw, promise: u64) -> Result<()> {
        let (at, epoch, number) = (plan.at(), plan.epoch, plan.number());
        let promise = promise.max(at.next + 1);
        let frame = plan.last_mut().resume(epoch, promise);
        let frame = frame.map_err(|error| self.site.io("read", number, error))?;
        let end = self
            .ends(plan)?
            .filter(|end| end.place >= at.place && end.next > at.next && end.next <= promise);
        let target = match (frame, end) {
            (Some(frame), Some(end)) if end.place <= frame.place => Some(end),
            (frame, end) => frame.or(end),
        };
        plan.sealed = target.is_none();
        let target = target.unwrap_or(At {
            place: at.place,
            next: promise,
        });
        let damage = Damage {
            segment: number,
            place: at.place,
            offset: at.next,
            next: target.next,
        };
        plan.damage.push((damage, flaw));
        plan.last_mut().jump(target);
        Ok(())
    }

    /// Where the present segment ends, if its seal or its successor says so.
    fn ends(&mut self, plan: &Plan) -> Result<Option<At>> {
        if let Some(seal) = plan.last().seal() {
            return Ok(Some(seal));
        }
        let Some(number) = plan.number().checked_add(1) else {
            return Ok(None);
        };
        let capacity = plan.last().header.identity.layout.capacity;
        let successor = self.header(number)?;
        let end = successor.and_then(|header| header.identity.predecessor);
        Ok(end.filter(|end| end.place <= capacity).map(|end| At {
            place: end.place,
            next: end.next,
        }))
    }

    /// Files must reach as far as is promised of them.
    fn check(&mut self, plan: Plan) -> Result<Plan> {
        let floor = self.promises.promised();
        if plan.next < floor {
            let reason = format!("it ends at offset {}, {floor} is promised", plan.next);
            return Err(self.site.mismatch(&self.site.dir, reason));
        }
        for redo in &self.promises.redo {
            self.check_redo(&plan, redo)?;
        }
        let Some(end) = self.promises.end else {
            return Ok(plan);
        };
        if plan.number() < end.segment {
            return Err(gone(self.site, end.segment));
        }
        let nonce = match self.header(end.segment)? {
            Some(header) => header.identity.nonce,
            None => return Err(gone(self.site, end.segment)),
        };
        if nonce != end.nonce {
            let path = self.site.segment(end.segment);
            let reason = "it is not the file whose end was recorded, but an older or a newer one";
            return Err(self.site.mismatch(&path, reason));
        }
        Ok(plan)
    }

    /// What the journal holds must have found its place, but for segments that were let go of.
    fn check_redo(&mut self, plan: &Plan, redo: &Redo) -> Result<()> {
        if redo.of.number < plan.first {
            return Ok(());
        }
        if redo.of.number > plan.number() {
            return Err(gone(self.site, redo.of.number));
        }
        let nonce = self
            .header(redo.of.number)?
            .map(|header| header.identity.nonce);
        if nonce != Some(redo.of.nonce) {
            let path = self.site.segment(redo.of.number);
            let reason = "it is not the file that the journal holds records for";
            return Err(self.site.mismatch(&path, reason));
        }
        Ok(())
    }
}

fn gone(site: &Site, number: u32) -> Error {
    site.mismatch(&site.segment(number), "it is promised, and not there")
}

/// A file that a later version of the library wrote.
pub(crate) fn unsupported(path: &Path, flaw: Flaw) -> Error {
    let (what, found, known) = match flaw {
        Flaw::Version { found, known } => ("format version", found.to_string(), known.to_string()),
        Flaw::UnknownFlags { found, known } => {
            ("flags", format!("{found:#x}"), format!("{known:#x}"))
        }
        other => ("format", other.to_string(), String::new()),
    };
    Error::UnsupportedVersion {
        path: path.to_owned(),
        what,
        found,
        known,
    }
}
