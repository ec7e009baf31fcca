//! A last life, in which one file is as it was some lives before: somebody has restored it from a copy.
//!
//! What is missing is told, or the topic is refused; what is read is what was appended there; no offset
//! of a log whose own file it was is given again. If it is the journal's file, the store may know less
//! than it did: of it no more is asked than that it says nothing wrong.

use std::path::{Path, PathBuf};

use tidelog::sys::{Access, Entry, Kind, Storage as _};
use tidelog::{Error, Partition, Record, Store};

use crate::model::{Check, There};
use crate::run::{ROOT, Run};

/// Not more copies than these are kept.
const MOST: usize = 6;

/// A file as it was.
#[derive(Debug, Clone)]
pub struct Copy {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Run<'_> {
    /// All segment files of the store.
    fn files(&self) -> Vec<PathBuf> {
        let list = |folder: &Path| self.sim.list(folder).unwrap_or_default();
        let mut files = Vec::new();
        let mut folders = vec![
            Path::new(ROOT).join("journal"),
            Path::new(ROOT).join("topics"),
        ];
        while let Some(folder) = folders.pop() {
            for Entry { name, kind, .. } in list(&folder) {
                let path = folder.join(&name);
                match kind {
                    Kind::Folder => folders.push(path),
                    Kind::File if name.ends_with(".seg") => files.push(path),
                    _ => {}
                }
            }
        }
        files.sort();
        files
    }

    /// Copies a file, now and then, of a store that has just been recovered: all that is in it is durable.
    pub fn copy_something(&mut self) {
        let files = self.files();
        if files.is_empty() || self.copies.len() >= MOST {
            return;
        }
        let path = files[self.side.below(files.len() as u64) as usize].clone();
        if let Ok(bytes) = self.sim.bytes(&path) {
            self.copies.push(Copy { path, bytes });
        }
    }

    /// The last life, in some programs, if the one before was closed and all is well.
    pub fn put_something_back(&mut self) -> Check {
        let there: Vec<PathBuf> = self.files();
        self.copies.retain(|copy| there.contains(&copy.path));
        if !self.closed || self.copies.is_empty() || !self.side.percent(30) {
            return Ok(());
        }
        let which = self.side.below(self.copies.len() as u64) as usize;
        let copy = self.copies.swap_remove(which);
        self.say(format!("{} is as it was", copy.path.display()));
        self.put_back(&copy).map_err(|error| error.to_string())?;
        self.tally.older += 1;
        let store = match Store::open_with(ROOT, self.options()) {
            Ok(store) => store,
            Err(error) => return told(&error),
        };
        let looked = self.look_at_all(&store, &copy);
        // A log that was refused is not settled, and may say so.
        drop(store.close());
        looked
    }

    fn put_back(&self, copy: &Copy) -> std::io::Result<()> {
        if self.sim.bytes(&copy.path)?.len() != copy.bytes.len() {
            self.sim.remove_file(&copy.path)?;
            self.sim.create(&copy.path, copy.bytes.len() as u64)?;
        }
        let file = self.sim.open(&copy.path, Access::Write)?;
        file.write_at(&copy.bytes, 0)?;
        file.sync()
    }

    fn look_at_all(&self, store: &Store, copy: &Copy) -> Check {
        for (name, topic) in &self.topics {
            let found = match store.existing_topic(name) {
                Ok(found) if topic.there == There::Yes => found,
                Ok(_) => continue,
                Err(error) => {
                    told(&error)?;
                    continue;
                }
            };
            for (number, part) in (0..).zip(&topic.parts) {
                let partition = match found.partition(number) {
                    Ok(partition) => partition,
                    Err(error) => {
                        told(&error)?;
                        continue;
                    }
                };
                let place = |wrong: String| format!("{name}/{number}: {wrong}");
                let sure = part.sure.len() as u64;
                let read = self.read_what_is_there(&partition, &part.sure);
                let all = read.map_err(place)?;
                let folder = format!("topics/{name}/{number:06}-");
                let of_it = copy.path.to_string_lossy().contains(&folder);
                let of_journal = copy.path.starts_with(Path::new(ROOT).join("journal"));
                if !of_journal
                    && all.is_some_and(|all| of_it && all < sure || !of_it && all != sure)
                {
                    return Err(place(format!("it ends at {all:?}, not {sure}, untold")));
                }
                if topic.finished {
                    continue;
                }
                match partition.append(Record::new("after it")) {
                    Ok(at) if at.offset() < sure && !of_journal => {
                        return Err(place(format!("{at} is given again, of {sure}")));
                    }
                    Ok(_) | Err(Error::NeedsFlush { .. }) => {}
                    Err(error) => told(&error).map_err(place)?,
                }
            }
        }
        Ok(())
    }

    /// Every record that can be read is the one that was appended; the end, if the log can be opened.
    fn read_what_is_there(
        &self,
        partition: &Partition,
        sure: &[crate::model::Kept],
    ) -> Check<Option<u64>> {
        // What retention has let go of is not asked for.
        let first = partition.first();
        let found = match first.and_then(|first| partition.read(first..u64::MAX)) {
            Ok(found) => found,
            Err(error) => return told(&error).map(|()| None),
        };
        for record in found {
            match record {
                Ok(record) => {
                    let at = record.offset();
                    let kept = sure.get(at as usize);
                    if !kept.is_some_and(|kept| kept.is(&record)) {
                        return Err(format!("record {at} is not what was appended"));
                    }
                }
                Err(error) => told(&error)?,
            }
        }
        match partition.end() {
            Ok(end) => Ok(Some(end)),
            Err(error) => told(&error).map(|()| None),
        }
    }
}

/// Whether an error is one of those that say that files are not what they should be.
fn told(error: &Error) -> Check {
    match error {
        Error::Failed { cause, .. } | Error::StoreFailed { cause } => told(cause),
        Error::Corrupt { .. }
        | Error::Mismatch { .. }
        | Error::TopicUnknown { .. }
        | Error::PartitionUnknown { .. }
        | Error::Finished { .. } => Ok(()),
        other => Err(format!("of a file that is as it was: {other:?}")),
    }
}
