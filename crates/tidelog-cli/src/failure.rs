//! Why a command ended early.

use std::io;

use tidelog::Error;

use crate::exit::Exit;

/// The command's result.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// What ended a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The engine said no.
    #[error("{0}{hint}", hint = hint(.0))]
    Engine(#[from] Error),

    /// Standard output takes no more.
    #[error("standard output: {0}")]
    Output(#[source] io::Error),

    /// An input cannot be read.
    #[error("{name}: {source}")]
    Input { name: String, source: io::Error },

    /// A line could not be appended. Those before it are durable.
    #[error("{name}:{line}: {cause}; {durable} before it are durable", durable = lines(*.before))]
    Line {
        name: String,
        line: u64,
        before: u64,
        cause: Box<Error>,
    },

    /// A configuration is not one, or the store does not take it.
    #[error("{file}: {cause}")]
    Config {
        file: String,
        cause: tidelog_config::Error,
    },

    /// A line is not what it should be. Those before it are durable.
    #[error("{name}:{line}: {reason}; {durable} before it are durable", durable = lines(*.before))]
    BadLine {
        name: String,
        line: u64,
        before: u64,
        reason: String,
    },

    /// A store that the demo did not make, or not all of.
    #[error("the demo's topic holds something else: {0}; give it another folder with --store")]
    NotTheDemo(String),
}

impl Failure {
    /// The exit code that it leads to. Whoever closes a pipe has read enough, which is no failure.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::Engine(error) => Exit::from(error),
            Failure::Line { cause, .. } => Exit::from(cause.as_ref()),
            Failure::Config { cause, .. } => match cause {
                tidelog_config::Error::Refused { cause, .. } => Exit::from(cause.as_ref()),
                tidelog_config::Error::Read { source, .. }
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    Exit::NotFound
                }
                _ => Exit::Usage,
            },
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Success,
            Failure::Input { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Exit::NotFound
            }
            Failure::Output(_) | Failure::Input { .. } => Exit::Failure,
            Failure::BadLine { .. } | Failure::NotTheDemo(_) => Exit::Rejected,
        }
    }
}

/// What to do about it, where the command line has an answer.
fn hint(error: &Error) -> String {
    match error {
        Error::NoStore { .. } => "; `tidelog create TOPIC` makes one".to_owned(),
        Error::TopicUnknown { topic } => {
            format!("; `tidelog topics` lists those there are, `tidelog create {topic}` makes it")
        }
        Error::PartitionNeeded { .. } => "; an offset needs --partition N".to_owned(),
        Error::Locked { .. } => "; one process at a time can open a store for writing".to_owned(),
        _ => String::new(),
    }
}

fn lines(count: u64) -> String {
    match count {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    }
}
