//! A partition's log, opened when it is first used.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use super::inner::{Inner, TopicInner};
use super::open::refuse_link;
use super::reading::Reading;
use super::within::Elsewhere;
use crate::error::{Error, Result, Wait};
use crate::format::TopicName;
use crate::journal::{Event, Fold, LogEnd, Pending, RedoFiles, SegmentEnd};
use crate::partition::{Cursor, Log, Mark, Promises, RecordedEnd, Setting, Site};
use crate::sys::{Kind, Storage};

/// Bytes that a frame may take beyond what its topic limits.
const SLACK: u64 = 64 << 10;

/// How often a log is looked at again that changes while it is looked at.
const LOOKS: usize = 16;

/// Where a partition's log is kept once it has been opened.
#[derive(Debug)]
pub(crate) struct LogCell {
    id: u64,
    log: OnceLock<Arc<Log>>,
    opening: Mutex<()>,
    elsewhere: Elsewhere,
    /// Why it could not be opened when that was last tried.
    refused: Mutex<Option<Error>>,
    /// The journal says that it has held durable records.
    settled: AtomicBool,
    /// The time of the first record that is there, and its offset, as last looked for.
    oldest: Mutex<Option<(u64, i64)>>,
}

impl LogCell {
    pub(super) fn new(id: u64) -> LogCell {
        LogCell {
            id,
            log: OnceLock::new(),
            opening: Mutex::new(()),
            elsewhere: Elsewhere::default(),
            refused: Mutex::new(None),
            settled: AtomicBool::new(false),
            oldest: Mutex::new(None),
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Who opens it for others.
    pub(super) fn elsewhere(&self) -> &Elsewhere {
        &self.elsewhere
    }

    pub(super) fn get(&self) -> Option<&Arc<Log>> {
        self.log.get()
    }

    /// The log, if it is open, after waiting for whoever is opening it now.
    pub(super) fn get_settled(&self) -> Option<&Arc<Log>> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        self.get()
    }

    /// The time of the first durable record that is there, if the log is open and has one.
    pub(super) fn oldest(&self) -> Option<i64> {
        let log = self.get()?;
        let first = log.first();
        let mut known = self.oldest.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|(offset, _)| offset != first) {
            let mut cursor = Cursor::new(Arc::clone(log), first);
            let time = match cursor.next(u64::MAX) {
                Ok(found) => found.map(|lent| lent.frame.timestamp()),
                Err(_) => None,
            };
            *known = time.map(|time| (first, time));
        }
        known.map(|(_, time)| time)
    }

    /// Why it takes no appends: it has failed, or could not be opened when that was last tried.
    pub(super) fn failure(&self, topic: &TopicInner, partition: u32) -> Option<Error> {
        if let Some(log) = self.get() {
            let failed = log.gate().failure().is_some();
            return failed.then(|| log.gate().failed(log.site()));
        }
        let refused = self.refused();
        refused.clone().map(|error| named(error, topic, partition))
    }

