//! How a store and its topics are shaped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::sys::{Clock, Disk, Storage, SystemClock};

mod durability;
mod retention;

pub use durability::{Durability, Visibility};
pub use retention::Retention;

/// A gibibyte: the largest record or batch that can be allowed.
pub const MAX_RECORD_BYTES: u64 = 1 << 30;
/// The most partitions a topic can have.
pub const MAX_PARTITIONS: u32 = 65_535;

/// What a few threads need open at the same time.
const LEAST_OPEN_FILES: usize = 16;
/// What is held open where nobody says.
const OPEN_FILES: usize = 1024;

/// How a store is opened. [`StoreOptions::new`] is what [`Store::open`](crate::Store::open) uses.
///
/// # Examples
///
/// ```
/// use tidelog::{Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// let store = Store::open_with(&path, StoreOptions::new().sync_workers(2))?;
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct StoreOptions {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sync_workers: usize,
    pub(crate) max_open_files: Option<usize>,
    pub(crate) retention_interval: Duration,
    pub(crate) background_retention: bool,
    pub(crate) metrics_interval: Option<Duration>,
    pub(crate) nowait_timeout: Option<Duration>,
    pub(crate) inline: bool,
    pub(crate) strict: bool,
    pub(crate) existing: bool,
    pub(crate) board: Option<PathBuf>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions::new()
    }
}

impl StoreOptions {
    /// The real disk, the system's clock, four sync workers, 1,024 open files or fewer.
    pub fn new() -> Self {
        StoreOptions {
            storage: Arc::new(Disk::default()),
            clock: Arc::new(SystemClock),
            sync_workers: 4,
            max_open_files: None,
            retention_interval: Duration::from_secs(60),
            background_retention: true,
            metrics_interval: None,
            nowait_timeout: None,
            inline: false,
            strict: false,
            existing: false,
            board: None,
        }
    }

    /// The disk to live on, in place of the real one with its default modes.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// The clock to go by.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How many logs may be synced at the same time, 1 to 64. Each takes a thread.
    pub fn sync_workers(mut self, workers: usize) -> Self {
        self.sync_workers = workers;
        self
    }

    /// How many files of its topics the store holds open at most, 16 or more; each is mapped once
    /// at the most. Without this it is 1,024, or half of what the process may hold open if that is
    /// less. The journal, the lock and folders come on top: some ten descriptors.
    ///
    /// To stay below it, partitions that have not been used for long are synced, in any
    /// [`Durability`], and let go of their files, until they are used again. What is in use at
    /// that moment is not: a segment in the middle of which a reader stands is opened, and stays
    /// open, whatever the limit.
    pub fn max_open_files(mut self, files: usize) -> Self {
        self.max_open_files = Some(files);
        self
    }

    /// How long what has expired by its age may stay after the clock was set, or where the machine
    /// slept: a minute if this is not said, and a millisecond or more. It is otherwise removed when it
    /// is time; a store in which nothing can expire is not looked at at all.
    pub fn retention_interval(mut self, interval: Duration) -> Self {
        self.retention_interval = interval;
        self
    }

    /// Tells the store's figures to the recorder of the `metrics` facade that the program has installed,
    /// each time that this has passed, a millisecond or more; nothing if it is not said. A thread of its
    /// own does it, so that a recorder that is slow or panics harms nobody. Gauges of what has gone, a
    /// deleted topic for instance, are told as 0 once. Each time it does what
    /// [`Store::metrics`](crate::Store::metrics) does, which opens what nobody has used.
    ///
    /// The names are `tidelog_store_*`, `tidelog_topic_*`, `tidelog_partition_*`,
    /// `tidelog_subscription_*` and `tidelog_processor_*`; see [`Metrics`](crate::Metrics).
    pub fn metrics_interval(mut self, interval: Duration) -> Self {
        self.metrics_interval = Some(interval);
        self
    }

