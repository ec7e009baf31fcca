//! `tidelog retention`: what would go, what goes, and trimming by hand.

use clap::{Args, Subcommand};
use serde::Serialize;
use tidelog::{Audit, Error, Partition, PartitionAudit, Reason, Store, Topic};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, count, thousands};
use crate::store::{reading, with_existing};

/// Say what has expired, remove it, or trim a partition by hand
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Retention {
    #[command(subcommand)]
    what: What,

    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
The process that owns a store applies its retention by itself. An audit looks from beside it, as far as that
is possible; to apply and to truncate need the store for themselves.

Examples:
  tidelog retention audit
  tidelog retention apply quakes
  tidelog retention truncate quakes --partition 0 --before 100000";

#[derive(Debug, Subcommand)]
enum What {
    /// What would go now; nothing is changed
    Audit {
        /// Only of this topic
        topic: Option<String>,
    },
    /// Remove what has expired, and say what that was
    Apply {
        /// Only of this topic
        topic: Option<String>,
    },
    /// Remove what lies before an offset, as far as whole segments do
    Truncate {
        /// The topic
        topic: String,

        /// The partition; may be left out where there is only one
        #[arg(long, value_name = "N")]
        partition: Option<u32>,

        /// The first offset to keep
        #[arg(long, value_name = "OFFSET")]
        before: u64,
    },
}

#[derive(Debug, Serialize)]
struct PartitionJson<'a> {
    topic: &'a str,
    partition: u32,
    records: u64,
    bytes: u64,
    removals: Vec<RemovalJson>,
    /// The first offset that is there afterwards.
    first: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct RemovalJson {
    from: u64,
    to: u64,
    bytes: u64,
    reason: &'static str,
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Age => "age",
        Reason::Bytes => "bytes",
        Reason::HardLimit => "hard limit",
        _ => "other",
    }
}

impl Retention {
    pub(crate) fn run(&self) -> Result<Exit> {
        let path = &self.common.store;
        match &self.what {
            What::Audit { topic } => reading(path, |store| {
                let audit = of(store, topic.as_deref(), Topic::audit, Store::audit);
                self.print(&audit?, "would go")
            }),
            What::Apply { topic } => with_existing(path, |store| {
                let apply = (Topic::apply_retention, Store::apply_retention);
                let done = of(store, topic.as_deref(), apply.0, apply.1);
                self.print(&done?, "went")
            }),
            What::Truncate {
                topic,
                partition,
                before,
            } => with_existing(path, |store| {
                let partition = meant(&store.existing_topic(topic)?, *partition)?;
                self.truncate(&partition, *before)
            }),
        }
    }

    fn truncate(&self, partition: &Partition, before: u64) -> Result<Exit> {
        let (topic, number) = (partition.topic().name(), partition.number());
        let first = partition.truncate_before(before)?;
        let mut out = Out::new();
        match self.common.json {
            true => out.json(&serde_json::json!({
                "topic": topic,
                "partition": number,
                "first": first,
            }))?,
            false => out.line(format!("{topic}/{number}: begins at {}", thousands(first)))?,
        }
        out.flush()?;
        Ok(Exit::Success)
    }

    fn print(&self, audit: &Audit, verb: &str) -> Result<Exit> {
        let mut out = Out::new();
        let mut exit = Exit::Success;
        for it in &audit.partitions {
            if it.failed.is_some() {
                exit = Exit::Failure;
            }
            match self.common.json {
                true => out.json(&json(it))?,
                false => out.line(text(it, verb))?,
            }
        }
        if audit.partitions.is_empty() && !self.common.json {
            out.line("no topic has a retention: nothing ever expires")?;
        }
        out.flush()?;
        Ok(exit)
    }
}

/// The partition that is named; where none is, the only one.
fn meant(topic: &Topic, number: Option<u32>) -> Result<Partition, Error> {
    match (number, topic.partitions()) {
        (Some(number), _) => topic.partition(number),
        (None, 1) => topic.partition(0),
        (None, partitions) => Err(Error::PartitionNeeded {
            topic: topic.name().to_owned(),
            partitions,
        }),
    }
}

fn of(
    store: &Store,
    topic: Option<&str>,
    one: fn(&Topic) -> Result<Audit, Error>,
    all: fn(&Store) -> Result<Audit, Error>,
) -> Result<Audit, Error> {
    match topic {
        Some(name) => one(&store.existing_topic(name)?),
        None => all(store),
    }
}

fn json(it: &PartitionAudit) -> PartitionJson<'_> {
    let removal = |removal: &tidelog::Removal| RemovalJson {
        from: removal.offsets.start,
        to: removal.offsets.end,
        bytes: removal.bytes,
        reason: reason(removal.reason),
    };
    PartitionJson {
        topic: &it.topic,
        partition: it.partition,
        records: it.records(),
        bytes: it.bytes(),
        removals: it.removals.iter().map(removal).collect(),
        first: it.first,
        failed: it.failed.as_deref(),
    }
}

fn text(it: &PartitionAudit, verb: &str) -> String {
    let place = format!("{}/{}", it.topic, it.partition);
    let failed = it
        .failed
        .as_ref()
        .map(|failed| format!("{place}: {failed}"));
    if let Some(failed) = failed.as_ref().filter(|_| it.removals.is_empty()) {
        return failed.clone();
    }
    let records = count(it.records(), "record", "records");
    let mut reasons: Vec<_> = it.removals.iter().map(|it| reason(it.reason)).collect();
    reasons.dedup();
    let by = match reasons.is_empty() {
        true => String::new(),
        false => format!(", by {}", reasons.join(" and ")),
    };
    let told = format!(
        "{place}: {records} {verb}, {} bytes{by}",
        thousands(it.bytes())
    );
    [told]
        .into_iter()
        .chain(failed)
        .collect::<Vec<_>>()
        .join("\n")
}
