//! What is wrong with a configuration.

use std::io;
use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with a configuration, and where.
///
/// # Examples
///
/// ```
/// use tidelog_config::{Config, Error, Format};
/// let text = "[topics.quakes]\nretention = { age = \"7 moons\" }\n";
/// let error = Config::parse(text, Format::Toml).expect_err("no such unit");
/// let Error::Invalid { key, reason } = error else { panic!("it is its value") };
/// assert_eq!(key, "topics.quakes.retention.age");
/// assert!(reason.contains("line 2"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file's name ends with none of `.toml`, `.yaml`, `.yml` and `.json`.
    #[error("{}: neither .toml, .yaml, .yml nor .json", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be understood.
    #[error("{key}: {reason}")]
    Invalid {
        /// Which key, from the outermost on; `.` where it is the whole.
        key: String,
        /// What is wrong with its value, with the line where that is known.
        reason: String,
    },
    /// The store does not take it.
    #[error("{key}: {cause}")]
    Refused {
        /// Which key.
        key: String,
        /// What the store said.
        cause: Box<tidelog::Error>,
    },
}
