//! Which log this is and where it lies: the coordinates of every error.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use super::overlay::lay;
use super::planner::unsupported;
use crate::error::{Error, Flaw, Result, Span};
use crate::format::{Identity, Redo, TopicName};
use crate::segment::{Header, Page, Trouble, file_name, read_page};
use crate::sys::{Access, File, Storage};

/// A log's coordinates.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) storage: Arc<dyn Storage>,
    /// The folder of its segments.
    pub(crate) dir: PathBuf,
    /// Where files go that do not belong to it.
    pub(crate) quarantine: PathBuf,
    pub(crate) store: [u8; 16],
    pub(crate) log: u64,
    pub(crate) topic: TopicName,
    pub(crate) partition: u32,
}

impl Site {
    /// The path of a segment file.
    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.dir.join(file_name(number))
    }

    /// The topic's name; the journal's is empty.
    pub(crate) fn topic(&self) -> String {
        self.topic.as_str().to_owned()
    }

    /// Whether a segment header was written for this log and this number.
    pub(crate) fn owns(&self, identity: &Identity, number: u32) -> bool {
        identity.store == self.store && identity.log == self.log && identity.number == number
    }

    /// Opens a segment of the log for reading: its file, and its header, which must be there.
    pub(crate) fn header(&self, number: u32) -> Result<(Arc<dyn File>, Header)> {
        self.header_with(number, &[])
    }

    /// The same, with what the journal holds for it laid over it.
    pub(super) fn header_with(
        &self,
        number: u32,
        redo: &[Redo],
    ) -> Result<(Arc<dyn File>, Header)> {
        let path = self.segment(number);
        let file = self.storage.open(&path, Access::Read);
        let file = file.map_err(|error| Error::opening("open", &path, error))?;
        let redo = redo.iter().filter(|redo| redo.of.number == number);
        let laid = read_page(file.as_ref()).and_then(|page| lay(&file, page, redo));
        let (file, page) = laid.map_err(|error| Error::io("read", &path, error))?;
        match page {
            Page::Assigned(header) if self.owns(&header.identity, number) => Ok((file, *header)),
            Page::Bad(flaw) if flaw.is_unsupported() => Err(unsupported(&path, flaw)),
            Page::Bad(flaw) => Err(self.mismatch(&path, format!("its header is damaged: {flaw}"))),
            _ => Err(self.mismatch(&path, "it is not the segment of this log that it was")),
        }
    }

    /// Removes the file of a segment, which may be gone already: the next sync of the folder makes it
    /// durable.
    pub(super) fn remove(&self, number: u32) -> Result<()> {
        let path = self.segment(number);
        match self.storage.remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| Error::io("remove", &path, error)),
        }
    }

    /// Offsets of the log.
    pub(crate) fn span(&self, offsets: Range<u64>) -> Span {
        Span {
            topic: self.topic(),
            partition: self.partition,
            offsets,
        }
    }

    /// What a reader of written records is told whose place is not there any more.
    pub(crate) fn truncated(&self, offsets: Range<u64>) -> Error {
        Error::Truncated(self.span(offsets))
    }

    /// The log fails from now on.
    pub(crate) fn failed(&self, cause: Arc<Error>) -> Error {
        Error::Failed {
            topic: self.topic(),
            partition: self.partition,
            cause,
        }
    }

    /// A damaged record, or one whose bytes cannot be had.
    pub(crate) fn unreadable(&self, at: Damage, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Flaw(reason) => self.corrupt(at, reason),
            Trouble::Io(source) => Error::Unreadable {
                topic: self.topic(),
                partition: self.partition,
                offset: at.offset,
                next: at.next,
                file: self.segment(at.segment),
                place: at.place,
                source: Arc::new(source),
            },
        }
    }

    /// A damaged record, or one that is sound and of a later version.
    pub(crate) fn corrupt(&self, at: Damage, reason: Flaw) -> Error {
        if reason.is_unsupported() {
            return self.newer(at, reason);
        }
        Error::Corrupt {
            topic: self.topic(),
            partition: self.partition,
            offset: at.offset,
            next: at.next,
            file: self.segment(at.segment),
            place: at.place,
            reason,
        }
    }

    fn newer(&self, at: Damage, flaw: Flaw) -> Error {
        let mut error = unsupported(&self.segment(at.segment), flaw);
        if let Error::UnsupportedVersion { found, .. } = &mut error {
            let (topic, partition) = (self.topic(), self.partition);
            found.push_str(&format!(
                " of {topic}/{partition}@{} at byte {}",
                at.offset, at.place
            ));
        }
        error
    }

    /// Files do not fit what is promised of them.
    pub(crate) fn mismatch(&self, path: &Path, reason: impl Into<String>) -> Error {
        Error::Mismatch {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    /// Makes the names in a folder durable.
    pub(crate) fn sync_dir(&self, dir: &Path) -> Result<()> {
        let synced = self.storage.sync_dir(dir);
        synced.map_err(|error| Error::io("sync", dir, error))
    }

    /// Where a file of a log goes that is set aside by the owner of an epoch: by that the oldest ones are
    /// told, which go first.
    pub(crate) fn aside(&self, log: u64, epoch: u32, name: impl fmt::Display) -> PathBuf {
        self.quarantine.join(format!("{log}-{epoch}-{name}"))
    }

    /// An operation on a segment file failed.
    pub(crate) fn io(&self, op: &'static str, number: u32, source: io::Error) -> Error {
        Error::io(op, self.segment(number), source)
    }
}

/// A stretch of records that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) segment: u32,
    pub(crate) place: u64,
    /// The first offset of the stretch.
    pub(crate) offset: u64,
    /// The first offset behind it.
    pub(crate) next: u64,
}
