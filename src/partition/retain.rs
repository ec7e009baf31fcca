//! What retention has to know of a log, and what it does to it.

use std::io;
use std::sync::Arc;

use super::list::Link;
use super::log::Log;
use super::park::Wanted;
use crate::error::{Error, Result};
use crate::flush::Next;
use crate::segment::Room;
use crate::sync::Ordering;

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

/// The smallest batch there is: with room for that a segment can take over.
const LEAST: Room = Room {
    bytes: 64,
    records: 1,
    keep: 0,
};

impl Log {
    /// What the log holds now.
    pub(crate) fn holding(&self) -> Result<Holding> {
        self.check_kept()?;
        let pieces = self.pieces()?;
        let (number, last) = match pieces.last() {
            Some(piece) => (piece.number, piece.last_append),
            None => return Ok(Holding::default()),
        };
        let began = {
            let appender = self.lock();
            let same = appender.last.is_some_and(|last| last.number == number);
            appender.began.filter(|_| same)
        };
        let began = began.or_else(|| self.began(number, last));
        Ok(Holding { pieces, began })
    }

    /// The pieces of it, be it failed or not.
    pub(crate) fn pieces(&self) -> Result<Vec<Piece>> {
        self.gate.reads(&self.site)?;
        let (links, ledger, mark, identity) = {
            let appender = self.lock();
            let identity = appender.identity().copied();
            (
                self.segments.now(),
                self.ledger.read(),
                appender.mark,
                identity,
            )
        };
        let Some((last, ended)) = links.split_last() else {
            return Ok(Vec::new());
        };
        let first = self.first.load(Ordering::Acquire);
        let mut pieces: Vec<Piece> = Vec::with_capacity(links.len());
        for (link, successor) in ended.iter().zip(&links[1..]) {
            let done = ledger
                .open
                .iter()
                .find(|it| it.segment.number() == link.number);
            let sums = match done.and_then(|open| open.done.map(|done| (open, done))) {
                Some((open, done)) => Ok((done.place - open.segment.start(), done.last_append)),
                None => link.sums(&self.site, successor),
            };
            let base = link.base(&self.site);
            if let Some(error) = sums.as_ref().err().or(base.as_ref().err()) {
                tracing::warn!(log = self.site.log, number = link.number, %error, "not known");
            }
            let (bytes, last_append) = sums.unwrap_or((0, None));
            match (base, pieces.last_mut()) {
                (Err(_), Some(before)) => {
                    before.bytes += bytes;
                    // Not known: until what follows is too old.
                    before.last_append = None;
                }
                (base, _) => pieces.push(Piece {
                    number: link.number,
                    base: base.unwrap_or(first),
                    next: 0,
                    bytes,
                    last_append,
                }),
            }
        }
        let start = match identity {
            Some(identity) => identity.layout.records_at,
            None => last.records_at(&self.site)?,
        };
        pieces.push(Piece {
            number: last.number,
            base: last.base(&self.site)?,
            next: mark.next,
            bytes: mark.place.saturating_sub(start),
            last_append: mark.last_append,
        });
        let mut later = None;
        for piece in pieces.iter_mut().rev() {
            if let Some((next, last_append)) = later {
                piece.next = next;
                piece.last_append = piece.last_append.or(last_append);
            }
            later = Some((piece.base, piece.last_append));
        }
        Ok(pieces)
    }

    /// When the first record of the last segment was appended, as far as its own time tells: one that
    /// the segment's last append contradicts is not believed. Who believes too early a time ends the
    /// segment too early, which does no harm.
    fn began(&self, number: u32, last_append: Option<i64>) -> Option<i64> {
        let segment = self.numbered(number).ok().flatten()?;
        let frame = segment.frame_at(segment.start()).ok().flatten()?;
        let time = frame.timestamp();
        let time = last_append.filter(|last| time <= *last).map(|_| time)?;
        let mut appender = self.lock();
        if appender.last.is_some_and(|last| last.number == number) {
            appender.began = Some(time);
        }
        Some(time)
    }

