//! The calls that wait, as futures, for programs that must not block a thread.
//!
//! No runtime is needed, and any will do. Appends and commits wait in the same lists as threads do,
//! and the store's own threads do the rounds; what opens, makes or ends something is done on a
//! thread of its own, which may end a moment after the future. Dropping a future leaves nothing
//! behind: what had been written or stated stays, and becomes durable like everything else.
//!
//! A waker is called in the middle of what the store does. It may poll, and drop what it likes; it must
//! not wait for the store.

use std::future::IntoFuture;
use std::ops::Range;
use std::path::PathBuf;
use std::pin::Pin;

use super::ack::Ack;
use super::backup::BackupReport;
use super::follow::Follow;
use super::offload::offload;
use super::position::{Position, Positions};
use super::read::{Cursor, Records, Start};
use super::record::{Record, Timestamp};
use super::retention::Audit;
use super::store::Store;
use super::subscription::{Subscription, SubscriptionBuilder};
use super::topic::{Partition, Topic};
use crate::error::{Error, Result};
use crate::options::{StoreOptions, TopicOptions};

impl Store {
    /// [`Store::open_with`] as a future.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Store, StoreOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # futures_lite::future::block_on(async {
    /// let store = Store::open_async(dir.path().join("data"), StoreOptions::new()).await?;
    /// let quakes = store.topic_async("quakes").await?;
    /// println!("{} is on disk", quakes.append_async("M 4.6 Volcano, Hawaii").await?);
    /// store.close_async().await
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn open_async(path: impl Into<PathBuf>, options: StoreOptions) -> Result<Store> {
        let path = path.into();
        offload(move || Store::open_with(path, options)).await
    }

    /// [`Store::open_read_only_with`] as a future.
    pub async fn open_read_only_async(
        path: impl Into<PathBuf>,
        options: StoreOptions,
    ) -> Result<Store> {
        let path = path.into();
        offload(move || Store::open_read_only_with(path, options)).await
    }

    /// [`Store::topic`] as a future.
    pub async fn topic_async(&self, name: &str) -> Result<Topic> {
        match self.existing_topic(name) {
            Err(Error::TopicUnknown { .. }) => {
                self.create_topic_async(name, TopicOptions::new()).await
            }
            other => other,
        }
    }

    /// [`Store::create_topic`] as a future.
    pub async fn create_topic_async(&self, name: &str, options: TopicOptions) -> Result<Topic> {
        let (store, name) = (self.clone(), name.to_owned());
        offload(move || store.create_topic(&name, options)).await
    }

    /// [`Store::delete_topic`] as a future.
    pub async fn delete_topic_async(&self, name: &str) -> Result<()> {
        let (store, name) = (self.clone(), name.to_owned());
        offload(move || store.delete_topic(&name)).await
    }

    /// [`Store::backup`] as a future. The copy is made to its end also where the future is dropped.
    pub async fn backup_async(&self, target: impl Into<PathBuf>) -> Result<BackupReport> {
        let (store, target) = (self.clone(), target.into());
        offload(move || store.backup(target)).await
    }

    /// [`Store::audit`] as a future.
    pub async fn audit_async(&self) -> Result<Audit> {
        let store = self.clone();
        offload(move || store.audit()).await
    }

    /// [`Store::apply_retention`] as a future.
    pub async fn apply_retention_async(&self) -> Result<Audit> {
        let store = self.clone();
        offload(move || store.apply_retention()).await
    }

    /// [`Store::flush`] as a future.
    pub async fn flush_async(&self) -> Result<()> {
        let store = self.clone();
        offload(move || store.flush()).await
    }

    /// [`Store::close`] as a future.
    pub async fn close_async(self) -> Result<()> {
        offload(move || self.close()).await
    }
}

