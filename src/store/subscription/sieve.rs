//! What a subscription is given of what is there, and how much it is not.

use super::filter::Filter;
use super::sampling::{Minute, Sampling, Verdict, Window, begins, minute_of};
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

/// A filter and a sampling, and what they know of each partition.
#[derive(Debug)]
pub(super) struct Sieve {
    filter: Option<Filter>,
    sampling: Option<Sampling>,
    windows: Vec<Window>,
    pub(super) counts: Counts,
}

impl Sieve {
    /// `None` where everything passes.
    pub(super) fn new(
        filter: Option<Filter>,
        sampling: Option<Sampling>,
        partitions: usize,
    ) -> Option<Sieve> {
        if filter.is_none() && sampling.is_none() {
            return None;
        }
        let mut windows = Vec::new();
        windows.resize_with(partitions, Window::default);
        Some(Sieve {
            filter,
            sampling,
            windows,
            counts: Counts::default(),
        })
    }

    /// Whether a record is returned.
    pub(super) fn keeps(&mut self, topic: &Topic, record: &StoredRecord<'_>) -> Result<bool> {
        let verdict = self.judge(topic, record)?;
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
        let passes = passes(self.filter.as_ref(), record);
        let Some(sampling) = &self.sampling else {
            return Ok(if passes {
                Verdict::Kept
            } else {
                Verdict::Filtered
            });
        };
        let (offset, minute) = (record.offset(), minute_of(record));
        let window = &mut self.windows[record.partition() as usize];
        if let Some(known) = window.arrive(offset, minute) {
            let held = window.minute(minute);
            let read = read_back(topic, record.partition(), (minute, known), |earlier| {
                replay(held, sampling, self.filter.as_ref(), earlier);
            });
            // Half of a minute is worse than nothing of it.
            read.inspect_err(|_| *window = Window::default())?;
        }
        Ok(match passes {
            true => window.minute(minute).take(sampling, record),
            false => Verdict::Filtered,
        })
    }
}

fn passes(filter: Option<&Filter>, record: &StoredRecord<'_>) -> bool {
    filter.is_none_or(|filter| filter.passes(record))
}

/// Notes a record that was judged before.
fn replay(
    held: &mut Minute,
    sampling: &Sampling,
    filter: Option<&Filter>,
    record: &StoredRecord<'_>,
) {
    if passes(filter, record) {
        held.take(sampling, record);
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