    /// Ends the last segment, if it still is that of this number: another one takes over.
    pub(crate) fn end_segment(self: &Arc<Self>, number: u32) -> Result<()> {
        let mut wanted = None;
        loop {
            self.check_kept()?;
            self.mark_used();
            {
                let mut appender = self.lock();
                self.check_kept()?;
                if appender.last.is_none_or(|last| last.number != number) {
                    return Ok(());
                }
                if appender.parked.is_none() && self.roll(&mut appender, LEAST)? {
                    self.changed.store(true, Ordering::Release);
                    return Ok(());
                }
            }
            wanted.get_or_insert_with(|| Wanted::by(self));
            self.wait_ready(LEAST)?;
        }
    }

    /// Whether its files may be changed, be it finished or not.
    pub(super) fn check_kept(&self) -> Result<()> {
        self.gate.reads(&self.site)?;
        match self.gate.failure() {
            Some(_) => Err(self.gate.failed(&self.site)),
            None => Ok(()),
        }
    }

    /// Sees to it that every segment below that number is safe in its own file, and that the header of
    /// the one that follows them is.
    pub(crate) fn settle_below(self: &Arc<Self>, number: u32) -> Result<()> {
        // Who leaves the ledger was sealed, behind a sync of all that followed it.
        let open = self.ledger.read().open;
        if open.iter().all(|open| open.segment.number() >= number) {
            return Ok(());
        }
        let claims = self.setting.flusher.claim(vec![self.as_dirty()]);
        self.check_kept()?;
        let settled = self.direct(true, true);
        if let Err(cause) = &settled {
            // Before anybody else can sync it: the next one would prove nothing.
            self.poison(cause.clone());
        }
        drop(claims);
        match settled {
            Ok(Next::Rest) => Ok(()),
            Ok(_) => {
                // It relies on being looked at again.
                self.setting.flusher.request(self.as_dirty());
                Ok(())
            }
            Err(_) => Err(self.gate.failed(&self.site)),
        }
    }

    /// The log begins with this segment and its offset, which the journal says durably, and the files
    /// below it go. One that cannot be removed keeps none of the others, and the next call tries it
    /// again; what a crash leaves there goes when the log is opened.
    pub(crate) fn start_at(&self, number: u32, base: u64) -> Result<()> {
        let mut removing = self.segments.removing();
        let links = self.segments.now();
        let gone: Vec<&Arc<Link>> = links.iter().take_while(|it| it.number < number).collect();
        self.first.fetch_max(base, Ordering::AcqRel);
        if !gone.is_empty() {
            self.show_first(base, number);
        }
        let numbers: Vec<u32> = removing
            .stuck
            .drain(..)
            .chain(gone.iter().map(|it| it.number))
            .collect();
        if numbers.is_empty() {
            return Ok(());
        }
        // Only a log with a limit counts.
        let limited = self.limits.load().total.is_some();
        let bytes = |(link, next): (&Arc<Link>, &Arc<Link>)| link.sums(&self.site, next);
        let pairs = links.iter().zip(links.iter().skip(1)).take(gone.len());
        let bytes = pairs
            .filter(|_| limited)
            .filter_map(|pair| bytes(pair).ok());
        let bytes: u64 = bytes.map(|(bytes, _)| bytes).sum();
        let mut failed = Ok(());
        // Before they go, so that nobody looks for one that has gone.
        self.segments.drop_below(number);
        // Of a copy that is being made: when it is done they go.
        let kept = removing.is_kept();
        for number in numbers {
            if kept {
                removing.stuck.push(number);
            } else if let Err(error) = self.site.remove(number) {
                tracing::warn!(log = self.site.log, number, %error, "cannot be removed yet");
                removing.stuck.push(number);
                failed = failed.and(Err(error));
            }
        }
        self.left(bytes);
        let synced = self.site.storage.sync_dir(&self.site.dir);
        failed.and(synced.map_err(|error: io::Error| Error::io("sync", &self.site.dir, error)))
    }

    /// So many bytes of records are gone: there is room for others.
    pub(super) fn left(&self, bytes: u64) {
        let before = self.bytes_before.load(Ordering::Relaxed);
        self.bytes_before
            .fetch_sub(bytes.min(before), Ordering::Relaxed);
        self.freed.make();
    }

    /// Whether files are there still that a call before could not remove.
    pub(crate) fn has_stuck(&self) -> bool {
        !self.segments.removing().stuck.is_empty()
    }
}
