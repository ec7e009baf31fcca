//! When what is written is synced, and whether that is waited for.

use std::time::Duration;

use crate::error::{Error, Result};

/// When what is written to a topic is synced, and so becomes durable.
///
/// In every mode a sync is forced by `flush`, by a subscription's commit of what is not durable
/// yet, at the bound of [`TopicOptions::unsettled_bytes`], by finishing the topic, by changing its
/// mode, and by closing the store. What is written and not durable survives the killing of the
/// process; a power cut may take it, from some batch on to the end.
///
/// [`TopicOptions::unsettled_bytes`]: crate::TopicOptions::unsettled_bytes
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// # use tidelog::{Durability, Record, Store, TopicOptions};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let often = TopicOptions::new().durability(Durability::Interval(Duration::from_millis(20)));
/// let samples = store.create_topic("samples", often)?;
/// samples.append(Record::new("21.5 degrees"))?; // waits for the next sync
///
/// let manual = TopicOptions::new().durability(Durability::Manual);
/// let samples = store.create_topic("samples", manual)?; // from now on
/// samples.append_nowait(Record::new("21.6 degrees"))?;
/// samples.flush()?;
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// As soon as there is something to sync; what is appended meanwhile shares the next sync.
    #[default]
    Commit,
    /// At intervals, up to a day: at most one sync in each, whatever is appended, and none
    /// without anything new. `append` waits for it.
    Interval(Duration),
    /// When it is flushed. `append` and `append_batch`, which wait, are
    /// [`NeedsFlush`](Error::NeedsFlush); their `nowait` forms are not.
    Manual,
}

/// Which records a reader sees.
///
/// # Examples
///
/// ```
/// use tidelog::Visibility;
/// assert_eq!(Visibility::default(), Visibility::Durable);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Visibility {
    /// Those that survive a power cut.
    #[default]
    Durable,
    /// Those that are written, too: sooner, and a crash may take them back.
    Written,
}

/// No interval is as long.
const BY_HAND: u64 = u64::MAX;

impl Durability {
    pub(super) const LONGEST: Duration = Duration::from_secs(24 * 3600);

    /// How long a record may be written before its sync is due, in nanoseconds; `None` for until
    /// somebody asks.
    pub(crate) fn nanos(self) -> Option<u64> {
        match self {
            Durability::Commit => Some(0),
            Durability::Interval(interval) => {
                Some(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX))
            }
            Durability::Manual => None,
        }
    }

    /// The same in a word that can be changed while others look at it.
    pub(crate) fn word(self) -> u64 {
        self.nanos().unwrap_or(BY_HAND)
    }

    pub(crate) fn from_word(word: u64) -> Durability {
        Durability::from_nanos(Some(word).filter(|word| *word != BY_HAND))
    }

    pub(crate) fn from_nanos(nanos: Option<u64>) -> Durability {
        match nanos {
            Some(0) => Durability::Commit,
            Some(nanos) => Durability::Interval(Duration::from_nanos(nanos)),
            None => Durability::Manual,
        }
    }

    pub(super) fn check(self) -> Result<()> {
        match self {
            Durability::Interval(interval)
                if interval.is_zero() || interval > Durability::LONGEST =>
            {
                Err(Error::InvalidOption {
                    option: "durability",
                    reason: format!("{interval:?} is not more than nothing and at most a day"),
                })
            }
            _ => Ok(()),
        }
    }
}
