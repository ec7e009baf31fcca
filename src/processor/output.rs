//! Where a processor's function puts its records.

use crate::error::{Error, Result};
use crate::store::{Record, Topic};

/// Takes what a processor's function puts out: for the topics that were declared, and no others.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// store.topic("orders")?.append(Record::new("figs").key("ann"))?;
/// let clerk = store.processor("clerk").input("orders").output("done").output("audit");
/// clerk.run_once(|record, out| {
///     out.append(record.to_record())?;
///     out.append_to("audit", "an order was served")?;
///     Ok(())
/// })?;
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Output<'a> {
    processor: &'a str,
    topics: &'a [Topic],
    /// What a record may put out in a transaction, in bytes.
    limit: Option<u64>,
    pub(super) put: Vec<(usize, Record<'static>)>,
    pub(super) bytes: u64,
}

impl<'a> Output<'a> {
    pub(super) fn new(processor: &'a str, topics: &'a [Topic], limit: Option<u64>) -> Output<'a> {
        Output {
            processor,
            topics,
            limit,
            put: Vec::new(),
            bytes: 0,
        }
    }

    /// Puts a record out, to the only output or the first one that was declared. It goes to the partition
    /// it names, else to that of its key, else to the next in turn.
    ///
    /// # Errors
    ///
    /// What an append to that topic is refused with; [`Error::TransactionTooLarge`] if one record puts
    /// out more than fits into a transaction; [`Error::OutputUnknown`] if no output was declared.
    pub fn append<'r>(&mut self, record: impl Into<Record<'r>>) -> Result<()> {
        match self.topics.is_empty() {
            true => Err(self.unknown("")),
            false => self.put(0, record.into()),
        }
    }

    /// Puts a record out, to this output.
    ///
    /// # Errors
    ///
    /// As for [`Output::append`]; [`Error::OutputUnknown`] if it was not declared.
    pub fn append_to<'r>(&mut self, topic: &str, record: impl Into<Record<'r>>) -> Result<()> {
        let found = self.topics.iter().position(|it| it.name() == topic);
        let index = found.ok_or_else(|| self.unknown(topic))?;
        self.put(index, record.into())
    }

    fn put(&mut self, index: usize, record: Record<'_>) -> Result<()> {
        let (partition, bytes) = self.topics[index].weigh(&record)?;
        let size = self.bytes + bytes;
        if let Some(limit) = self.limit.filter(|it| size > *it && !self.put.is_empty()) {
            return Err(Error::TransactionTooLarge { size, limit });
        }
        self.bytes = size;
        self.put
            .push((index, record.into_owned().partition(partition)));
        Ok(())
    }

    fn unknown(&self, topic: &str) -> Error {
        Error::OutputUnknown {
            processor: self.processor.to_owned(),
            topic: topic.to_owned(),
        }
    }
}
