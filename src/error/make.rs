//! Errors from what the system, or a caller, says.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::Error;

impl Error {
    /// An [`Error::Aborted`]: what a closure returns to give a [transaction](crate::Store::transaction)
    /// up for a reason of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelog::Error;
    /// let error = Error::aborted("the account is empty");
    /// assert_eq!(error.to_string(), "the transaction was given up: the account is empty");
    /// ```
    pub fn aborted(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Aborted {
            reason: Arc::from(reason.into()),
        }
    }

    /// An [`Error::Io`], or [`Error::StorageFull`] where the system says that there is no space.
    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Error {
        let path = path.into();
        if is_full(&source) {
            return Error::StorageFull {
                path,
                needed: 0,
                free: None,
            };
        }
        Error::Io {
            op,
            path,
            source: Arc::new(source),
        }
    }

    /// The same, knowing how many bytes were to be made or written there.
    pub(crate) fn needing(mut self, bytes: u64) -> Error {
        if let Error::StorageFull { needed, .. } = &mut self {
            *needed = bytes;
        }
        self
    }

    /// As [`Error::io`] for a file that was to be opened; [`Error::Refused`] where the disk found
    /// something else than a file of ours, a link for instance.
    pub(crate) fn opening(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Error {
        // The system's own refusals have a number.
        if source.kind() == io::ErrorKind::InvalidInput && source.raw_os_error().is_none() {
            return Error::Refused {
                path: path.into(),
                reason: "a file of the store must be a regular file of its folder's owner",
            };
        }
        Error::io(op, path, source)
    }
}

/// Whether the system says that the disk, or the quota, is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