    /// How long `append_nowait` and `append_batch_nowait` wait at most, up to a day, for all that is in
    /// their way ([`Wait`](crate::Wait)): after that they are [`Error::Busy`], and nothing is written.
    /// Without it they wait for as long as it takes. Nothing at all ([`Duration::ZERO`]) refuses what
    /// cannot be written at once.
    ///
    /// A batch over several partitions is durable when it has been written, and takes that time in any
    /// case. A future is given up by dropping it.
    pub fn nowait_timeout(mut self, timeout: Duration) -> Self {
        self.nowait_timeout = Some(timeout);
        self
    }

    /// Whether opening fails when a topic's folder is damaged, instead of leaving that topic
    /// failed beside healthy ones.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Opens a store that is there and never makes one: where there is none, opening fails with
    /// [`Error::NoStore`] and leaves the folder as it is.
    pub fn existing(mut self) -> Self {
        self.existing = true;
        self
    }

    /// The folder in which the live board lies, by which other processes follow this store: shared
    /// memory (`/dev/shm`) if this is not said. Containers that share a store have to share this
    /// folder, too. The lock file says where it is, so that a reader need not.
    pub fn board_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.board = Some(folder.into());
        self
    }

    /// No background threads: whoever waits for durability syncs, on its own thread. It makes
    /// every run on the simulated disk repeatable; it is not for programs.
    #[cfg(feature = "sim")]
    pub fn inline(mut self) -> Self {
        self.inline = true;
        self
    }

    /// How many files of topics are held open.
    pub(crate) fn open_files(&self) -> usize {
        let half = self.storage.most_open().map(|most| most / 2);
        let half = half.map_or(OPEN_FILES, |half| {
            usize::try_from(half).unwrap_or(usize::MAX)
        });
        let natural = half.clamp(LEAST_OPEN_FILES, OPEN_FILES);
        self.max_open_files.unwrap_or(natural)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=64).contains(&self.sync_workers) {
            return Err(Error::InvalidOption {
                option: "sync_workers",
                reason: format!("{} is not within 1 to 64", self.sync_workers),
            });
        }
        if self.retention_interval < Duration::from_millis(1) {
            return Err(Error::InvalidOption {
                option: "retention_interval",
                reason: format!("{:?} is less than a millisecond", self.retention_interval),
            });
        }
        if let Some(interval) = self.metrics_interval
            && interval < Duration::from_millis(1)
        {
            return Err(Error::InvalidOption {
                option: "metrics_interval",
                reason: format!("{interval:?} is less than a millisecond"),
            });
        }
        if let Some(timeout) = self.nowait_timeout.filter(|it| *it > Durability::LONGEST) {
            return Err(Error::InvalidOption {
                option: "nowait_timeout",
                reason: format!("{timeout:?} is more than a day"),
            });
        }
        let least = if self.inline { 1 } else { LEAST_OPEN_FILES };
        if let Some(files) = self.max_open_files.filter(|it| *it < least) {
            return Err(Error::InvalidOption {
                option: "max_open_files",
                reason: format!("{files} is less than {least}"),
            });
        }
        Ok(())
    }
}

/// What a topic is made with.
///
/// Partitions and content type are fixed for the topic's life; limits and durability may change
/// when the topic is opened with other ones.
///
/// # Examples
///
/// ```
/// use tidelog::TopicOptions;
/// let options = TopicOptions::new()
///     .partitions(4)
///     .content_type("application/json")
///     .max_record_bytes(1 << 20);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicOptions {
    pub(crate) partitions: u32,
    pub(crate) content_type: String,
    pub(crate) max_record_bytes: u64,
    pub(crate) max_batch_bytes: u64,
    pub(crate) max_total_bytes: Option<u64>,
    pub(crate) first_segment_bytes: u64,
    pub(crate) max_segment_bytes: u64,
    pub(crate) unsettled_bytes: u64,
    pub(crate) durability: Durability,
    pub(crate) retention: Retention,
    pub(crate) full_wait: Option<Duration>,
}

impl Default for TopicOptions {
    fn default() -> Self {
        TopicOptions::new()
    }
}

