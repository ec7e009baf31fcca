//! The formats.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// How a configuration is written down.
///
/// # Examples
///
/// ```
/// use tidelog_config::Format;
/// assert_eq!(Format::of("tidelog.yml".as_ref())?, Format::Yaml);
/// # Ok::<(), tidelog_config::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `.toml`
    Toml,
    /// `.yaml` or `.yml`
    Yaml,
    /// `.json`
    Json,
}

impl Format {
    /// The format that a file's name says.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownFormat`]
    pub fn of(path: &Path) -> Result<Format> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("toml") => Ok(Format::Toml),
            Some("yaml" | "yml") => Ok(Format::Yaml),
            Some("json") => Ok(Format::Json),
            _ => Err(Error::UnknownFormat {
                path: path.to_owned(),
            }),
        }
    }

    pub(crate) fn parse<T: DeserializeOwned>(self, text: &str) -> Result<T> {
        match self {
            Format::Toml => {
                let whole = toml::Deserializer::parse(text);
                tracked(whole.map_err(|error| invalid(".", &error))?)
            }
            // A document that says nothing is an empty table, as in the others.
            Format::Yaml if says_nothing(text) => Format::Json.parse("{}"),
            Format::Yaml => tracked(serde_yaml_ng::Deserializer::from_str(text)),
            Format::Json => {
                let mut whole = serde_json::Deserializer::from_str(text);
                let value = tracked(&mut whole)?;
                whole.end().map_err(|error| invalid(".", &error))?;
                Ok(value)
            }
        }
    }
}

/// Whether a YAML document has nothing but comments.
fn says_nothing(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

/// Reads a value, and knows at which key it stood where it fails.
fn tracked<'de, D, T>(deserializer: D) -> Result<T>
where
    D: serde::Deserializer<'de>,
    D::Error: std::error::Error,
    T: Deserialize<'de>,
{
    serde_path_to_error::deserialize(deserializer)
        .map_err(|error| invalid(&error.path().to_string(), error.inner()))
}

fn invalid(key: &str, reason: &impl ToString) -> Error {
    Error::Invalid {
        key: key.to_owned(),
        reason: reason.to_string().trim_end().to_owned(),
    }
}
