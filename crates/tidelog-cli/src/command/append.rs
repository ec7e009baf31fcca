//! `tidelog append`

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tidelog::{Record, Store, Topic};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// How much is appended at once, when so much is there to be read.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_RECORDS: usize = 1024;

/// Append lines to a topic: one record a line, durable.
///
/// Lines that are there together are committed together; an empty line is an empty record. The
/// command ends when everything is on disk. A topic that is not there must be made first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  echo 'M 4.6 Volcano, Hawaii' | tidelog append quakes --key hv
  tidelog append quakes week1.ndjson week2.ndjson")]
pub struct Append {
    /// The topic's name.
    topic: String,

    /// Files to append; standard input if there is none, or for '-'.
    files: Vec<PathBuf>,

    /// The key of every record.
    #[arg(long)]
    key: Option<String>,

    /// The partition of every record.
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,

    /// A header of every record; may be given several times.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Append {
    /// Appends everything there is to read.
    pub fn run(&self, path: &Path, mut to: Output) -> Result<Exit, Failure> {
        let store = Store::open(path)?;
        let topic = store.existing_topic(&self.topic)?;
        let bar = progress();
        let mut count = 0;
        if self.files.is_empty() {
            count += self.lines(&topic, io::stdin().lock(), &bar)?;
        }
        for file in &self.files {
            count += match file.as_os_str() == "-" {
                true => self.lines(&topic, io::stdin().lock(), &bar)?,
                false => self.lines(&topic, BufReader::new(open(file)?), &bar)?,
            };
        }
        bar.finish_and_clear();
        if to.is_json() {
            to.value(&json!({ "topic": topic.name(), "appended": count }))?;
        }
        to.flush()?;
        store.close()?;
        Ok(Exit::Success)
    }

    fn lines(&self, topic: &Topic, from: impl BufRead, bar: &ProgressBar) -> Result<u64, Failure> {
        let mut lines = Lines::new(from);
        let mut count = 0;
        loop {
            let batch = lines.batch()?;
            if batch.is_empty() {
                return Ok(count);
            }
            count += batch.len() as u64;
            bar.inc(batch.len() as u64);
            topic.append_batch(batch.into_iter().map(|line| self.record(line)))?;
        }
    }

    fn record(&self, line: Vec<u8>) -> Record<'_> {
        let mut record = Record::new(line);
        if let Some(key) = &self.key {
            record = record.key(key);
        }
        if let Some(partition) = self.partition {
            record = record.partition(partition);
        }
        for (name, value) in &self.headers {
            record = record.header(name, value);
        }
        record
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Moves on a terminal, and is quiet elsewhere.
fn progress() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} records, {per_sec}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Lines in batches: as many as can be had without waiting, within bounds.
struct Lines<R> {
    from: R,
}

impl<R: BufRead> Lines<R> {
    fn new(from: R) -> Lines<R> {
        Lines { from }
    }

    /// At least one line, unless there are none any more.
    fn batch(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let buffered = self.from.fill_buf()?;
            // A line that is not here whole would have to be waited for.
            if !batch.is_empty() && !buffered.contains(&b'\n') {
                break;
            }
            let mut line = Vec::new();
            if self.from.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            bytes += line.len();
            batch.push(line);
        }
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file without a newline at its end, with empty lines in the middle.
    #[test]
    fn every_line_is_a_record_and_nothing_else_is() {
        let mut lines = Lines::new(&b"one\n\ntwo\r\nthree"[..]);
        let mut all = Vec::new();
        loop {
            let batch = lines.batch().unwrap();
            if batch.is_empty() {
                break;
            }
            all.extend(batch);
        }
        let expected: [&[u8]; 4] = [b"one", b"", b"two\r", b"three"];
        assert_eq!(all, expected);
    }
}
