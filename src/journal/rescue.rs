//! Copying out what a failed log needs, so that it pins no segment of the journal.
//!
//! The files of a log whose own sync failed are not believed until the store is opened again, so
//! what rode with the journal must be kept for it. It is read back from the journal, whose syncs
//! succeeded, and not from the log's mapping, whose pages the kernel may have dropped.
//!
//! A thread of the flusher does it, as though it were the round of one more log, asked for at the end
//! of a round of the journal: if there is none, nothing grows. It must wait for a round of the journal,
//! so it cannot be part of one; and it waits as any appender does, running that round itself if nobody
//! else does, so the flusher comes to no halt, be there one thread or none.

use std::collections::BTreeSet;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use super::event::{Event, RedoFiles};
use super::journal::Journal;
use super::record::Record;
use super::rounds::Shared;
use super::side;
use crate::error::{Error, Result};
use crate::flush::{DirtyLog, Next};
use crate::format::{Redo, RedoFile, Stretch};
use crate::partition::{Cursor, Lent};

/// What is claimed in the flusher while it is done: no log has this id.
const ID: u64 = u64::MAX;
/// When to look again, if this is no time for it.
const LATER: Duration = Duration::from_millis(20);

/// The duty of copying out.
pub(super) struct Rescue(pub(super) Arc<Shared>);

impl Rescue {
    fn run(&self) -> Next {
        let shared = &self.0;
        if let Err(TryLockError::WouldBlock) = shared.book.try_lock() {
            // Who has it may be waiting on this very thread.
            return Next::After(LATER);
        }
        while shared.log.gate().failure().is_none()
            && let Some((log, from)) = shared.pins.orphan()
        {
            if let Err(error) = self.copy_out(log, from) {
                tracing::warn!(log, %error, "the journal keeps what a failed log needs");
                shared.pins.put_off(log);
            }
        }
        Next::Rest
    }

    /// First the file, then the event that names it, and only then is the pin released: at any
    /// moment one of the two copies is safe and will be found.
    fn copy_out(&self, log: u64, from: u64) -> Result<()> {
        let (shared, site) = (&self.0, self.0.log.site());
        let journal = Journal(Arc::clone(shared));
        let Some(before) = journal.fold(|fold| fold.log(log).map(|log| log.redo_files.clone()))
        else {
            shared.pins.release(log);
            return Ok(());
        };
        let mut files = before.clone().unwrap_or(RedoFiles {
            log,
            nonces: Vec::new(),
            next: 0,
        });
        // Of a log that could not be opened, an owner before may have copied out some already: one
        // file is enough then. What cannot be read stays where it is.
        let known = files
            .nonces
            .iter()
            .map(|nonce| side::read(site, log, *nonce));
        let known = known.collect::<Result<Vec<_>>>();
        let together = known.is_ok();
        let known = known.unwrap_or_default().concat();
        let (stretches, end) = self.gather(log, from, known)?;
        let last = stretches.iter().map(|redo| redo.of.next).max();
        let nonce = shared.clock.random();
        let file = RedoFile {
            store: site.store,
            log,
            nonce,
            stretches,
        };
        side::write(site, &file)?;
        if together {
            files.nonces.clear();
        }
        files.nonces.push(nonce);
        files.next = files.next.max(last.unwrap_or(0));
        let named = journal.commit(&[Event::RedoFiles(files)]);
        if let Err(Error::StorageFull { .. } | Error::Io { .. }) = &named {
            // Nothing was stated, and nobody will look for it.
            side::discard(site, log, &[nonce]);
        }
        named?;
        shared.pins.release_below(log, end);
        if let Some(before) = before.filter(|_| together) {
            side::discard(site, log, &before.nonces);
        }
        tracing::info!(log, nonce, "what a failed log needs has a file of its own");
        if journal.fold(|fold| fold.log(log).is_none()) {
            // The topic was deleted meanwhile.
            side::discard(site, log, &[nonce]);
        }
        Ok(())
    }

    /// Adds to what is known what the journal holds for a log from that offset on: up to where it
    /// was read.
    fn gather(&self, log: u64, from: u64, mut all: Vec<Redo>) -> Result<(Vec<Redo>, u64)> {
        let mut seen: BTreeSet<_> = all.iter().map(place_of).collect();
        let end = self.0.log.durable();
        let mut cursor = Cursor::new(Arc::clone(&self.0.log), from);
        let site = self.0.log.site();
        while let Some(Lent { offset, frame, .. }) = cursor.next(end)? {
            match Record::decode(frame.payload()) {
                Ok(Record::Redo(page) | Record::Transaction(_, page)) => {
                    let fresh = |redo: &Redo| redo.of.log == log && seen.insert(place_of(redo));
                    all.extend(page.into_iter().filter(fresh));
                }
                Ok(_) => {}
                // It may have been just what the log needs.
                Err(flaw) => {
                    return Err(site.mismatch(&site.dir, format!("record {offset}: {flaw}")));
                }
            }
        }
        Ok((all, end))
    }
}

/// What tells a stretch from every other one of its log: what has been written to a place of a
/// segment's life never changes.
fn place_of(redo: &Redo) -> (u32, u64, u64, usize) {
    let Stretch {
        number,
        nonce,
        place,
        ..
    } = redo.of;
    (number, nonce, place, redo.frames.len())
}

impl DirtyLog for Rescue {
    fn id(&self) -> u64 {
        ID
    }

    fn round(&self) -> Next {
        self.run()
    }

    fn abandon(&self, thread: &'static str, reason: String) {
        tracing::error!(thread, reason, "the journal keeps what a failed log needs");
    }
}
