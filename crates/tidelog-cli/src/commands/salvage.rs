//! `tidelog salvage`: what can be read of a damaged store, into a new one.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tidelog::{SalvageReport, SalvagedLog, StoreOptions};

use crate::exit::Exit;
use crate::failure::Result;
use crate::found::{FoundJson, line};
use crate::out::{Out, count};

/// Append what can be read of a damaged store to a new one
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Salvage {
    /// The damaged store's directory: nothing in it is changed
    source: PathBuf,

    /// The new store's directory: it is made, and must not be there
    target: PathBuf,

    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

const LONG: &str = "\
Append what can be read of a damaged store to a new one

Every record that can be read is appended to the same topic and partition, in its order, with key, \
headers, timestamp and event id. Offsets begin at 0 again, so subscriptions are not taken over. The \
damaged store is only read; it also works where its journal is gone, by the folders of its topics.

What could not be read is told with topic, partition and offsets, or files, and the exit code is \
then 5. Where `tidelog repair` can make the store whole again, offsets and subscriptions stay.

With --json one object tells all: whole, journal (what is wrong with it), journal_damaged, folders that \
cannot be looked at, and a list of partitions, each with records and what was lost.";

const EXAMPLES: &str = "\
Examples:
  tidelog salvage data rescued
  tidelog salvage data rescued --json | jq '.partitions[] | select(.lost != [])'";

#[derive(Debug, Serialize)]
struct ReportJson<'a> {
    whole: bool,
    journal: Option<String>,
    journal_damaged: usize,
    folders: Vec<FoundJson>,
    partitions: Vec<LogJson<'a>>,
}

#[derive(Debug, Serialize)]
struct LogJson<'a> {
    topic: &'a str,
    partition: u32,
    records: u64,
    lost: Vec<FoundJson>,
}

impl Salvage {
    pub(crate) fn run(&self) -> Result<Exit> {
        let report = tidelog::salvage(&self.source, &self.target, &StoreOptions::new())?;
        let mut out = Out::new();
        if self.json {
            out.json(&ReportJson {
                whole: report.is_whole(),
                journal: report.journal.as_ref().map(ToString::to_string),
                journal_damaged: report.journal_damaged,
                folders: FoundJson::all(&report.folders),
                partitions: report.logs.iter().map(LogJson::new).collect(),
            })?;
        } else {
            print(&report, &mut out)?;
        }
        out.flush()?;
        Ok(match report.is_whole() {
            true => Exit::Success,
            false => Exit::Damage,
        })
    }
}

impl<'a> LogJson<'a> {
    fn new(log: &'a SalvagedLog) -> LogJson<'a> {
        LogJson {
            topic: &log.topic,
            partition: log.partition,
            records: log.records,
            lost: FoundJson::all(&log.lost),
        }
    }
}

fn print(report: &SalvageReport, out: &mut Out) -> Result<()> {
    for log in &report.logs {
        let records = count(log.records, "record", "records");
        out.line(format!("{}/{}: {records}", log.topic, log.partition))?;
        for lost in &log.lost {
            out.line(format!("  lost: {}", line(lost)))?;
        }
    }
    if let Some(error) = &report.journal {
        out.line(format!("journal: not used: {error}"))?;
    }
    for folder in &report.folders {
        out.line(format!("lost: {}", line(folder)))?;
    }
    if report.journal_damaged > 0 {
        let records = count(report.journal_damaged as u64, "record", "records");
        out.line(format!("journal: {records} cannot be read"))?;
    }
    let records = report.logs.iter().map(|log| log.records).sum();
    let records = count(records, "record", "records");
    let verdict = match report.is_whole() {
        true => "nothing is lost",
        false => "NOT ALL COULD BE READ",
    };
    out.line(format!("{records} salvaged: {verdict}"))
}
