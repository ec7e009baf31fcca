//! Where a reader stands in a log.

use std::sync::{Arc, Weak};

use super::log::Log;
use super::seek::Spot;
use super::site::Damage;
use crate::error::Result;
use crate::format::{Flaw, Frame};
use crate::options::Visibility;
use crate::segment::{Segment, Trouble};

/// A reader's place in a log. It holds the one segment that it stands in.
#[derive(Debug)]
pub(crate) struct Cursor {
    log: Arc<Log>,
    at: Option<Spot>,
    /// Where it stands while it rests, and holds nothing.
    rest: Option<Rest>,
    /// The next offset to read.
    next: u64,
    /// Where the record lies that was lent last.
    last: u64,
    visibility: Visibility,
}

/// A place in a segment that is not held.
#[derive(Debug)]
struct Rest {
    segment: Weak<Segment>,
    number: u32,
    place: u64,
}

/// A record as a cursor lends it.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    pub(crate) offset: u64,
    pub(crate) frame: Frame<'a>,
    /// Where it lies.
    pub(crate) segment: &'a Segment,
    /// It is durable: neither a crash nor a failed sync changes its bytes any more.
    pub(crate) durable: bool,
}

impl Cursor {
    /// Stands before `offset`, which need not exist yet.
    pub(crate) fn new(log: Arc<Log>, offset: u64) -> Cursor {
        Cursor {
            log,
            at: None,
            rest: None,
            next: offset,
            last: 0,
            visibility: Visibility::Durable,
        }
    }

    /// The log it reads.
    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The next offset to read.
    pub(crate) fn offset(&self) -> u64 {
        self.next
    }

    /// Which records it sees from here on.
    pub(crate) fn set_visibility(&mut self, visibility: Visibility) {
        self.visibility = visibility;
    }

    /// Whether there is a record to be read, or something to be told about its place.
    pub(crate) fn is_ready(&self) -> bool {
        let end = self.log.visible(self.visibility);
        self.next < end || self.is_beyond(end)
    }

    /// Whether a reader of written records stands beyond their end.
    fn is_beyond(&self, end: u64) -> bool {
        self.visibility == Visibility::Written && self.next > end
    }

    /// Goes elsewhere.
    pub(crate) fn seek(&mut self, offset: u64) {
        self.at = None;
        self.rest = None;
        self.next = offset;
    }

    /// Goes back before the record that was lent last: nothing else was done since.
    pub(crate) fn step_back(&mut self) {
        if let Some(spot) = &mut self.at {
            spot.place = self.last;
            self.next -= 1;
        }
    }

    /// Tells if the next record has gone, and not only the name of the file in which it is.
    pub(crate) fn check_expiry(&mut self) -> Result<()> {
        if self.next >= self.log.first() {
            return Ok(());
        }
        self.log.gate().reads(self.log.site())?;
        self.wake()?;
        match self.at {
            Some(_) => Ok(()),
            None => Err(self.log.expired(self.next)),
        }
    }

    /// Lets go of the segment, and remembers the place: for who has read everything and waits.
    pub(crate) fn rest(&mut self) {
        if let Some(Spot { segment, place }) = self.at.take() {
            self.rest = Some(Rest {
                segment: Arc::downgrade(&segment),
                number: segment.number(),
                place,
            });
        }
    }

    /// Takes up the segment again, or the one that has taken its place.
    fn wake(&mut self) -> Result<()> {
        if self.at.as_ref().is_some_and(|at| at.segment.is_retired()) {
            self.rest();
        }
        let Some(rest) = self.rest.take() else {
            return Ok(());
        };
        let held = rest.segment.upgrade().filter(|it| !it.is_retired());
        let segment = match held {
            Some(segment) => Some(segment),
            None => self
                .log
                .or_expired(self.next, self.log.numbered(rest.number))?,
        };
        // One that retention has taken is looked for by the offset.
        self.at = segment.map(|segment| Spot {
            segment,
            place: rest.place,
        });
        Ok(())
    }

