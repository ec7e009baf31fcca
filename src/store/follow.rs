//! Following: what is there, and then what comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::inner::{Inner, TopicInner};
use super::read::Cursor;
use super::reading::{Nap, watch_for};
use super::stored::{OwnedRecord, StoredRecord};
use super::stream::FollowStream;
use super::topic::Topic;
use crate::error::{Error, Result};
use crate::options::Visibility;
use crate::sync::Watermark;
use crate::sys::Parentage;

/// Who spins looks so often at the logs before it looks at the clock.
const SPINS: u32 = 64;

/// A follower of a topic or a partition. It waits without using the processor, and ends when the
/// topic is finished and everything has been read.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Start, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append(Record::new("M 4.6"))?;
/// # topic.finish()?;
/// let mut tail = topic.follow(Start::Earliest)?;
/// while let Some(record) = tail.next()? {
///     println!("{}", record.text()?);
/// }
/// # drop(tail);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Follow {
    topic: Topic,
    cursors: Vec<Cursor>,
    /// The cursor whose turn it is.
    turn: usize,
    /// Its cursors hold nothing.
    resting: bool,
    visibility: Visibility,
    spins: bool,
    nap: Nap,
    /// A thread sleeps on another process's words for its futures.
    watched: bool,
    stop: Arc<AtomicBool>,
}

/// Stops a follower, a [processor](crate::OpenProcessor), or who waits at a
/// [subscription](crate::Subscription::stopper), from another thread.
///
/// # Examples
///
/// ```
/// # use tidelog::{Start, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let mut tail = store.topic("quakes")?.follow(Start::Latest)?;
/// let stopper = tail.stopper();
/// let follower = std::thread::spawn(move || tail.next().map(|record| record.is_some()));
/// stopper.stop();
/// assert_eq!(follower.join().expect("it does not panic")?, false);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stopper {
    topic: Arc<TopicInner>,
    store: Weak<Inner>,
    parentage: Arc<Parentage>,
    stop: Arc<AtomicBool>,
}

impl Stopper {
    /// Sets `stop`, and wakes who waits at the topic.
    pub(super) fn new(topic: &Topic, stop: &Arc<AtomicBool>) -> Stopper {
        Stopper {
            topic: Arc::clone(&topic.inner),
            store: Arc::downgrade(topic.store.shared()),
            parentage: Arc::clone(&topic.store.shared().setting.parentage),
            stop: Arc::clone(stop),
        }
    }

    /// The follower's call under way, and each after it, returns no more records.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        // A follower of a forked child's parent is the parent's to stop.
        if !self.parentage.is_child() {
            self.topic.bells.ring();
            let store = self.store.upgrade();
            let reading = store.as_ref().and_then(|store| store.reading.as_ref());
            reading
                .into_iter()
                .for_each(|it| it.ring(self.topic.open_logs()));
        }
    }
}

/// What a look at all cursors found.
pub(super) enum Found {
    Ready(usize),
    Ended,
    Failed(Error),
    Nothing,
}

impl Follow {
    pub(super) fn new(topic: Topic, cursors: Vec<Cursor>) -> Follow {
        Follow {
            topic,
            cursors,
            turn: 0,
            resting: false,
            visibility: Visibility::Durable,
            spins: false,
            nap: Nap::default(),
            watched: false,
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Which records it sees from here on; see [`Cursor::visibility`].
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = visibility;
        self.cursors
            .iter_mut()
            .for_each(|cursor| cursor.set_visibility(visibility));
        self
    }

    /// Does not sleep while it waits, but looks again and again, which takes all of a core: for who pays
    /// that for the time that waking up costs.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Start, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// # let topic = store.topic("quakes")?;
    /// # topic.append("M 4.6")?;
    /// let mut tail = topic.follow(Start::Earliest)?.spinning();
    /// assert_eq!(tail.next()?.expect("it is there").text()?, "M 4.6");
    /// # drop(tail);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spinning(mut self) -> Self {
        self.spins = true;
        self
    }

