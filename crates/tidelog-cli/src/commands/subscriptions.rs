//! `tidelog subscriptions`: looked at, moved, stopped and removed by hand.

use clap::{Args, Subcommand};
use serde::Serialize;
use tidelog::{Start, Store, SubscriptionInfo, SubscriptionStatus, Topic};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, thousands};
use crate::place;
use crate::store::{reading, with_existing};

/// List, show, reset, pause, resume and delete subscriptions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Subscriptions {
    #[command(subcommand)]
    what: What,

    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
List and show read beside the process that owns the store; the others change it, and need it for themselves.
One of a partition that cannot be opened is told as failed, with the reason, and the exit code is 1.

Examples:
  tidelog subscriptions list
  tidelog subscriptions show quakes archive --json
  tidelog subscriptions reset quakes archive --to 2018-02-04
  tidelog subscriptions pause quakes archive";

#[derive(Debug, Subcommand)]
enum What {
    /// All of them, with how far they are behind
    List {
        /// Only those of this topic
        topic: Option<String>,
    },
    /// One of them, in full
    Show(Which),
    /// Read on from another place
    Reset {
        #[command(flatten)]
        which: Which,

        #[arg(long, value_name = "PLACE", value_parser = place::parse, help = place::SUMMARY, long_help = place::HELP)]
        to: Start,

        /// Only this partition
        #[arg(long, value_name = "N")]
        partition: Option<u32>,
    },
    /// Stop delivery until it is resumed
    Pause(Which),
    /// Go on with delivery
    Resume(Which),
    /// Remove it with its checkpoints
    Delete(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// The topic that it reads
    topic: String,

    /// Its name
    subscription: String,
}

#[derive(Debug, Serialize)]
struct Json<'a> {
    topic: &'a str,
    subscription: &'a str,
    status: &'a str,
    required: bool,
    committed: &'a [u64],
    lag_records: u64,
    lag_bytes: u64,
    oldest_uncommitted_age_seconds: Option<f64>,
    /// What retention has removed before it was committed.
    expired: Vec<String>,
    filter: &'a Option<tidelog::Filter>,
    sampling: &'a Option<tidelog::Sampling>,
    on_expiry: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<&'a str>,
}

fn json(info: &SubscriptionInfo) -> Json<'_> {
    Json {
        topic: &info.topic,
        subscription: &info.name,
        status: status(info),
        required: info.required,
        committed: &info.committed,
        lag_records: info.lag.records,
        lag_bytes: info.lag.bytes,
        oldest_uncommitted_age_seconds: info.lag.age.map(|age| age.as_secs_f64()),
        expired: info.expired.iter().map(ToString::to_string).collect(),
        filter: &info.filter,
        sampling: &info.sampling,
        on_expiry: match info.on_expiry {
            tidelog::OnExpiry::Earliest => "earliest",
            tidelog::OnExpiry::Latest => "latest",
            _ => "fail",
        },
        failed: info.failed.as_deref(),
    }
}

fn status(info: &SubscriptionInfo) -> &'static str {
    match info.status {
        _ if info.failed.is_some() => "failed",
        SubscriptionStatus::Paused => "paused",
        SubscriptionStatus::OffsetExpired => "offset expired",
        _ => "active",
    }
}

/// The command has failed where one of them cannot be looked at.
fn exit(infos: &[SubscriptionInfo]) -> Exit {
    match infos.iter().any(|it| it.failed.is_some()) {
        true => Exit::Failure,
        false => Exit::Success,
    }
}

impl Subscriptions {
    pub(crate) fn run(&self) -> Result<Exit> {
        let store = &self.common.store;
        match &self.what {
            What::List { topic } => reading(store, |store| self.list(store, topic.as_deref())),
            What::Show(which) => reading(store, |store| {
                let topic = store.existing_topic(&which.topic)?;
                self.show(&found(&topic, &which.subscription)?)
            }),
            What::Reset {
                which,
                to,
                partition,
            } => self.change(which, |topic, name| {
                let mut held = topic.subscription(name).open()?;
                match partition {
                    Some(partition) => held.reset_partition(*partition, *to),
                    None => held.reset(*to),
                }
            }),
            What::Pause(which) => self.change(which, |topic, name| {
                topic.subscription(name).open()?.pause()
            }),
            What::Resume(which) => self.change(which, |topic, name| {
                topic.subscription(name).open()?.resume()
            }),
            What::Delete(which) => with_existing(store, |store| {
                let topic = store.existing_topic(&which.topic)?;
                topic.delete_subscription(&which.subscription)?;
                Ok(Exit::Success)
            }),
        }
    }

    fn list(&self, store: &Store, only: Option<&str>) -> Result<Exit> {
        let infos = match only {
            Some(name) => store.existing_topic(name)?.subscriptions()?,
            None => store.subscriptions()?,
        };
        let mut out = Out::new();
        let width = |text: fn(&SubscriptionInfo) -> &str, least: usize| {
            infos
                .iter()
                .map(|it| text(it).len())
                .max()
                .unwrap_or(0)
                .max(least)
        };
        let (name, topic) = (width(|it| &it.name, 12), width(|it| &it.topic, 5));
        if !self.common.json && !infos.is_empty() {
            out.line(format!(
                "{:name$}  {:topic$}  {:>12}  {:8}  status",
                "subscription", "topic", "lag", "kind"
            ))?;
        }
        for info in &infos {
            if self.common.json {
                out.json(&json(info))?;
                continue;
            }
            let kind = if info.required {
                "required"
            } else {
                "optional"
            };
            out.line(format!(
                "{:name$}  {:topic$}  {:>12}  {kind:8}  {}",
                info.name,
                info.topic,
                thousands(info.lag.records),
                status(info)
            ))?;
            if let Some(reason) = &info.failed {
                out.line(format!("{:name$}  failed: {reason}", ""))?;
            }
        }
        out.flush()?;
        Ok(exit(&infos))
    }

    fn show(&self, info: &SubscriptionInfo) -> Result<Exit> {
        let mut out = Out::new();
        let told = serde_json::to_value(json(info)).map_err(std::io::Error::from);
        let told = told.map_err(crate::failure::Failure::Output)?;
        if self.common.json {
            out.json(&told)?;
        } else {
            for (name, value) in told.as_object().into_iter().flatten() {
                let value = match value {
                    serde_json::Value::String(text) => text.clone(),
                    serde_json::Value::Null => "-".to_owned(),
                    value => value.to_string(),
                };
                out.line(format!("{:32}{value}", name.replace('_', " ")))?;
            }
        }
        out.flush()?;
        Ok(exit(std::slice::from_ref(info)))
    }

    /// Changes one that is there, and shows it as it is then.
    fn change(
        &self,
        which: &Which,
        work: impl FnOnce(&Topic, &str) -> tidelog::Result<()>,
    ) -> Result<Exit> {
        with_existing(&self.common.store, |store| {
            let topic = store.existing_topic(&which.topic)?;
            // Opening it would make it.
            found(&topic, &which.subscription)?;
            work(&topic, &which.subscription)?;
            self.show(&found(&topic, &which.subscription)?)
        })
    }
}

fn found(topic: &Topic, name: &str) -> Result<SubscriptionInfo> {
    let all = topic.subscriptions()?;
    let found = all.into_iter().find(|it| it.name == name);
    Ok(found.ok_or_else(|| tidelog::Error::SubscriptionUnknown {
        topic: topic.name().to_owned(),
        subscription: name.to_owned(),
    })?)
}
