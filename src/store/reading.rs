//! A store that another process owns, or nobody does: its catalog as the journal says, and how its
//! followers sleep.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::inner::{Inner, TopicInner};
use super::inspect::Place;
use super::log_cell::{promises, unread};
use super::open::lived_in;
use crate::board::{Lookout, Seen};
use crate::error::{Error, Result};
use crate::journal::{Fold, Read};
use crate::options::Visibility;
use crate::partition::{Log, Promises, Says};
use crate::sync::bell;
use crate::sys::board::{MOST_WORDS, sleep, until, wake};

/// The log id of the journal.
const JOURNAL: u64 = 0;
/// A sleeper looks so often whether the board it sleeps on is still the one that counts.
const NAP: Duration = Duration::from_millis(2500);
/// After so many naps it looks wherever else the board could be.
const NAPS: u32 = 20;
/// Where there is no board to sleep on, files are looked at so often, at first and in the end.
const SOON: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_millis(100);
/// What the journal said counts for so long where no board tells that it has grown.
const FRESH: Duration = Duration::from_millis(200);

/// What a store for reading only has in place of an owner's lock and journal.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(super) lookout: Arc<Lookout>,
    said: Mutex<Said>,
    /// What the catalog has been brought to.
    adopted: Mutex<Arc<Read>>,
    store: Weak<Inner>,
}

/// What the journal said.
#[derive(Debug)]
struct Said {
    read: Arc<Read>,
    /// How far the journal was durable before it was read, as the board said.
    mark: Option<u64>,
    when: Instant,
}

impl Reading {
    pub(super) fn new(lookout: Arc<Lookout>, place: &Place<'_>) -> Result<Reading> {
        let mark = journal_mark(&lookout);
        let read = Arc::new(place.journal()?);
        let when = Instant::now();
        let adopted = Mutex::new(Arc::clone(&read));
        let said = Mutex::new(Said { read, mark, when });
        Ok(Reading {
            lookout,
            said,
            adopted,
            store: Weak::new(),
        })
    }

    /// The same, of this store.
    pub(super) fn of(mut self, store: &Weak<Inner>) -> Reading {
        self.store = Weak::clone(store);
        self
    }

    /// What the store says about one of its logs.
    pub(super) fn says(&self, log: u64) -> Box<dyn Says> {
        let store = Weak::clone(&self.store);
        Box::new(OfLog { store, log })
    }

    /// What the journal said when the store was opened.
    pub(super) fn first(&self) -> Arc<Read> {
        Arc::clone(&self.said().read)
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        // A look that panicked has changed nothing.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the journal says, read anew if it has grown since.
    pub(super) fn read(&self, store: &Inner) -> Result<Arc<Read>> {
        let mut said = self.said();
        let mark = journal_mark(&self.lookout);
        let same = match mark {
            Some(_) => mark == said.mark,
            None => said.when.elapsed() < FRESH,
        };
        if !same {
            let read = Arc::new(place(store).journal()?);
            let when = Instant::now();
            *said = Said { read, mark, when };
        }
        Ok(Arc::clone(&said.read))
    }

    /// Brings the catalog to what the journal says.
    pub(super) fn refresh(&self, store: &Inner) -> Result<()> {
        if self.lookout.watch().is_none_or(|watch| !watch.is_live()) {
            self.lookout.look();
        }
        // What is read under this lock is no older than what was adopted under it.
        let adopted = self.adopted.lock();
        let mut adopted = adopted.unwrap_or_else(PoisonError::into_inner);
        let read = self.read(store)?;
        if !Arc::ptr_eq(&adopted, &read) {
            store.journal.look_at(&read.fold);
            adopt(store, &read.fold);
            *adopted = read;
        }
        Ok(())
    }

    /// Sleeps until one of the logs may have more for a reader, or the time is up; or for no reason.
    /// `rung` is asked after the sleeper has announced itself.
    pub(super) fn sleep(
        &self,
        store: &Inner,
        logs: &[&Arc<Log>],
        visibility: Visibility,
        (deadline, nap): (Option<Instant>, &Nap),
        rung: impl Fn() -> bool,
    ) {
        let watch = self.lookout.watch();
        let Some(watch) = watch.filter(|watch| watch.is_live() && watch.is_writable()) else {
            std::thread::sleep(until(deadline, nap.pause()));
            return self.look_around(store);
        };
        let seen: Vec<Option<Arc<Seen>>> = logs.iter().map(|log| log.entry_seen()).collect();
        let bells = seen.iter().flatten().map(|seen| seen.bell(visibility));
        let mut words: Vec<&AtomicU32> = bells.collect();
        // A log that its owner does not have open, or too many of them: it tells when that changes.
        let all = words.len() == logs.len() && words.len() <= MOST_WORDS;
        if !all {
            words.truncate(MOST_WORDS - 1);
            words.push(watch.bell());
        }
        let words: Vec<_> = words
            .iter()
            .map(|word| (*word, bell::announce(*word)))
            .collect();
        if rung() {
            return;
        }
        let begin = Instant::now();
        // Words that there was no room for are looked at by and by.
        let nap_of = if words.len() < MOST_WORDS { NAP } else { LATER };
        sleep(&words, until(deadline, nap_of));
        if !all || begin.elapsed() >= NAP && (self.lookout.is_lost() || nap.is_long()) {
            self.look_around(store);
        }
    }

    /// The process that owns the store now, where that is known.
    pub(super) fn owner(&self) -> Option<u32> {
        let holder = self.lookout.owner().ok().flatten()?;
        holder.pid
    }

    /// The board that is followed.
    pub(super) fn board(&self) -> Option<PathBuf> {
        let watch = self.lookout.watch().filter(|watch| watch.is_live())?;
        Some(watch.path().to_owned())
    }

    /// Looks for the board where it may be by now, and at the catalog.
    fn look_around(&self, store: &Inner) {
        self.lookout.look();
        if let Err(error) = self.refresh(store) {
            tracing::debug!(%error, "the journal cannot be read now");
        }
    }

    /// Wakes this process's sleepers, so that they look whether to stop; others' look in vain.
    pub(super) fn ring(&self, logs: impl Iterator<Item = Arc<Log>>) {
        let Some(watch) = self.lookout.watch().filter(|watch| watch.is_writable()) else {
            return;
        };
        let ring = |word: &AtomicU32| bell::ring(word, || wake(word));
        std::sync::atomic::fence(Ordering::SeqCst);
        for seen in logs.filter_map(|log| log.entry_seen()) {
            ring(seen.bell(Visibility::Written));
            ring(seen.bell(Visibility::Durable));
        }
        ring(watch.bell());
    }
}

/// How far the journal is durable, where its owner shows it.
fn journal_mark(lookout: &Lookout) -> Option<u64> {
    let entry = lookout.watch()?.find(JOURNAL)?;
    entry.read().map(|marks| marks.durable)
}

fn place(store: &Inner) -> Place<'_> {
    Place {
        storage: &store.options.storage,
        root: &store.root,
        id: store.id,
    }
}

