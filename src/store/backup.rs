//! A consistent copy of a store, made while everything goes on.
//!
//! 1. *The moment.* All logs are open, and none of their files goes from here on. With the catalog held,
//!    so that no topic comes or goes, and no transaction between its record in the journal and the
//!    last of its frames, the fold of the journal and the end of each log are written down. Rounds,
//!    appends and commits go on: a checkpoint in the fold was durable before, and the ends are taken
//!    after it.
//! 2. *Durable.* All that was written at that moment is made so, and nothing is copied before that.
//! 3. *The copy.* Each log's segments up to its end, as though it had been closed there; then a journal
//!    that states the fold with these ends, and that the store was closed.
//! 4. *The name.* All of it is made under another name, which the folder loses when everything is
//!    durable. Until right before that its journal has another name, too, so that what is cut off is not
//!    taken for a store by anybody: not for an empty one either.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::catalog::{self, Gone};
use super::inner::{Inner, TopicInner};
use super::log_cell::{folder_name, named, stated};
use super::store::Store;
use crate::error::{Error, Result};
use crate::journal::{self, Event, Fold};
use crate::partition::{Kept, Log, Standing};
use crate::sys::{Backend, Storage};

/// What the journal of a copy is called until all of the copy is durable.
const UNFINISHED: &str = "journal.partial";

/// How far up it is looked for a store that the copy would lie in.
const MOST_DEEP: usize = 64;

/// What [`Store::backup`] has copied.
///
/// # Examples
///
/// ```
/// # use tidelog::Store;
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// store.topic("quakes")?.append("M 4.6")?;
/// let copied = store.backup(dir.path().join("copy"))?;
/// assert_eq!((copied.topics, copied.partitions), (1, 1));
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// Topics in it.
    pub topics: usize,
    /// Partitions in it.
    pub partitions: usize,
    /// Bytes of records and their index.
    pub bytes: u64,
}

/// What is put off for as long as somebody makes a copy.
#[derive(Debug, Default)]
pub(super) struct Copying(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// Deleted topics whose files may still be copied.
    gone: Vec<Gone>,
}

impl Copying {
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the files of a deleted topic, to be removed when no copy is made any more; or they come
    /// back, to be removed now.
    pub(super) fn put_off(&self, gone: Gone) -> Option<Gone> {
        self.with(|state| match state.running {
            0 => Some(gone),
            _ => {
                state.gone.push(gone);
                None
            }
        })
    }
}

/// While this is there deleted topics keep their files.
struct Running<'a>(&'a Inner);

impl<'a> Running<'a> {
    fn begin(store: &'a Inner) -> Running<'a> {
        store.copying.with(|state| state.running += 1);
        Running(store)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let gone = self.0.copying.with(|state| {
            state.running -= 1;
            match state.running {
                0 => std::mem::take(&mut state.gone),
                _ => Vec::new(),
            }
        });
        // Of a topic that is made anew just now the folder must not go. Behind a close, the next owner
        // removes them.
        if let Ok(_catalog) = self.0.catalog() {
            gone.iter().for_each(|gone| catalog::remove(self.0, gone));
        }
    }
}

/// A log at the moment.
struct Stood {
    topic: Arc<TopicInner>,
    partition: u32,
    log: Arc<Log>,
    standing: Option<Standing>,
    _kept: Kept,
}

/// The store at the moment.
struct Moment {
    fold: Fold,
    /// Everything in the fold is durable once the journal is up to here.
    stated: u64,
    logs: Vec<Stood>,
}

impl Store {
    /// Makes a copy of the store as it is at one moment, in a folder that is not there yet, while
    /// appends, commits, rolls and retention go on. In the copy are all topics, records and
    /// subscriptions of that moment, a batch or transaction whole or not at all; it is durable when this
    /// returns. Everything that was written at that moment is made durable first, in every
    /// [`Durability`](crate::Durability).
    ///
    /// The copy is a store that was closed: it opens without reading a record, and has the same id, so
    /// that event ids that were derived stay what they are. Both may be written to, and are two stores
    /// from then on: no files may be moved from one to the other.
    ///
    /// Segments that retention lets go of, and topics that are deleted, keep their space until the copy
    /// has been made.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if there is something at `target` or beside it under the name of an unfinished
    /// copy (`target` and `.partial`), or if it lies in a store. [`Error::Failed`] if a partition has
    /// failed or cannot be opened: nobody knows what its files hold. [`Error::StorageFull`] if there is
    /// no room for it; [`Error::Io`] names the file that cannot be read or written, and one that cannot be
    /// read in places has no copy. What was made of the copy is removed again, also where its name could
    /// not be made durable.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelog::Store;
    /// # let dir = tempfile::tempdir()?;
    /// # let (data, target) = (dir.path().join("data"), dir.path().join("copy"));
    /// let store = Store::open(data)?;
    /// store.topic("quakes")?.append("M 4.6")?;
    /// store.backup(&target)?;
    /// store.topic("quakes")?.append("M 2.1")?;
    ///
    /// let copy = Store::open(&target)?;
    /// assert_eq!(copy.topic("quakes")?.partition(0)?.end()?, 1);
    /// # copy.close()?;
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backup(&self, target: impl AsRef<Path>) -> Result<BackupReport> {
        let store = self.shared();
        let _span = tracing::info_span!("backup", root = %store.root.display()).entered();
        drop(store.catalog()?);
        store.check_open()?;
        let mut copy = Copy::begin(store, target.as_ref())?;
        let _running = Running::begin(store);
        let moment = moment(store)?;
        self.flush()?;
        store.journal.wait(moment.stated)?;
        let report = copy.fill(store, &moment)?;
        copy.finish()?;
        Ok(report)
    }
}

/// Opens all logs, and writes down the state of the store.
fn moment(store: &Inner) -> Result<Moment> {
    // Most are opened before anything is held.
    drop(open_all(store)?);
    let _catalog = store.catalog()?;
    let mut logs = open_all(store)?;
    let _whole = store.whole.write().unwrap_or_else(PoisonError::into_inner);
    let (fold, stated) = store.journal.standing();
    for stood in &mut logs {
        stood.standing = stood.log.standing()?;
    }
    Ok(Moment { fold, stated, logs })
}

/// Every log of the store, opened, and keeping its files.
fn open_all(store: &Inner) -> Result<Vec<Stood>> {
    let topics: Vec<Arc<TopicInner>> = store.topics().values().cloned().collect();
    let mut open = Vec::new();
    for topic in topics {
        for partition in 0..topic.partitions() {
            let log = match store.log(&topic, partition) {
                Err(Error::TopicDeleted { .. }) => continue,
                log => log.map_err(|error| named(error, &topic, partition))?,
            };
            open.push(Stood {
                topic: Arc::clone(&topic),
                partition,
                _kept: log.keep(),
                log,
                standing: None,
            });
        }
    }
    Ok(open)
}

/// A copy on its way. What was made of it is removed again unless it is finished.
struct Copy<'a> {
    storage: &'a Arc<dyn Storage>,
    target: PathBuf,
    partial: PathBuf,
    /// Files and folders, in the order in which they were made.
    made: Vec<(PathBuf, bool)>,
}

