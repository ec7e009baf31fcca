//! What retention has to know of a log, and what it does to it.

use std::sync::Arc;

use super::list::Link;
use super::log::Log;
use super::park::Wanted;
use super::waiting::Patience;
use crate::error::Result;
use crate::flush::Next;
use crate::segment::Room;
use crate::sync::Ordering;

/// The smallest batch there is: with room for that a segment can take over.
const LEAST: Room = Room {
    bytes: 64,
    records: 1,
    keep: 0,
};

impl Log {
    /// Ends the last segment, if it still is that of this number: another one takes over. Whether this
    /// call has ended it.
    pub(crate) fn end_segment(self: &Arc<Self>, number: u32) -> Result<bool> {
        let mut wanted = None;
        loop {
            self.check_kept()?;
            self.mark_used();
            {
                let mut appender = self.lock();
                self.check_kept()?;
                if appender.last.is_none_or(|last| last.number != number) {
                    return Ok(false);
                }
                if appender.parked.is_none() && self.roll(&mut appender, LEAST)? {
                    self.changed.store(true, Ordering::Release);
                    return Ok(true);
                }
            }
            wanted.get_or_insert_with(|| Wanted::by(self));
            self.wait_ready(LEAST, &mut Patience::default())?;
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

    /// Whether every segment below that number is safe in its own file, and so is the header of the one
    /// that follows them.
    pub(crate) fn is_settled_below(&self, number: u32) -> bool {
        // Who leaves the ledger was sealed, behind a sync of all that followed it. One that takes over
        // from nobody there (the last segment had ended before) has had no sync.
        let open = self.ledger.read().open;
        let mut numbers = open.iter().map(|open| open.segment.number());
        let begins = self.begins.load(Ordering::Acquire);
        numbers.all(|it| it > number || it == number && begins > u64::from(number))
    }

    /// Sees to it that the header of a segment is safe; the caller has claimed the log.
    fn settle_header(&self, number: u32) -> Result<()> {
        let mut progress = self.progress();
        let open = self.ledger.read().open;
        if let Some(open) = open.iter().find(|it| it.segment.number() == number)
            && !progress.has_header(number)
        {
            self.sync_file(&open.segment)?;
            progress.safe_header(number);
        }
        self.begins
            .fetch_max(u64::from(number) + 1, Ordering::AcqRel);
        Ok(())
    }

    /// Sees to it that it is so. Whoever waits for records that this makes durable is woken by it, so no
    /// lock may be held.
    pub(crate) fn settle_below(self: &Arc<Self>, number: u32) -> Result<()> {
        if self.is_settled_below(number) {
            return Ok(());
        }
        let claims = self.setting.flusher.claim(vec![self.as_dirty()]);
        self.check_kept()?;
        let settled = self.direct(true, true);
        let settled = settled.and_then(|next| self.settle_header(number).map(|()| next));
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
        let pairs = links.iter().zip(links.iter().skip(1)).take(gone.len());
        let bytes = pairs
            .filter(|_| limited)
            .map(|(link, next)| link.bytes(&self.site, next));
        let bytes: u64 = bytes.sum();
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
        let synced = self.site.sync_dir(&self.site.dir);
        failed.and(synced)
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
