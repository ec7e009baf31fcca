//! Processors: a function between topics, run over each record of one, with its place kept.
//!
//! A processor reads its input under a subscription of its own and commits there: after its output is
//! durable, or in one transaction with it. What to do with a record that the function fails with is its
//! policy.

mod builder;
mod engine;
mod output;
mod policy;
mod running;

use crate::store::StoredRecord;

pub use builder::{OpenProcessor, ProcessorBuilder};
pub use output::Output;
pub use policy::{OnError, Retry};
pub use running::RunningProcessor;

/// Why a processor's function failed: any error, also one of this crate, by `?`.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is done with each record. A closure of the same parameters does where there is nothing to keep
/// but what it captures.
///
/// # Examples
///
/// ```
/// use tidelog::{Failure, Output, Processor, Store, StoredRecord};
///
/// /// Numbers the records.
/// struct Counter(u64);
///
/// impl Processor for Counter {
///     fn process(&mut self, record: StoredRecord<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
///         self.0 += 1;
///         out.append(format!("{}: {}", self.0, record.text()?))?;
///         Ok(())
///     }
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// store.topic("quakes")?.append("M 4.6")?;
/// let counter = store.processor("counter").input("quakes").output("numbered");
/// let counts = counter.open(Counter(0))?.run_once()?;
/// assert_eq!((counts.records_in, counts.records_out), (1, 1));
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Processor {
    /// Handles a record. What it puts out counts only if it returns without an error: it may be called
    /// again with the same record, and what it put out before is forgotten then. A panic is an error.
    fn process(&mut self, record: StoredRecord<'_>, out: &mut Output<'_>) -> Result<(), Failure>;
}

/// A closure as a processor.
#[derive(Debug)]
struct Function<F>(F);

impl<F> Processor for Function<F>
where
    F: FnMut(StoredRecord<'_>, &mut Output<'_>) -> Result<(), Failure>,
{
    fn process(&mut self, record: StoredRecord<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
        (self.0)(record, out)
    }
}
