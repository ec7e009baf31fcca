//! A log as a part of a transaction: its rounds are claimed and its partition is locked, so its
//! next offsets are fixed, until the journal has made the transaction durable.
//!
//! Only then are the frames copied to their segment, and shown as written and durable at once. What
//! the log holds below them, and is not durable yet, goes into the same record of the journal:
//! that there is redo from an offset on proves that everything below was durable.

use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use super::appender::Appender;
use super::log::{Log, Unlocked};
use super::park::Wanted;
use crate::error::{Error, Result, Span};
use crate::flush::{DirtyLog, Next};
use crate::format::Stretch;
use crate::segment::{Room, Writable};
use crate::sync::Ordering;

/// What a log must have before it can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// Less that is not settled.
    Settling,
    /// A segment with room, or the files of a log that has been parked.
    Segment,
    /// Fewer bytes of records: it holds as many as it may.
    Room,
}

/// A log that a transaction holds, with what goes there. Letting go of it undoes it.
pub(crate) struct Held<'a> {
    /// The first to go.
    _mark: HeldMark<'a>,
    log: &'a Arc<Log>,
    appender: MutexGuard<'a, Appender>,
    records: &'a [Writable<'a>],
    room: Room,
    /// Nothing may follow.
    last: bool,
    /// `durable` as it stands, and will stand until this is over.
    durable: u64,
    now: i64,
}

/// Tells appends that must not wait for a transaction that there is one.
struct HeldMark<'a>(&'a Log);

impl<'a> HeldMark<'a> {
    fn set(log: &'a Log) -> HeldMark<'a> {
        log.held.store(true, Ordering::Release);
        HeldMark(log)
    }
}

impl Drop for HeldMark<'_> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
        self.0.released.make();
    }
}

impl Log {
    /// Nobody lets go of the log's files while this is kept.
    pub(crate) fn want_files(&self) -> Wanted<'_> {
        Wanted::by(self)
    }

    /// Locks the log, which the caller has claimed, for these records, or for none; or what it
    /// lacks. If they are the `last` ones, the log is finished with them.
    pub(crate) fn hold<'a>(
        self: &'a Arc<Self>,
        records: &'a [Writable<'a>],
        last: bool,
        now: i64,
    ) -> Result<std::result::Result<Held<'a>, Lacks>> {
        let room = Room::of(records);
        self.mark_used();
        let mut appender = self.lock();
        // Others may have written much since; now they cannot.
        self.lighten();
        if records.is_empty() {
            self.check_end()?;
        } else {
            self.gate.appends(&self.site)?;
            if !self.has_room(room) {
                return Ok(Err(Lacks::Settling));
            }
            if !self.check_total(&appender, room)? {
                return Ok(Err(Lacks::Room));
            }
            let parked = appender.parked.is_some();
            if parked || !appender.fits(room) && !self.roll(&mut appender, room)? {
                return Ok(Err(Lacks::Segment));
            }
        }
        Ok(Ok(Held {
            _mark: HeldMark::set(self),
            log: self,
            appender,
            records,
            room,
            last,
            durable: self.durable.get(),
            now,
        }))
    }

    /// Whether the log can take part without records: what it holds is durable, or can become so.
    fn check_end(&self) -> Result<()> {
        self.gate.reads(&self.site)?;
        match self.gate.failure() {
            Some(_) if !self.is_all_durable() => Err(self.gate.failed(&self.site)),
            _ => Ok(()),
        }
    }

    /// Syncs the log, which the caller has claimed, if it has too much to ride with the journal, or
    /// has ridden there for too long.
    pub(crate) fn lighten(self: &Arc<Self>) {
        if (self.rides() || self.is_all_durable()) && !self.pins_too_much() {
            return;
        }
        self.hurry();
        // What goes wrong closes the gate, which whoever holds the log looks at.
        if self.round() != Next::Rest {
            // It relies on being looked at again.
            self.setting.flusher.request(self.as_dirty());
        }
    }
}

impl<'a> Held<'a> {
    /// The offsets that the records will have.
    pub(crate) fn offsets(&self) -> Range<u64> {
        let first = self.appender.mark.next;
        first..first + self.room.records
    }

    /// The same, for who is told that they are in doubt; `None` if there are no records.
    pub(crate) fn span(&self) -> Option<Span> {
        let offsets = self.offsets();
        (!offsets.is_empty()).then(|| self.log.site.span(offsets))
    }

    /// Whether the transaction carries anything of the log.
    fn rides(&self) -> bool {
        !self.records.is_empty() || !self.log.is_all_durable()
    }

    /// The journal holds what was added to the page, durable or not, from that offset on, in a record
    /// of so many bytes.
    pub(crate) fn keep(&self, from: u64, bytes: u64) {
        if self.rides() {
            let log = [self.log.site.log];
            self.log.setting.pins.hold(&log, from, bytes);
        }
    }

    /// Adds to a page of redo what lies below and is not durable, and the records.
    pub(crate) fn add_redo(&self, page: &mut Vec<u8>) -> Result<()> {
        if self.rides() {
            self.log.add_redo(page)?;
        }
        let Some(active) = self
            .appender
            .active
            .as_ref()
            .filter(|_| self.room.records > 0)
        else {
            return Ok(());
        };
        let number = active.segment.number();
        let malformed = |error| self.log.site.io("encode", number, error);
        let frames = active.frames(self.records, self.durable, self.log.epoch);
        let offsets = self.offsets();
        let stretch = Stretch {
            log: self.log.site.log,
            number,
            nonce: active.segment.identity.nonce,
            first: offsets.start,
            next: offsets.end,
            place: self.appender.mark.place,
        };
        let encoded = stretch.encode(None, &frames.map_err(malformed)?, page);
        encoded.map_err(|flaw| malformed(std::io::Error::other(flaw)))
    }

    /// The journal holds everything durably: copies the records to their segment, shows them as written,
    /// and lets the partition go. Who waits for them is [told](Copied::tell) when no partition is locked
    /// any more, and they show as durable once the claim's owner tells the log that it is kept.
    ///
    /// If they cannot be copied the log fails. The transaction stays: opening the log again finds it
    /// in the journal.
    pub(crate) fn copy(mut self) -> Option<Copied<'a>> {
        let log = self.log;
        let stamp = (self.durable, log.epoch, self.now);
        let below = log.ledger.read();
        if !self.records.is_empty()
            && let Err(error) = log.write_down(&mut self.appender, self.records, self.room, stamp)
        {
            // What was there before is durable all the same.
            log.offered(below);
            log.redo_is_kept();
            log.poison(match error {
                Error::InDoubt { cause, .. } => Error::clone(&cause),
                other => other,
            });
            return None;
        }
        // Before the partition is let go: what others append from here on is in no journal.
        log.offered(log.ledger.read());
        if self.last {
            log.gate.finish();
        }
        let unlocked = log.let_go_of(self.appender);
        Some(Copied { log, unlocked })
    }
}

/// A log whose part of a transaction was copied, and that is to be told.
pub(crate) struct Copied<'a> {
    log: &'a Arc<Log>,
    unlocked: Unlocked,
}

impl Copied<'_> {
    /// Wakes who waits for what was written.
    pub(crate) fn tell(&self) {
        self.log.tell(&self.unlocked);
    }
}