    fn refused(&self) -> MutexGuard<'_, Option<Error>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recovers the log and opens it. One that cannot be opened is failed, beside healthy ones.
    pub(super) fn open(
        &self,
        store: &Inner,
        topic: &TopicInner,
        partition: u32,
    ) -> Result<Arc<Log>> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = self.get() {
            return Ok(Arc::clone(log));
        }
        // Not whether the journal has failed: its owner recovers a log without it, to read there.
        store.check_not_closed()?;
        topic.check_there()?;
        let since = Instant::now();
        let opened = match &store.reading {
            Some(reading) => self.attach(store, reading, topic, partition),
            None => self.recover(store, topic, partition),
        };
        *self.refused() = opened.as_ref().err().cloned();
        opened.inspect(|log| log.waits().add(Wait::Opening, since))
    }

    fn recover(&self, store: &Inner, topic: &TopicInner, partition: u32) -> Result<Arc<Log>> {
        let promises = {
            let pending = store.pending();
            if let Some(cause) = unread(&pending, self.id) {
                store.setting.pins.fail(self.id);
                return Err(named(Error::clone(&cause), topic, partition));
            }
            let of_log = |fold: &Fold| promises(fold, self.id, store.clean, &pending);
            store.journal.fold(of_log)
        };
        self.settled.store(promises.exists, Ordering::Release);
        let setting = Setting {
            limits: topic.limits(),
            finished: topic.finished.load(Ordering::Acquire),
            bells: Arc::clone(&topic.bells),
            ..store.setting.clone()
        };
        let storage: Arc<dyn Storage> = Arc::clone(&store.files) as _;
        let place = (&*topic.name, partition, self.id);
        let site = site(&storage, &store.root, store.id, place)?;
        refuse_links(&site)?;
        let log = Log::open(site, setting, &promises);
        // Until it can be opened, the journal shall not have to keep what it needs.
        let log = log.inspect_err(|_| store.setting.pins.fail(self.id));
        let log = log.map_err(|cause| match cause {
            cause @ (Error::StorageFull { .. } | Error::Io { .. }) => cause,
            cause => named(cause, topic, partition),
        })?;
        store.files.watch(&log);
        // All that the journal held for it is in its own files now.
        store.pending().remove(&self.id);
        store.setting.pins.release(self.id);
        let redo = store.journal.redo_files(&[self.id]);
        if redo.is_empty() {
            if let Some(end) = log.recovered_end() {
                self.note_end(store, &end);
            }
        } else if let Some(end) = log.recorded_end() {
            self.let_go(store, &end, &redo);
        }
        Ok(Arc::clone(self.log.get_or_init(|| log)))
    }

    /// Opens the log for reading only. What its owner changes meanwhile makes it look again.
    fn attach(
        &self,
        store: &Inner,
        reading: &Reading,
        topic: &TopicInner,
        partition: u32,
    ) -> Result<Arc<Log>> {
        let storage: Arc<dyn Storage> = Arc::clone(&store.files) as _;
        let place = (&*topic.name, partition, self.id);
        let site = site(&storage, &store.root, store.id, place)?;
        refuse_links(&site)?;
        let mut looks = 0;
        loop {
            let setting = Setting {
                bells: Arc::clone(&topic.bells),
                ..store.setting.clone()
            };
            let lookout = Arc::clone(&reading.lookout);
            match Log::attach(site.clone(), setting, lookout, reading.says(self.id)) {
                Ok(log) => return self.follow(topic, log),
                Err(error) if looks == LOOKS => return Err(named(error, topic, partition)),
                Err(error) => tracing::debug!(log = self.id, %error, "looked at again"),
            }
            looks += 1;
            reading.refresh(store)?;
            topic.check_there()?;
        }
    }

    /// A log that was opened for reading only is there, and its topic may be gone or finished by now.
    fn follow(&self, topic: &TopicInner, log: Arc<Log>) -> Result<Arc<Log>> {
        let log = Arc::clone(self.log.get_or_init(|| log));
        if topic.finished.load(Ordering::Acquire) {
            log.will_end();
            log.catch_up();
        }
        topic.check_there().inspect_err(|_| log.is_gone())?;
        Ok(log)
    }

    /// Tells the journal where recovery found the end, so that nobody has to look for it again. It
    /// is as true if that cannot be told.
    fn note_end(&self, store: &Inner, end: &RecordedEnd) {
        let ends = vec![stated(self.id, end)];
        if store.check_owner().is_err() {
            return;
        }
        if let Err(error) = store.journal.note(Event::Ends { ends }) {
            tracing::warn!(log = self.id, %error, "the end that was found is not told");
        }
    }

    /// Makes the end durable, behind which the redo files of the log are not needed any more, and
    /// removes them. If that fails they stay, and do no harm.
    fn let_go(&self, store: &Inner, end: &RecordedEnd, redo: &[RedoFiles]) {
        let ends = vec![stated(self.id, end)];
        match store.journal.commit(&[Event::Ends { ends }]) {
            Ok(()) => store.journal.discard(redo),
            Err(error) => tracing::warn!(log = self.id, %error, "the end found is not told"),
        }
    }

    /// Makes everything written so far durable; a log that is not open has written nothing.
    pub(super) fn flush(&self, store: &Inner) -> Result<()> {
        let Some(log) = self.get() else {
            return Ok(());
        };
        log.flush()?;
        if log.durable() > 0 {
            self.note_settled(store);
        }
        Ok(())
    }

    /// Tells the journal, once, that the log has held durable records. They are durable whether
    /// or not that can be told now: if not, the next append tells it.
    pub(super) fn note_settled(&self, store: &Inner) {
        if self.settled.load(Ordering::Acquire) || self.settled.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = store.journal.note(Event::Settled { log: self.id }) {
            tracing::warn!(log = self.id, %error, "that it holds records is not told yet");
            self.settled.store(false, Ordering::Release);
        }
    }
}