    /// The next record; waits for it. `None` when the topic is finished and everything has been
    /// read, or when the follower was stopped.
    ///
    /// # Errors
    ///
    /// [`Error::TopicDeleted`], [`Error::Closed`]; [`Error::Failed`] when everything durable has
    /// been read of a partition that failed. A damaged stretch is an error once.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends, which an Iterator cannot"
    )]
    pub fn next(&mut self) -> Result<Option<StoredRecord<'_>>> {
        self.next_by(None)
    }

    /// As [`Follow::next`], waiting so long at the most; `None` then, too.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<StoredRecord<'_>>> {
        self.next_by(Instant::now().checked_add(timeout))
    }

    /// The next record, if there is one now.
    pub fn try_next(&mut self) -> Result<Option<StoredRecord<'_>>> {
        let found = self.look();
        if let Found::Ended | Found::Nothing = found {
            self.rest();
        }
        self.lend(found)
    }

    /// Whether no record will come any more.
    pub fn is_ended(&self) -> bool {
        matches!(self.look(), Found::Ended)
    }

    /// As [`Follow::next`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Follow::next`].
    pub async fn next_async(&mut self) -> Result<Option<StoredRecord<'_>>> {
        loop {
            match self.look() {
                Found::Nothing => {
                    self.rest();
                    self.watch()?;
                    self.bell().past(u64::MAX, || self.is_rung()).await;
                }
                found => return self.lend(found),
            }
        }
    }

    /// Owned records as a stream, for asynchronous programs.
    pub fn into_stream(self) -> FollowStream {
        FollowStream::new(self)
    }

    /// What is there now, owned: a record, an error, or the end; nothing if it has to be waited for.
    pub(super) fn try_owned(&mut self) -> Option<Option<Result<OwnedRecord>>> {
        let found = self.look();
        if let Found::Nothing = found {
            self.rest();
            return None;
        }
        let next = self
            .lend(found)
            .map(|record| record.map(|record| record.to_owned()));
        Some(self.or_end(next))
    }

    /// What a look has found; nothing where that is nothing yet, or nothing any more.
    fn lend(&mut self, found: Found) -> Result<Option<StoredRecord<'_>>> {
        match found {
            Found::Ready(index) => self.take(index),
            Found::Failed(error) => Err(error),
            Found::Ended | Found::Nothing => Ok(None),
        }
    }

    /// What rings when there may be something new.
    pub(super) fn bell(&self) -> &Watermark {
        self.topic.inner.bells.of(self.visibility)
    }

    /// Whether there is something new.
    pub(super) fn is_rung(&self) -> bool {
        !matches!(self.look(), Found::Nothing)
    }

    /// Holds nothing while it waits.
    fn rest(&mut self) {
        if !std::mem::replace(&mut self.resting, true) {
            self.cursors.iter_mut().for_each(Cursor::rest);
        }
    }

    /// An error ends it, unless it is one damaged stretch.
    fn or_end(&mut self, next: Result<Option<OwnedRecord>>) -> Option<Result<OwnedRecord>> {
        let passing = |error: &Error| {
            matches!(
                error,
                Error::Corrupt { .. } | Error::Unreadable { .. } | Error::Truncated { .. }
            )
        };
        if next.as_ref().is_err_and(|error| !passing(error)) {
            self.stop.store(true, Ordering::Release);
        }
        next.transpose()
    }

    /// A handle that stops this follower from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper::new(&self.topic, &self.stop)
    }

    fn next_by(&mut self, deadline: Option<Instant>) -> Result<Option<StoredRecord<'_>>> {
        loop {
            match self.look() {
                Found::Nothing => {
                    if deadline.is_some_and(|at| at <= Instant::now()) {
                        self.rest();
                        return Ok(None);
                    }
                    self.wait(deadline);
                }
                found => return self.lend(found),
            }
        }
    }

    /// Waits until there may be something new.
    fn wait(&mut self, deadline: Option<Instant>) {
        if self.spins {
            return self.spin();
        }
        self.rest();
        let rung = || self.is_rung();
        let store = self.topic.store.shared();
        let Some(reading) = &store.reading else {
            self.bell().wait_past(u64::MAX, deadline, rung);
            return;
        };
        let logs: Vec<_> = self.cursors.iter().map(Cursor::log).collect();
        reading.sleep(store, &logs, self.visibility, (deadline, &self.nap), rung);
    }

    /// Looks at the logs a few times, and at nothing else.
    fn spin(&self) {
        for _ in 0..SPINS {
            let stopped = self.stop.load(Ordering::Acquire);
            if stopped || self.cursors.iter().any(Cursor::is_ready) {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Sees to it that the bell of this process rings for what another one appends.
    pub(super) fn watch(&mut self) -> Result<()> {
        let store = self.topic.store.shared();
        if store.reading.is_none() || std::mem::replace(&mut self.watched, true) {
            return Ok(());
        }
        let logs = self.cursors.iter().map(|cursor| Arc::clone(cursor.log()));
        let stop = Arc::clone(&self.stop);
        let watching = watch_for(store, logs.collect(), self.visibility, stop);
        watching.map_err(|error| Error::ThreadEnded {
            thread: "watch",
            reason: error.to_string(),
        })
    }

    fn look(&self) -> Found {
        if self.stop.load(Ordering::Acquire) {
            return Found::Ended;
        }
        look(&self.cursors, self.turn)
    }

    fn take(&mut self, index: usize) -> Result<Option<StoredRecord<'_>>> {
        self.resting = false;
        self.nap.end();
        self.turn = (index + 1) % self.cursors.len();
        self.cursors[index].next()
    }
}

/// What cursors find, the one whose turn it is first.
pub(super) fn look(cursors: &[Cursor], turn: usize) -> Found {
    let count = cursors.len();
    let in_turn = (0..count).map(|step| (turn + step) % count);
    for index in in_turn {
        if cursors[index].is_ready() {
            return Found::Ready(index);
        }
    }
    if cursors.iter().all(Cursor::is_drained) {
        return Found::Ended;
    }
    let failure = cursors.iter().find_map(Cursor::failure);
    failure.map_or(Found::Nothing, Found::Failed)
}

impl Drop for Follow {
    fn drop(&mut self) {
        // The thread that sleeps for it ends.
        self.stop.store(true, Ordering::Release);
        let reading = self.topic.store.shared().reading.as_ref();
        if let Some(reading) = reading.filter(|_| self.watched) {
            reading.ring(self.cursors.iter().map(|cursor| Arc::clone(cursor.log())));
        }
    }
}

impl Iterator for Follow {
    type Item = Result<OwnedRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Follow::next(self).map(|record| record.map(|record| record.to_owned()));
        self.or_end(next)
    }
}
