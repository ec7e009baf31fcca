//! Opening a log that another process writes, or nobody: where it begins, and from where on it is
//! followed. Nothing is changed.

use std::sync::Arc;

use super::appender::Appender;
use super::apply::{Beginning, first};
use super::following::{Following, Says};
use super::list::{Link, Segments};
use super::log::{Log, Setting};
use super::mark::Mark;
use super::plan::Promises;
use super::planner::plan;
use super::reach::{Reach, assigned, follow};
use super::rounds::Slots;
use super::site::{Damage, Site};
use super::spare::Shelf;
use super::walked::Walked;
use crate::board::{Lookout, Marks};
use crate::error::{Flaw, Result};
use crate::format::Redo;
use crate::segment::{Follower, Header, number_of};
use crate::sync::Ordering;

/// A log as this process finds it.
pub(super) struct Found {
    pub(super) links: Vec<Arc<Link>>,
    pub(super) first: u64,
    pub(super) reach: Reach,
    /// Everything below is written, and durable.
    pub(super) written: u64,
    pub(super) durable: u64,
    damage: Vec<(Damage, Flaw)>,
}

impl Log {
    /// Opens a log for reading only: as its owner shows it on the board, or else as the files and
    /// `promises` say.
    pub(crate) fn attach(
        site: Site,
        setting: Setting,
        lookout: Arc<Lookout>,
        says: Box<dyn Says>,
    ) -> Result<Arc<Log>> {
        let entry = lookout.watch().and_then(|watch| watch.find(site.log));
        let found = match entry.and_then(|entry| entry.read()) {
            Some(marks) => shown(&site, &marks)?,
            None => {
                let (promises, same_boot) = says.promises()?;
                still(&site, &promises, same_boot)?
            }
        };
        let mut log = Log::begin(site, setting, Beginning::unowned(found.durable));
        log.segments = Segments::new(found.links);
        log.first.store(found.first, Ordering::Release);
        log.damage = found.damage;
        log.following = Some(Following::new(lookout, says, found.reach));
        log.written.advance(found.written);
        log.catch_up();
        Ok(Arc::new(log))
    }

    /// A log that takes nothing and has nothing.
    pub(crate) fn closed(site: Site, setting: Setting) -> Arc<Log> {
        let log = Log::begin(site, setting, Beginning::unowned(0));
        log.gate().close();
        Arc::new(log)
    }
}

impl Beginning {
    /// Of a log that is not this process's to write to.
    fn unowned(next: u64) -> Beginning {
        Beginning {
            epoch: 0,
            segments: Segments::new(Vec::new()),
            first: next,
            next,
            shelf: Shelf::new(0, None, None, None),
            active: None,
            appender: Appender::nothing(next),
            slots: Slots::none(),
            changed: false,
            damage: Vec::new(),
        }
    }
}

/// A log that its owner has open: it is followed from the last place on that is known to be one.
fn shown(site: &Site, marks: &Marks) -> Result<Found> {
    let entries = site
        .storage
        .list(&site.dir)
        .or_else(|error| match error.kind() {
            // Nothing was ever written there.
            std::io::ErrorKind::NotFound => Ok(Vec::new()),
            _ => Err(crate::Error::io("list", &site.dir, error)),
        })?;
    let numbers = entries.iter().filter_map(|entry| number_of(&entry.name));
    let mut last = numbers.max();
    // The highest ones may be spares, that nobody has taken over yet.
    while let Some(number) = last.filter(|number| *number >= marks.first_segment) {
        if let Some((file, header)) = assigned(site, number)? {
            let follower = follow(site, file, &header, known(&header))?;
            let mut links: Vec<_> = (marks.first_segment..number).map(Link::named).collect();
            links.push(Link::held(follower.segment()));
            let next = follower.next();
            return Ok(Found {
                links,
                first: marks.first,
                reach: Reach::new(number + 1, next, Some(follower)),
                written: next,
                // What a slot covers is durable.
                durable: next,
                damage: Vec::new(),
            });
        }
        last = number.checked_sub(1);
    }
    Ok(nothing(marks.first_segment, marks.first))
}

/// The last place in a segment that its header knows.
pub(super) fn known(header: &Header) -> Mark {
    let (layout, base) = (header.identity.layout, header.identity.base);
    let start = Mark::empty(layout.records_at, base);
    header.slots.slot.as_ref().map_or(start, Mark::of)
}

fn nothing(number: u32, next: u64) -> Found {
    Found {
        links: Vec::new(),
        first: next,
        reach: Reach::new(number, next, None),
        written: next,
        durable: next,
        damage: Vec::new(),
    }
}

/// A log that no owner has open: as a recovery would leave it. After the owner's death in this boot of
/// the machine only what is promised counts as durable: the rest may be in memory only.
pub(super) fn still(site: &Site, promises: &Promises, same_boot: bool) -> Result<Found> {
    let mut plan = plan(site, promises)?;
    let (first, header) = first(site, &plan, promises)?;
    let floor = plan.walked.iter().map(|walked| walked.from.next);
    let floor = floor.max().unwrap_or(0).max(promises.promised());
    let durable = match same_boot && !plan.is_untouched() {
        true => floor.min(plan.next),
        false => plan.next,
    };
    let damage = std::mem::take(&mut plan.damage);
    let Some(last) = plan.walked.pop() else {
        return Ok(nothing(plan.first, plan.next));
    };
    let number = last.header.identity.number;
    // A segment that has all of it is read as it lies there from the next look on.
    let redo = &promises.redo;
    let is_laid = |number| redo.iter().any(|redo| redo.of.number == number);
    let (last, follower) = seen(site, redo, &last)?;
    let mut links: Vec<_> = (plan.first..number).map(Link::named).collect();
    if let (Some(header), Some(lowest)) = (header, links.first_mut()) {
        *lowest = Link::known(header);
    }
    let mut laid = Vec::new();
    for walked in &plan.walked {
        let number = walked.header.identity.number;
        if is_laid(number) {
            let (header, done) = seen(site, redo, walked)?;
            done.segment().set_end(walked.mark().end());
            links[(number - plan.first) as usize] = Link::laid(header, done.segment());
            laid.push(Arc::clone(done.segment()));
        }
    }
    if is_laid(number) {
        laid.push(Arc::clone(follower.segment()));
    }
    links.push(Link::laid(last, follower.segment()));
    Ok(Found {
        links,
        first,
        reach: Reach {
            laid,
            ..Reach::new(number + 1, plan.next, Some(follower))
        },
        written: plan.next,
        durable,
        damage,
    })
}

/// A segment as the walk has left it, with what the journal holds for it laid over it.
fn seen(site: &Site, redo: &[Redo], walked: &Walked) -> Result<(Header, Follower)> {
    let (file, header) = site.header_with(walked.header.identity.number, redo)?;
    // Index entries for what was walked are not in the file.
    let mut mark = walked.from;
    (mark.place, mark.next) = (walked.at.place, walked.at.next);
    let follower = follow(site, file, &header, mark)?;
    Ok((header, follower))
}
