//! `tidelog verify`: whether every record is sound.

use clap::Args;
use serde::Serialize;
use tidelog::{LogReport, StoreOptions, VerifyReport};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::found::FoundJson;
use crate::out::{Out, count, thousands};

/// Read every record of a store and check it
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Verify {
    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Read every record of a store and check it

Nothing is changed and no lock is taken: it also works beside a live owner, and then sees the store \
as that owner's killing at this moment would leave it. Damage is told with topic, partition, \
offset, file and byte, and the exit code is then 5. Bytes beyond the last record are what a crash \
cut off, and no damage.

With --json one object tells all: sound, was_closed, journal_damaged, and a list of partitions, \
each with its list of damage.";

const EXAMPLES: &str = "\
Examples:
  tidelog verify
  tidelog verify --json | jq '.partitions[] | select(.damage != [])'";

#[derive(Debug, Serialize)]
struct ReportJson<'a> {
    sound: bool,
    was_closed: bool,
    journal_damaged: usize,
    partitions: Vec<LogJson<'a>>,
}

#[derive(Debug, Serialize)]
struct LogJson<'a> {
    topic: &'a str,
    partition: u32,
    first: u64,
    end: u64,
    records: u64,
    segments: u32,
    bytes_beyond: u64,
    damage: Vec<FoundJson>,
}

impl Verify {
    pub(crate) fn run(&self) -> Result<Exit> {
        let report = tidelog::verify(&self.common.store, &StoreOptions::new())?;
        let mut out = Out::new();
        if self.common.json {
            out.json(&ReportJson::new(&report))?;
        } else {
            print(&report, &mut out)?;
        }
        out.flush()?;
        Ok(if report.is_sound() {
            Exit::Success
        } else {
            Exit::Damage
        })
    }
}

fn print(report: &VerifyReport, out: &mut Out) -> Result<()> {
    for log in &report.logs {
        let records = count(log.records, "record", "records");
        let beyond = match log.beyond {
            0 => String::new(),
            bytes => format!(", {} bytes cut off by a crash", thousands(bytes)),
        };
        let (topic, partition) = (&log.topic, log.partition);
        let verdict = if log.damage.is_empty() {
            "sound"
        } else {
            "DAMAGED"
        };
        let segments = count(u64::from(log.segments), "segment", "segments");
        let offsets = format!("offsets {}..{}", log.first, log.end);
        let line = format!("{topic}/{partition}: {verdict}, {records}, {offsets}, {segments}");
        out.line(format!("{line}{beyond}"))?;
        for damage in &log.damage {
            out.line(format!("  {damage}"))?;
        }
    }
    if report.journal_damaged > 0 {
        let records = count(report.journal_damaged as u64, "record", "records");
        out.line(format!("journal: DAMAGED, {records} cannot be read"))?;
    }
    let records = report.logs.iter().map(|log| log.records).sum();
    let records = count(records, "record", "records");
    let partitions = count(report.logs.len() as u64, "partition", "partitions");
    let verdict = if report.is_sound() {
        "all sound"
    } else {
        "DAMAGE FOUND"
    };
    out.line(format!("{records} in {partitions}: {verdict}"))
}

impl<'a> ReportJson<'a> {
    fn new(report: &'a VerifyReport) -> ReportJson<'a> {
        ReportJson {
            sound: report.is_sound(),
            was_closed: report.was_closed,
            journal_damaged: report.journal_damaged,
            partitions: report.logs.iter().map(LogJson::new).collect(),
        }
    }
}

impl<'a> LogJson<'a> {
    fn new(log: &'a LogReport) -> LogJson<'a> {
        LogJson {
            topic: &log.topic,
            partition: log.partition,
            first: log.first,
            end: log.end,
            records: log.records,
            segments: log.segments,
            bytes_beyond: log.beyond,
            damage: FoundJson::all(&log.damage),
        }
    }
}