impl<'a> Copy<'a> {
    fn begin(store: &'a Inner, target: &Path) -> Result<Copy<'a>> {
        let storage = &store.options.storage;
        let refused = |path: &Path, reason| {
            let path = path.to_owned();
            Err(Error::Refused { path, reason })
        };
        let Some(name) = target.file_name() else {
            return refused(target, "a copy needs a name for its folder");
        };
        let mut partial = name.to_owned();
        partial.push(".partial");
        let partial = target.with_file_name(partial);
        refuse_inside(storage.as_ref(), &store.root, target)?;
        if kind(storage.as_ref(), target)?.is_some() {
            return refused(
                target,
                "a copy makes its own folder, and there is something",
            );
        }
        let mut copy = Copy {
            storage,
            target: target.to_owned(),
            partial: partial.clone(),
            made: Vec::new(),
        };
        if kind(storage.as_ref(), &partial)?.is_some() {
            return refused(&partial, "a copy that was cut off, or is being made");
        }
        copy.folder(&partial)?;
        copy.folder(&copy.journal_dir())?;
        // Before anything else that a crash may leave.
        copy.sync(&copy.partial)?;
        Ok(copy)
    }

    fn journal_dir(&self) -> PathBuf {
        self.partial.join(UNFINISHED)
    }

    fn folder(&mut self, path: &Path) -> Result<()> {
        let made = self.storage.create_dir(path);
        made.map_err(|error| Error::io("create", path, error))?;
        self.made.push((path.to_owned(), true));
        Ok(())
    }

    fn sync(&self, dir: &Path) -> Result<()> {
        let synced = self.storage.sync_dir(dir);
        synced.map_err(|error| Error::io("sync", dir, error))
    }

    fn fill(&mut self, store: &Inner, moment: &Moment) -> Result<BackupReport> {
        let topics = self.partial.join("topics");
        self.folder(&topics)?;
        let mut report = BackupReport {
            topics: moment.fold.topics().count(),
            partitions: moment.logs.len(),
            bytes: 0,
        };
        let mut events = Vec::new();
        let mut last: Option<PathBuf> = None;
        for stood in &moment.logs {
            let folder = topics.join(&*stood.topic.name);
            let Some(standing) = &stood.standing else {
                continue;
            };
            // Those of a topic come together.
            if last.as_ref() != Some(&folder) {
                last.iter().try_for_each(|before| self.sync(before))?;
                self.folder(&folder)?;
                last = Some(folder.clone());
            }
            let log = stood.log.site().log;
            report.bytes += self.log(&folder, moment, stood, standing)?;
            events.push(Event::Ends {
                ends: vec![stated(log, &standing.end)],
            });
            if standing.end.mark.next > 0 {
                events.push(Event::Settled { log });
            }
        }
        last.iter().try_for_each(|before| self.sync(before))?;
        self.sync(&topics)?;
        for stood in &moment.logs {
            // What was copied of a log that failed meanwhile is worth nothing.
            if !stood.log.gate().is_deleted() {
                stood.log.check_whole()?;
            }
        }
        self.journal(store, moment.fold.with(&events))?;
        self.sync(&self.partial)?;
        Ok(report)
    }

    fn log(
        &mut self,
        folder: &Path,
        moment: &Moment,
        stood: &Stood,
        standing: &Standing,
    ) -> Result<u64> {
        let id = stood.log.site().log;
        let dir = folder.join(folder_name(stood.partition, id));
        self.folder(&dir)?;
        let start = moment.fold.log(id).and_then(|log| log.start.as_ref());
        let first = start.map_or(0, |start| start.segment);
        let storage = Arc::clone(self.storage);
        let made = &mut |path: &Path| self.made.push((path.to_owned(), false));
        let bytes = stood
            .log
            .copy_to(first, standing, storage.as_ref(), &dir, made)?;
        self.sync(&dir)?;
        Ok(bytes)
    }

    fn journal(&mut self, store: &Inner, fold: Fold) -> Result<()> {
        let dir = self.journal_dir();
        let mut site = journal::site(self.storage, &self.partial, store.id);
        site.dir = dir.clone();
        let setting = super::open::setting(&store.options, Backend::Pwrite, [0, 0])?;
        let written = journal::write_anew(site, setting, &fold);
        for entry in self.storage.list(&dir).unwrap_or_default() {
            self.made.push((dir.join(entry.name), false));
        }
        written?;
        self.sync(&dir)
    }

    /// Gives the folder its name.
    fn finish(mut self) -> Result<()> {
        let parent = self.target.parent().unwrap_or(Path::new("."));
        let parent = match parent.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => parent.to_owned(),
        };
        self.name_journal()?;
        let renamed = self.storage.rename(&self.partial, &self.target);
        renamed.map_err(|error| Error::io("rename to", &self.target, error))?;
        if let Err(error) = self.sync(&parent) {
            if let Err(error) = self.storage.rename(&self.target, &self.partial) {
                tracing::warn!(path = %self.target.display(), %error, "a copy stays");
                self.made.clear();
            }
            return Err(error);
        }
        self.made.clear();
        Ok(())
    }

