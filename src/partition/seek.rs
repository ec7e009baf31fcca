//! From an offset or a time to a place.

use std::sync::Arc;

use super::cursor::past;
use super::list::Link;
use super::log::Log;
use super::site::Damage;
use crate::error::{Error, Result};
use crate::format::ALIGN;
use crate::index::{before_offset, before_time};
use crate::segment::{Segment, Trouble};

/// A place in a log where reading can begin.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) segment: Arc<Segment>,
    pub(crate) place: u64,
}

impl Log {
    /// The place of an offset that exists.
    pub(crate) fn spot(&self, offset: u64) -> Result<Spot> {
        self.settled(|| self.spot_now(offset))
    }

    fn spot_now(&self, offset: u64) -> Result<Spot> {
        let links = self.segments.now();
        let at = self.link_of(&links, offset)?;
        let Some(link) = links.get(at) else {
            return Err(self.expired(offset));
        };
        self.mark_used();
        let segment = self.open_link(link, links.get(at + 1))?;
        let place = place_of(&segment, offset);
        Ok(Spot { segment, place })
    }

    /// The segment of a link, which was the last one of the list or had this successor. One that was
    /// the last may have been followed since, and let go of.
    fn open_link(&self, link: &Link, successor: Option<&Arc<Link>>) -> Result<Arc<Segment>> {
        let opened = link.segment(&self.site, successor.map(Arc::as_ref));
        if opened.is_ok() || successor.is_some() {
            return opened;
        }
        let links = self.segments.now();
        let next = links.iter().find(|next| next.number > link.number);
        match next {
            Some(next) => link.segment(&self.site, Some(next)),
            None => opened,
        }
    }

    /// The index in the list of the segment that holds an offset.
    fn link_of(&self, links: &[Arc<Link>], offset: u64) -> Result<usize> {
        let (mut low, mut high) = (0, links.len());
        while low < high {
            let middle = low.midpoint(high);
            if links[middle].base(&self.site)? <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1).ok_or_else(|| self.expired(offset))
    }

    /// The segment of that number, if it is still there.
    pub(crate) fn numbered(&self, number: u32) -> Result<Option<Arc<Segment>>> {
        let links = self.segments.now();
        let at = links.partition_point(|link| link.number < number);
        let Some(link) = links.get(at).filter(|link| link.number == number) else {
            return Ok(None);
        };
        self.open_link(link, links.get(at + 1)).map(Some)
    }

    /// The segment that follows number `number`, if it has taken over.
    pub(crate) fn after(&self, number: u32) -> Result<Option<Arc<Segment>>> {
        let links = self.segments.now();
        let at = links.partition_point(|link| link.number <= number);
        let Some(link) = links.get(at) else {
            return Ok(None);
        };
        self.open_link(link, links.get(at + 1)).map(Some)
    }

    /// The offset of the first record at or after `time`, below `limit`; `limit` if there is none.
    /// Damaged records are passed over, those whose bytes cannot be had, or that are of a later
    /// version, are not.
    pub(crate) fn offset_at(&self, time: i64, limit: u64) -> Result<u64> {
        self.settled(|| self.offset_now(time, limit))
    }

    fn offset_now(&self, time: i64, limit: u64) -> Result<u64> {
        let links = self.segments.now();
        for (at, link) in links.iter().enumerate() {
            if link
                .greatest(&self.site)?
                .is_some_and(|greatest| greatest < time)
            {
                continue;
            }
            let segment = self.open_link(link, links.get(at + 1))?;
            let found = first_at(&segment, time, limit);
            let found = found.map_err(|(damage, trouble)| self.site.unreadable(damage, trouble))?;
            if let Some(offset) = found {
                return Ok(offset.clamp(self.first().min(limit), limit));
            }
        }
        Ok(limit)
    }

    /// What could not be found may have been removed meanwhile, in this process or another: where the
    /// log begins moves first.
    pub(super) fn or_expired<T>(&self, offset: u64, found: Result<T>) -> Result<T> {
        match found {
            Err(_) if offset < self.first() => Err(self.expired(offset)),
            found => found,
        }
    }

