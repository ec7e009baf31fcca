//! The calls of typed topics that wait, as futures.

use super::ack::Ack;
use super::position::{Position, Positions};
use super::read::Start;
use super::typed::{Codec, Typed, TypedFollow, TypedSubscription, TypedTopic};
use crate::error::Result;

impl<T, C: Codec<T>> TypedTopic<T, C> {
    /// [`TypedTopic::append`] as a future.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let ticks = store.topic("ticks")?.typed::<u64>();
    /// # futures_lite::future::block_on(async {
    /// ticks.append_async(&7).await?;
    /// let mut sums = ticks.subscribe_async("sums").await?;
    /// assert_eq!(sums.next_async().await?.expect("it is there").value, 7);
    /// sums.commit_async().await?;
    /// # tidelog::Result::<()>::Ok(())
    /// # })?;
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn append_async(&self, value: &T) -> Result<Position> {
        self.topic.append_async(self.record(value)?).await
    }

    /// [`TypedTopic::append_batch`] as a future.
    pub async fn append_batch_async<'v>(
        &self,
        values: impl IntoIterator<Item = &'v T>,
    ) -> Result<Positions>
    where
        T: 'v,
    {
        self.topic.append_batch_async(self.records(values)?).await
    }

    /// [`TypedTopic::append_nowait`] as a future, as [`Topic::append_nowait_async`].
    ///
    /// [`Topic::append_nowait_async`]: super::Topic::append_nowait_async
    pub async fn append_nowait_async(&self, value: &T) -> Result<Ack> {
        self.topic.append_nowait_async(self.record(value)?).await
    }

    /// [`TypedTopic::follow`] as a future.
    pub async fn follow_async(&self, start: Start) -> Result<TypedFollow<'_, T, C>> {
        Ok(self.following(self.topic.follow_async(start).await?))
    }

    /// [`TypedTopic::subscribe`] as a future.
    pub async fn subscribe_async(&self, name: &str) -> Result<TypedSubscription<'_, T, C>> {
        let opened = self.topic.subscription(name).open_async().await?;
        Ok(self.subscription(opened))
    }
}

impl<T, C: Codec<T>> TypedFollow<'_, T, C> {
    /// The next value as a future, as [`Follow::next_async`].
    ///
    /// [`Follow::next_async`]: super::Follow::next_async
    pub async fn next_async(&mut self) -> Result<Option<Typed<T>>> {
        let record = self.follow.next_async().await?;
        self.topic.typed_if(record)
    }
}

impl<T, C: Codec<T>> TypedSubscription<'_, T, C> {
    /// [`TypedSubscription::next_wait`] as a future.
    pub async fn next_async(&mut self) -> Result<Option<Typed<T>>> {
        let record = self.subscription.next_async().await?;
        self.topic.typed_if(record)
    }

    /// [`TypedSubscription::commit`] as a future.
    pub async fn commit_async(&mut self) -> Result<()> {
        self.subscription.commit_async().await
    }
}
