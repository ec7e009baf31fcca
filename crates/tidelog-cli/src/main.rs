//! The `tidelog` command.

mod command;
mod exit;
mod output;
mod start;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::{Exit, Failure};

/// Durable stream logs in a directory, with no broker.
///
/// A store holds topics, a topic holds partitions, a partition holds records with offsets from 0.
/// What was appended is on disk when the command says so: it survives a power cut.
#[derive(Debug, Parser)]
#[command(name = "tidelog", version, after_help = exit::HELP, arg_required_else_help = true)]
struct Cli {
    /// The store's directory; `data` by default, `tidelog-demo` for the demo.
    #[arg(long, global = true, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Print JSON, one object a line.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(command::demo::Demo),
    Create(command::create::Create),
    Append(command::append::Append),
    Read(command::read::Read),
    Tail(command::tail::Tail),
    Topics(command::topics::Topics),
    Verify(command::verify::Verify),
}

fn run(cli: &Cli) -> Result<Exit, Failure> {
    let to = output::Output::new(cli.json);
    let store = |default| cli.store.as_deref().unwrap_or(Path::new(default));
    match &cli.command {
        Command::Demo(demo) => demo.run(store("tidelog-demo"), to),
        Command::Create(create) => create.run(store("data"), to),
        Command::Append(append) => append.run(store("data"), to),
        Command::Read(read) => read.run(store("data"), to),
        Command::Tail(tail) => tail.run(store("data"), to),
        Command::Topics(topics) => topics.run(store("data"), to),
        Command::Verify(verify) => verify.run(store("data"), to),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(exit) => exit.into(),
        // Who reads what we print has seen enough.
        Err(Failure::BrokenPipe) => Exit::Success.into(),
        Err(failure) => {
            eprintln!("tidelog: {failure}");
            failure.exit().into()
        }
    }
}
