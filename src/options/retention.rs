//! How long a topic keeps its records.

use std::time::Duration;

use super::StoreOptions;
use crate::error::{Error, Result};

/// How long a topic keeps its records: by age, by bytes of each partition, or by either.
///
/// What lies within the limits is never removed: a segment goes when its last record was appended
/// longer ago than the age, or when the segments behind it hold as many bytes as are to be kept.
/// Whole segments go, oldest first, and the one that is written to never does. So a partition keeps a
/// little more than it is told to: at most a quarter of the age, since the segment that is written to
/// ends after so long, idle or not, and about a quarter of the bytes, which is how long its new
/// segments may get. The age is counted by the clock of the process that appended, whatever times the
/// records have; bytes are those of records, with keys and headers, or those of the file where a segment
/// does not tell.
///
/// What was appended while that clock was ahead does not wait until the time has come that it showed. Once
/// the clock has been set right, its age counts from the next append to a later segment; where there is
/// none, from when the process that owns the store first saw that the time is still to come, which it does
/// within [`StoreOptions::retention_interval`](crate::StoreOptions::retention_interval), and anew after
/// each opening.
///
/// # Examples
///
/// ```
/// use tidelog::{Retention, Store, TopicOptions};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let week = TopicOptions::new().retention(Retention::days(7).or_bytes(20 << 30));
/// let output = store.create_topic("agent.output", week)?;
/// assert_eq!(output.retention(), Retention::days(7).or_bytes(20 << 30));
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    pub(crate) age: Option<Duration>,
    pub(crate) bytes: Option<u64>,
    pub(crate) required: Option<u64>,
}

impl StoreOptions {
    /// Whether the store removes by itself what has expired, as it does if this is not said. Without it
    /// an owner that only looks after a store changes nothing about what is in it; what expires goes
    /// with [`Store::apply_retention`](crate::Store::apply_retention), or with the next owner, and an
    /// append that waits for room in a full topic waits in vain.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelog::{Store, StoreOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    /// let store = Store::open_with(&data, StoreOptions::new().background_retention(false))?;
    /// store.backup(&copy)?; // with what has expired since the last owner was here
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn background_retention(mut self, background: bool) -> Self {
        self.background_retention = background;
        self
    }
}

/// The active segment ends when its first record is as old as this part of the age.
const PARTS: u32 = 4;

impl Retention {
    /// For ever: what a topic does that is not told otherwise.
    pub fn forever() -> Retention {
        Retention::default()
    }

    /// Records go when they are older than this, a millisecond or more.
    pub fn age(age: Duration) -> Retention {
        Retention::default().or_age(age)
    }

    /// Records go when they are older than so many days, one or more.
    pub fn days(days: u32) -> Retention {
        Retention::age(Duration::from_secs(24 * 3600) * days)
    }

    /// The oldest records go when newer ones of the same partition have so many bytes.
    pub fn bytes(bytes: u64) -> Retention {
        Retention::default().or_bytes(bytes)
    }

    /// Records go also when they are older than this.
    pub fn or_age(mut self, age: Duration) -> Retention {
        self.age = Some(age);
        self
    }

    /// The oldest records go also when newer ones of the same partition have so many bytes.
    pub fn or_bytes(mut self, bytes: u64) -> Retention {
        self.bytes = Some(bytes);
        self
    }

    /// Keeps what a subscription that is [required] has not committed, whatever the limits say; but
    /// not for ever: what has so many bytes of newer records of the same partition behind it goes all
    /// the same.
    ///
    /// [required]: crate::SubscriptionBuilder::required
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelog::Retention;
    /// // What everybody has read goes at once; what somebody has not, when there are 10 GiB of it.
    /// let inbox = Retention::bytes(0).keep_required(10 << 30);
    /// ```
    pub fn keep_required(mut self, limit: u64) -> Retention {
        self.required = Some(limit);
        self
    }

    /// Whether anything ever goes.
    pub(crate) fn is_limited(&self) -> bool {
        self.age.is_some() || self.bytes.is_some()
    }

    /// The age in nanoseconds, if there is one.
    pub(crate) fn age_nanos(&self) -> Option<i64> {
        self.age
            .map(|age| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX))
    }

    /// How old the first record of the active segment may get, in nanoseconds.
    pub(crate) fn roll_nanos(&self) -> Option<i64> {
        self.age_nanos().map(|age| age / i64::from(PARTS))
    }

    /// The longest that new segments should get, beside other limits.
    pub(crate) fn segment_bytes(&self) -> Option<u64> {
        self.bytes.map(|bytes| bytes / u64::from(PARTS))
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.age {
            Some(age) if age < Duration::from_millis(1) => Err(Error::InvalidOption {
                option: "retention",
                reason: format!("an age of {age:?} is less than a millisecond"),
            }),
            _ => Ok(()),
        }
    }
}