    /// The next durable record below `limit`, with its offset; `None` if there is none yet. A
    /// damaged stretch is an error once; the call after that goes on behind it. A record of a later
    /// version is not gone past but by seeking.
    pub(crate) fn next(&mut self, limit: u64) -> Result<Option<Lent<'_>>> {
        self.log.gate().reads(self.log.site())?;
        let end = self.log.visible(self.visibility);
        if self.is_beyond(end) {
            let beyond = self.next;
            self.seek(end);
            return Err(self.log.site().truncated(end..beyond));
        }
        let end = end.min(limit);
        if self.next >= end {
            self.rest();
            return Ok(None);
        }
        self.wake()?;
        if self.at.is_none() && self.next < self.log.first() {
            return Err(self.log.expired(self.next));
        }
        self.enter(end)?;
        if self.next >= end {
            return Ok(None);
        }
        let Some(spot) = &mut self.at else {
            return Ok(None);
        };
        let segment: &Segment = &spot.segment;
        let trouble = match segment.frame_at(spot.place) {
            Ok(Some(frame)) => match segment.base() + u64::from(frame.delta()) {
                offset if offset == self.next => {
                    self.last = spot.place;
                    spot.place += frame.padded_len() as u64;
                    self.next += 1;
                    return Ok(Some(Lent {
                        offset,
                        frame,
                        segment,
                        durable: self.visibility == Visibility::Durable
                            || offset < self.log.known_durable(),
                    }));
                }
                _ => Trouble::Flaw(Flaw::Stale),
            },
            Ok(None) => Trouble::Flaw(Flaw::Empty),
            Err(trouble) => trouble,
        };
        if let Some(cause) = self.log.gate().failure() {
            // The kernel may have turned the pages of a failed sync into anything: reopening
            // tells damage from that.
            return Err(self.log.site().failed(cause));
        }
        let (place, damage) = past(segment, spot.place, self.next, end);
        if trouble.is_unsupported() {
            // It is sound: nobody may take it for read.
            return Err(self.log.site().unreadable(damage, trouble));
        }
        tracing::error!(
            log = self.log.site().log,
            ?damage,
            ?trouble,
            "met while reading"
        );
        spot.place = place;
        self.next = damage.next;
        Err(self.log.site().unreadable(damage, trouble))
    }

    /// Stands in the segment of the next offset, past the ends of those that are done.
    fn enter(&mut self, end: u64) -> Result<()> {
        loop {
            let Some(spot) = &mut self.at else {
                self.at = Some(self.log.or_expired(self.next, self.log.spot(self.next))?);
                continue;
            };
            let Some(done) = spot.segment.end().filter(|done| done.place <= spot.place) else {
                return Ok(());
            };
            if self.next < done.next {
                return self.declared_gap(done.next);
            }
            if self.next >= end {
                return Ok(());
            }
            let after = self.log.after(spot.segment.number());
            match self.log.or_expired(self.next, after)? {
                Some(segment) if segment.base() <= self.next => {
                    let place = segment.start();
                    *spot = Spot { segment, place };
                }
                // The list of segments has moved on: retention has taken what was next.
                Some(_) => {
                    let asked = self.next;
                    self.at = None;
                    return Err(self.log.expired(asked));
                }
                None => return Ok(()),
            }
        }
    }

    /// The segment ends before its last offsets: they were lost, and recovery has said so.
    fn declared_gap(&mut self, next: u64) -> Result<()> {
        let Some(spot) = &self.at else {
            return Ok(());
        };
        let damage = Damage {
            segment: spot.segment.number(),
            place: spot.place,
            offset: self.next,
            next,
        };
        tracing::error!(log = self.log.site().log, ?damage, "records that were lost");
        self.next = next;
        Err(self.log.site().corrupt(damage, Flaw::Empty))
    }
}

/// The place behind the damage at `place`: the next sound frame, or the segment's end.
pub(super) fn past(segment: &Segment, place: u64, offset: u64, end: u64) -> (u64, Damage) {
    let behind = segment.resume(place + 8, offset + 1, u64::MAX);
    let (to, next) = match (behind, segment.end()) {
        (Some((to, next)), _) => (to, next),
        (None, Some(done)) => (done.place, done.next),
        (None, None) => (segment.published(), end),
    };
    let damage = Damage {
        segment: segment.number(),
        place,
        offset,
        next: next.clamp(offset + 1, end.max(offset + 1)),
    };
    (to, damage)
}
