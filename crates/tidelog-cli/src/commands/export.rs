//! `tidelog export`: a topic as NDJSON.

use clap::Args;
use tidelog::Store;

use super::read::cursors;
use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::place::Source;
use crate::records::Records;
use crate::store::reading;

/// Print a topic as NDJSON, one record a line, for `tidelog import` and others
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Export {
    #[command(flatten)]
    source: Source,

    /// Stop before this offset of the partition
    #[arg(long, value_name = "OFFSET", requires = "partition")]
    to: Option<u64>,

    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Print a topic as NDJSON, one record a line, for `tidelog import` and others

The lines are those of `tidelog read --json`: topic, partition, offset, timestamp, event_id, key, \
headers and payload, and bytes that are not UTF-8 as base64 under the name with _base64 behind it. \
Partitions come one after the other, each in its order. What is there when the export begins is \
printed, and nothing that comes later. Nothing is changed and no lock is taken: it also works beside \
a live owner.

A damaged record is told on standard error and skipped, and so is what expires while the export comes to \
it; the exit code is then 5.";

const EXAMPLES: &str = "\
Examples:
  tidelog export quakes > quakes.ndjson
  tidelog export quakes --partition 2 --from 100 --to 200 | gzip > part.ndjson.gz
  tidelog export quakes | tidelog import quakes --keep-partitions --store other";

impl Export {
    pub(crate) fn run(&self) -> Result<Exit> {
        reading(&self.common.store, |store| self.print(store))
    }

    fn print(&self, store: &Store) -> Result<Exit> {
        let topic = store.existing_topic(&self.source.topic)?;
        let mut records = Records::new(None, true);
        for (mut cursor, end) in cursors(&topic, self.source.partition, self.source.from)? {
            let end = end.min(self.to.unwrap_or(end));
            while cursor.offset() < end {
                records.print_next(&mut cursor, end)?;
            }
        }
        records.finish()
    }
}
