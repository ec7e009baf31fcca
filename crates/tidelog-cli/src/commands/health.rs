//! `tidelog health`: whether a store is in order.

use clap::Args;
use serde::Serialize;
use tidelog::{Error, Health as Found, Span, Store};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, count};
use crate::store::reading;

/// Tell whether a store is in order: partitions that cannot be opened, damage, its owner
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Health {
    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Tell whether a store is in order: partitions that cannot be opened, damage, its owner

Every partition is opened for reading, and its end looked at, but not all of its records: that does \
`tidelog verify`. Nothing is changed and no lock is taken: it also works beside a live owner, and then \
tells what the files say, not what the owner has come upon.

The exit code is 0 if nothing is wrong, 5 if there is damage, and 1 if a partition cannot be opened.

With --json one object tells all: healthy, owner (its process id), was_closed, epoch, backend, board, \
journal_damaged, failed, damage, in_doubt (records that were written when a partition failed), \
unsettled_bytes (null: only the owner knows), redo_bytes (what of the journal partitions may still \
need) and free_bytes.";

const EXAMPLES: &str = "\
Examples:
  tidelog health
  tidelog health --json | jq .failed";

#[derive(Debug, Serialize)]
struct HealthJson {
    healthy: bool,
    owner: Option<u32>,
    was_closed: bool,
    epoch: u32,
    backend: String,
    board: Option<String>,
    journal_damaged: usize,
    failed: Vec<String>,
    damage: Vec<String>,
    in_doubt: Vec<String>,
    unsettled_bytes: Option<u64>,
    redo_bytes: u64,
    free_bytes: Option<u64>,
}

impl Health {
    pub(crate) fn run(&self) -> Result<Exit> {
        reading(&self.common.store, |store| {
            let health = look(store)?;
            let exit = exit(&health);
            let mut out = Out::new();
            if self.common.json {
                out.json(&HealthJson::new(&health))?;
            } else {
                print(&health, &mut out)?;
            }
            out.flush()?;
            Ok(exit)
        })
    }
}

/// Opens every partition, and asks.
fn look(store: &Store) -> Result<Found> {
    for info in store.topics() {
        let topic = match store.existing_topic(&info.name) {
            // Its owner has deleted it just now.
            Err(Error::TopicUnknown { .. } | Error::TopicDeleted { .. }) => continue,
            topic => topic?,
        };
        for number in 0..topic.partitions() {
            // What is wrong with it is what the store tells.
            drop(topic.partition(number)?.end());
        }
    }
    Ok(store.health())
}

fn exit(health: &Found) -> Exit {
    if !health.failed.is_empty() || health.journal.is_some() {
        return Exit::Failure;
    }
    match health.damage.is_empty() && health.journal_damaged == 0 {
        true => Exit::Success,
        false => Exit::Damage,
    }
}

fn print(health: &Found, out: &mut Out) -> Result<()> {
    out.line(match health.owner {
        Some(pid) => format!("owner: process {pid}"),
        None if health.was_closed => "owner: none, the last one closed the store".to_owned(),
        None => "owner: none, the last one did not close the store".to_owned(),
    })?;
    out.line(format!("epoch: {}", health.epoch))?;
    if let Some(board) = &health.board {
        out.line(format!("board: {}", board.display()))?;
    }
    if let Some(free) = health.free_bytes {
        out.line(format!("free: {}", count(free, "byte", "bytes")))?;
    }
    if health.redo_bytes > 0 {
        let bytes = count(health.redo_bytes, "byte", "bytes");
        out.line(format!("redo in the journal: {bytes}"))?;
    }
    for span in &health.in_doubt {
        out.line(format!("in doubt: {span}"))?;
    }
    for failed in health.failed.iter().chain(&health.journal) {
        out.line(format!("failed: {failed}"))?;
    }
    for damage in &health.damage {
        out.line(format!("damage: {damage}"))?;
    }
    if health.journal_damaged > 0 {
        let records = count(health.journal_damaged as u64, "record", "records");
        out.line(format!("damage: {records} of the journal cannot be read"))?;
    }
    let verdict = match exit(health) {
        Exit::Success => "healthy",
        _ => "NOT HEALTHY",
    };
    out.line(verdict)
}

impl HealthJson {
    fn new(health: &Found) -> HealthJson {
        let words = |error: &Error| error.to_string();
        HealthJson {
            healthy: exit(health) == Exit::Success,
            owner: health.owner,
            was_closed: health.was_closed,
            epoch: health.epoch,
            backend: format!("{:?}", health.backend).to_lowercase(),
            board: health.board.as_ref().map(|path| path.display().to_string()),
            journal_damaged: health.journal_damaged,
            failed: health
                .failed
                .iter()
                .chain(&health.journal)
                .map(words)
                .collect(),
            damage: health.damage.iter().map(words).collect(),
            in_doubt: health.in_doubt.iter().map(Span::to_string).collect(),
            unsettled_bytes: health.unsettled_bytes,
            redo_bytes: health.redo_bytes,
            free_bytes: health.free_bytes,
        }
    }
}
