//! `tidelog tail`

use std::path::Path;

use clap::Args;
use tidelog::{Error, Start};

use super::open_existing;
use super::read::Selection;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Follow a topic: print what comes, as it becomes durable.
///
/// It ends when the topic is finished and everything has been printed, at --limit, or when it is
/// interrupted. It starts at the end unless --from says otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tidelog tail quakes
  tidelog tail quakes --from earliest --limit 5 --json")]
pub struct Tail {
    #[command(flatten)]
    selection: Selection,
}

impl Tail {
    /// Prints records until there will be no more.
    pub fn run(&self, path: &Path, mut to: Output) -> Result<Exit, Failure> {
        let store = open_existing(path)?;
        let topic = self.selection.topic(&store)?;
        let start = self.selection.from.unwrap_or(Start::Latest);
        let mut tail = match self.selection.partition {
            Some(number) => topic.partition(number)?.follow(start)?,
            None => topic.follow(start)?,
        };
        let mut left = self.selection.limit.unwrap_or(u64::MAX);
        let mut exit = Exit::Success;
        while left > 0 {
            // What is there is printed together; before waiting it must have left.
            let next = match tail.try_next() {
                Ok(None) => {
                    to.flush()?;
                    tail.next()
                }
                next => next,
            };
            match next {
                Ok(Some(record)) => {
                    to.record(&record)?;
                    left -= 1;
                }
                Ok(None) => break,
                Err(error @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                    eprintln!("tidelog: {error}");
                    exit = Exit::Damaged;
                }
                Err(error) => return Err(error.into()),
            }
        }
        to.flush()?;
        drop(tail);
        store.close()?;
        Ok(exit)
    }
}
