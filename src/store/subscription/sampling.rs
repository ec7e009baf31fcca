//! Some of the records of each minute, and no more.
//!
//! What is kept depends on nothing but the partition's records: a record is kept if, of those before
//! it in its partition that lie in the same minute by their own times, fewer of its source were kept
//! than may be, and none with the same mark. So it does not matter where reading begins, nor how often
//! a program was started anew. What has been counted of a minute is not stored, but found again by
//! reading that minute from its beginning.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::store::stored::StoredRecord;

/// How many minutes of a partition are held in memory.
const MOST: usize = 64;
const MINUTE: i64 = 60 * 1_000_000_000;

/// Some of the records of each minute: see [`SubscriptionBuilder::sampling`].
///
/// A minute is one of the records' own times, and each partition is sampled for itself. Of two
/// starts with the same options none keeps a record that the other does not, whatever was read or
/// committed before, as long as retention has not removed a part of the minute.
///
/// [`SubscriptionBuilder::sampling`]: crate::SubscriptionBuilder::sampling
///
/// # Examples
///
/// ```
/// use tidelog::Sampling;
/// // Ten a minute of each station, and of each event one.
/// let sampled = Sampling::per_minute(10).source("station").unique("event");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    per_minute: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique: Option<String>,
}

impl Sampling {
    /// So many records a minute, one or more.
    pub fn per_minute(most: u32) -> Sampling {
        Sampling {
            per_minute: most,
            source: None,
            unique: None,
        }
    }

    /// So many of each source, which is the value of this header; those without it are one source.
    pub fn source(mut self, header: impl Into<String>) -> Sampling {
        self.source = Some(header.into());
        self
    }

    /// Of the records with the same value of this header only the first that is kept in a minute; those
    /// without it are all different.
    pub fn unique(mut self, header: impl Into<String>) -> Sampling {
        self.unique = Some(header.into());
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.per_minute {
            0 => Err(Error::InvalidOption {
                option: "sampling",
                reason: "none a minute would keep nothing".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    /// The filter does not let it pass.
    Filtered,
    /// There were enough of its source.
    Surplus,
    /// One like it was kept.
    Duplicate,
}

/// The minute of a record.
pub(super) fn minute_of(record: &StoredRecord<'_>) -> i64 {
    record.timestamp().as_nanos().div_euclid(MINUTE)
}

/// When a minute begins, in nanoseconds.
pub(super) fn begins(minute: i64) -> i64 {
    minute.saturating_mul(MINUTE)
}

/// What was kept of a minute.
#[derive(Debug, Default)]
pub(super) struct Minute {
    sources: BTreeMap<Option<Vec<u8>>, u32>,
    marks: BTreeSet<Vec<u8>>,
    used: u64,
}

impl Minute {
    /// Whether the next record of this minute is kept.
    pub(super) fn take(&mut self, sampling: &Sampling, record: &StoredRecord<'_>) -> Verdict {
        let value = |name: &Option<String>| record.header(name.as_deref()?).map(<[u8]>::to_vec);
        let mark = value(&sampling.unique);
        if mark.as_ref().is_some_and(|mark| self.marks.contains(mark)) {
            return Verdict::Duplicate;
        }
        let kept = self.sources.entry(value(&sampling.source)).or_default();
        if *kept >= sampling.per_minute {
            return Verdict::Surplus;
        }
        *kept += 1;
        self.marks.extend(mark);
        Verdict::Kept
    }
}

/// The minutes of a partition that were read last.
#[derive(Debug, Default)]
pub(super) struct Window {
    minutes: BTreeMap<i64, Minute>,
    /// All records from this one up to the next one were seen.
    from: u64,
    next: u64,
    /// Minutes between these have been forgotten.
    forgotten: Option<(i64, i64)>,
    turn: u64,
}

impl Window {
    /// Gets ready for the record at an offset: the records before it that have to be read if nothing is
    /// known of its minute; `None` if that is known.
    pub(super) fn arrive(&mut self, offset: u64, minute: i64) -> Option<u64> {
        if offset != self.next {
            *self = Window {
                from: offset,
                ..Window::default()
            };
        }
        self.next = offset + 1;
        if self.minutes.contains_key(&minute) {
            return None;
        }
        let forgotten = self.forgotten;
        let known = forgotten.is_none_or(|(low, high)| minute < low || minute > high);
        Some(if known { self.from } else { offset })
    }

    /// A minute, of which something is known from here on.
    pub(super) fn minute(&mut self, minute: i64) -> &mut Minute {
        if self.minutes.len() >= MOST && !self.minutes.contains_key(&minute) {
            let oldest = self.minutes.iter().min_by_key(|(_, held)| held.used);
            if let Some((&oldest, _)) = oldest {
                self.minutes.remove(&oldest);
                let (low, high) = self.forgotten.unwrap_or((oldest, oldest));
                self.forgotten = Some((low.min(oldest), high.max(oldest)));
            }
        }
        self.turn += 1;
        let held = self.minutes.entry(minute).or_default();
        held.used = self.turn;
        held
    }
}
