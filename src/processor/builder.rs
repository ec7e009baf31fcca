//! How a processor is declared and opened.

use super::engine::{Engine, Pending};
use super::output::Output;
use super::policy::{OnError, Retry};
use super::running::RunningProcessor;
use super::{Failure, Function, Processor};
use crate::error::{Error, Result};
use crate::store::ProcessorCounts;
use crate::store::{Start, Stopper, Store, StoredRecord, check_name};

/// So many records at the most share a commit, where nobody says how many.
const BATCH: u32 = 1000;

/// How to run a processor.
///
/// # Examples
///
/// ```
/// # use tidelog::{OnError, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// # for magnitude in ["4.6", "2.1", "calm"] {
/// #     store.topic("quakes")?.append(magnitude)?;
/// # }
/// let counts = store
///     .processor("alerts")
///     .input("quakes")
///     .output("quakes.alerts")
///     .on_error(OnError::dead_letter("quakes.dead"))
///     .run_once(|record, out| {
///         if record.text()?.parse::<f64>()? >= 4.0 {
///             out.append(record.to_record())?;
///         }
///         Ok(())
///     })?;
/// assert_eq!((counts.records_out, counts.dead_lettered), (1, 1));
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ProcessorBuilder {
    store: Store,
    name: String,
    input: String,
    outputs: Vec<String>,
    start: Start,
    on_error: OnError,
    retry: Retry,
    transactional: bool,
    batch: u32,
}

impl Store {
    /// A processor of that name. It keeps its place as the subscription `processor.<name>` of its input,
    /// so one of a name runs at a time; any number of them run beside each other, each on the thread
    /// that runs it, and none holds up another.
    ///
    /// It commits its input after the output is durable: after a crash some records are processed again,
    /// and their output is there twice. [`ProcessorBuilder::transactional`] is for who must not have
    /// that. Either way records share commits, as many as come within a tenth of a second.
    pub fn processor(&self, name: &str) -> ProcessorBuilder {
        ProcessorBuilder {
            store: self.clone(),
            name: name.to_owned(),
            input: String::new(),
            outputs: Vec::new(),
            start: Start::Earliest,
            on_error: OnError::Stop,
            retry: Retry::never(),
            transactional: false,
            batch: BATCH,
        }
    }
}

impl ProcessorBuilder {
    /// The topic that it reads, which must be there.
    pub fn input(mut self, topic: &str) -> Self {
        topic.clone_into(&mut self.input);
        self
    }

    /// A topic that it writes to, made with default options if there is none. Any number of them.
    pub fn output(mut self, topic: &str) -> Self {
        self.outputs.push(topic.to_owned());
        self
    }

    /// Where it starts the first time; at the earliest record if this is not said.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// What becomes of a record that the function fails with; [`OnError::Stop`] if this is not said.
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// How often a record is tried before that; once if this is not said. Records before it are
    /// committed meanwhile, those behind it wait.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Output and checkpoint become durable together, in one transaction: inside the store each record
    /// has its effect exactly once, whatever crashes.
    pub fn transactional(mut self) -> Self {
        self.transactional = true;
        self
    }

    /// How many records share a commit at the most, 1 or more; 1,000 if this is not said.
    pub fn batch(mut self, records: u32) -> Self {
        self.batch = records;
        self
    }