/// What is wrong with a partition, as an error that names it.
pub(super) fn named(error: Error, topic: &TopicInner, partition: u32) -> Error {
    match error {
        // It names the partition, or is no matter of this one.
        Error::Failed { .. } | Error::TopicDeleted { .. } | Error::Closed => error,
        cause => Error::Failed {
            topic: topic.name.to_string(),
            partition,
            cause: Arc::new(cause),
        },
    }
}

/// Refuses a symbolic link, or anything but a folder, where the topic's or the log's should be.
pub(super) fn refuse_links(site: &Site) -> Result<()> {
    let topic = site.dir.parent().unwrap_or(&site.dir);
    let mut paths = [topic, &site.dir].into_iter();
    paths.try_for_each(|path| refuse_link(site.storage.as_ref(), path))
}

/// Refuses a symbolic link there. What is not a folder otherwise, or cannot even be looked at, keeps
/// no topic from being deleted: it stays where it is.
pub(super) fn refuse_links_only(site: &Site) -> Result<()> {
    match refuse_links(site) {
        Err(Error::Refused { path, .. })
            if site
                .storage
                .kind(&path)
                .is_ok_and(|it| it == Some(Kind::File)) =>
        {
            Ok(())
        }
        Err(Error::Io { .. }) => Ok(()),
        refused => refused,
    }
}

/// Where a partition's log lies.
pub(super) fn site(
    storage: &Arc<dyn Storage>,
    root: &Path,
    store: [u8; 16],
    (topic, partition, log): (&str, u32, u64),
) -> Result<Site> {
    let folder = root.join("topics").join(topic);
    Ok(Site {
        storage: Arc::clone(storage),
        dir: folder.join(folder_name(partition, log)),
        quarantine: root.join("quarantine"),
        store,
        log,
        topic: TopicName::new(topic).map_err(|flaw| Error::Mismatch {
            path: folder,
            reason: flaw.to_string(),
        })?,
        partition,
    })
}

/// What the journal says about a log, and holds for it; `closed` if the last owner closed the
/// store.
pub(super) fn promises(fold: &Fold, id: u64, closed: bool, pending: &Pending) -> Promises {
    let log = fold.log(id);
    let topic = log.and_then(|log| fold.topic(log.topic));
    let reach = topic.map_or(0, |topic| topic.settings.reach_bytes);
    let start = log.and_then(|log| log.start.as_ref());
    let end = log.and_then(|log| log.end.as_ref());
    let stated = end.and_then(|end| end.end.as_ref());
    // Of a segment that retention has removed since nothing is promised any more.
    let first = start.map_or(0, |start| start.segment);
    Promises {
        end: stated.filter(|end| end.segment >= first).map(recorded),
        clean: closed && end.is_some_and(|end| end.exact),
        floor: fold.promise(id),
        start: Some(start.map_or(0, |start| start.segment)),
        exists: log.is_some_and(|log| log.settled),
        reach: reach.saturating_add(SLACK),
        redo: pending
            .get(&id)
            .map_or_else(Vec::new, |pending| pending.stretches.clone()),
    }
}

/// Why redo of a log cannot be read, which its records may depend on.
pub(super) fn unread(pending: &Pending, log: u64) -> Option<Arc<Error>> {
    pending.get(&log)?.unread.clone()
}

/// The folder of a partition's log.
pub(super) fn folder_name(partition: u32, log: u64) -> String {
    format!("{partition:06}-{log}")
}

/// The log id in such a name.
pub(super) fn log_of_folder(name: &str) -> Option<u64> {
    let (partition, log) = name.split_once('-')?;
    let (partition, log) = (partition.parse().ok()?, log.parse().ok()?);
    (folder_name(partition, log) == name).then_some(log)
}

fn recorded(end: &SegmentEnd) -> RecordedEnd {
    RecordedEnd {
        segment: end.segment,
        nonce: end.nonce,
        epoch: end.epoch,
        mark: Mark {
            place: end.place,
            next: end.next,
            records: end.records,
            greatest: end.greatest,
            last_append: end.last_append,
            index_entries: end.index_entries,
            index_checksum: end.index_crc,
        },
    }
}

/// The end of a log as the journal states it.
pub(super) fn stated(log: u64, end: &RecordedEnd) -> LogEnd {
    LogEnd {
        log,
        end: Some(SegmentEnd {
            segment: end.segment,
            nonce: end.nonce,
            place: end.mark.place,
            next: end.mark.next,
            greatest: end.mark.greatest,
            index_entries: end.mark.index_entries,
            index_crc: end.mark.index_checksum,
            records: end.mark.records,
            epoch: end.epoch,
            last_append: end.mark.last_append,
        }),
        exact: true,
    }
}
