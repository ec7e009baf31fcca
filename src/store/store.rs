//! The store's handle.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::catalog;
use super::closing::Closing;
use super::inner::{Inner, TopicInner};
use super::leftovers;
use super::metrics;
use super::open::{open, open_all};
use super::open_reading::{close_reading, open_reading};
use super::retention;
use super::topic::Topic;
use crate::error::{Error, Result};
use crate::flush::{is_serving, serving};
use crate::journal::Event;
use crate::options::{StoreOptions, TopicOptions};
use crate::partition::Log;
use crate::sys::Stats;

/// A store: a directory that this process owns for writing.
///
/// Cloning gives another handle of the same store. It is closed by [`Store::close`], which
/// returns what went wrong; dropping the last handle closes it, too, but can tell nobody.
///
/// # Examples
///
/// ```
/// use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// let store = Store::open(&path)?;
/// let quakes = store.topic("quakes")?;
/// let at = quakes.append(Record::new("M 4.6 Volcano, Hawaii").key("hv"))?;
/// assert_eq!(at.to_string(), "quakes/0@0");
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    pub(super) inner: Arc<Owned>,
}

/// Closes the store when the last handle goes.
#[derive(Debug)]
pub(super) struct Owned {
    shared: Arc<Inner>,
    /// Somebody may have none of these any more and mean that it is closed.
    closes: bool,
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.shared.setting.parentage.is_child() {
            // Nothing of it may be let go of here: not the lock, nor the threads, which are not
            // there. So it is forgotten.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        if !self.closes || self.shared.ended.get().is_some() {
            return;
        }
        if let Err(error) = close(&self.shared) {
            tracing::error!(%error, "closing a store that was dropped");
        }
    }
}

/// A topic, as [`Store::topics`] tells it.
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, TopicOptions};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// store.create_topic("quakes", TopicOptions::new().partitions(4))?;
/// assert_eq!(store.topics()[0].partitions, 4);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicInfo {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u32,
    /// What its payloads are.
    pub content_type: String,
    /// Whether it takes no more records.
    pub finished: bool,
    /// Why the first of its partitions that has failed, or could not be opened, takes none. A
    /// partition is opened when it is first used, so nothing is known of one that nobody has used.
    pub failed: Option<String>,
}

