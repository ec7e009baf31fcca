//! `tidelog read`

use std::path::Path;

use clap::Args;
use tidelog::{Cursor, Error, Start, Store, Topic};

use super::open_existing;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::start;

/// Which records to read.
#[derive(Debug, Args)]
pub struct Selection {
    /// The topic's name.
    pub topic: String,

    #[arg(long, value_name = "START", value_parser = start::parse, help = start::HELP)]
    pub from: Option<Start>,

    /// Only this partition; all of them by default.
    #[arg(long, value_name = "NUMBER")]
    pub partition: Option<u32>,

    /// At most so many records.
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<u64>,
}

impl Selection {
    /// The topic, which must be there.
    pub fn topic(&self, store: &Store) -> Result<Topic, Failure> {
        Ok(store.existing_topic(&self.topic)?)
    }
}

/// Print what a topic holds: payloads, one a line.
///
/// Partitions are printed one after another. A damaged record is reported on standard error and
/// passed over; the command then ends with the exit code for damage.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tidelog read quakes --limit 10
  tidelog read quakes --from 2018-02-01T00:00:00Z --json
  tidelog read quakes --partition 2 --from 100")]
pub struct Read {
    #[command(flatten)]
    selection: Selection,
}

impl Read {
    /// Prints the records.
    pub fn run(&self, path: &Path, mut to: Output) -> Result<Exit, Failure> {
        let store = open_existing(path)?;
        let topic = self.selection.topic(&store)?;
        let start = self.selection.from.unwrap_or(Start::Earliest);
        let numbers = match self.selection.partition {
            Some(number) => number..number + 1,
            None => 0..topic.partitions(),
        };
        if matches!(start, Start::Offset(_)) && numbers.len() > 1 {
            let (topic, partitions) = (topic.name().to_owned(), topic.partitions());
            return Err(Error::PartitionNeeded { topic, partitions }.into());
        }
        let mut left = self.selection.limit.unwrap_or(u64::MAX);
        let mut exit = Exit::Success;
        for number in numbers {
            let mut cursor = topic.partition(number)?.cursor(start)?;
            if print(&mut cursor, &mut left, &mut to)? == Exit::Damaged {
                exit = Exit::Damaged;
            }
        }
        to.flush()?;
        store.close()?;
        Ok(exit)
    }
}

fn print(cursor: &mut Cursor, left: &mut u64, to: &mut Output) -> Result<Exit, Failure> {
    let mut exit = Exit::Success;
    while *left > 0 {
        match cursor.next() {
            Ok(Some(record)) => {
                to.record(&record)?;
                *left -= 1;
            }
            Ok(None) => break,
            Err(error @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                eprintln!("tidelog: {error}");
                exit = Exit::Damaged;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(exit)
}
