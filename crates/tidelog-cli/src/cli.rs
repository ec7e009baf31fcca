//! The command line: what can be said, and the help that teaches it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::append::Append;
use crate::commands::backup::Backup;
use crate::commands::config::Config;
use crate::commands::create::Create;
use crate::commands::demo::Demo;
use crate::commands::export::Export;
use crate::commands::health::Health;
use crate::commands::import::Import;
use crate::commands::lag::Lag;
use crate::commands::read::Read;
use crate::commands::repair::Repair;
use crate::commands::retention::Retention;
use crate::commands::salvage::Salvage;
use crate::commands::stats::Stats;
use crate::commands::subscriptions::Subscriptions;
use crate::commands::tail::Tail;
use crate::commands::topics::Topics;
use crate::commands::verify::Verify;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  tidelog demo                               see all of it at work, in a few seconds
  echo 'M 4.6 Volcano, Hawaii' | tidelog append quakes
  tidelog read quakes --json | jq .payload
  tidelog tail quakes --from 2018-02-04      from that day on, and then what comes";

/// Durable stream logs in a directory: topics, partitions, offsets and replay, without a broker.
#[derive(Debug, Parser)]
#[command(name = "tidelog", version, after_help = epilogue(), arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn epilogue() -> String {
    format!("{EXAMPLES}\n\n{}", Exit::table())
}

/// One for each file in `commands`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(Demo),
    Create(Create),
    Append(Append),
    Read(Read),
    Tail(Tail),
    Topics(Topics),
    Subscriptions(Subscriptions),
    Retention(Retention),
    Lag(Lag),
    Config(Config),
    Export(Export),
    Import(Import),
    Stats(Stats),
    Health(Health),
    Verify(Verify),
    Repair(Repair),
    Salvage(Salvage),
    Backup(Backup),
}

/// What every command but the demo takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The store's directory
    #[arg(long, value_name = "DIR", default_value = "data", global = true)]
    pub(crate) store: PathBuf,

    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
}
