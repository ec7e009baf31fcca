//! `tidelog import`: NDJSON into a topic.

use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use tidelog::{Record, Topic};

use crate::appending::{self, Acks, append_batch, found_or_made};
use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::input::{Batch, Input};
use crate::json::RecordLine;
use crate::out::count;
use crate::store::with_any;

/// Append records from NDJSON, as `tidelog export` prints it
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Import {
    /// The topic; made with one partition where there is none
    topic: String,

    /// Files to read, one after the other; '-' is standard input, which is also the default
    files: Vec<PathBuf>,

    /// Append each record to the partition that its line names, whatever its key
    #[arg(long)]
    keep_partitions: bool,

    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Append records from NDJSON, as `tidelog export` prints it

Each line is an object. payload, or payload_base64, has to be there; key, headers (a list of name and \
value), timestamp (RFC 3339) and event_id are taken where they are there. The topic and offset of a \
line are passed over: records are appended behind what the topic holds, in the order of their lines. \
Without --keep-partitions they go where their keys say, else in turn. A field with another name is \
refused.

Lines that are ready together become one batch: after whatever crash all of it is there, or nothing. \
When the command succeeds, everything is durable. When it fails, the message tells the first line that \
was not appended, by its number; all before it are durable, and nothing from it on was written. So \
`tail -n +LINE FILE | tidelog import TOPIC` goes on there.

With --json a line is printed for each record once it is durable: topic, partition and offset.";

const EXAMPLES: &str = "\
Examples:
  tidelog import quakes quakes.ndjson
  gunzip < part.ndjson.gz | tidelog import quakes --keep-partitions";

/// A record takes no more than so many bytes of a line for each of its own: an escape has six.
const ESCAPED: u64 = 6;

/// What a line may have beside that.
const AROUND: u64 = 1 << 20;

impl Import {
    pub(crate) fn run(&self) -> Result<Exit> {
        let inputs = Input::all(&self.files)?;
        with_any(&self.common.store, |store| {
            let topic = found_or_made(store, &self.topic)?;
            appending::append_all(
                inputs,
                self.common.json,
                (&topic, "imported"),
                |input, acks, bar| self.import_all(&topic, input, acks, bar),
            )
        })
    }

    fn import_all(
        &self,
        topic: &Topic,
        input: &mut Input,
        acks: &mut Acks,
        bar: &ProgressBar,
    ) -> Result<()> {
        let longest = topic.max_record_bytes().saturating_mul(ESCAPED) + AROUND;
        let weigh = |line| line as u64 + 128;
        loop {
            let (lines, too_long) = match input.batch(topic.max_batch_bytes(), longest, weigh)? {
                Batch::Lines(lines) => (lines, None),
                Batch::TooLong(lines, size) => (lines, Some(size)),
                Batch::End => return Ok(()),
            };
            let mut refused = too_long.map(|size| format!("longer than {size} bytes"));
            let mut batch = Vec::with_capacity(lines.len());
            for line in &lines {
                match self.record(line, topic.partitions()) {
                    Ok(record) => batch.push(record),
                    Err(reason) => {
                        refused = Some(reason);
                        break;
                    }
                }
            }
            append_batch(
                topic,
                input,
                &batch,
                &|record: &Record<'static>| record.clone(),
                acks,
            )?;
            bar.inc(lines.iter().map(|line| line.len() as u64 + 1).sum());
            bar.set_message(count(input.appended(), "record", "records"));
            if let Some(reason) = refused {
                return Err(input.refused(reason));
            }
        }
    }

    fn record(&self, line: &[u8], there: u32) -> std::result::Result<Record<'static>, String> {
        let (record, partition) = RecordLine::parse(line)?;
        match (self.keep_partitions, partition) {
            (false, _) => Ok(record),
            (true, Some(partition)) if partition >= there => Err(format!(
                "it names partition {partition}, and the topic has {there}"
            )),
            (true, Some(partition)) => Ok(record.partition(partition)),
            (true, None) => Err("it names no partition to keep".to_owned()),
        }
    }
}
