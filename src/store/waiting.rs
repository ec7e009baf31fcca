//! A subscription that is waited at; and what its processor needs: to send it back to a record.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::follow::{Found, Stopper, look};
use super::read::{Cursor, Start};
use super::stored::StoredRecord;
use super::subscription::Subscription;
use crate::error::Result;
use crate::options::Visibility;
use crate::sync::Watermark;

impl Subscription {
    /// As [`Subscription::next`], but waits for a record that its filter and its sampling keep, without
    /// using the processor. `None` when the topic is finished and everything has been read, or when it
    /// was [stopped](Subscription::stopper).
    ///
    /// # Errors
    ///
    /// As for [`Subscription::next`], at once: also [`Error::SubscriptionPaused`], since nobody but the
    /// owner of this handle can resume it. [`Error::TopicDeleted`] and [`Error::Closed`] end the wait.
    ///
    /// [`Error::SubscriptionPaused`]: crate::Error::SubscriptionPaused
    /// [`Error::TopicDeleted`]: crate::Error::TopicDeleted
    /// [`Error::Closed`]: crate::Error::Closed
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let quakes = store.topic("quakes")?;
    /// quakes.append("M 4.6 Volcano, Hawaii")?;
    /// quakes.finish()?;
    /// let mut archive = quakes.subscribe("archive")?;
    /// while let Some(record) = archive.next_wait()? {
    ///     println!("{} {}", record.position(), record.text()?);
    ///     archive.commit()?;
    /// }
    /// assert!(archive.is_ended());
    /// # drop(archive);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_wait(&mut self) -> Result<Option<StoredRecord<'_>>> {
        let found = self.find_by(None)?;
        self.lend(found)
    }

    /// As [`Subscription::next_wait`], waiting so long at the most; `None` then, too. What is there is
    /// looked through first, however long that takes.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<StoredRecord<'_>>> {
        let found = self.find_by(Instant::now().checked_add(timeout))?;
        self.lend(found)
    }

    /// As [`Subscription::next_wait`], as a future. One that is dropped has gone past nothing that was
    /// to be returned.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// # let quakes = store.topic("quakes")?;
    /// # quakes.append("M 4.6")?;
    /// # futures_lite::future::block_on(async {
    /// let mut archive = quakes.subscription("archive").open_async().await?;
    /// if let Some(record) = archive.next_async().await? {
    ///     println!("{}", record.text()?);
    ///     archive.commit_async().await?;
    /// }
    /// # tidelog::Result::<()>::Ok(())
    /// # })?;
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn next_async(&mut self) -> Result<Option<StoredRecord<'_>>> {
        let found = loop {
            if self.is_stopped() {
                break None;
            }
            let found = self.find(true)?;
            if found.is_some() || self.is_ended() {
                break found;
            }
            self.bell().past(u64::MAX, || self.is_rung()).await;
        };
        self.lend(found)
    }

    /// Whether nobody needs to wait any more: the topic is finished and everything has been read, or it
    /// was stopped.
    pub fn is_ended(&self) -> bool {
        self.is_stopped() || matches!(look(&self.cursors, self.turn), Found::Ended)
    }

    /// A handle that ends waiting from another thread, for good: the call under way, and each one after
    /// it that would wait, returns `None`. [`Subscription::next`], which never waits, goes on.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let mut archive = store.topic("quakes")?.subscribe("archive")?;
    /// let stopper = archive.stopper();
    /// let reader = std::thread::spawn(move || archive.next_wait().map(|it| it.is_some()));
    /// stopper.stop();
    /// assert_eq!(reader.join().expect("it does not panic")?, false);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stopper(&self) -> Stopper {
        Stopper::new(&self.topic, &self.stop)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn find_by(&mut self, deadline: Option<Instant>) -> Result<Option<usize>> {
        while !self.is_stopped() {
            let found = self.find(true)?;
            if found.is_some() || !self.wait(deadline) {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Waits until there is something to read, or an error; false if nothing will come any more, or it is
    /// to stop, or the deadline has passed.
    pub(crate) fn wait(&mut self, deadline: Option<Instant>) -> bool {
        self.cursors.iter_mut().for_each(Cursor::rest);
        self.bell().wait_past(u64::MAX, deadline, || self.is_rung());
        !self.is_ended() && deadline.is_none_or(|at| Instant::now() < at)
    }

    /// Waits until then, or until it is to stop.
    pub(crate) fn sleep(&self, until: Option<Instant>) {
        self.bell().wait_past(u64::MAX, until, || self.is_stopped());
    }

    /// What rings when there may be something new.
    fn bell(&self) -> &Watermark {
        self.topic.inner.bells.of(Visibility::Durable)
    }

    fn is_rung(&self) -> bool {
        self.is_stopped() || !matches!(look(&self.cursors, self.turn), Found::Nothing)
    }

    /// The next record comes from this place, which is one that has been returned, or its next one.
    pub(crate) fn stand_at(&mut self, partition: u32, offset: u64) -> Result<()> {
        self.turn = partition as usize;
        self.cursors[self.turn].seek(Start::Offset(offset))
    }

    /// Where the durable records of each partition end now.
    pub(crate) fn ends(&self) -> Vec<u64> {
        self.cursors.iter().map(|it| it.log().durable()).collect()
    }

    /// Whether it has returned less than everything below these ends.
    pub(crate) fn is_before(&self, ends: &[u64]) -> bool {
        let mut each = self.cursors.iter().zip(ends);
        each.any(|(cursor, end)| cursor.offset() < *end)
    }
}