    /// What is found in the log as it is; looked for again if it has come to begin elsewhere meanwhile:
    /// files go after the list has let go of them, so who missed one had an older list.
    pub(super) fn settled<T>(&self, find: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            let before = self.beginning();
            match find() {
                Err(_) if self.beginning() != before => {}
                found => return found,
            }
        }
    }

    /// Where the log begins, and with which segment.
    fn beginning(&self) -> (u64, Option<u32>) {
        let first = self.first();
        let links = self.segments.now();
        (first, links.first().map(|link| link.number))
    }

    /// What who asks for a record that retention has removed is told.
    pub(crate) fn expired(&self, asked: u64) -> Error {
        Error::OffsetExpired {
            topic: self.site.topic(),
            partition: self.site.partition,
            asked,
            first: self.first(),
        }
    }
}

/// The place of an offset in a segment, or of the damage that hides it.
///
/// Where nothing is damaged an index entry and the lengths behind it lead to the frame, which alone
/// is checked. Else each frame on the way is: an index entry counts only if a sound frame lies there;
/// the segment's start is a place in any case, be the frame there damaged or not.
fn place_of(segment: &Segment, offset: u64) -> u64 {
    let delta = offset.saturating_sub(segment.base());
    let hint = before_offset(&segment.entries(), delta);
    let leads_there = |place: &u64| match segment.frame_at(*place) {
        Ok(Some(frame)) => u64::from(frame.delta()) <= delta,
        _ => false,
    };
    let near = segment.hop(hint.unwrap_or_else(|| segment.start()), delta);
    if let Some(place) = near.filter(leads_there) {
        return place;
    }
    walk_to(
        segment,
        hint.filter(leads_there).unwrap_or_else(|| segment.start()),
        offset,
    )
}

/// Walks to an offset, which does not lie before `place`.
fn walk_to(segment: &Segment, mut place: u64, offset: u64) -> u64 {
    // What should lie at `place`; known at the segment's start, and behind each sound frame.
    let mut next = segment.base();
    loop {
        match segment.frame_at(place) {
            Ok(Some(frame)) if segment.base() + u64::from(frame.delta()) < offset => {
                place += frame.padded_len() as u64;
                next = segment.base() + u64::from(frame.delta()) + 1;
            }
            // The end, or the frame itself.
            Ok(_) => return place,
            // Damage: the offset lies behind it, or in it.
            Err(_) => match segment.resume(place + ALIGN as u64, next, offset + 1) {
                Some((behind, _)) => place = behind,
                None => return place,
            },
        }
    }
}

/// The offset of the first record of a segment at or after `time`. Damage is passed over; what may
/// be sound and cannot be read is told, with its place.
fn first_at(segment: &Segment, time: i64, limit: u64) -> Result<Option<u64>, (Damage, Trouble)> {
    let hint = before_time(&segment.entries(), time);
    let sound = |place: &u64| matches!(segment.frame_at(*place), Ok(Some(_)));
    let mut place = hint.filter(sound).unwrap_or_else(|| segment.start());
    let mut next = segment.base();
    loop {
        let trouble = match segment.frame_at(place) {
            Ok(Some(frame)) if frame.timestamp() >= time => {
                return Ok(Some(segment.base() + u64::from(frame.delta())));
            }
            Ok(Some(frame)) => {
                place += frame.padded_len() as u64;
                next = segment.base() + u64::from(frame.delta()) + 1;
                continue;
            }
            Ok(None) => return Ok(None),
            Err(trouble) => trouble,
        };
        let (behind, damage) = past(segment, place, next, limit);
        if matches!(trouble, Trouble::Io(_)) || trouble.is_unsupported() {
            return Err((damage, trouble));
        }
        let readable = segment.readable(place, behind);
        readable.map_err(|trouble| (damage, trouble))?;
        (place, next) = (behind, damage.next);
    }
}
