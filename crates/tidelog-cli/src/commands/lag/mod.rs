//! `tidelog lag`: how far subscriptions are behind, once or live.

mod draw;
mod model;
mod watch;

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tidelog::Store;

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, thousands};
use crate::store::reading;
use model::{Board, Look, SubscriptionLine};

/// Show how far subscriptions are behind, once or live
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Lag {
    /// Only this topic
    topic: Option<String>,

    /// A live view of topics and subscriptions, until q is pressed
    #[arg(long, conflicts_with = "json")]
    watch: bool,

    /// How often the live view looks
    #[arg(long, value_name = "AGE", default_value = "500ms", requires = "watch")]
    every: tidelog_config::Age,

    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Show how far subscriptions are behind, once or live

It reads beside the process that owns the store, and writes nothing. A subscription's lag is what is \
durable and not committed; its age is that of the oldest such record. One of a partition that cannot be \
opened is told as failed, with the reason, and the exit code is 1.

Keys of the live view: q ends it, Tab goes to the other list, arrows, PageUp and PageDown move in it, \
s sorts it by another column.";

const EXAMPLES: &str = "\
Examples:
  tidelog lag
  tidelog lag --watch
  tidelog lag quakes --json | jq 'select(.lag_records > 1000)'";

/// A view is not looked at more often: that would only cost.
const LEAST: Duration = Duration::from_millis(50);

#[derive(Debug, Serialize)]
struct LineJson<'a> {
    topic: &'a str,
    subscription: &'a str,
    status: &'a str,
    committed: &'a [u64],
    lag_records: u64,
    lag_bytes: u64,
    oldest_uncommitted_age_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<&'a str>,
}

impl Lag {
    pub(crate) fn run(&self) -> Result<Exit> {
        reading(&self.common.store, |store| match self.watch {
            true => watch::run(self.every.0.max(LEAST), || self.look(store)),
            false => self.print(store),
        })
    }

    fn look(&self, store: &Store) -> Result<Look> {
        Look::of(store, self.topic.as_deref())
    }

    fn print(&self, store: &Store) -> Result<Exit> {
        let mut board = Board::default();
        board.take(self.look(store)?, Instant::now());
        let mut out = Out::new();
        let width = |text: fn(&SubscriptionLine) -> &str, least: usize| {
            let widths = board.subscriptions.iter().map(|it| text(it).len());
            widths.max().unwrap_or(0).max(least)
        };
        let (name, topic) = (width(|it| &it.name, 12), width(|it| &it.topic, 5));
        if !self.common.json && !board.subscriptions.is_empty() {
            out.line(format!(
                "{:name$}  {:topic$}  {:>12}  {:>10}  {:>8}  status",
                "subscription", "topic", "records", "bytes", "oldest"
            ))?;
        }
        for it in &board.subscriptions {
            if self.common.json {
                out.json(&LineJson {
                    topic: &it.topic,
                    subscription: &it.name,
                    status: it.status.text(),
                    committed: &it.committed,
                    lag_records: it.records,
                    lag_bytes: it.bytes,
                    oldest_uncommitted_age_seconds: it.age.map(|age| age.as_secs_f64()),
                    failed: it.failed.as_deref(),
                })?;
                continue;
            }
            out.line(format!(
                "{:name$}  {:topic$}  {:>12}  {:>10}  {:>8}  {}",
                it.name,
                it.topic,
                thousands(it.records),
                draw::bytes(it.bytes),
                it.age.map(draw::age).unwrap_or_default(),
                it.status.text()
            ))?;
            if let Some(reason) = &it.failed {
                out.line(format!("{:name$}  failed: {reason}", ""))?;
            }
        }
        out.flush()?;
        match board.subscriptions.iter().any(|it| it.failed.is_some()) {
            true => Ok(Exit::Failure),
            false => Ok(Exit::Success),
        }
    }
}
