//! The journal: an internal log, and the fold over it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::{Event, Owner, RedoFiles};
use super::fold::Fold;
use super::read::{Read, read};
use super::record::transaction;
use super::redo::Pending;
use super::rounds::{Shared, stamp, writables};
use super::side;
use crate::error::{Error, Result};
use crate::flush::RedoSink;
use crate::format::TopicName;
use crate::options::{Durability, MAX_RECORD_BYTES};
use crate::partition::{Limits, Log, Patience, Promises, RecordedEnd, Setting, Site};
use crate::sys::Storage;

/// The log id of the journal.
const LOG: u64 = 0;

pub(super) const LIMITS: Limits = Limits {
    first_segment: 64 << 10,
    max_segment: 8 << 20,
    unsettled: 16 << 20,
    total: None,
    durability: Durability::Commit,
    full_wait: None,
    retained: false,
    ahead: true,
};

/// What the journal may hold beyond its recorded end: no recorded end knows of it, so its own
/// slots and this are all that bounds the walk: a transaction may be as long as a batch.
pub(super) const PROMISES: Promises = Promises {
    end: None,
    clean: false,
    floor: 0,
    start: None,
    exists: false,
    reach: 2 * MAX_RECORD_BYTES,
    redo: Vec::new(),
};

/// The store's own log: every durable fact that is not a record.
#[derive(Debug)]
pub(crate) struct Journal(pub(super) Arc<Shared>);

/// What is written so far, durable or not.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) fold: Fold,
    /// Bytes of events since the newest snapshot.
    pub(super) since: u64,
    /// The bytes of that snapshot.
    pub(super) snapshot: u64,
    /// Bytes of whatever that had been written when that was taken.
    pub(super) written: u64,
    /// A snapshot of which parts are still to be written.
    pub(super) unfinished: Option<Unfinished>,
}

impl Book {
    /// A fact was written.
    fn state(&mut self, offset: u64, event: &Event) {
        if let Err(flaw) = self.fold.apply(offset, event) {
            tracing::error!(%flaw, ?event, "the journal states what cannot be");
        }
    }
}

/// A snapshot on its way.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) folds_to: u64,
    /// Bytes of whatever that had been written when it was taken.
    pub(super) written: u64,
    pub(super) bytes: u64,
    pub(super) parts: VecDeque<Vec<u8>>,
}