impl TopicOptions {
    /// One partition of bytes without a stated type, records and batches up to 16 MiB, segments
    /// from 64 KiB doubling to 128 MiB, no limit on the whole, nothing ever removed; synced as soon as
    /// written.
    pub fn new() -> Self {
        TopicOptions {
            partitions: 1,
            content_type: "application/octet-stream".to_owned(),
            max_record_bytes: 16 << 20,
            max_batch_bytes: 16 << 20,
            max_total_bytes: None,
            first_segment_bytes: 64 << 10,
            max_segment_bytes: 128 << 20,
            unsettled_bytes: 16 << 20,
            durability: Durability::Commit,
            retention: Retention::forever(),
            full_wait: None,
        }
    }

    /// How many partitions, 1 to 65,535. They cannot be added to later, since keys would move.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    /// The content type of the payloads, up to 255 bytes of visible ASCII.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// The largest record: its frame with key, headers and payload, in bytes, up to 1 GiB.
    pub fn max_record_bytes(mut self, bytes: u64) -> Self {
        self.max_record_bytes = bytes;
        self
    }

    /// The largest batch, in bytes of frames, up to 1 GiB. Raising it lets recovery look further
    /// ahead after a crash.
    pub fn max_batch_bytes(mut self, bytes: u64) -> Self {
        self.max_batch_bytes = bytes;
        self
    }

    /// How many bytes of records the topic may hold, shared evenly by its partitions; appends
    /// beyond it are [`Error::TopicFull`], at once or after they have
    /// [waited](TopicOptions::wait_when_full) in vain.
    pub fn max_total_bytes(mut self, bytes: u64) -> Self {
        self.max_total_bytes = Some(bytes);
        self
    }

    /// An append to a partition that is full waits so long for room, up to a day, before it is
    /// refused: retention may make it, or somebody who trims by hand.
    pub fn wait_when_full(mut self, patience: Duration) -> Self {
        self.full_wait = Some(patience);
        self
    }

    /// How long records are kept. Another one counts for what is there already, too.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// The size of a log's first segment file, 16 KiB to `max_segment_bytes`; each next one is
    /// twice as large, up to that.
    pub fn first_segment_bytes(mut self, bytes: u64) -> Self {
        self.first_segment_bytes = bytes;
        self
    }

    /// The size of a log's segment files once they have stopped doubling, up to 4 GiB.
    pub fn max_segment_bytes(mut self, bytes: u64) -> Self {
        self.max_segment_bytes = bytes;
        self
    }

    /// How many bytes of a log may be written and not yet safe in their segment, 64 KiB to 1 GiB.
    /// It bounds what reopening after a crash has to read.
    pub fn unsettled_bytes(mut self, bytes: u64) -> Self {
        self.unsettled_bytes = bytes;
        self
    }

    /// When what is written is synced.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        within(
            "partitions",
            u64::from(self.partitions),
            1,
            u64::from(MAX_PARTITIONS),
        )?;
        within(
            "max_record_bytes",
            self.max_record_bytes,
            64,
            MAX_RECORD_BYTES,
        )?;
        within(
            "max_batch_bytes",
            self.max_batch_bytes,
            64,
            MAX_RECORD_BYTES,
        )?;
        within(
            "max_segment_bytes",
            self.max_segment_bytes,
            16 << 10,
            4 << 30,
        )?;
        within(
            "first_segment_bytes",
            self.first_segment_bytes,
            16 << 10,
            self.max_segment_bytes,
        )?;
        within("unsettled_bytes", self.unsettled_bytes, 64 << 10, 1 << 30)?;
        self.durability.check()?;
        self.retention.check()?;
        if let Some(patience) = self.full_wait.filter(|it| *it > Durability::LONGEST) {
            return Err(Error::InvalidOption {
                option: "wait_when_full",
                reason: format!("{patience:?} is more than a day"),
            });
        }
        if self.max_total_bytes == Some(0) {
            within("max_total_bytes", 0, 1, u64::MAX)?;
        }
        let text = self.content_type.as_bytes();
        if text.is_empty() || text.len() > 255 || !text.iter().all(|b| (b' '..=b'~').contains(b)) {
            return Err(Error::InvalidOption {
                option: "content_type",
                reason: format!(
                    "{:?} is not 1 to 255 bytes of visible ASCII",
                    self.content_type
                ),
            });
        }
        Ok(())
    }
}

fn within(option: &'static str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::InvalidOption {
        option,
        reason: format!("{value} is not within {least} to {most}"),
    })
}
