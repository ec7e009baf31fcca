//! What a subscription is given of what is there, and how much it is not.

use super::filter::Filter;
use super::sampling::{Replay, Sampling, Verdict, Window, begins, minute_of};
use crate::error::{Error, Result};
use crate::store::read::Start;
use crate::store::record::Timestamp;
use crate::store::stored::StoredRecord;
use crate::store::topic::Topic;

/// What became of the records that a subscription with a filter or a sampling has read, since it was
/// opened: together they are all of them.
///
/// # Examples
///
/// ```
/// use tidelog::{Record, Sampling, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # let quakes = store.topic("quakes")?;
/// quakes.append_batch(["M 4.6", "M 2.1", "M 1.9"].map(Record::new))?;
/// let mut sampler = quakes.subscription("sampler").sampling(Sampling::per_minute(1)).open()?;
/// while sampler.next()?.is_some() {}
/// assert_eq!((sampler.counts().kept, sampler.counts().surplus), (1, 2));
/// # drop(sampler);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Those that were returned.
    pub kept: u64,
    /// Those that the filter did not let pass.
    pub filtered: u64,
    /// Those of which sampling had kept enough.
    pub surplus: u64,
    /// Those like one that sampling had kept.
    pub duplicates: u64,
}

/// A filter and a sampling, and what they know of the minutes read last.
#[derive(Debug)]
pub(super) struct Sieve {
    filter: Option<Filter>,
    sampling: Option<Sampling>,
    window: Window,
    pub(super) counts: Counts,
}

impl Sieve {
    /// `None` where everything passes. Reading begins at these places, one of each partition.
    pub(super) fn new(
        filter: Option<Filter>,
        sampling: Option<Sampling>,
        places: &[u64],
    ) -> Option<Sieve> {
        if filter.is_none() && sampling.is_none() {
            return None;
        }
        Some(Sieve {
            filter,
            sampling,
            window: Window::at(places.to_vec()),
            counts: Counts::default(),
        })
    }

    /// Reading goes on at these places.
    pub(super) fn stand_at(&mut self, places: Vec<u64>) {
        self.window = Window::at(places);
    }

    /// Whether a record is returned. One that has been seen before since reading began somewhere was,
    /// and is returned once more.
    pub(super) fn keeps(&mut self, topic: &Topic, record: &StoredRecord<'_>) -> Result<bool> {
        let (partition, offset) = (record.partition() as usize, record.offset());
        if self.window.has_seen(partition, offset) {
            return Ok(true);
        }
        let verdict = self.judge(topic, record)?;
        self.window.saw(partition, offset);
        let counts = &mut self.counts;
        *match verdict {
            Verdict::Kept => &mut counts.kept,
            Verdict::Filtered => &mut counts.filtered,
            Verdict::Surplus => &mut counts.surplus,
            Verdict::Duplicate => &mut counts.duplicates,
        } += 1;
        Ok(verdict == Verdict::Kept)
    }

    fn judge(&mut self, topic: &Topic, record: &StoredRecord<'_>) -> Result<Verdict> {
        let filter = self.filter.as_ref();
        let passes = |record: &StoredRecord<'_>| filter.is_none_or(|filter| filter.passes(record));
        if !passes(record) {
            return Ok(Verdict::Filtered);
        }
        let Some(sampling) = &self.sampling else {
            return Ok(Verdict::Kept);
        };
        let minute = minute_of(record);
        if let Some(below) = self.window.lacks(minute) {
            let mut replay = Replay::new(sampling, below.len() == 1);
            for (partition, below) in (0..).zip(below) {
                read_back(topic, partition, (minute, below), |earlier| {
                    if passes(earlier) {
                        replay.see(earlier);
                    }
                })?;
            }
            self.window.learn(minute, replay.minute());
        }
        Ok(self.window.minute(minute).take(sampling, record))
    }
}

/// Reads the records of a minute below an offset, in order. What is damaged was never judged.
fn read_back(
    topic: &Topic,
    partition: u32,
    (minute, below): (i64, u64),
    mut see: impl FnMut(&StoredRecord<'_>),
) -> Result<()> {
    let log = topic.log(partition)?;
    let first = log.offset_at(Timestamp::from_nanos(begins(minute)).as_nanos(), below)?;
    let mut cursor = topic.partition(partition)?.cursor(Start::Offset(first))?;
    while cursor.offset() < below {
        match cursor.next_below(below) {
            Ok(Some(record)) if minute_of(&record) == minute => see(&record),
            Ok(Some(_)) | Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => {}
            Ok(None) => break,
            Err(Error::OffsetExpired { first, .. }) => cursor.seek(Start::Offset(first))?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
