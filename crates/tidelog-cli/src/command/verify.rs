//! `tidelog verify`

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use tidelog::{LogReport, StoreOptions, VerifyReport, verify};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Read every record of a store and check it; nothing is changed.
///
/// It needs no ownership: beside a running owner it sees the store as a crash at this moment
/// would leave it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tidelog verify
  tidelog verify --store /var/lib/agent/data --json")]
pub struct Verify {}

impl Verify {
    /// Prints what was found.
    pub fn run(&self, path: &Path, mut to: Output) -> Result<Exit, Failure> {
        if !path.join("journal").is_dir() {
            return Err(Failure::NoStore(path.to_owned()));
        }
        let report = verify(path, &StoreOptions::new())?;
        for log in &report.logs {
            if to.is_json() {
                to.value(&object(log))?;
            } else {
                print(log, &mut to)?;
            }
        }
        if !to.is_json() {
            to.line(summary(&report))?;
        }
        to.flush()?;
        Ok(match report.is_sound() {
            true => Exit::Success,
            false => Exit::Damaged,
        })
    }
}

fn object(log: &LogReport) -> Value {
    json!({
        "topic": log.topic,
        "partition": log.partition,
        "first": log.first,
        "end": log.end,
        "records": log.records,
        "segments": log.segments,
        "beyond_bytes": log.beyond,
        "damage": log.damage.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn print(log: &LogReport, to: &mut Output) -> std::io::Result<()> {
    to.line(format!(
        "{}/{}  offsets {}..{}  {} records sound in {} segments",
        log.topic, log.partition, log.first, log.end, log.records, log.segments
    ))?;
    for damage in &log.damage {
        to.line(format!("  damaged: {damage}"))?;
    }
    if log.beyond > 0 {
        to.line(format!(
            "  {} bytes beyond the end, never acknowledged",
            log.beyond
        ))?;
    }
    Ok(())
}

fn summary(report: &VerifyReport) -> String {
    let damaged: usize = report.logs.iter().map(|log| log.damage.len()).sum();
    let closed = match report.was_closed {
        true => "closed cleanly",
        false => "open, or left by a crash",
    };
    match (damaged, report.journal_damaged) {
        (0, 0) => format!("sound; the store was {closed}"),
        (logs, journal) => format!(
            "{logs} damaged stretches, {journal} damaged journal records; the store was {closed}"
        ),
    }
}
