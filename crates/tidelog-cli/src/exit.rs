//! How the command ends, as a number with a meaning.

use std::fmt;
use std::io;
use std::process::ExitCode;

use tidelog::Error;

/// The numbers, for `--help`.
pub const HELP: &str = "\
Exit codes:
  0  done; also when whoever reads the output has seen enough
  1  the disk or the system refused
  2  the command line was wrong
  3  no such store, topic or partition
  4  the store is in use by another process
  5  records are damaged, or files do not fit together
  6  no space: nothing was written
  7  refused: a limit, a mismatch, a finished topic; nothing was written
  8  in doubt: written, and the sync failed; look after the next start";

/// How the command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Success = 0,
    /// The disk or the system refused.
    System = 1,
    /// The command line was wrong; clap uses the same number.
    Usage = 2,
    /// No such store, topic or partition.
    NotFound = 3,
    /// The store is in use by another process.
    Locked = 4,
    /// Records are damaged, or files do not fit together.
    Damaged = 5,
    /// No space.
    Full = 6,
    /// A limit, a mismatch, a finished topic.
    Refused = 7,
    /// Written, and the sync failed.
    InDoubt = 8,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// What ends a command early.
#[derive(Debug)]
pub enum Failure {
    /// Nobody reads the output any more.
    BrokenPipe,
    /// There is no store in that directory.
    NoStore(std::path::PathBuf),
    /// Reading input or writing output failed.
    Io(io::Error),
    /// The store says no.
    Store(Error),
    /// The demo did not find what it had written.
    Check(String),
}

impl Failure {
    /// The number it ends with.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::BrokenPipe => Exit::Success,
            Failure::NoStore(_) => Exit::NotFound,
            Failure::Io(_) => Exit::System,
            Failure::Check(_) => Exit::Damaged,
            Failure::Store(error) => of(error),
        }
    }
}

fn of(error: &Error) -> Exit {
    match error {
        Error::Locked { .. } => Exit::Locked,
        Error::TopicUnknown { .. }
        | Error::TopicDeleted { .. }
        | Error::PartitionUnknown { .. }
        | Error::OffsetExpired { .. } => Exit::NotFound,
        Error::InvalidName { .. } | Error::InvalidOption { .. } | Error::PartitionNeeded { .. } => {
            Exit::Usage
        }
        Error::Corrupt { .. }
        | Error::Unreadable { .. }
        | Error::Mismatch { .. }
        | Error::UnsupportedVersion { .. } => Exit::Damaged,
        Error::Failed { cause, .. } | Error::StoreFailed { cause } => of(cause),
        Error::StorageFull { .. } => Exit::Full,
        Error::InDoubt { .. } => Exit::InDoubt,
        Error::Io { .. } | Error::ThreadEnded { .. } => Exit::System,
        _ => Exit::Refused,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::BrokenPipe => f.write_str("nobody reads the output"),
            Failure::Check(text) => f.write_str(text),
            Failure::NoStore(path) => write!(
                f,
                "there is no store in {}; `create` and `append` make one, --store names another",
                path.display()
            ),
            Failure::Io(error) => write!(f, "{error}"),
            Failure::Store(error) => write!(f, "{error}"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::Io(error),
        }
    }
}