impl Topic {
    /// [`Topic::append`] as a future.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::{Record, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// # let quakes = store.topic("quakes")?;
    /// # futures_lite::future::block_on(async {
    /// let at = quakes.append_async(Record::new("M 4.6 Volcano, Hawaii").key("hv")).await?;
    /// println!("{at} is on disk");
    /// # tidelog::Result::<()>::Ok(())
    /// # })?;
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn append_async<'a>(&self, record: impl Into<Record<'a>>) -> Result<Position> {
        let record = record.into();
        let positions = self
            .append_durably_async(std::slice::from_ref(&record))
            .await?;
        Ok(positions.first())
    }

    /// [`Topic::append_batch`] as a future.
    pub async fn append_batch_async<'a, I>(&self, records: I) -> Result<Positions>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let records: Vec<Record<'a>> = records.into_iter().map(Into::into).collect();
        self.append_durably_async(&records).await
    }

    /// [`Topic::append_nowait`] as a future: it waits, without blocking, for what that may have to
    /// wait for. The [`Ack`] is a future of its own.
    pub async fn append_nowait_async<'a>(&self, record: impl Into<Record<'a>>) -> Result<Ack> {
        let record = record.into();
        self.append_written_async(std::slice::from_ref(&record))
            .await
    }

    /// [`Topic::append_batch_nowait`] as a future.
    pub async fn append_batch_nowait_async<'a, I>(&self, records: I) -> Result<Ack>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let records: Vec<Record<'a>> = records.into_iter().map(Into::into).collect();
        self.append_written_async(&records).await
    }

    /// [`Topic::append_and_finish`] as a future.
    pub async fn append_and_finish_async<'a, I>(&self, records: I) -> Result<Positions>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let records: Vec<Record<'static>> = records
            .into_iter()
            .map(|record| record.into().into_owned())
            .collect();
        let topic = self.clone();
        offload(move || topic.append_and_finish(records)).await
    }

    /// [`Topic::follow`] as a future: opening a log that nobody has used yet may take a while.
    pub async fn follow_async(&self, start: Start) -> Result<Follow> {
        let topic = self.clone();
        offload(move || topic.follow(start)).await
    }

    /// [`Topic::audit`] as a future.
    pub async fn audit_async(&self) -> Result<Audit> {
        let topic = self.clone();
        offload(move || topic.audit()).await
    }

    /// [`Topic::apply_retention`] as a future.
    pub async fn apply_retention_async(&self) -> Result<Audit> {
        let topic = self.clone();
        offload(move || topic.apply_retention()).await
    }

    /// [`Topic::delete_subscription`] as a future.
    pub async fn delete_subscription_async(&self, name: &str) -> Result<()> {
        let (topic, name) = (self.clone(), name.to_owned());
        offload(move || topic.delete_subscription(&name)).await
    }

    /// [`Topic::finish`] as a future.
    pub async fn finish_async(&self) -> Result<()> {
        let topic = self.clone();
        offload(move || topic.finish()).await
    }

    /// [`Topic::flush`] as a future.
    pub async fn flush_async(&self) -> Result<()> {
        let topic = self.clone();
        offload(move || topic.flush()).await
    }
}

impl Partition {
    /// [`Partition::append`] as a future.
    pub async fn append_async<'a>(&self, record: impl Into<Record<'a>>) -> Result<Position> {
        let record = record.into().partition(self.number);
        self.topic.append_async(record).await
    }

    /// [`Partition::append_batch`] as a future.
    pub async fn append_batch_async<'a, I>(&self, records: I) -> Result<Positions>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let here = |record: I::Item| record.into().partition(self.number);
        let records: Vec<Record<'a>> = records.into_iter().map(here).collect();
        self.topic.append_durably_async(&records).await
    }

    /// [`Partition::append_nowait`] as a future.
    pub async fn append_nowait_async<'a>(&self, record: impl Into<Record<'a>>) -> Result<Ack> {
        let record = record.into().partition(self.number);
        self.topic.append_nowait_async(record).await
    }

    /// [`Partition::append_batch_nowait`] as a future.
    pub async fn append_batch_nowait_async<'a, I>(&self, records: I) -> Result<Ack>
    where
        I: IntoIterator,
        I::Item: Into<Record<'a>>,
    {
        let here = |record: I::Item| record.into().partition(self.number);
        let records: Vec<Record<'a>> = records.into_iter().map(here).collect();
        self.topic.append_written_async(&records).await
    }

    /// [`Partition::find`] as a future.
    pub async fn find_async(&self, time: impl Into<Timestamp>) -> Result<u64> {
        let (partition, time) = (self.clone(), time.into());
        offload(move || partition.find(time)).await
    }

    /// [`Partition::read`] as a future: it opens the log if nobody has used it yet. The records are read
    /// as they are asked for, which may wait for the disk as every reader of a mapped file does.
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
    /// let partition = quakes.partition(0)?;
    /// for record in partition.read_async(0..100).await? {
    ///     println!("{}", record?.text()?);
    /// }
    /// # tidelog::Result::<()>::Ok(())
    /// # })?;
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn read_async(&self, offsets: Range<u64>) -> Result<Records> {
        let partition = self.clone();
        offload(move || partition.read(offsets)).await
    }

    /// [`Partition::cursor`] as a future, as [`Partition::read_async`].
    pub async fn cursor_async(&self, start: Start) -> Result<Cursor> {
        let partition = self.clone();
        offload(move || partition.cursor(start)).await
    }

    /// [`Partition::follow`] as a future, as [`Partition::read_async`].
    pub async fn follow_async(&self, start: Start) -> Result<Follow> {
        let partition = self.clone();
        offload(move || partition.follow(start)).await
    }

    /// [`Partition::truncate_before`] as a future.
    pub async fn truncate_before_async(&self, offset: u64) -> Result<u64> {
        let partition = self.clone();
        offload(move || partition.truncate_before(offset)).await
    }

    /// [`Partition::flush`] as a future.
    pub async fn flush_async(&self) -> Result<()> {
        let partition = self.clone();
        offload(move || partition.flush()).await
    }
}