impl Store {
    /// Opens a store, making it, and the folders above it, where there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if it is open already; [`Error::UnsupportedVersion`], [`Error::Mismatch`]
    /// and [`Error::Refused`] if the files are not those of a store that this version can open,
    /// which leaves them as they are.
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Store::open_with(path, StoreOptions::new())
    }

    /// As [`Store::open`], with options.
    pub fn open_with(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        let inner = open(path.as_ref(), options)?;
        let store = Store::owning(inner);
        if store.shared().options.strict {
            open_all(store.shared())?;
        }
        leftovers::start(store.shared());
        retention::keep(store.shared());
        metrics::start(store.shared());
        Ok(store)
    }

    /// Opens a store that is there for reading only: beside the process that owns it, whose new records
    /// are followed, or without one. It writes nothing below the folder, takes no lock, and starts no
    /// thread but for futures that wait. What would write is [`Error::ReadOnly`].
    ///
    /// Beside a live owner a record shows as soon as it is durable there, or written, by
    /// [`Visibility`](crate::Visibility). Who waits sleeps on shared memory and is woken by the owner;
    /// where that memory cannot be written to, or there is none, the files are looked at again, in the end
    /// every 100 ms. When the owner goes, readers keep what they have; when the next one comes, they
    /// follow it.
    ///
    /// After an owner that was killed in this boot of the machine, `Durable` readers see what it had
    /// shown as durable, or the files promise. The next owner finds the rest, and makes it durable.
    ///
    /// # Errors
    ///
    /// [`Error::NoStore`] where there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelog::{Error, Record, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("data");
    /// let owner = Store::open(&path)?;
    /// owner.topic("quakes")?.append(Record::new("M 4.6"))?;
    ///
    /// let reader = Store::open_read_only(&path)?; // in this process or in another one
    /// let quakes = reader.topic("quakes")?;
    /// for record in quakes.partition(0)?.read(0..10)? {
    ///     assert_eq!(record?.text()?, "M 4.6");
    /// }
    /// assert!(matches!(quakes.append("M 2.1"), Err(Error::ReadOnly { .. })));
    /// # reader.close()?;
    /// # owner.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store> {
        Store::open_read_only_with(path, StoreOptions::new())
    }

    /// As [`Store::open_read_only`], with options.
    pub fn open_read_only_with(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Ok(Store::owning(open_reading(path.as_ref(), options)?))
    }

    /// The handle with which the store is opened.
    pub(super) fn owning(shared: Arc<Inner>) -> Store {
        let closes = true;
        let inner = Arc::new(Owned { shared, closes });
        Store { inner }
    }

    /// A handle for the store's own threads: that it goes does not close the store.
    pub(super) fn inside(shared: Arc<Inner>) -> Store {
        let closes = false;
        let inner = Arc::new(Owned { shared, closes });
        Store { inner }
    }

    pub(super) fn shared(&self) -> &Arc<Inner> {
        &self.inner.shared
    }

    fn handle(&self, topic: Arc<TopicInner>) -> Topic {
        Topic {
            store: self.clone(),
            inner: topic,
        }
    }

    /// The topic of that name; made with default options if there is none, but not in a store that is
    /// only read.
    pub fn topic(&self, name: &str) -> Result<Topic> {
        match self.existing_topic(name) {
            Err(Error::TopicUnknown { .. }) if self.shared().reading.is_none() => {
                self.create_topic(name, TopicOptions::new())
            }
            other => other,
        }
    }

    /// The topic of that name, or [`Error::TopicUnknown`].
    pub fn existing_topic(&self, name: &str) -> Result<Topic> {
        super::name::check(name)?;
        self.shared().check_not_closed()?;
        if let Some(reading) = &self.shared().reading {
            reading.refresh(self.shared())?;
        }
        let topic = self.shared().topics().get(name).cloned();
        let topic = topic.ok_or_else(|| Error::TopicUnknown {
            topic: name.to_owned(),
        })?;
        Ok(self.handle(topic))
    }

    /// Makes a topic, durably; one that is there already with the same partitions and content
    /// type is opened, with the other options as they are given now.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`], [`Error::InvalidOption`], [`Error::TopicMismatch`].
    pub fn create_topic(&self, name: &str, options: TopicOptions) -> Result<Topic> {
        let topic = catalog::create(self.shared(), name, &options)?;
        retention::keep(self.shared());
        Ok(self.handle(topic))
    }

    /// Deletes a topic with its subscriptions, and frees its space; one that has failed, too. Who
    /// appends or reads gets [`Error::TopicDeleted`]. A topic made anew under the name shares nothing
    /// with it. What cannot be removed now is left for the next opening, and what is not the store's
    /// stays: where a file stands in place of the topic's folder, that has to go first for a new one.
    pub fn delete_topic(&self, name: &str) -> Result<()> {
        catalog::delete(self.shared(), name)
    }

    /// All topics, sorted by name.
    pub fn topics(&self) -> Vec<TopicInfo> {
        if self.shared().check_owner().is_err() {
            return Vec::new();
        }
        if let Some(reading) = &self.shared().reading
            && let Err(error) = reading.refresh(self.shared())
        {
            tracing::warn!(%error, "the topics that were known");
        }
        // What is asked of them may wait for one that is being opened.
        let topics: Vec<Arc<TopicInner>> = self.shared().topics().values().cloned().collect();
        let info = |topic: &Arc<TopicInner>| TopicInfo {
            name: topic.name.to_string(),
            partitions: topic.partitions(),
            content_type: topic.content_type.clone(),
            finished: topic.finished.load(Ordering::Acquire),
            failed: topic.failures().next().map(|error| error.to_string()),
        };
        topics.iter().map(info).collect()
    }

    /// The store's folder.
    pub fn path(&self) -> PathBuf {
        self.shared().root.clone()
    }

    /// What has been asked of the disk: for tests and benchmarks.
    pub fn io(&self) -> &Stats {
        self.shared().options.storage.stats()
    }

    /// Makes everything written so far durable, in all topics and whatever their
    /// [`Durability`](crate::Durability). What goes wrong with one partition does not keep the
    /// others from it; the first such error is returned.
    pub fn flush(&self) -> Result<()> {
        let store = self.shared();
        store.check_open()?;
        let topics: Vec<Arc<TopicInner>> = store.topics().values().cloned().collect();
        let logs = topics.iter().flat_map(|topic| topic.open_logs());
        Log::flush_together(&store.setting.flusher, logs);
        let flushed = topics.iter().map(|topic| match topic.flush(store) {
            // Its deletion is durable before anybody is told.
            Err(Error::TopicDeleted { .. }) => Ok(()),
            flushed => flushed,
        });
        flushed.fold(Ok(()), Result::and)
    }

    /// Closes the store: appends under way are answered, everything is made durable, the ends of
    /// all logs are recorded, and the lock is let go. Other handles get [`Error::Closed`]. What
    /// went wrong with one log does not keep the others from being closed; the first such error
    /// is returned.
    ///
    /// Closing again waits until the store is closed, and returns the same. A waker, which runs in the
    /// middle of a round, cannot wait for that: it returns at once, and the store is closed behind it.
    pub fn close(self) -> Result<()> {
        close(self.shared())
    }
}

