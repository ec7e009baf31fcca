//! How a store is doing.

use std::path::PathBuf;
use std::sync::Arc;

use super::inner::{Inner, TopicInner};
use super::store::Store;
use crate::error::{Error, Span};
use crate::journal::PendingRedo;
use crate::partition::Log;
use crate::sys::Backend;

/// How a store is doing, as [`Store::health`] tells it.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// assert!(store.health().failed.is_empty());
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Health {
    /// Partitions that take no appends since an earlier failure, or that could not be opened when
    /// that was last tried, with the cause. What nobody has used yet has not been opened.
    pub failed: Vec<Error>,
    /// The failure of the journal, after which nothing can be written any more.
    pub journal: Option<Error>,
    /// Damaged stretches that recovery found in the logs opened so far.
    pub damage: Vec<Error>,
    /// Records of the journal that cannot be read.
    pub journal_damaged: usize,
    /// Partitions whose newest records are still only in the journal: those that an owner before
    /// left so and nobody has used since, which the next use of each puts right.
    pub unopened_redo: usize,
    /// Records that were written to a partition and not durable when it failed: after the next opening
    /// they are there, or not. Who waited for them was told [`Error::InDoubt`].
    pub in_doubt: Vec<Span>,
    /// Bytes of records that are not safe in their own segments yet; those that are durable are in the
    /// journal. Nothing in a store that is only read: only its owner knows.
    pub unsettled_bytes: Option<u64>,
    /// The redo backlog: bytes that the journal has taken since the oldest redo that a partition may
    /// still need, none of which it can let go of. In a store that is only read, bytes of the redo that
    /// partitions may need, as far as the journal tells.
    pub redo_bytes: u64,
    /// Bytes that the file system of the store has left, where it says so.
    pub free_bytes: Option<u64>,
    /// How bytes are brought into files.
    pub backend: Backend,
    /// The epoch of this owner.
    pub epoch: u32,
    /// Whether the last owner closed the store.
    pub was_closed: bool,
    /// The process that owns the store now, where its lock file tells it: in a store that is only read,
    /// nothing when there is none.
    pub owner: Option<u32>,
    /// The shared memory by which other processes follow; without it they look at the files again and
    /// again.
    pub board: Option<PathBuf>,
}

impl Store {
    /// How the store is doing.
    pub fn health(&self) -> Health {
        let inner = self.shared();
        if let Err(forked) = inner.check_owner() {
            return inner.health(vec![forked], &[]);
        }
        let topics: Vec<Arc<TopicInner>> = inner.topics().values().cloned().collect();
        let failed = topics.iter().flat_map(|topic| topic.failures()).collect();
        let logs: Vec<_> = topics.iter().flat_map(|topic| topic.open_logs()).collect();
        inner.health(failed, &logs)
    }
}

impl Inner {
    /// `logs` are those that are open.
    fn health(&self, failed: Vec<Error>, logs: &[Arc<Log>]) -> Health {
        let journal = self.journal.failure();
        let owned = self.check_owner().is_ok();
        let damage = logs.iter().flat_map(|log| {
            let found = log.damage().iter();
            found.map(|(at, flaw)| log.site().corrupt(*at, *flaw))
        });
        let unsettled = logs.iter().map(|log| log.unsettled_bytes());
        let free = owned.then(|| self.options.storage.free(&self.root).ok());
        Health {
            failed,
            journal: journal.map(|cause| Error::StoreFailed { cause }),
            damage: damage.collect(),
            journal_damaged: self.journal_damaged,
            unopened_redo: if owned { self.pending().len() } else { 0 },
            in_doubt: logs.iter().filter_map(|log| log.in_doubt()).collect(),
            unsettled_bytes: self.reading.is_none().then(|| unsettled.sum()),
            redo_bytes: if owned { self.redo_bytes() } else { 0 },
            free_bytes: free.flatten(),
            backend: self.setting.backend,
            epoch: self.setting.epoch,
            was_closed: self.clean,
            owner: match &self.reading {
                Some(reading) => reading.owner(),
                None => owned.then(std::process::id),
            },
            board: match &self.reading {
                Some(reading) => reading.board(),
                None => self
                    .setting
                    .board
                    .as_ref()
                    .map(|board| board.path().to_owned()),
            },
        }
    }

    /// Bytes that the journal must keep for logs, or holds for them.
    pub(super) fn redo_bytes(&self) -> u64 {
        let Some(reading) = &self.reading else {
            return self.setting.pins.kept();
        };
        let pending = reading.read(self).map(|read| {
            let bytes = read.pending.values().map(PendingRedo::bytes);
            bytes.sum()
        });
        pending.unwrap_or_default()
    }
}
