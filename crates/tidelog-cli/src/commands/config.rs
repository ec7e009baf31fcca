//! `tidelog config`: what a configuration says, and having it so.

use std::path::PathBuf;

use clap::Args;
use tidelog_config::Config as Stated;

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::out::{Out, count};
use crate::store::quiet;

/// Show what a configuration file says, or apply it
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Config {
    /// The file: TOML, YAML or JSON, by its name's end
    file: PathBuf,

    /// Make the store, its topics and subscriptions, and set the limits of topics
    #[arg(long)]
    apply: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const LONG: &str = "\
Show what a configuration file says, or apply it

A file names the store's path, topics and subscriptions. Sizes are bytes, or have a unit: 20MB, 1GiB; \
ages have one: 7d, 12h, 200ms. What the file does not say is as it is, and nothing is ever removed. The \
store's path counts from the file's folder.";

const EXAMPLES: &str = "\
Examples:
  tidelog config tidelog.toml
  tidelog config tidelog.yaml --apply
  tidelog config tidelog.toml --json | jq .topics";

impl Config {
    pub(crate) fn run(&self) -> Result<Exit> {
        let failed = |cause| Failure::Config {
            file: self.file.display().to_string(),
            cause,
        };
        let stated = Stated::read(&self.file).map_err(failed)?;
        let mut out = Out::new();
        if self.apply {
            stated.open_with(quiet()).map_err(failed)?.close()?;
        }
        if self.json {
            out.json(&stated)?;
        } else if self.apply {
            let topics = count(stated.topics.len() as u64, "topic", "topics");
            let subscriptions = stated.subscriptions.len() as u64;
            let subscriptions = count(subscriptions, "subscription", "subscriptions");
            let path = stated.path.display();
            out.line(format!("{path}: {topics}, {subscriptions}"))?;
        } else {
            out.line(stated.to_toml().map_err(failed)?.trim_end())?;
        }
        out.flush()?;
        Ok(Exit::Success)
    }
}
