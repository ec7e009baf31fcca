//! Some of the records of each minute, and no more.
//!
//! A record is kept if, of those of the topic that were read before it and lie in the same minute by their
//! own times, fewer of its source were kept than may be, and none with the same mark. What has been
//! counted of a minute is not stored, but found again by reading that minute from its beginning, up to
//! where reading began. In a topic with one partition the order is that of its offsets, so what is kept
//! depends on nothing but its records. Over several it is not known how they were read between each
//! other: [decision 14](../../../docs/decisions/0014-sampling-counts-over-partitions.md).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::store::stored::StoredRecord;

/// How many minutes are held in memory.
const MOST: usize = 64;
const MINUTE: i64 = 60 * 1_000_000_000;

/// Some of the records of each minute: see [`SubscriptionBuilder::sampling`].
///
/// A minute is one of the records' own times, and all partitions of the topic count together.
///
/// In a topic with one partition what is kept depends on nothing but the records: of two starts with
/// the same options none keeps a record that the other does not, whatever was read or committed before,
/// as long as retention has not removed a part of the minute. With several it depends on the order in
/// which they were read, too, of which nothing is stored. What lies before the committed places counts
/// then: of what is committed there are never more than so many, and never two with one mark. What was
/// returned and not committed may after a restart give way to others of its minute; and where there are
/// marks, fewer may be kept of the minutes that were begun before it.
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

    /// A record's source and mark.
    fn values(&self, record: &StoredRecord<'_>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let value = |name: &Option<String>| record.header(name.as_deref()?).map(<[u8]>::to_vec);
        (value(&self.source), value(&self.unique))
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
        let (source, mark) = sampling.values(record);
        if mark.as_ref().is_some_and(|mark| self.marks.contains(mark)) {
            return Verdict::Duplicate;
        }
        let kept = self.sources.entry(source).or_default();
        if *kept >= sampling.per_minute {
            return Verdict::Surplus;
        }
        *kept += 1;
        self.marks.extend(mark);
        Verdict::Kept
    }
}

/// A minute that is found again by reading it.
#[derive(Debug)]
pub(super) struct Replay<'s> {
    sampling: &'s Sampling,
    /// They were judged in the order in which they are read now.
    in_order: bool,
    minute: Minute,
    /// Sources with their marks.
    seen: BTreeSet<(Option<Vec<u8>>, Vec<u8>)>,
}

impl Replay<'_> {
    pub(super) fn new(sampling: &Sampling, in_order: bool) -> Replay<'_> {
        Replay {
            sampling,
            in_order,
            minute: Minute::default(),
            seen: BTreeSet::new(),
        }
    }

    /// Notes a record that was judged before. Where nobody knows in which order, it counts as one that
    /// was kept, unless one of its source and mark did: that is never too little.
    pub(super) fn see(&mut self, record: &StoredRecord<'_>) {
        if self.in_order {
            self.minute.take(self.sampling, record);
            return;
        }
        let (source, mark) = self.sampling.values(record);
        if let Some(mark) = mark {
            if !self.seen.insert((source.clone(), mark.clone())) {
                return;
            }
            self.minute.marks.insert(mark);
        }
        let kept = self.minute.sources.entry(source).or_default();
        *kept = kept.saturating_add(1);
    }

    pub(super) fn minute(self) -> Minute {
        self.minute
    }
}

/// The minutes that were read last.
#[derive(Debug)]
pub(super) struct Window {
    minutes: BTreeMap<i64, Minute>,
    /// Of each partition: all records from here...
    from: Vec<u64>,
    /// ...up to here were seen.
    next: Vec<u64>,
    /// Minutes between these have been forgotten.
    forgotten: Option<(i64, i64)>,
    turn: u64,
}

impl Window {
    /// Knows nothing, where the records of each partition below these are judged.
    pub(super) fn at(places: Vec<u64>) -> Window {
        Window {
            minutes: BTreeMap::new(),
            from: places.clone(),
            next: places,
            forgotten: None,
            turn: 0,
        }
    }

    /// Whether a record has been seen here.
    pub(super) fn has_seen(&self, partition: usize, offset: u64) -> bool {
        offset < self.next[partition]
    }

    pub(super) fn saw(&mut self, partition: usize, offset: u64) {
        self.next[partition] = offset + 1;
    }

    /// Where nothing is known of a minute: below which offsets its records were judged.
    pub(super) fn lacks(&self, minute: i64) -> Option<Vec<u64>> {
        if self.minutes.contains_key(&minute) {
            return None;
        }
        let forgotten = self.forgotten;
        let never = forgotten.is_none_or(|(low, high)| minute < low || minute > high);
        Some(if never { &self.from } else { &self.next }.clone())
    }

    /// What was kept of a minute that it lacked.
    pub(super) fn learn(&mut self, minute: i64, held: Minute) {
        if self.minutes.len() >= MOST {
            let oldest = self.minutes.iter().min_by_key(|(_, held)| held.used);
            if let Some((&oldest, _)) = oldest {
                self.minutes.remove(&oldest);
                let (low, high) = self.forgotten.unwrap_or((oldest, oldest));
                self.forgotten = Some((low.min(oldest), high.max(oldest)));
            }
        }
        self.minutes.insert(minute, held);
    }

    /// A minute that is known.
    pub(super) fn minute(&mut self, minute: i64) -> &mut Minute {
        self.turn += 1;
        let held = self.minutes.entry(minute).or_default();
        held.used = self.turn;
        held
    }
}
