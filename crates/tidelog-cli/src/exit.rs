//! Exit codes: what a script can act on.

use std::fmt::Write as _;
use std::process::ExitCode;

use tidelog::Error;

/// How the command ended. The numbers are a promise: scripts test them, so none is ever reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    Failure = 1,
    Usage = 2,
    NotFound = 3,
    Locked = 4,
    Damage = 5,
    Full = 6,
    Rejected = 7,
    InDoubt = 8,
    Unusable = 9,
}

/// All of them, as `--help` lists them.
const ALL: [Exit; 10] = [
    Exit::Success,
    Exit::Failure,
    Exit::Usage,
    Exit::NotFound,
    Exit::Locked,
    Exit::Damage,
    Exit::Full,
    Exit::Rejected,
    Exit::InDoubt,
    Exit::Unusable,
];

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    fn meaning(self) -> &'static str {
        match self {
            Exit::Success => "success; also when the reader of a pipe has had enough",
            Exit::Failure => "the system refused, or an earlier failure stands in the way",
            Exit::Usage => "the command line cannot be understood",
            Exit::NotFound => "there is no such store, topic, partition or offset",
            Exit::Locked => "another process owns the store",
            Exit::Damage => "damaged or just expired records were met; the others were read",
            Exit::Full => "the disk or the topic is full: nothing more was written",
            Exit::Rejected => {
                "the topic does not take this: no record, too large, finished, made otherwise"
            }
            Exit::InDoubt => "written, but the sync failed: look after the next opening",
            Exit::Unusable => "the files are not those of a store that this version can open",
        }
    }

    /// The table for `--help`.
    pub(crate) fn table() -> String {
        let mut table = "Exit codes:\n".to_owned();
        for exit in ALL {
            // Writing to a string does not fail.
            writeln!(table, "  {}  {}", exit.code(), exit.meaning()).ok();
        }
        table.truncate(table.trim_end().len());
        table
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Exit {
        match error {
            Error::Locked { .. } => Exit::Locked,
            Error::InvalidName { .. }
            | Error::InvalidOption { .. }
            | Error::PartitionNeeded { .. } => Exit::Usage,
            Error::NoStore { .. }
            | Error::TopicUnknown { .. }
            | Error::TopicDeleted { .. }
            | Error::SubscriptionUnknown { .. }
            | Error::PartitionUnknown { .. }
            | Error::OffsetExpired { .. }
            | Error::Truncated { .. }
            | Error::BeyondEnd { .. } => Exit::NotFound,
            Error::TopicMismatch { .. } | Error::Finished { .. } | Error::TooLarge { .. } => {
                Exit::Rejected
            }
            Error::TopicFull { .. } | Error::StorageFull { .. } => Exit::Full,
            Error::Corrupt { .. } | Error::Unreadable { .. } => Exit::Damage,
            Error::InDoubt { .. } => Exit::InDoubt,
            Error::Mismatch { .. } | Error::UnsupportedVersion { .. } | Error::Refused { .. } => {
                Exit::Unusable
            }
            _ => Exit::Failure,
        }
    }
}