    /// Opens the topics and the subscription, for [`OpenProcessor::run`] and its like.
    ///
    /// # Errors
    ///
    /// [`Error::TopicUnknown`] without an input; [`Error::SubscriptionBusy`] while another one of that
    /// name runs; [`Error::InvalidName`]; [`Error::InvalidOption`], also for dead letters that would go
    /// to the input, where they would fail for ever. An output may be the input.
    pub fn open<P: Processor>(self, processor: P) -> Result<OpenProcessor<P>> {
        check_name(&self.name)?;
        self.retry.check()?;
        if self.batch == 0 {
            return Err(Error::InvalidOption {
                option: "batch",
                reason: "a commit covers one record at least".to_owned(),
            });
        }
        if matches!(&self.on_error, OnError::DeadLetter(dead) if *dead == self.input) {
            return Err(Error::InvalidOption {
                option: "on_error",
                reason: format!(
                    "dead letters to the input {dead:?} come back",
                    dead = self.input
                ),
            });
        }
        let input = self.store.existing_topic(&self.input)?;
        let mut names = self.outputs;
        let outputs = names.len();
        if let OnError::DeadLetter(dead) = &self.on_error {
            names.push(dead.clone());
        }
        let topics = names.iter().map(|name| self.store.topic(name));
        let topics = topics.collect::<Result<Vec<_>>>()?;
        let subscription = format!("processor.{}", self.name);
        let subscription = input.subscription(&subscription).start(self.start).open()?;
        let counters = self.store.counted(&self.name);
        Ok(OpenProcessor(Engine {
            store: self.store,
            name: self.name,
            input,
            subscription,
            topics,
            outputs,
            on_error: self.on_error,
            retry: self.retry,
            transactional: self.transactional,
            batch: self.batch,
            pending: Pending::default(),
            counters,
            processor,
        }))
    }

    /// Runs the function over what is there and what comes, on this thread, as
    /// [`OpenProcessor::run`].
    pub fn run<F>(self, function: F) -> Result<ProcessorCounts>
    where
        F: FnMut(StoredRecord<'_>, &mut Output<'_>) -> std::result::Result<(), Failure>,
    {
        self.open(Function(function))?.run()
    }

    /// Runs the function once over what is there, on this thread, as [`OpenProcessor::run_once`].
    pub fn run_once<F>(self, function: F) -> Result<ProcessorCounts>
    where
        F: FnMut(StoredRecord<'_>, &mut Output<'_>) -> std::result::Result<(), Failure>,
    {
        self.open(Function(function))?.run_once()
    }

    /// Runs the function over what is there and what comes, on a thread of its own, as
    /// [`OpenProcessor::spawn`].
    pub fn spawn<F>(self, function: F) -> Result<RunningProcessor>
    where
        F: FnMut(StoredRecord<'_>, &mut Output<'_>) -> std::result::Result<(), Failure>
            + Send
            + 'static,
    {
        self.open(Function(function))?.spawn()
    }
}

/// A processor that is ready to run: nobody else has its name.
///
/// # Examples
///
/// ```
/// # use tidelog::{Failure, Output, Processor, Store, StoredRecord};
/// # struct Silent;
/// # impl Processor for Silent {
/// #     fn process(&mut self, _: StoredRecord<'_>, _: &mut Output<'_>) -> Result<(), Failure> {
/// #         Ok(())
/// #     }
/// # }
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// store.topic("quakes")?.append("M 4.6")?;
/// let mut silent = store.processor("silent").input("quakes").open(Silent)?;
/// let stopper = silent.stopper();
/// std::thread::scope(|scope| {
///     let running = scope.spawn(move || silent.run());
///     stopper.stop();
///     running.join().expect("it does not panic")
/// })?;
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OpenProcessor<P>(pub(super) Engine<P>);

impl<P: Processor> OpenProcessor<P> {
    /// Runs over what is there and what comes, on this thread, until the input is finished and all of it
    /// is processed, or until it is stopped. Asynchronous programs [spawn](OpenProcessor::spawn) it, and
    /// await [`RunningProcessor::join_async`].
    ///
    /// # Errors
    ///
    /// [`Error::ProcessorFailed`] by [`OnError::Stop`]; what reading, appending or committing fails with,
    /// which is not the function's failure and never tried again here. Whatever was done before is
    /// committed, if it can be; the rest comes again when it runs again.
    pub fn run(&mut self) -> Result<ProcessorCounts> {
        self.0.run(None)
    }

    /// Runs once over the records that are durable now, on this thread.
    ///
    /// # Errors
    ///
    /// As for [`OpenProcessor::run`].
    pub fn run_once(&mut self) -> Result<ProcessorCounts> {
        let ends = self.0.subscription.ends();
        self.0.run(Some(&ends))
    }

    /// A handle that stops it from another thread: it finishes the record in hand, commits, and
    /// returns. One that is being tried again is left for the next time.
    pub fn stopper(&self) -> Stopper {
        self.0.subscription.stopper()
    }

    /// What it has done so far.
    pub fn counts(&self) -> ProcessorCounts {
        self.0.counters.now()
    }
}
