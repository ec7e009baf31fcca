//! Printing records: as payloads or as JSON, up to a limit, damage told and skipped.

use std::io::Write as _;

use tidelog::{Error, StoredRecord};

use crate::exit::Exit;
use crate::failure::Result;
use crate::json::RecordJson;
use crate::out::Out;

/// Prints records to standard output.
pub(crate) struct Records {
    out: Out,
    /// How many may still be printed.
    left: u64,
    json: bool,
    damaged: bool,
}

impl Records {
    pub(crate) fn new(limit: Option<u64>, json: bool) -> Records {
        Records {
            out: Out::new(),
            left: limit.unwrap_or(u64::MAX),
            json,
            damaged: false,
        }
    }

    /// Whether as many have been printed as were asked for.
    pub(crate) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Prints what a reader came upon: a record, or nothing. Damage is told, and reading can go
    /// on behind it; any other error ends it.
    pub(crate) fn print(
        &mut self,
        found: std::result::Result<Option<StoredRecord<'_>>, Error>,
    ) -> Result<()> {
        let record = match found {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            Err(error @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                self.damaged = true;
                // The records before it come first, where both go to one place.
                self.out.flush()?;
                writeln!(std::io::stderr(), "tidelog: {error}; skipped").ok();
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.left -= 1;
        if self.json {
            return self.out.json(&RecordJson::new(&record));
        }
        self.out.line(record.payload())
    }

    /// Hands over what has been printed so far.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }

    /// Hands over the rest, and tells whether damage was found.
    pub(crate) fn finish(mut self) -> Result<Exit> {
        self.out.flush()?;
        Ok(if self.damaged {
            Exit::Damage
        } else {
            Exit::Success
        })
    }
}