    /// Gives the journal its name, durably: from here on the copy is a store.
    fn name_journal(&mut self) -> Result<()> {
        let (before, dir) = (self.journal_dir(), self.partial.join("journal"));
        let renamed = self.storage.rename(&before, &dir);
        renamed.map_err(|error| Error::io("rename to", &dir, error))?;
        for (path, _) in &mut self.made {
            if let Ok(inside) = path.strip_prefix(&before) {
                // Joining nothing would end the path with a slash.
                let whole = inside.as_os_str().is_empty();
                *path = if whole { dir.clone() } else { dir.join(inside) };
            }
        }
        self.sync(&self.partial)
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        for (path, folder) in self.made.drain(..).rev() {
            let removed = match folder {
                true => self.storage.remove_dir(&path),
                false => self.storage.remove_file(&path),
            };
            if let Err(error) = removed {
                tracing::warn!(path = %path.display(), %error, "what is left of a copy stays");
            }
        }
    }
}

fn kind(storage: &dyn Storage, path: &Path) -> Result<Option<crate::sys::Kind>> {
    let kind = storage.kind(path);
    kind.map_err(|error| Error::io("inspect", path, error))
}

/// Refuses a folder in which a copy was being made: with records or not, it is no store.
pub(super) fn refuse_unfinished(storage: &dyn Storage, root: &Path) -> Result<()> {
    match kind(storage, &root.join(UNFINISHED))? {
        None => Ok(()),
        Some(_) => Err(Error::Refused {
            path: root.to_owned(),
            reason: "a copy that was cut off, or is being made, is no store",
        }),
    }
}

/// Refuses a place inside a store, this one or another, whichever way leads there.
pub(super) fn refuse_inside(storage: &dyn Storage, root: &Path, target: &Path) -> Result<()> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or(path.to_owned());
    let mut inside = absolute(target).starts_with(absolute(root));
    let mut above = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    for _ in 0..MOST_DEEP {
        // A copy that was never opened has no lock file.
        let there = |name| kind(storage, &above.join(name)).is_ok_and(|kind| kind.is_some());
        inside |= there("journal") && (there("topics") || there("LOCK"));
        above.push("..");
    }
    match inside {
        true => Err(Error::Refused {
            path: target.to_owned(),
            reason: "a copy cannot lie in a store",
        }),
        false => Ok(()),
    }
}
