//! `tidelog append`: a record for each line.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use tidelog::{Error, Part, Positions, Record, Store, Topic};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::input::{Batch, Input};
use crate::out::{Out, count};
use crate::progress;
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
        let inputs = self.inputs()?;
        with_any(&self.common.store, |store| {
            let topic = self.topic(store)?;
            let mut acks = Acks(self.common.json.then(Out::new));
            let bar = progress::bytes(total(&inputs));
            let mut records = 0;
            let mut done = Ok(());
            for mut input in inputs {
                done = self.append_all(&topic, &mut input, &mut acks, &bar);
                records += input.appended();
                if done.is_err() {
                    break;
                }
            }
            let shown = !bar.is_hidden();
            bar.finish_and_clear();
            done?;
            if shown {
                let records = count(records, "record", "records");
                writeln!(io::stderr(), "{records} appended to {}", topic.name()).ok();
            }
            Ok(Exit::Success)
        })
    }

    /// Opens all inputs before anything is appended.
    fn inputs(&self) -> Result<Vec<Input>> {
        if self.files.is_empty() {
            return Ok(vec![Input::standard()]);
        }
        self.files.iter().map(|path| Input::open(path)).collect()
    }

    fn topic(&self, store: &Store) -> Result<Topic> {
        let found = store.existing_topic(&self.topic);
        let made = matches!(found, Err(Error::TopicUnknown { .. }));
        let topic = if made {
            store.topic(&self.topic)?
        } else {
            found?
        };
        if made && io::stderr().is_terminal() {
            writeln!(
                io::stderr(),
                "topic {} made, with one partition",
                topic.name()
            )
            .ok();
        }
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
            self.append_batch(topic, input, &batch, acks)?;
            bar.inc(bytes);
            bar.set_message(count(input.appended(), "record", "records"));
            if let Some(size) = too_long {
                let (what, limit) = (Part::Record, most);
                return Err(input.failed(Error::TooLarge { what, size, limit }));
            }
        }
    }

    /// Appends lines as one batch. Where that is too large for the topic it is appended in halves,
    /// so that only a line that is too large by itself is refused, and all before it are durable.
    fn append_batch(
        &self,
        topic: &Topic,
        input: &mut Input,
        lines: &[Vec<u8>],
        acks: &mut Acks,
    ) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let positions = match topic.append_batch(lines.iter().map(|line| self.record(line))) {
            Ok(positions) => positions,
            Err(Error::TooLarge { .. }) if lines.len() > 1 => {
                let (first, second) = lines.split_at(lines.len() / 2);
                self.append_batch(topic, input, first, acks)?;
                return self.append_batch(topic, input, second, acks);
            }
            Err(error) => return Err(input.failed(error)),
        };
        input.note_appended(lines.len() as u64);
        acks.print(&positions)
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

/// Where it is told what has become durable, if it is.
struct Acks(Option<Out>);

#[derive(Debug, Serialize)]
struct AckJson<'a> {
    topic: &'a str,
    partition: u32,
    offset: u64,
}

impl Acks {
    /// Tells of a batch. A reader that has seen enough is no reason to append less: it is told no
    /// more, and the rest is appended.
    fn print(&mut self, positions: &Positions) -> Result<()> {
        let Some(out) = &mut self.0 else {
            return Ok(());
        };
        match print(out, positions) {
            Err(failure) if failure.exit() == Exit::Success => {
                self.0 = None;
                Ok(())
            }
            printed => printed,
        }
    }
}

fn print(out: &mut Out, positions: &Positions) -> Result<()> {
    for position in positions.iter() {
        out.json(&AckJson {
            topic: position.topic(),
            partition: position.partition(),
            offset: position.offset(),
        })?;
    }
    out.flush()
}

/// How many bytes will come, where all inputs tell.
fn total(inputs: &[Input]) -> Option<u64> {
    inputs.iter().map(Input::size).sum()
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
