//! `tidelog backup`: a consistent copy of a store.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, count, thousands};
use crate::store::with_existing;
use clap::Args;
use serde::Serialize;

/// Make a consistent copy of a store that no other process owns
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Backup {
    /// The store's directory
    store: PathBuf,

    /// The directory of the copy: it is made, and must not be there
    dir: PathBuf,

    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

const LONG: &str = "\
Make a consistent copy of a store that no other process owns

The copy has all topics, records and subscriptions, is durable when the command succeeds, and is a \
store that was closed: it can be opened, verified and copied like any other. Its bytes are copied as \
they are, damage, too; `tidelog verify` tells of that. A file that cannot be read in places has no copy: \
the backup is refused, and names it. Nothing expires meanwhile. Until it is whole it has another name, the \
directory's with .partial behind it; what a failure leaves of it is removed.

While another process owns the store (exit code 4), that process has to make the copy: \
Store::backup does it while appends go on. A copy of the files by other means is no backup of a store \
that is in use.";

const EXAMPLES: &str = "\
Examples:
  tidelog backup data /backup/data-2018-02-04
  tidelog backup data copy && tidelog verify --store copy";

#[derive(Debug, Serialize)]
struct CopiedJson {
    topics: usize,
    partitions: usize,
    bytes: u64,
}

impl Backup {
    pub(crate) fn run(&self) -> Result<Exit> {
        let copied = with_existing(&self.store, |store| Ok(store.backup(&self.dir)?))?;
        let mut out = Out::new();
        if self.json {
            out.json(&CopiedJson {
                topics: copied.topics,
                partitions: copied.partitions,
                bytes: copied.bytes,
            })?;
        } else {
            let topics = count(copied.topics as u64, "topic", "topics");
            let partitions = count(copied.partitions as u64, "partition", "partitions");
            let (bytes, dir) = (thousands(copied.bytes), self.dir.display());
            out.line(format!(
                "{topics}, {partitions}, {bytes} bytes copied to {dir}"
            ))?;
        }
        out.flush()?;
        Ok(Exit::Success)
    }
}