/// A journal as an owner found it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) journal: Journal,
    /// The state that the last owner left.
    pub(crate) before: Fold,
    /// What logs may lack that is safe in the journal.
    pub(crate) pending: Pending,
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
        let epoch = last.max(found.epoch).checked_add(1);
        let spent = || site.mismatch(&site.dir, "no epoch follows the last one");
        setting.epoch = epoch.ok_or_else(spent)?;
        setting.limits = LIMITS;
        // It is only ever read through its files, so its tail is cut in place in any boot.
        setting.same_boot = false;
        let epoch = setting.epoch;
        setting.pins.count(found.written);
        for (log, pending) in &found.pending {
            if let Some(from) = pending.from {
                setting.pins.hold(&[*log], from, pending.bytes());
            }
        }
        let log = Log::open(site, setting.clone(), &PROMISES)?;
        let book = Book {
            fold: found.fold.clone(),
            since: found.since,
            snapshot: found.snapshot,
            written: 0,
            unfinished: None,
        };
        let journal = Journal(Shared::new(log, Mutex::new(book), &setting));
        journal.commit(&[Event::Epoch(Owner { epoch, ..owner })])?;
        journal.log().make_ahead();
        let rides: Arc<dyn RedoSink> = Arc::clone(&journal.0) as _;
        setting.flusher.set_journal(rides);
        Ok(Opened {
            journal,
            damaged: found.damaged_records(),
            before: found.fold,
            pending: found.pending,
            epoch,
        })
    }

    /// The journal of a store that is only read: it says what the fold does, and takes no facts.
    pub(crate) fn looked_at(site: Site, setting: &Setting, fold: Fold) -> Journal {
        let book = Book {
            fold,
            since: 0,
            snapshot: 0,
            written: 0,
            unfinished: None,
        };
        let log = Log::closed(site, setting.clone());
        Journal(Shared::new(log, Mutex::new(book), setting))
    }

    /// From now on it says this.
    pub(crate) fn look_at(&self, fold: &Fold) {
        self.book().fold = fold.clone();
    }

    fn log(&self) -> &Arc<Log> {
        &self.0.log
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A fold that panicked half-way has refused nothing and written nothing.
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look at the state as it is written, durable or not.
    pub(crate) fn fold<R>(&self, look: impl FnOnce(&Fold) -> R) -> R {
        look(&self.book().fold)
    }

    /// The state as it is written, and the offset below which the journal has to be durable for all of
    /// it to be.
    pub(crate) fn standing(&self) -> (Fold, u64) {
        let book = self.book();
        (book.fold.clone(), self.log().written())
    }

    /// States facts, and returns once they are durable: all of them, or after a crash none.
    pub(crate) fn commit(&self, events: &[Event]) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let end = self.state(events)?;
        self.wait(end)
    }

    /// As [`Journal::wait`], without blocking.
    pub(crate) async fn until(&self, end: u64) -> Result<()> {
        let last = end.saturating_sub(1);
        let durable = self.log().until_durable(last..end).await;
        durable.map_err(failed)
    }

    /// Waits until everything below an offset is durable.
    pub(crate) fn wait(&self, end: u64) -> Result<()> {
        let last = end.saturating_sub(1);
        self.log().wait_durable(last..end).map_err(failed)
    }

    /// The files of redo of these logs, for [`Journal::discard`]: taken before an event is stated
    /// by which they are not named any more.
    pub(crate) fn redo_files(&self, logs: &[u64]) -> Vec<RedoFiles> {
        self.fold(|fold| {
            let of_logs = fold.redo_files().filter(|it| logs.contains(&it.log));
            of_logs.cloned().collect()
        })
    }

    /// Moves those that cannot be read to the quarantine: the logs go on without them.
    pub(crate) fn set_aside(&self, files: &[RedoFiles], epoch: u32) -> Result<()> {
        let mut files = files.iter();
        files.try_for_each(|it| side::set_aside(self.log().site(), it.log, &it.nonces, epoch))
    }

    /// Removes files that are not named any more, durably so.
    pub(crate) fn discard(&self, files: &[RedoFiles]) {
        for files in files {
            side::discard(self.log().site(), files.log, &files.nonces);
        }
    }

    /// Removes the files of redo that an owner before has left: `fold` is the state it left.
    pub(crate) fn tidy(&self, fold: &Fold) {
        side::tidy(self.log().site(), fold);
    }

    /// States a fact that need not be durable at once: it becomes so with the next commit.
    pub(crate) fn note(&self, event: Event) -> Result<()> {
        self.state(&[event]).map(|_| ())
    }

    /// States facts, which are durable once everything below the offset returned is: for
    /// [`Journal::wait`], or [`Journal::until`].
    pub(crate) fn state(&self, events: &[Event]) -> Result<u64> {
        let payloads: Vec<Vec<u8>> = events.iter().map(Event::encode).collect();
        let mut book = self.book();
        let reserve = match events.iter().any(is_owed) {
            true => 0,
            false => self.0.reserve(),
        };
        let first = self.append(&mut book, &payloads, reserve).map_err(failed)?;
        let end = first + payloads.len() as u64;
        for (offset, event) in (first..end).zip(events) {
            book.state(offset, event);
        }
        book.since += self.0.count(&payloads);
        Ok(end)
    }

    /// States facts in one record with a page of redo, which `redo` writes: once everything below
    /// the offset returned is [durable](Journal::wait), all of it is, and after a crash all of it or
    /// nothing. `keep` is told where the record lies, and its bytes, before anything there could be let go
    /// of.
    ///
    /// # Errors
    ///
    /// [`Error::InDoubt`] if it may have been written all the same.
    pub(crate) fn transact(
        &self,
        events: &[Event],
        redo: impl FnOnce(&mut Vec<u8>) -> Result<()>,
        keep: impl FnOnce(u64, u64),
    ) -> Result<u64> {
        let mut payload = transaction(events);
        redo(&mut payload)?;
        let payloads = [payload];
        let mut book = self.book();
        let offset = self.append(&mut book, &payloads, self.0.reserve())?;
        keep(offset, self.0.count(&payloads));
        events.iter().for_each(|event| book.state(offset, event));
        Ok(offset + 1)
    }

    /// Appends payloads as one batch, behind which so many bytes stay free where there is no next
    /// segment yet; the offset of the first.
    fn append(&self, book: &mut Book, payloads: &[Vec<u8>], keep: u64) -> Result<u64> {
        let mut records = writables(payloads)?;
        let log = self.log();
        let write =
            |records: &mut Vec<_>| log.write_keeping(records, stamp, keep, Patience::default());
        let mut written = write(&mut records);
        if matches!(written, Err(Error::StorageFull { .. })) && self.log().lacks_room() {
            self.0.make_room(book)?;
            written = write(&mut records);
        }
        let written = written.inspect_err(|error| {
            if let Error::InDoubt { cause, .. } = error {
                // What is acknowledged from here on could be undone by a fact that turns up.
                self.log().poison(Error::clone(cause));
            }
        });
        Ok(written?.start)
    }

    /// Bytes that the journal holds on disk may not grow without bound: for tests.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn first(&self) -> u64 {
        self.log().first()
    }

    /// Refuses further facts, and makes those that were stated durable.
    pub(crate) fn drain(&self) -> Result<()> {
        self.log().drain()
    }

    /// Settles the drained journal, when no crew is at work any more.
    pub(crate) fn finish_close(&self) -> Result<Option<RecordedEnd>> {
        self.log().finish_close()
    }

    /// Nothing becomes durable by it any more.
    pub(crate) fn fail(&self, cause: Error) {
        self.log().poison(cause);
    }

    /// The failure after which nothing can be written any more.
    pub(crate) fn failure(&self) -> Option<Arc<Error>> {
        self.log().gate().failure()
    }
}

/// Whether a fact may take the room that the others leave: what an owner begins and ends with, and what
/// frees space.
fn is_owed(event: &Event) -> bool {
    matches!(
        event,
        Event::Epoch(_) | Event::Closed { .. } | Event::TopicDeleted { .. }
    )
}

/// A failed journal is a failed store.
pub(crate) fn failed(error: Error) -> Error {
    match error {
        Error::Failed { cause, .. } | Error::InDoubt { cause, .. } => Error::StoreFailed { cause },
        other => other,
    }
}
