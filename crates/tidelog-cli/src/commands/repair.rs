//! `tidelog repair`: partitions that cannot be opened or read through, made whole again.

use clap::Args;
use serde::Serialize;
use tidelog::{RepairReport, RepairStep, RepairedLog, StoreOptions};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::found::{FoundJson, line};
use crate::out::{Out, count};

/// Make partitions whole again that cannot be opened or read through
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Repair {
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Make partitions whole again that cannot be opened or read through

Segment files that are missing, cut short, unreadable in places, or have a damaged header keep a \
partition from being opened, or readers from getting through it. All partitions are read, and for each \
one of that kind it is told what is wrong, what is done about it, file by file, and which offsets are \
lost. What can be read stays at its offsets, what is lost is damage from then on, which readers are told \
of and pass, and no offset is given again. What is replaced is moved to quarantine/, where the oldest \
files go when there are more than 256, or more than 1 GiB.

Damaged records in a partition that readers get through stay as they are: `tidelog verify` tells of \
them. No other process may own the store. With --dry-run nothing is changed. Make a copy of the files \
first, if you can.

The exit code is 0 if nothing had to be done or everything could be, and 5 if something is lost or \
could not be repaired.

With --json a line is printed for each partition: topic, partition, why, steps, lost and refused.";

const EXAMPLES: &str = "\
Examples:
  tidelog repair --dry-run
  tidelog repair --store data --json | jq '.lost'";

#[derive(Debug, Serialize)]
struct LogJson<'a> {
    topic: &'a str,
    partition: u32,
    why: String,
    steps: Vec<StepJson>,
    lost: Vec<FoundJson>,
    refused: Option<String>,
}

#[derive(Debug, Serialize)]
struct StepJson {
    file: String,
    action: String,
}

impl Repair {
    pub(crate) fn run(&self) -> Result<Exit> {
        let (store, options) = (&self.common.store, StoreOptions::new());
        let report = match self.dry_run {
            true => tidelog::repair_plan(store, &options)?,
            false => tidelog::repair(store, &options)?,
        };
        let mut out = Out::new();
        if self.common.json {
            for log in &report.logs {
                out.json(&LogJson::new(log))?;
            }
        } else {
            self.print(&report, &mut out)?;
        }
        out.flush()?;
        let lost = report.logs.iter().any(|log| !log.lost.is_empty());
        Ok(match report.is_complete() && !lost {
            true => Exit::Success,
            false => Exit::Damage,
        })
    }

    fn print(&self, report: &RepairReport, out: &mut Out) -> Result<()> {
        for log in &report.logs {
            out.line(format!("{}/{}: {}", log.topic, log.partition, log.why))?;
            for RepairStep { file, action, .. } in &log.steps {
                out.line(format!("  {}: {action}", file.display()))?;
            }
            for lost in &log.lost {
                out.line(format!("  lost: {}", line(lost)))?;
            }
            if let Some(error) = &log.refused {
                out.line(format!("  NOT REPAIRED: {error}"))?;
            }
        }
        let repaired = report.logs.iter().filter(|log| log.refused.is_none());
        let repaired = count(repaired.count() as u64, "partition", "partitions");
        out.line(match (report.logs.is_empty(), self.dry_run) {
            (true, _) => "nothing to repair".to_owned(),
            (false, true) => format!("{repaired} would be repaired"),
            (false, false) => format!("{repaired} repaired"),
        })
    }
}

impl<'a> LogJson<'a> {
    fn new(log: &'a RepairedLog) -> LogJson<'a> {
        let step = |step: &RepairStep| StepJson {
            file: step.file.display().to_string(),
            action: step.action.to_string(),
        };
        LogJson {
            topic: &log.topic,
            partition: log.partition,
            why: log.why.to_string(),
            steps: log.steps.iter().map(step).collect(),
            lost: FoundJson::all(&log.lost),
            refused: log.refused.as_ref().map(ToString::to_string),
        }
    }
}
