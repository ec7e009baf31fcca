//! What a log holds, as retention has to know it: as its owner knows it, or as who reads beside him can
//! see it.

use std::sync::Arc;

use super::ledger::Open;
use super::list::Link;
use super::log::Log;
use crate::error::Result;

/// A segment, with those behind it that nothing can begin with since their headers cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The number of the segment.
    pub(crate) number: u32,
    /// Its first offset, and the one behind its last.
    pub(crate) base: u64,
    pub(crate) next: u64,
    /// Bytes of its frames.
    pub(crate) bytes: u64,
    /// When it was last appended to, or a moment not before that; `None` if that is not known, or
    /// never.
    pub(crate) last_append: Option<i64>,
}

/// What a log holds: its pieces, of which the last one is written to or will be followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) pieces: Vec<Piece>,
    /// When the first record of the last piece was appended, or a moment not long after that; `None`
    /// if that is not known.
    pub(crate) began: Option<i64>,
}

/// The segments of a log at one moment.
pub(super) struct Tip {
    pub(super) links: Arc<Vec<Arc<Link>>>,
    /// Those that have not been settled, where that is known.
    pub(super) open: Arc<Vec<Open>>,
    /// Where the records of the last one begin and end in its file, if they are known to begin.
    pub(super) start: Option<u64>,
    pub(super) place: u64,
    /// The offset behind its last record.
    pub(super) next: u64,
    /// When it was last appended to.
    pub(super) last_append: Option<i64>,
    /// When its first record was appended.
    pub(super) began: Option<i64>,
}

impl Log {
    /// What the log holds now.
    pub(crate) fn holding(&self) -> Result<Holding> {
        self.gate.reads(&self.site)?;
        if self.gate.failure().is_some() {
            return Err(self.gate.failed(&self.site));
        }
        self.holding_now()
    }

    /// The pieces of it, be it failed or not.
    pub(crate) fn pieces(&self) -> Result<Vec<Piece>> {
        self.gate.reads(&self.site)?;
        Ok(self.holding_now()?.pieces)
    }

    fn holding_now(&self) -> Result<Holding> {
        let now = self.setting.clock.now();
        loop {
            let first = self.first();
            let tip = match &self.following {
                Some(following) => following.tip(self, now),
                None => self.tip(now),
            };
            let holding = self.held(&tip, first, now);
            // Its owner removes what who reads beside him is looking at.
            if self.following.is_none() || self.first() == first {
                return holding;
            }
        }
    }

    /// The segments as the log's owner knows them.
    fn tip(&self, now: i64) -> Tip {
        let mut appender = self.lock();
        // By a clock that was ahead then. That a segment ends too early does no harm.
        appender.began = appender.began.map(|began| began.min(now));
        Tip {
            links: self.segments.now(),
            open: self.ledger.read().open,
            start: appender.identity().map(|it| it.layout.records_at),
            place: appender.mark.place,
            next: appender.mark.next,
            last_append: appender.mark.last_append,
            began: appender.began,
        }
    }

    fn held(&self, tip: &Tip, first: u64, now: i64) -> Result<Holding> {
        let Some((last, ended)) = tip.links.split_last() else {
            return Ok(Holding::default());
        };
        let mut pieces: Vec<(Piece, &Link)> = Vec::with_capacity(tip.links.len());
        for (link, successor) in ended.iter().zip(&tip.links[1..]) {
            let (bytes, last_append) = self.sums_of(link, successor, &tip.open);
            let base = link.base(&self.site);
            match (base, pieces.last_mut()) {
                (Err(_), Some((before, _))) => {
                    before.bytes += bytes;
                    // Not known: until what follows is too old.
                    before.last_append = None;
                }
                (base, _) => {
                    let piece = Piece {
                        number: link.number,
                        base: base.unwrap_or(first),
                        next: 0,
                        bytes,
                        last_append,
                    };
                    pieces.push((piece, link));
                }
            }
        }
        let start = match tip.start {
            Some(start) => start,
            None => last.records_at(&self.site)?,
        };
        let piece = Piece {
            number: last.number,
            base: last.base(&self.site)?,
            next: tip.next,
            bytes: tip.place.saturating_sub(start),
            last_append: tip.last_append,
        };
        pieces.push((piece, last));
        date(&mut pieces, now);
        let began = tip.began.or_else(|| self.began(last.number, tip, now));
        let pieces = pieces.into_iter().map(|(piece, _)| piece).collect();
        Ok(Holding { pieces, began })
    }

    /// Bytes of a segment that has ended, and when it was last appended to if that is known.
    fn sums_of(&self, link: &Link, successor: &Link, open: &[Open]) -> (u64, Option<i64>) {
        let open = open.iter().find(|it| it.segment.number() == link.number);
        if let Some((open, done)) = open.and_then(|open| Some((open, open.done?))) {
            return (done.place - open.segment.start(), done.last_append);
        }
        let sums = link.sums(&self.site, successor);
        sums.unwrap_or_else(|error| {
            tracing::warn!(log = self.site.log, number = link.number, %error, "not known");
            (link.bytes(&self.site, successor), None)
        })
    }

    /// When the first record of the last segment was appended, as far as its own time tells: one that
    /// the segment's last append contradicts is not believed. Who believes too early a time ends the
    /// segment too early, which does no harm.
    fn began(&self, number: u32, tip: &Tip, now: i64) -> Option<i64> {
        let last = tip.last_append?;
        let time = self.first_time(number, last).map(|time| time.min(now))?;
        let mut appender = self.lock();
        if appender.last.is_some_and(|last| last.number == number) {
            appender.began = Some(time);
        }
        Some(time)
    }

    /// The own time of the first record of a segment, if it is not after that.
    pub(super) fn first_time(&self, number: u32, latest: i64) -> Option<i64> {
        let segment = self.numbered(number).ok().flatten()?;
        let frame = segment.frame_at(segment.start()).ok().flatten()?;
        Some(frame.timestamp()).filter(|time| *time <= latest)
    }
}

/// Where pieces end, and from when the age of each counts: the last append to it, or to one that follows
/// if that is not known. A time that is still to come is that of a clock that was ahead; it was now at
/// the latest, as seen for the first time since the piece has ended there, or when the next one was
/// appended to.
fn date(pieces: &mut [(Piece, &Link)], now: i64) {
    let mut later: Option<Piece> = None;
    for (piece, link) in pieces.iter_mut().rev() {
        piece.next = later.map_or(piece.next, |later| later.base);
        let after = later.and_then(|later| later.last_append);
        let told = piece.last_append;
        let seen = told.map(|told| link.counts_from(told, piece.next, now));
        piece.last_append = match seen == told {
            true => seen.or(after),
            false => seen.into_iter().chain(after).min(),
        };
        later = Some(*piece);
    }
}
