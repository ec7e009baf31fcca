//! What was found wrong, as JSON: damage with its coordinates, and anything else in words.

use serde::Serialize;
use tidelog::Error;

/// Coordinates are null where the whole partition cannot be read.
#[derive(Debug, Serialize)]
pub(crate) struct FoundJson {
    offset: Option<u64>,
    next: Option<u64>,
    file: Option<String>,
    byte: Option<u64>,
    message: String,
}

impl FoundJson {
    pub(crate) fn new(error: &Error) -> FoundJson {
        let place = match error {
            Error::Corrupt {
                offset,
                next,
                file,
                place,
                ..
            }
            | Error::Unreadable {
                offset,
                next,
                file,
                place,
                ..
            } => Some((*offset, *next, file.display().to_string(), *place)),
            _ => None,
        };
        let (offset, next, file, byte) = match place {
            Some((offset, next, file, byte)) => (Some(offset), Some(next), Some(file), Some(byte)),
            None => (None, None, None, None),
        };
        FoundJson {
            offset,
            next,
            file,
            byte,
            message: error.to_string(),
        }
    }

    pub(crate) fn all(errors: &[Error]) -> Vec<FoundJson> {
        errors.iter().map(FoundJson::new).collect()
    }
}

/// A line for people: where a stretch of records is lost, which offsets.
pub(crate) fn line(error: &Error) -> String {
    match error {
        Error::Corrupt { offset, next, .. } if *next > offset + 1 => {
            format!("{error}, up to offset {}", next - 1)
        }
        error => error.to_string(),
    }
}