/// The topics as the journal has them: what is new comes in, what is gone goes.
fn adopt(store: &Inner, fold: &Fold) {
    let mut gone = Vec::new();
    {
        let mut topics = store.topics();
        topics.retain(|_, topic| {
            let stays = fold.topic(topic.id).is_some();
            if !stays {
                gone.push(Arc::clone(topic));
            }
            stays
        });
        for state in fold.topics() {
            let topic = topics.entry(state.name.clone());
            let topic = topic.or_insert_with(|| TopicInner::new(state));
            topic.set_settings(state.settings.clone());
            topic.finished.fetch_or(state.finished, Ordering::AcqRel);
            if state.finished {
                topic.open_logs().for_each(|log| log.will_end());
            }
        }
    }
    for topic in gone {
        topic.deleted.store(true, Ordering::Release);
        // One that is being opened now looks for itself.
        topic.open_logs().for_each(|log| log.is_gone());
        topic.bells.ring();
    }
}

/// What a store says about one of its logs.
#[derive(Debug)]
struct OfLog {
    store: Weak<Inner>,
    log: u64,
}

impl Says for OfLog {
    fn promises(&self) -> Result<(Promises, bool)> {
        let store = self.store.upgrade().ok_or(Error::Closed)?;
        let reading = store.reading.as_ref().ok_or(Error::Closed)?;
        let read = reading.read(&store)?;
        if let Some(cause) = unread(&read.pending, self.log) {
            return Err(Error::clone(&cause));
        }
        let same_boot = lived_in(&read.fold, store.options.storage.boot());
        let promises = promises(&read.fold, self.log, read.fold.closed(), &read.pending);
        Ok((promises, same_boot))
    }
}

/// How long a sleeper has slept in vain.
#[derive(Debug, Default)]
pub(super) struct Nap(AtomicU32);

impl Nap {
    /// It has found something.
    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// How long to sleep before files are looked at: longer each time.
    fn pause(&self) -> Duration {
        let naps = self.0.fetch_add(1, Ordering::Relaxed).min(16);
        SOON.saturating_mul(1 << naps).min(LATER)
    }

    fn is_long(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) % NAPS == NAPS - 1
    }
}

/// Rings this process's bells for futures while a follower of another process's log has any: a thread
/// that sleeps in their place. It ends when the follower does, or soon after.
pub(super) fn watch_for(
    store: &Arc<Inner>,
    logs: Vec<Arc<Log>>,
    visibility: Visibility,
    stop: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let store = Arc::downgrade(store);
    let watch = move || {
        let nap = Nap::default();
        while !stop.load(Ordering::Acquire) {
            let Some(store) = store.upgrade() else {
                return;
            };
            let Some(reading) = store.reading.as_ref().filter(|_| !store.is_closed()) else {
                return;
            };
            let logs: Vec<_> = logs.iter().collect();
            let before: Vec<_> = logs.iter().map(|log| log.visible(visibility)).collect();
            let rung = || {
                let now = logs.iter().map(|log| log.visible(visibility));
                stop.load(Ordering::Acquire) || store.is_closed() || now.ne(before.iter().copied())
            };
            reading.sleep(&store, &logs, visibility, (None, &nap), rung);
            // Coming by what is new rings for it.
            logs.iter().for_each(|log| log.catch_up());
        }
    };
    let thread = std::thread::Builder::new().name("tidelog-watch".to_owned());
    thread.spawn(watch).map(drop)
}
