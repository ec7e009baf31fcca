//! How far this process has come in a log that another one writes, or nobody does: from segment to
//! segment, and what the files show where nothing else tells.

use std::sync::Arc;

use super::attach::known;
use super::list::Link;
use super::log::Log;
use super::mark::Mark;
use super::site::Site;
use crate::board::Marks;
use crate::error::{Error, Result};
use crate::format::Entry;
use crate::segment::{End, Follower, Header, Page, Segment, read_page};
use crate::sys::{Access, Backend, File, Pattern, region};

/// How far this process has come.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) follower: Option<Follower>,
    /// The number of the segment that comes next.
    pub(super) number: u32,
    /// The offset that follows what can be read.
    pub(super) next: u64,
    /// No segment below this number is in the list.
    pub(super) lowest: u32,
    /// Segments that are not in their files as they are read, the follower's among them: redo of the
    /// journal is laid over copies of them, which nobody could open anew.
    pub(super) laid: Vec<Arc<Segment>>,
    /// What the files said when they were last looked at.
    pub(super) evidence: Option<Evidence>,
}

/// What files show of a log at the place to which it is known: another look at them is worth while if
/// that has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    /// The length word of the next frame.
    word: Option<u32>,
    /// The checksum of the segment's header page, and of that of the next one.
    headers: [Option<u32>; 2],
}

impl Reach {
    /// That of a log in which this comes next; what was come by is in `follower`'s segment.
    pub(super) fn new(number: u32, next: u64, follower: Option<Follower>) -> Reach {
        Reach {
            follower,
            number,
            next,
            lowest: 0,
            laid: Vec::new(),
            evidence: None,
        }
    }

    pub(super) fn evidence(&self, site: &Site) -> Result<Option<Evidence>> {
        let here = self
            .follower
            .as_ref()
            .map(|follower| follower.segment().number());
        let page = |number: Option<u32>| -> Result<Option<u32>> {
            let found = number.map(|number| assigned(site, number)).transpose()?;
            Ok(found
                .flatten()
                .map(|(_, header)| crc32c::crc32c(&header.bytes)))
        };
        Ok(Some(Evidence {
            word: self.follower.as_ref().and_then(Follower::word),
            headers: [page(here)?, page(Some(self.number))?],
        }))
    }

    /// Goes over from copies, on which the journal's redo was laid, to the files, once they have it.
    fn leave_copies(&mut self, log: &Log) -> Result<()> {
        let Some(follower) = self.follower.as_ref().filter(|_| !self.laid.is_empty()) else {
            return Ok(());
        };
        let (number, end) = (follower.segment().number(), follower.end());
        for laid in self.laid.iter().filter(|laid| laid.number() != number) {
            if in_file(&log.site, laid.number(), laid.end().unwrap_or(end))?.is_none() {
                return Ok(());
            }
        }
        let Some(bare) = in_file(&log.site, number, end)? else {
            return Ok(());
        };
        let links = log.segments.now();
        let link = links.iter().find(|link| link.number == number);
        link.into_iter()
            .for_each(|link| link.resume(bare.segment()));
        self.follower = Some(bare);
        self.laid.clear();
        Ok(())
    }

    /// Goes as far as the owner shows, and as far as the files have it; how far that is.
    pub(super) fn go_along(&mut self, log: &Log, marks: &Marks) -> (u64, Result<()>) {
        let left = self.leave_copies(log);
        // Behind a copy nothing comes by itself.
        let come = left.and_then(|()| match self.laid.is_empty() {
            true => self.come_to(log, marks),
            false => Ok(()),
        });
        (self.next, come)
    }

    fn come_to(&mut self, log: &Log, marks: &Marks) -> Result<()> {
        if self.lowest < marks.first_segment {
            log.segments.drop_below(marks.first_segment);
            self.lowest = marks.first_segment;
        }
        loop {
            if let Some(follower) = &mut self.follower {
                let number = follower.segment().number();
                let reached = follower.reach(marks.written);
                self.next = reached.map_err(|error| log.site.io("read", number, error))?;
            }
            if self.next >= marks.written || !self.step(log, marks)? {
                return Ok(());
            }
        }
    }

