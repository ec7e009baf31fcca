//! Whether a log takes appends and answers reads.

use std::sync::{Arc, OnceLock};

use super::site::Site;
use crate::board::{DELETED, FAILED, FINISHED};
use crate::error::{Error, Result};
use crate::sync::{AtomicU32, Ordering};
use crate::sys::Parentage;

const CLOSED: u32 = 1;

/// The states that a log enters and, but by being opened again, never leaves.
#[derive(Debug)]
pub(crate) struct Gate {
    bits: AtomicU32,
    cause: OnceLock<Arc<Error>>,
    parentage: Arc<Parentage>,
}

impl Gate {
    pub(crate) fn new(finished: bool, parentage: Arc<Parentage>) -> Gate {
        Gate {
            parentage,
            bits: AtomicU32::new(if finished { FINISHED } else { 0 }),
            cause: OnceLock::new(),
        }
    }

    fn has(&self, bit: u32) -> bool {
        self.bits.load(Ordering::Acquire) & bit != 0
    }

    /// No appends any more; reading goes on to the end.
    pub(crate) fn finish(&self) {
        self.bits.fetch_or(FINISHED, Ordering::AcqRel);
    }

    /// No appends any more, and nothing becomes durable: something failed. The first cause stays.
    pub(crate) fn fail(&self, cause: Arc<Error>) {
        self.cause.get_or_init(|| cause);
        self.bits.fetch_or(FAILED, Ordering::AcqRel);
    }

    /// No appends and no reads any more.
    pub(crate) fn close(&self) {
        self.bits.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// The topic is gone.
    pub(crate) fn delete(&self) {
        self.bits.fetch_or(DELETED, Ordering::AcqRel);
    }

    /// The states that readers in other processes go by, too: all but that this handle is closed.
    pub(super) fn lasting(&self) -> u32 {
        self.bits.load(Ordering::Acquire) & (FINISHED | FAILED | DELETED)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.has(FINISHED)
    }

    /// Why the log failed, if it did.
    pub(crate) fn failure(&self) -> Option<Arc<Error>> {
        self.has(FAILED)
            .then(|| self.cause.get().cloned())
            .flatten()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.has(DELETED)
    }

    /// Whether waiting for anything is pointless.
    pub(crate) fn is_over(&self) -> bool {
        self.has(FAILED | CLOSED | DELETED)
    }

    /// Whether what is written will never become durable.
    pub(crate) fn is_lost(&self) -> bool {
        self.has(FAILED | DELETED)
    }

    /// Whether the log is this process's own.
    pub(super) fn check_owner(&self) -> Result<()> {
        self.parentage.check()
    }

    /// Whether an append may begin.
    pub(crate) fn appends(&self, site: &Site) -> Result<()> {
        self.check_owner()?;
        let bits = self.bits.load(Ordering::Acquire);
        match bits {
            0 => Ok(()),
            _ if bits & DELETED != 0 => Err(Error::TopicDeleted {
                topic: site.topic(),
            }),
            _ if bits & CLOSED != 0 => Err(Error::Closed),
            _ if bits & FAILED != 0 => Err(self.failed(site)),
            _ => Err(Error::Finished {
                topic: site.topic(),
            }),
        }
    }

    /// Whether the topic is still there.
    pub(crate) fn is_there(&self, site: &Site) -> Result<()> {
        self.check_owner()?;
        if self.has(DELETED) {
            return Err(Error::TopicDeleted {
                topic: site.topic(),
            });
        }
        Ok(())
    }

    /// Whether reading may go on.
    pub(crate) fn reads(&self, site: &Site) -> Result<()> {
        self.is_there(site)?;
        if self.has(CLOSED) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// What who meets the failure is told.
    pub(crate) fn failed(&self, site: &Site) -> Error {
        match self.failure() {
            Some(cause) => site.failed(cause),
            None => Error::Closed,
        }
    }
}
