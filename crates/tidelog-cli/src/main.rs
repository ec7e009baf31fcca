//! The `tidelog` command: create, append, read, follow and verify durable stream logs.

mod appending;
mod cli;
mod commands;
mod exit;
mod failure;
mod found;
mod input;
mod json;
mod out;
mod place;
mod progress;
mod records;
mod store;

use std::io::Write as _;
use std::process;

use clap::Parser as _;

use crate::cli::Cli;
use crate::exit::Exit;

fn main() -> process::ExitCode {
    let cli = Cli::parse();
    let code = match commands::run(&cli.command) {
        Ok(exit) => exit,
        Err(failure) => {
            let exit = failure.exit();
            if exit != Exit::Success {
                // Where the error stream is gone, too, the exit code still tells.
                writeln!(std::io::stderr(), "tidelog: {failure}").ok();
            }
            exit
        }
    };
    code.into()
}