    /// Goes over to the next segment, if it has taken over; whether anything came of it.
    fn step(&mut self, log: &Log, marks: &Marks) -> Result<bool> {
        let wanted = self.number.max(marks.first_segment);
        let Some((file, header)) = assigned(&log.site, wanted)? else {
            return self.skip(log);
        };
        if let Some(follower) = &mut self.follower {
            let end = header.identity.predecessor.map(|end| End {
                place: end.place,
                next: end.next,
            });
            match end.filter(|_| follower.segment().number() + 1 == wanted) {
                Some(end) => finish(&log.site, follower, end)?,
                // What came between has been removed, so nothing follows here.
                None => follower.segment().set_end(follower.end()),
            }
        }
        let mark = Mark::empty(header.identity.layout.records_at, header.identity.base);
        let follower = follow(&log.site, file, &header, mark)?;
        log.segments.push(&Link::held(follower.segment()));
        self.next = self.next.max(follower.next());
        self.number = wanted + 1;
        self.follower = Some(follower);
        Ok(true)
    }

    /// Goes past what cannot be come by, where the segment's own slot says that more is there.
    fn skip(&mut self, log: &Log) -> Result<bool> {
        let Some(follower) = &mut self.follower else {
            return Ok(false);
        };
        let number = follower.segment().number();
        let page = read_page(follower.segment().file.as_ref());
        let page = page.map_err(|error| log.site.io("read", number, error))?;
        let Page::Assigned(header) = page else {
            return Ok(false);
        };
        let Some(slot) = header.slots.slot.filter(|slot| slot.next > self.next) else {
            return Ok(false);
        };
        let end = Mark::of(&slot).end();
        let skipped = follower.skip(end);
        skipped.map_err(|error| log.site.io("read", number, error))?;
        Ok(true)
    }
}

/// A segment as its file has it, if that has all frames up to this end, each of them sound.
fn in_file(site: &Site, number: u32, end: End) -> Result<Option<Follower>> {
    let Some((file, header)) = assigned(site, number)? else {
        return Ok(None);
    };
    let start = known(&header);
    if start.next >= end.next {
        // What a slot covers is in the file.
        let mark = Mark::empty(end.place, end.next);
        return follow(site, file, &header, mark).map(Some);
    }
    let mut bare = follow(site, file, &header, start)?;
    let reached = bare.reach(end.next);
    reached.map_err(|error| site.io("read", number, error))?;
    let is_whole = bare.end() == end && bare.segment().sound_frames(start.place, end.place).is_ok();
    Ok(is_whole.then_some(bare))
}

/// A segment has ended there.
fn finish(site: &Site, follower: &mut Follower, end: End) -> Result<()> {
    let number = follower.segment().number();
    if end.next < follower.next() {
        let reason = format!(
            "records from {} on were taken back, and have been seen",
            end.next
        );
        return Err(site.mismatch(&site.segment(number), reason));
    }
    let skipped = follower.skip(end);
    skipped.map_err(|error| site.io("read", number, error))?;
    follower.segment().set_end(end);
    Ok(())
}

/// The segment of that number, once it belongs to the log.
pub(super) fn assigned(site: &Site, number: u32) -> Result<Option<(Arc<dyn File>, Header)>> {
    let path = site.segment(number);
    let file = match site.storage.open(&path, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| Error::opening("open", &path, error))?,
    };
    let page = read_page(file.as_ref()).map_err(|error| site.io("read", number, error))?;
    match page {
        Page::Assigned(header) if site.owns(&header.identity, number) => Ok(Some((file, *header))),
        Page::Bad(flaw) if flaw.is_unsupported() => Err(super::unsupported(&path, flaw)),
        _ => Ok(None),
    }
}

/// Follows a segment from a place on up to which it is known.
pub(super) fn follow(
    site: &Site,
    file: Arc<dyn File>,
    header: &Header,
    mark: Mark,
) -> Result<Follower> {
    let (identity, layout) = (header.identity, header.identity.layout);
    let fail = |error| site.io("map", identity.number, error);
    let map = Arc::new(file.map(Access::Read, layout.capacity).map_err(fail)?);
    // Large folios under the tail would cost its writer dear.
    map.advise(Pattern::Random).map_err(fail)?;
    let part = |range, published| {
        let (map, file) = (Arc::clone(&map), Arc::clone(&file));
        region(map, file, Backend::Pwrite, range, published).map_err(fail)
    };
    let written = mark.place - layout.records_at;
    let (tail, records) = part(layout.records_at..layout.capacity, written)?;
    let entries = u64::from(mark.index_entries) * Entry::SIZE as u64;
    let (_, index) = part(u64::from(layout.index_at)..layout.records_at, entries)?;
    let segment = Segment::new(file, identity, (records, index), None);
    Ok(Follower::new(Arc::new(segment), tail, mark.next))
}
