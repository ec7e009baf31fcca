//! Printing records: as payloads or as JSON, up to a limit, what cannot be read told and skipped.

use std::io::Write as _;

use tidelog::{Cursor, Error, Start, StoredRecord};

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
    /// Something could not be read.
    incomplete: bool,
}

impl Records {
    pub(crate) fn new(limit: Option<u64>, json: bool) -> Records {
        Records {
            out: Out::new(),
            left: limit.unwrap_or(u64::MAX),
            json,
            incomplete: false,
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
                return self.tell(&format!("{error}; skipped"));
            }
            Err(error) => return Err(error.into()),
        };
        self.left -= 1;
        if self.json {
            return self.out.json(&RecordJson::new(&record));
        }
        self.out.line(record.payload())
    }

    /// Prints the next record of a cursor below `end`, if there is one. Where retention has been faster
    /// that is told, and the cursor goes on with the first record that is there.
    pub(crate) fn print_next(&mut self, cursor: &mut Cursor, end: u64) -> Result<()> {
        match cursor.next() {
            Err(Error::OffsetExpired { .. }) => {}
            found => return self.print(found),
        }
        let from = cursor.offset();
        cursor.seek(Start::Earliest)?;
        let (partition, to) = (cursor.partition(), cursor.offset().min(end));
        self.tell(&format!(
            "partition {partition}: offsets {from}..{to} have expired meanwhile; skipped"
        ))
    }

    fn tell(&mut self, what: &str) -> Result<()> {
        self.incomplete = true;
        // The records before it come first, where both go to one place.
        self.out.flush()?;
        writeln!(std::io::stderr(), "tidelog: {what}").ok();
        Ok(())
    }

    /// Hands over what has been printed so far.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }

    /// Hands over the rest, and tells whether all could be read.
    pub(crate) fn finish(mut self) -> Result<Exit> {
        self.out.flush()?;
        Ok(if self.incomplete {
            Exit::Damage
        } else {
            Exit::Success
        })
    }
}
