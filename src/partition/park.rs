//! Parking: a log that is settled lets go of its files, and takes them up when it is written to.
//!
//! The log itself stays, with all that it knows: cursors, acks and the flusher go on as before. A
//! descriptor is closed only behind a sync of everything written through it, since closing it may
//! lose the kernel's word on what could not be written. Readers open the segment for themselves,
//! and those who stood in the appender's view of it move over: see [`Segment::retire`].
//!
//! [`Segment::retire`]: crate::segment::Segment::retire

use std::sync::Arc;

use super::appender::Active;
use super::log::Log;
use super::mark::Mark;
use crate::error::{Error, Result};
use crate::flush::Next;
use crate::format::Identity;
use crate::sync::Ordering;
use crate::sys::Access;

/// An append needs the log's files, and has had to wait for some: until it is through they are not
/// let go of. Else two files that it needs could push each other out for ever.
pub(crate) struct Wanted<'a>(&'a Log);

impl<'a> Wanted<'a> {
    pub(super) fn by(log: &'a Log) -> Wanted<'a> {
        log.wanted.fetch_add(1, Ordering::AcqRel);
        Wanted(log)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.wanted.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Log {
    /// The log is in use. It mostly was before: looking costs the other appenders nothing.
    pub(super) fn mark_used(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the log was used since this was asked last.
    pub(crate) fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Settles the log and lets go of its files; whether it has. One that is in use right now,
    /// whose round somebody has asked for, or that has failed keeps them.
    pub(crate) fn park(self: &Arc<Self>) -> bool {
        let holds = self.ledger.holds_files() || self.shelf.has_spare();
        if !holds || self.wanted.load(Ordering::Acquire) > 0 {
            return false;
        }
        let mut parked = false;
        self.setting.flusher.instead(self.as_dirty(), || {
            if self.gate.is_over() {
                return Next::Rest;
            }
            let settled = self.direct(true, true);
            let settled = settled.and_then(|next| {
                let slot = self.slot_at_end(&mut self.progress(), &self.ledger.read());
                slot.map(|()| next)
            });
            match settled {
                Ok(next) => {
                    parked = self.let_go_of_files();
                    next
                }
                Err(cause) => {
                    self.poison(cause);
                    Next::Rest
                }
            }
        });
        parked
    }

    /// Lets go of the files of a log that has just been settled, under its claim: nothing waits
    /// here.
    fn let_go_of_files(&self) -> bool {
        let progress = self.progress();
        let Ok(mut appender) = self.appender.try_lock() else {
            return false;
        };
        let spare = self.shelf.park();
        let Some(active) = appender.active.as_ref() else {
            return spare;
        };
        // A segment that is over has to be sealed at close.
        let settled = progress.covers(appender.mark.next, active.segment.number());
        if active.is_over() || !settled {
            return spare;
        }
        let links = self.segments.now();
        let parked = |link: &Arc<_>| super::list::Link::park(link, &active.segment, appender.mark);
        if !links.last().is_some_and(parked) {
            return spare;
        }
        self.ledger.parked();
        let active = appender.active.take();
        appender.parked = active.as_ref().map(|active| active.segment.identity);
        drop(appender);
        tracing::debug!(log = self.site.log, "parked");
        true
    }

    /// Whether its files have to be opened before it is written to.
    pub(super) fn is_parked(&self) -> bool {
        self.lock().parked.is_some()
    }

    /// Opens the files of a parked log again. That waits for the disk, so nobody holds a lock
    /// meanwhile; who comes second finds it done.
    pub(super) fn unpark(&self, identity: Identity, mark: Mark) -> Result<()> {
        let path = self.site.segment(identity.number);
        let opened = self.site.storage.open(&path, Access::Write);
        let file = opened.map_err(|error| Error::opening("open", &path, error));
        let backend = self.setting.backend;
        let active =
            file.and_then(|file| Active::resume(&self.site, file, identity, backend, mark));
        let active = match active {
            Ok(active) => active,
            Err(error) => {
                // Of a topic that was deleted meanwhile nothing is there.
                self.gate.is_there(&self.site)?;
                return Err(error);
            }
        };
        let mut appender = self.lock();
        self.check_kept()?;
        if appender.parked != Some(identity) || appender.mark != mark {
            return Ok(());
        }
        if let Some(link) = self.segments.now().last() {
            link.resume(&active.segment);
        }
        self.ledger.resumed(&active.segment);
        appender.parked = None;
        appender.active = Some(active);
        Ok(())
    }
}
