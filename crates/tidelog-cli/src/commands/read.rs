//! `tidelog read`: what is in a topic.

use clap::Args;
use tidelog::{Cursor, Start, Store, Topic};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::place::Source;
use crate::records::Records;
use crate::store::reading;

/// Print the records of a topic, one payload a line
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Read {
    #[command(flatten)]
    source: Source,

    /// Stop after so many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Print the records of a topic, one payload a line

Payloads are printed as they are, byte for byte. The records of a partition come in their order; \
partitions take turns. What is there when reading begins is read, and nothing that comes later; \
`tidelog tail` waits for more. No subscription is moved.

With --json each record is an object: topic, partition, offset, timestamp (RFC 3339), event_id and key \
(null where there is none), headers (a list of name and value, in order) and payload (null for a \
tombstone). Bytes that are not UTF-8 are under event_id_base64, key_base64, value_base64 and \
payload_base64 instead.

A damaged record is told on standard error and skipped, and so is what expires while it is read; the exit \
code is then 5.";

const EXAMPLES: &str = "\
Examples:
  tidelog read quakes
  tidelog read quakes --from 2018-02-04T12:00:00Z --limit 10
  tidelog read quakes --partition 2 --from 100 --json | jq -r .key";

impl Read {
    pub(crate) fn run(&self) -> Result<Exit> {
        reading(&self.common.store, |store| self.print(store))
    }

    fn print(&self, store: &Store) -> Result<Exit> {
        let topic = store.existing_topic(&self.source.topic)?;
        let cursors = cursors(&topic, self.source.partition, self.source.from)?;
        let mut records = Records::new(self.limit, self.common.json);
        print_in_turn(cursors, &mut records)?;
        records.finish()
    }
}

/// A cursor for each partition, or for the one that is named, from there on, and where it ends now.
pub(crate) fn cursors(
    topic: &Topic,
    partition: Option<u32>,
    from: Start,
) -> Result<Vec<(Cursor, u64)>> {
    let numbers = match partition {
        Some(number) => number..number.saturating_add(1),
        None => 0..topic.partitions(),
    };
    if let (Start::Offset(_), None) = (from, partition) {
        // One call of the engine knows whether an offset can be meant.
        drop(topic.follow(from)?);
    }
    let mut cursors = Vec::new();
    for number in numbers {
        let partition = topic.partition(number)?;
        cursors.push((partition.cursor(from)?, partition.end()?));
    }
    Ok(cursors)
}

/// Prints a record of each cursor in turn, up to the end that goes with it.
fn print_in_turn(mut cursors: Vec<(Cursor, u64)>, records: &mut Records) -> Result<()> {
    while !cursors.is_empty() {
        let mut left = Vec::with_capacity(cursors.len());
        for (mut cursor, end) in cursors {
            if records.is_full() {
                return Ok(());
            }
            if cursor.offset() < end {
                records.print_next(&mut cursor, end)?;
                left.push((cursor, end));
            }
        }
        cursors = left;
    }
    Ok(())
}
