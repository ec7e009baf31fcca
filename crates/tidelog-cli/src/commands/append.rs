//! `tidelog append`: a record for each line.

use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use tidelog::{Error, Part, Record, Store, Topic};

use crate::appending::{self, Acks, append_batch, found_or_made};
use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::input::{Batch, Input};
use crate::out::count;
use crate::store::with_any;

/// Append lines to a topic, each as a record, durably
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Append {
    /// The topic; made with one partition where there is none
    topic: String,

    /// Files to read, one after the other; '-' is standard input, which is also the default
    files: Vec<PathBuf>,

    /// The key of all records: they go to its partition
    #[arg(long)]
    key: Option<String>,

    /// The partition to append to, whatever the key
    #[arg(long, value_name = "N")]
    partition: Option<u32>,

    /// A header of all records; can be given many times
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<(String, String)>,

    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Append lines to a topic, each as a record, durably

A line is everything up to a line feed, byte for byte, without it; the last one needs none. An \
empty line is a record with an empty payload. Lines that are ready together become one batch: it is \
durable as a whole, and in one partition, before the next is looked at, so that a slow pipe is \
appended line by line and a file in large steps. Without --key and --partition, batches take turns \
over the partitions.

When the command succeeds, everything is durable. When it fails, the message tells the first line \
that was not appended; all before it are durable. Progress is shown on a terminal, and nothing is \
printed elsewhere.

With --json a line is printed for each record once it is durable: topic, partition and offset.";

const EXAMPLES: &str = "\
Examples:
  echo 'two espressi' | tidelog append orders --key table-7
  tidelog append access /var/log/nginx/access.log --header source=nginx
  journalctl -f -o json | tidelog append journal";

fn header(text: &str) -> std::result::Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Append {
    pub(crate) fn run(&self) -> Result<Exit> {
        let inputs = Input::all(&self.files)?;
        with_any(&self.common.store, |store| {
            let topic = self.topic(store)?;
            appending::append_all(
                inputs,
                self.common.json,
                (&topic, "appended"),
                |input, acks, bar| self.append_all(&topic, input, acks, bar),
            )
        })
    }

    fn topic(&self, store: &Store) -> Result<Topic> {
        let topic = found_or_made(store, &self.topic)?;
        if let Some(number) = self.partition {
            topic.partition(number)?;
        }
        Ok(topic)
    }

    fn append_all(
        &self,
        topic: &Topic,
        input: &mut Input,
        acks: &mut Acks,
        bar: &ProgressBar,
    ) -> Result<()> {
        let most = topic.max_record_bytes();
        loop {
            let read = input.batch(topic.max_batch_bytes(), most, |line| self.frame(line))?;
            let (batch, too_long) = match read {
                Batch::Lines(lines) => (lines, None),
                Batch::TooLong(lines, size) => (lines, Some(size)),
                Batch::End => return Ok(()),
            };
            let bytes = batch.iter().map(|line| line.len() as u64 + 1).sum();
            append_batch(topic, input, &batch, &|line| self.record(line), acks)?;
            bar.inc(bytes);
            bar.set_message(count(input.appended(), "record", "records"));
            if let Some(size) = too_long {
                let (what, limit) = (Part::Record, most);
                return Err(input.failed(Error::TooLarge { what, size, limit }));
            }
        }
    }

    fn record<'a>(&'a self, line: &'a [u8]) -> Record<'a> {
        let mut record = Record::new(line);
        if let Some(key) = &self.key {
            record = record.key(key);
        }
        if let Some(partition) = self.partition {
            record = record.partition(partition);
        }
        for (name, value) in &self.header {
            record = record.header(name, value);
        }
        record
    }

    /// About how many bytes a line takes in the log: more rather than less.
    fn frame(&self, line: usize) -> u64 {
        let header = |(name, value): &(String, String)| name.len() + value.len() + 16;
        let headers: usize = self.header.iter().map(header).sum();
        let key = self.key.as_ref().map_or(0, String::len);
        (line + key + headers + 128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_name_and_a_value_that_may_hold_anything() {
        assert_eq!(header("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(header("a="), Ok(("a".to_owned(), String::new())));
        assert!(header("a").is_err());
        assert!(header("=b").is_err());
    }
}
