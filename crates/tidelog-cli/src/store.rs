//! Opening a store for a command, and closing it whatever the command came to.

use std::path::Path;

use tidelog::{Store, StoreOptions};

use crate::exit::Exit;
use crate::failure::Result;

/// Opens a store that must be there for reading only, beside its owner or without one, and hands it
/// over.
pub(crate) fn reading<T>(path: &Path, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
    with(Store::open_read_only(path)?, work)
}

/// How a store is opened by a command that looks after it: nothing expires that it was not told to remove.
pub(crate) fn quiet() -> StoreOptions {
    StoreOptions::new().background_retention(false)
}

/// Opens a store that must be there, for changing it, and hands it over.
pub(crate) fn with_existing<T>(path: &Path, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
    with(Store::open_with(path, quiet().existing())?, work)
}

/// Opens a store as a program that runs on it does, making it where there is none, hands it over, and
/// closes it.
pub(crate) fn with_any<T>(path: &Path, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
    with(Store::open(path)?, work)
}

/// Hands an open store over, and closes it. What went wrong first is what is told; that nobody reads any more counts as nothing.
pub(crate) fn with<T>(store: Store, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
    let done = work(&store);
    let closed = store.close();
    match done {
        Err(failure) if failure.exit() != Exit::Success => Err(failure),
        done => {
            closed?;
            done
        }
    }
}
