//! One file for each command.

pub(crate) mod append;
pub(crate) mod backup;
pub(crate) mod config;
pub(crate) mod create;
pub(crate) mod demo;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod lag;
pub(crate) mod read;
pub(crate) mod repair;
pub(crate) mod retention;
pub(crate) mod salvage;
pub(crate) mod stats;
pub(crate) mod subscriptions;
pub(crate) mod tail;
pub(crate) mod topics;
pub(crate) mod verify;

use crate::cli::Command;
use crate::exit::Exit;
use crate::failure::Result;

/// Runs the command that was asked for.
pub(crate) fn run(command: &Command) -> Result<Exit> {
    match command {
        Command::Demo(demo) => demo.run(),
        Command::Subscriptions(subscriptions) => subscriptions.run(),
        Command::Retention(retention) => retention.run(),
        Command::Lag(lag) => lag.run(),
        Command::Config(config) => config.run(),
        Command::Create(create) => create.run(),
        Command::Append(append) => append.run(),
        Command::Export(export) => export.run(),
        Command::Import(import) => import.run(),
        Command::Read(read) => read.run(),
        Command::Tail(tail) => tail.run(),
        Command::Topics(topics) => topics.run(),
        Command::Stats(stats) => stats.run(),
        Command::Health(health) => health.run(),
        Command::Verify(verify) => verify.run(),
        Command::Repair(repair) => repair.run(),
        Command::Salvage(salvage) => salvage.run(),
        Command::Backup(backup) => backup.run(),
    }
}
