//! Segment files that are not in the chain: which of them go, which are kept aside, and which
//! show that the log has lost something.

use std::sync::Arc;

use super::plan::{Aside, Plan};
use super::planner::Planner;
use crate::error::{Flaw, Result};
use crate::format::{Layout, PAGE, Seed};
use crate::index::INTERVAL;
use crate::segment::{Page, Walk};

impl Planner<'_> {
    /// Says what becomes of the files that are not in the chain. Where the journal has no chain, a
    /// segment of it has lost those before it, which is nothing to tidy up: an owner writes its
    /// first record durably before any second segment. (Of another log that acknowledged nothing
    /// yet, any header may have reached the disk.)
    pub(super) fn finish(&mut self, mut plan: Plan, numbers: Vec<u32>) -> Result<Plan> {
        let chain = plan.last.map(|last| plan.first..=last);
        let next = plan
            .last
            .map_or(Some(plan.first), |last| last.checked_add(1));
        self.refuse_hole(next, &numbers)?;
        for number in numbers {
            if chain.as_ref().is_some_and(|chain| chain.contains(&number)) {
                continue;
            }
            if number < plan.first {
                // The log begins behind it, which was durable before anything was removed.
                if self.promises.start.is_some() {
                    plan.later.push((number, Aside::Remove));
                }
                continue;
            }
            let path = self.site.segment(number);
            let begun = self.site.topic.is_journal() && self.header_of(number)?.is_some();
            if begun && chain.is_none() {
                let reason = "the segments before it are not there";
                return Err(self.site.mismatch(&path, reason));
            }
            if Some(number) == next {
                self.refuse_rotten(number)?;
            }
            let aside = match self.found(number)?.page {
                Page::Short | Page::Unassigned => Aside::Remove,
                Page::Assigned(_) | Page::Bad(_) | Page::Headless => Aside::Keep,
            };
            plan.later.push((number, aside));
        }
        plan.seen = self.greatest_epoch(&plan)?;
        Ok(plan)
    }

    /// Refuses the log if a segment is missing behind its end, and there is one above it that somebody has
    /// taken over. A segment is only made when the name of the one before it is safe, and what is set
    /// aside goes from the highest downward: a crash leaves no hole. What is above it may have been
    /// acknowledged, and so may what was there. (The journal's own segments are used again.)
    fn refuse_hole(&mut self, next: Option<u32>, numbers: &[u32]) -> Result<()> {
        let mut missing = match next {
            Some(next) if !self.site.topic.is_journal() => next,
            _ => return Ok(()),
        };
        for number in numbers.iter().copied().filter(|it| Some(*it) >= next) {
            if number == missing {
                missing = missing.saturating_add(1);
                continue;
            }
            let site = self.site;
            let taken = match &self.found(number)?.page {
                Page::Assigned(header) => site.owns(&header.identity, number),
                Page::Bad(_) | Page::Headless => true,
                Page::Short | Page::Unassigned => false,
            };
            if taken {
                let reason = format!("it is missing, and there is segment {number}");
                return Err(site.mismatch(&site.segment(missing), reason));
            }
        }
        Ok(())
    }

    /// Refuses the log if the segment behind its end has lost its header to rot. A header sector is
    /// written whole or not at all, and a file whose header's writing failed is thrown away: behind
    /// a damaged one stand records that were acknowledged, or nothing at all.
    fn refuse_rotten(&mut self, number: u32) -> Result<()> {
        let (site, reach) = (self.site, self.promises.reach);
        let found = self.found(number)?;
        let reason = match &found.page {
            Page::Headless => "its header is gone, and what was written after it is not".to_owned(),
            // It ends before its records begin.
            Page::Bad(Flaw::Short { .. }) => return Ok(()),
            Page::Bad(flaw) => format!("its header is damaged, and there are records: {flaw}"),
            _ => return Ok(()),
        };
        let held = || {
            let length = found.file.len()?;
            let whole = length - length % PAGE;
            let records_at = Layout::new(whole, INTERVAL).map_or(PAGE, |layout| layout.records_at);
            let seed = Seed::new(&site.store, site.log, number, 0);
            let mut walk = Walk::new(Arc::clone(&found.file), seed, length);
            walk.holds_anything(PAGE, records_at.saturating_add(reach))
        };
        let headless = matches!(found.page, Page::Headless);
        if headless || held().map_err(|error| site.io("read", number, error))? {
            return Err(site.mismatch(&site.segment(number), reason));
        }
        Ok(())
    }

    /// The greatest epoch of everything that was seen: besides what the walk met, of all headers of
    /// the log that were read, and of the frames in those files that are set aside, as far as the
    /// reach goes.
    fn greatest_epoch(&self, plan: &Plan) -> Result<u32> {
        let mut epoch = plan.seen.max(plan.epoch);
        let mut left = self.promises.reach;
        for (number, found) in &self.pages {
            let Page::Assigned(header) = &found.page else {
                continue;
            };
            if !self.site.owns(&header.identity, *number) {
                continue;
            }
            epoch = epoch.max(header.epoch());
            if left == 0 || !plan.later.iter().any(|(later, _)| later == number) {
                continue;
            }
            let layout = header.identity.layout;
            let (from, to) = (layout.records_at, layout.capacity);
            let to = to.min(from.saturating_add(left));
            left -= to - from;
            let mut walk = Walk::new(Arc::clone(&found.file), header.seed(), to);
            let greatest = walk.epoch(from, from, to, epoch);
            epoch = greatest.map_err(|error| self.site.io("read", *number, error))?;
        }
        Ok(epoch)
    }
}
