//! Letting go of what is old.

use super::topic::Partition;
use crate::error::{Error, Result};
use crate::journal::{Event, LogStart};

impl Partition {
    /// Removes what lies below an offset, as far as whole segments do, and are safe in their own files;
    /// the first offset that is still there. The last segment always stays. Offsets are not given
    /// anew.
    ///
    /// It is durable when it returns. A crash before that leaves the partition as it was, or as it will
    /// be. Who stands in what is removed reads that segment to its end, and is then told
    /// [`Error::OffsetExpired`]; the space is free when he has moved on.
    ///
    /// # Errors
    ///
    /// [`Error::BeyondEnd`] for an offset behind the last durable record. Where a file cannot be removed
    /// the partition begins behind it all the same, and the next call, or the next opening, tries again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// # let topic = store.topic("quakes")?;
    /// # topic.append("M 4.6")?;
    /// let partition = topic.partition(0)?;
    /// // All of it is in one segment, which stays.
    /// assert_eq!(partition.truncate_before(1)?, 0);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn truncate_before(&self, offset: u64) -> Result<u64> {
        let store = self.topic.store.shared();
        // One at a time: the journal never says that a log begins before where it began.
        let _one = store.catalog()?;
        store.check_open()?;
        let log = self.topic.log(self.number)?;
        let end = log.durable();
        if offset > end {
            return Err(Error::BeyondEnd {
                topic: self.topic.name().to_owned(),
                partition: self.number,
                asked: offset,
                end,
            });
        }
        let id = log.site().log;
        let stated = store
            .journal
            .fold(|fold| fold.log(id).and_then(|log| log.start.clone()));
        let stated = stated.map_or(0, |start| start.offset);
        let start = log.start_before(offset.max(stated))?;
        if let Some((segment, base)) = start.filter(|(_, base)| *base > stated) {
            store.journal.commit(&[Event::Start(LogStart {
                log: id,
                segment,
                offset: base,
            })])?;
        }
        if let Some((_, base)) = start {
            log.remove_below(base)?;
        }
        Ok(log.first())
    }
}
