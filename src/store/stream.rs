//! Following as a stream of owned records.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::follow::{Follow, Stopper};
use super::stored::OwnedRecord;
use crate::error::Result;
use crate::sync::Place;

/// A [`Follow`] as a stream: what is there, and then what comes, as owned records.
///
/// It ends where the follower ends, and after an error that is not one damaged stretch. Reading
/// may wait for the disk, as every reader of a mapped file does.
///
/// # Examples
///
/// ```
/// # use futures_lite::StreamExt;
/// # use tidelog::{Record, Start, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let topic = store.topic("quakes")?;
/// # topic.append(Record::new("M 4.6"))?;
/// # topic.finish()?;
/// # futures_lite::future::block_on(async {
/// let mut tail = topic.follow(Start::Earliest)?.into_stream();
/// while let Some(record) = tail.next().await {
///     println!("{}", record?.text()?);
/// }
/// # tidelog::Result::<()>::Ok(())
/// # })?;
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FollowStream {
    follow: Follow,
    place: Option<Place>,
}

impl FollowStream {
    pub(super) fn new(follow: Follow) -> FollowStream {
        FollowStream {
            follow,
            place: None,
        }
    }

    /// A handle that ends this stream from elsewhere.
    pub fn stopper(&self) -> Stopper {
        self.follow.stopper()
    }
}

impl Stream for FollowStream {
    type Item = Result<OwnedRecord>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(found) = this.follow.try_owned() {
                return Poll::Ready(found);
            }
            if let Err(error) = this.follow.watch() {
                return Poll::Ready(Some(Err(error)));
            }
            let (bell, rung) = (this.follow.bell(), || this.follow.is_rung());
            let poll = bell.poll_past(u64::MAX, &mut this.place, context, rung);
            if poll.is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for FollowStream {
    fn drop(&mut self) {
        let bell = self.follow.bell();
        self.place
            .take()
            .into_iter()
            .for_each(|place| bell.leave(place));
    }
}