/// Closes the store, once. Who comes second waits for who came first, and gets the same answer: when
/// it returns the lock is free. Not so who is called in the middle of a round, or of the close.
fn close(inner: &Arc<Inner>) -> Result<()> {
    inner.check_owner()?;
    if let Some(reading) = &inner.reading {
        close_reading(inner, reading);
        return Ok(());
    }
    if is_serving() {
        return close_elsewhere(inner);
    }
    let ended = inner.ended.get_or_init(|| serving(|| close_once(inner)));
    ended.clone()
}

/// Closes the store on a thread of its own: a waker does it, or the task that it dropped had the last
/// handle, in the middle of what closing waits for.
fn close_elsewhere(inner: &Arc<Inner>) -> Result<()> {
    let inner = Arc::clone(inner);
    let closing = std::thread::Builder::new()
        .name("tidelog-close".to_owned())
        .spawn(move || {
            if let Err(error) = close(&inner) {
                tracing::error!(%error, "closing a store from within a waker");
            }
        });
    closing.map(drop).map_err(|error| Error::ThreadEnded {
        thread: "close",
        reason: error.to_string(),
    })
}

fn close_once(inner: &Arc<Inner>) -> Result<()> {
    // Whoever changes the catalog now is done when it can be had.
    let catalog = inner.catalog()?;
    inner.closed.store(true, Ordering::Release);
    drop(catalog);
    leftovers::stop(inner);
    retention::stop(inner);
    metrics::stop(inner);
    let mut first = Ok(());
    let mut keep = |result: Result<()>| {
        if first.is_ok() {
            first = result;
        }
    };
    let topics: Vec<Arc<TopicInner>> = inner.topics().values().cloned().collect();
    let logs: Vec<_> = topics
        .iter()
        .flat_map(|topic| topic.all_open_logs())
        .collect();
    for log in &logs {
        log.refuse();
    }
    let closing = Closing::of(inner, &logs);
    if closing.is_single() {
        Log::flush_together(&inner.setting.flusher, logs.iter().cloned());
        logs.iter().for_each(|log| keep(log.drain()));
    } else {
        inner.setting.flusher.forget_due();
    }
    for crew in inner.crews() {
        crew.stop();
    }
    // From here on this thread does every duty itself.
    let mut settled = true;
    let ends = closing.settle(|error| {
        settled = false;
        keep(Err(error));
    });
    keep(record_ends(inner, ends, settled));
    keep(inner.journal.drain());
    keep(inner.journal.finish_close().map(|_| ()));
    // Somebody may have run the journal's last round, and be tidying up behind it.
    inner.setting.flusher.stop();
    // Before the lock: from then on it may be the next owner's.
    inner.setting.board.iter().for_each(|board| board.close());
    let unlocked = inner.lock.as_ref().map_or(Ok(()), |lock| lock.release());
    let lock = inner.root.join("LOCK");
    keep(unlocked.map_err(|error| Error::io("unlock", lock, error)));
    first
}

/// Records where the logs end and, if all of them were settled, that the store was closed.
fn record_ends(inner: &Inner, ends: Vec<crate::journal::LogEnd>, settled: bool) -> Result<()> {
    let mut events = Vec::new();
    for ends in ends.chunks(1000) {
        events.push(Event::Ends {
            ends: ends.to_vec(),
        });
    }
    if settled {
        events.push(Event::Closed {
            epoch: inner.setting.epoch,
        });
    }
    inner.journal.commit(&events)
}
