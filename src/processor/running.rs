//! A processor on a thread of its own.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::Processor;
use super::builder::OpenProcessor;
use crate::error::{Error, Result};
use crate::flush::panic_message;
use crate::store::{Counters, ProcessorCounts, Stopper, offload};

const THREAD: &str = "processor";

/// A processor that runs in the background. Dropping this tells it to stop, and does not wait for it.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let quakes = store.topic("quakes")?;
/// let copies = store.processor("copies").input("quakes").output("copies");
/// let copies = copies.spawn(|record, out| Ok(out.append(record.to_record())?))?;
/// quakes.append("M 4.6")?;
/// quakes.finish()?;
/// assert_eq!(copies.join()?.records_out, 1);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "it stops when this is dropped"]
pub struct RunningProcessor {
    thread: Option<JoinHandle<Result<ProcessorCounts>>>,
    counters: Arc<Counters>,
    stopper: Stopper,
}

impl<P: Processor + Send + 'static> OpenProcessor<P> {
    /// Runs on a thread of its own, as [`OpenProcessor::run`].
    ///
    /// # Errors
    ///
    /// [`Error::ThreadEnded`] if there is no thread to be had.
    pub fn spawn(mut self) -> Result<RunningProcessor> {
        let (counters, stopper) = (Arc::clone(&self.0.counters), self.stopper());
        let spawned = std::thread::Builder::new()
            .name(format!("tidelog-{THREAD}"))
            .spawn(move || {
                let ended = self.run();
                if let Err(error) = &ended {
                    tracing::error!(processor = self.0.name, %error, "a processor has ended");
                }
                ended
            });
        Ok(RunningProcessor {
            thread: Some(spawned.map_err(|error| ended(error.to_string()))?),
            counters,
            stopper,
        })
    }
}

impl RunningProcessor {
    /// Stops it: it finishes the record in hand, commits, and ends. What it has done since it was opened,
    /// or why it had ended before.
    pub fn stop(self) -> Result<ProcessorCounts> {
        self.stopper.stop();
        self.join()
    }

    /// Waits until it ends: because the input is finished and all of it is processed, or because it was
    /// stopped by a [`Stopper`], or for an error.
    pub fn join(mut self) -> Result<ProcessorCounts> {
        let Some(thread) = self.thread.take() else {
            return Ok(self.counts());
        };
        let joined = thread.join();
        joined.unwrap_or_else(|panic| Err(ended(panic_message(panic.as_ref()))))
    }

    /// [`RunningProcessor::stop`] as a future. It stops also where the future is dropped.
    pub async fn stop_async(self) -> Result<ProcessorCounts> {
        self.stopper.stop();
        self.join_async().await
    }

    /// [`RunningProcessor::join`] as a future.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open(dir.path().join("data"))?;
    /// let quakes = store.topic("quakes")?;
    /// quakes.append("M 4.6")?;
    /// quakes.finish()?;
    /// let copies = store.processor("copies").input("quakes").output("copies");
    /// let copies = copies.spawn(|record, out| Ok(out.append(record.to_record())?))?;
    /// let counts = futures_lite::future::block_on(copies.join_async())?;
    /// assert_eq!(counts.records_out, 1);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn join_async(self) -> Result<ProcessorCounts> {
        offload(move || self.join()).await
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|it| !it.is_finished())
    }

    /// A handle that stops it, without waiting for it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// What it has done so far.
    pub fn counts(&self) -> ProcessorCounts {
        self.counters.now()
    }
}

impl Drop for RunningProcessor {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stopper.stop();
        }
    }
}

fn ended(reason: String) -> Error {
    Error::ThreadEnded {
        thread: THREAD,
        reason,
    }
}