impl SubscriptionBuilder {
    /// [`SubscriptionBuilder::open`] as a future.
    pub async fn open_async(self) -> Result<Subscription> {
        offload(move || self.open()).await
    }
}

impl Subscription {
    /// [`Subscription::commit`] as a future.
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
    /// while let Some(record) = archive.next()? {
    ///     println!("{}", record.text()?);
    ///     archive.commit_async().await?;
    /// }
    /// # tidelog::Result::<()>::Ok(())
    /// # })?;
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn commit_async(&mut self) -> Result<()> {
        let moved = self.moved();
        self.store_checkpoints_async(&moved, Vec::new()).await
    }

    /// [`Subscription::commit_to`] as a future.
    pub async fn commit_to_async(&mut self, next: &Position) -> Result<()> {
        match self.moves_to(next)? {
            Some(moved) => self.store_checkpoints_async(&[moved], Vec::new()).await,
            None => Ok(()),
        }
    }

    /// [`Subscription::reset`] as a future.
    pub async fn reset_async(&mut self, start: Start) -> Result<()> {
        let topic = self.topic.clone();
        let cursors = offload(move || topic.cursors(start)).await?;
        let cursors: Vec<_> = (0..).zip(cursors).collect();
        let moved = self.topic.checkpoints_at(&cursors)?;
        self.store_checkpoints_async(&moved, cursors).await
    }

    /// [`Subscription::reset_partition`] as a future.
    pub async fn reset_partition_async(&mut self, partition: u32, start: Start) -> Result<()> {
        let topic = self.topic.clone();
        let cursor = offload(move || topic.partition(partition)?.cursor(start)).await?;
        let cursors = vec![(partition, cursor)];
        let moved = self.topic.checkpoints_at(&cursors)?;
        self.store_checkpoints_async(&moved, cursors).await
    }

    /// [`Subscription::pause`] as a future.
    pub async fn pause_async(&mut self) -> Result<()> {
        self.set_paused_async(true).await
    }

    /// [`Subscription::resume`] as a future.
    pub async fn resume_async(&mut self) -> Result<()> {
        self.set_paused_async(false).await
    }

    async fn set_paused_async(&mut self, paused: bool) -> Result<()> {
        let event = self.pausing(paused);
        self.check_there()?;
        let topic = self.topic.clone();
        let journal = &topic.store.shared().journal;
        let end = journal.state(&[event])?;
        // Stated: so it stays, also if nobody waits for it any more.
        self.state.paused = paused;
        journal.until(end).await
    }

    /// From when the checkpoints are stated the subscription reads from these cursors.
    async fn store_checkpoints_async(
        &mut self,
        moved: &[(u32, u64)],
        cursors: Vec<(u32, Cursor)>,
    ) -> Result<()> {
        for (partition, next) in moved {
            // As `flush_below`.
            self.topic.log(*partition)?.flushed_to(*next).await?;
        }
        self.check_there()?;
        if moved.is_empty() {
            return Ok(());
        }
        let topic = self.topic.clone();
        let journal = &topic.store.shared().journal;
        let end = self.state_checkpoints(moved, !cursors.is_empty())?;
        self.note_committed(moved);
        self.go_to(cursors);
        journal.until(end).await
    }
}

/// Resolves when the records are durable, to what [`Ack::wait`] returns.
impl IntoFuture for Ack {
    type Output = Result<Position>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Position>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.resolved().await })
    }
}

/// The same, leaving the [`Ack`] to its owner.
impl<'a> IntoFuture for &'a Ack {
    type Output = Result<Position>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Position>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.resolved())
    }
}
