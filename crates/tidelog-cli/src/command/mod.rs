//! One file for each command.

pub mod append;
pub mod create;
pub mod demo;
pub mod read;
pub mod tail;
pub mod topics;
pub mod verify;

use std::path::Path;

use tidelog::Store;

use crate::exit::Failure;

/// Opens a store that must be there: commands that only look make none.
fn open_existing(path: &Path) -> Result<Store, Failure> {
    if !path.join("journal").is_dir() {
        return Err(Failure::NoStore(path.to_owned()));
    }
    Ok(Store::open(path)?)
}
