//! The journal: an internal log, and the fold over it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::{Event, Owner};
use super::fold::Fold;
use super::read::{Read, read};
use super::snapshot::{Snapshot, should_snapshot};
use crate::error::{Error, Result};
use crate::format::{Parts, TopicName};
use crate::partition::{Limits, Log, Promises, RecordedEnd, Setting, Site};
use crate::segment::Writable;
use crate::sys::Storage;

/// The log id of the journal.
const LOG: u64 = 0;

const LIMITS: Limits = Limits {
    first_segment: 64 << 10,
    max_segment: 8 << 20,
    unsettled: 16 << 20,
    total: None,
};

/// What the journal may hold beyond its recorded end: no recorded end knows of it, so its own
/// slots and this are all that bounds the walk.
const PROMISES: Promises = Promises {
    end: None,
    clean: false,
    floor: 0,
    start: None,
    exists: false,
    reach: 16 << 20,
};

/// The store's own log: every durable fact that is not a record.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Arc<Log>,
    book: Mutex<Book>,
}

/// What is written so far, durable or not.
#[derive(Debug)]
struct Book {
    fold: Fold,
    /// Bytes of records since the newest snapshot.
    since: u64,
    /// The bytes of that snapshot.
    snapshot: u64,
}

/// A journal as an owner found it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) journal: Journal,
    /// The state that the last owner left.
    pub(crate) before: Fold,
    /// The epoch of this owner.
    pub(crate) epoch: u32,
    /// Records that could not be read.
    pub(crate) damaged: usize,
}

/// Where the journal lies.
pub(crate) fn site(storage: &Arc<dyn Storage>, root: &Path, store: [u8; 16]) -> Site {
    Site {
        storage: Arc::clone(storage),
        dir: root.join("journal"),
        quarantine: root.join("quarantine"),
        store,
        log: LOG,
        topic: TopicName::JOURNAL,
        partition: 0,
    }
}

/// What the journal says, without taking anything over: reads only.
pub(crate) fn peek(site: &Site) -> Result<Read> {
    read(site, &PROMISES)
}

impl Journal {
    /// Reads the journal, takes it over, and makes the new owner's epoch durable before anything
    /// else is written.
    pub(crate) fn open(site: Site, mut setting: Setting, owner: Owner) -> Result<Opened> {
        let found = read(&site, &PROMISES)?;
        let last = found.fold.owner().map_or(0, |owner| owner.epoch);
        setting.epoch = last.max(found.epoch) + 1;
        setting.limits = LIMITS;
        // It is only ever read through its files, so its tail is cut in place in any boot.
        setting.same_boot = false;
        let epoch = setting.epoch;
        let log = Log::open(site, setting, &PROMISES)?;
        let journal = Journal {
            log,
            book: Mutex::new(Book {
                fold: found.fold.clone(),
                since: found.since,
                snapshot: found.snapshot,
            }),
        };
        journal.commit(&[Event::Epoch(Owner { epoch, ..owner })])?;
        Ok(Opened {
            journal,
            before: found.fold,
            epoch,
            damaged: found.damaged.len(),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A fold that panicked half-way has refused nothing and written nothing.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look at the state as it is written, durable or not.
    pub(crate) fn fold<R>(&self, look: impl FnOnce(&Fold) -> R) -> R {
        look(&self.book().fold)
    }

    /// States facts, and returns once they are durable: all of them, or after a crash none.
    pub(crate) fn commit(&self, events: &[Event]) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let end = self.write(events)?;
        self.wait(end)?;
        if let Err(error) = self.snapshot_if_due() {
            // The facts stand; the next commit tries again.
            tracing::warn!(%error, "no snapshot of the journal");
        }
        Ok(())
    }

    /// States a fact that need not be durable at once: it becomes so with the next commit.
    pub(crate) fn note(&self, event: Event) -> Result<()> {
        self.write(&[event]).map(|_| ())
    }

    fn write(&self, events: &[Event]) -> Result<u64> {
        let payloads: Vec<Vec<u8>> = events.iter().map(Event::encode).collect();
        let mut book = self.book();
        let first = self.append(&payloads)?;
        let end = first + payloads.len() as u64;
        for (offset, event) in (first..end).zip(events) {
            if let Err(flaw) = book.fold.apply(offset, event) {
                tracing::error!(%flaw, ?event, "the journal states what cannot be");
            }
        }
        book.since += bytes(&payloads);
        Ok(end)
    }

    /// Appends payloads as one batch; the offset of the first.
    fn append(&self, payloads: &[Vec<u8>]) -> Result<u64> {
        let mut records = Vec::with_capacity(payloads.len());
        for payload in payloads {
            let parts = Parts {
                payload,
                ..Parts::default()
            };
            let length = parts.frame_len()?;
            records.push(Writable {
                parts,
                length,
                timestamp: 0,
            });
        }
        let written = self.log.write(&mut records, |records, now| {
            for record in records {
                record.timestamp = now;
            }
        });
        written.map(|offsets| offsets.start).map_err(|error| {
            if let Error::InDoubt { cause, .. } = &error {
                // What is acknowledged from here on could be undone by a fact that turns up.
                self.log.poison(Error::clone(cause));
            }
            failed(error)
        })
    }

    fn wait(&self, end: u64) -> Result<()> {
        self.log
            .wait_durable(end.saturating_sub(1)..end)
            .map_err(failed)
    }

    /// Writes a snapshot when enough has been written since the last one, and lets go of the
    /// segments that it makes unneeded.
    fn snapshot_if_due(&self) -> Result<()> {
        let (folds_to, end) = {
            let mut book = self.book();
            if !should_snapshot(book.since, book.snapshot) {
                return Ok(());
            }
            let folds_to = self.log.written();
            let parts = Snapshot::of(&book.fold, folds_to);
            let mut end = folds_to;
            for part in &parts {
                end = self.append(std::slice::from_ref(part))? + 1;
            }
            book.since = 0;
            book.snapshot = bytes(&parts);
            (folds_to, end)
        };
        self.wait(end)?;
        self.log.remove_below(folds_to)
    }

    /// Bytes that the journal holds on disk may not grow without bound: for tests.
    #[cfg(test)]
    pub(crate) fn first(&self) -> u64 {
        self.log.first()
    }

    /// Refuses further facts, and makes those that were stated durable.
    pub(crate) fn drain(&self) -> Result<()> {
        self.log.drain()
    }

    /// Settles the drained journal, when no crew is at work any more.
    pub(crate) fn finish_close(&self) -> Result<Option<RecordedEnd>> {
        self.log.finish_close()
    }

    /// The failure after which nothing can be written any more.
    pub(crate) fn failure(&self) -> Option<Arc<Error>> {
        self.log.gate().failure()
    }
}

fn bytes(payloads: &[Vec<u8>]) -> u64 {
    payloads.iter().map(|payload| payload.len() as u64).sum()
}

/// A failed journal is a failed store.
fn failed(error: Error) -> Error {
    match error {
        Error::Failed { cause, .. } | Error::InDoubt { cause, .. } => Error::StoreFailed { cause },
        other => other,
    }
}
