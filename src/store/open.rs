//! Opening a store: the lock, the journal, and what a killed owner may have left half done.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use super::backup::{Copying, refuse_unfinished};
use super::budget::Budget;
use super::inner::{Ids, Inner, TopicInner};
use super::log_cell::{log_of_folder, named};
use super::quarantine;
use crate::board::{self, Board, Key};
use crate::error::{Error, Result};
use crate::flush::{Crew, Pins};
use crate::journal::{Fold, Journal, Opened, Owner, TopicState, site};
use crate::options::StoreOptions;
use crate::partition::{Alarm, Bells, Call, Limits, Setting, Site, unsupported};
use crate::segment::{Page, number_of, read_page};
use crate::sys::{Access, Backend, BoardPlace, Kind, Lock, LockError, Parentage, Storage, Volume};

/// The folders of a store below its root.
const FOLDERS: [&str; 4] = ["journal", "topics", "trash", "quarantine"];

/// Ids are below this: no store comes to it by counting.
const MOST_ID: u64 = 1 << 62;

/// Opens a store, making it where there is none.
pub(super) fn open(root: &Path, options: StoreOptions) -> Result<Arc<Inner>> {
    let _span = tracing::info_span!("open", root = %root.display()).entered();
    options.check()?;
    let storage = Arc::clone(&options.storage);
    if options.existing {
        existing_id(&storage, root)?;
    }
    refuse_strange(storage.as_ref(), root)?;
    make_root(storage.as_ref(), root)?;
    let place = board_place(&options, root);
    let before = board::stated(storage.as_ref(), &root.join("LOCK"));
    let lock = lock(storage.as_ref(), root, place.as_ref())?;
    refuse_foreign(storage.as_ref(), root)?;
    let backend = storage.backend(root).map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => Error::Refused {
            path: root.to_owned(),
            reason: "a store must lie on a local file system",
        },
        _ => Error::io("inspect", root, error),
    })?;
    // Before anything is written: it tells of what fails from here on.
    let volume = volume(storage.as_ref(), root);
    let id = store_id(&storage, root, &options)?;
    let threads = |threads| if options.inline { 0 } else { threads };
    let crews = [threads(options.sync_workers), threads(1)];
    let mut setting = setting(&options, backend, crews)?;
    setting.board = place.and_then(|place| board(&place, before.as_deref(), id, storage.boot()));
    let owner = Owner {
        epoch: 0,
        boot: storage.boot(),
        pid: std::process::id(),
    };
    let files = Budget::new(Arc::clone(&storage), options.open_files());
    let journal = site(&files.on_top(), root, id);
    let taken = take_over(&storage, root, journal, &setting, owner);
    let (opened, ids) = taken.inspect_err(|_| {
        // The journal may be waiting for its next round, which must not come after the lock.
        setting.flusher.stop();
        setting.preparer.stop();
        setting.board.iter().for_each(|board| board.close());
    })?;
    let before = opened.before;
    setting.epoch = opened.epoch;
    setting.same_boot = lived_in(&before, storage.boot());
    let topics = topics(&before);
    tracing::info!(root = %root.display(), epoch = opened.epoch, topics = topics.len(), "opened");
    let inner = Arc::new(Inner {
        root: root.to_owned(),
        id,
        lock: Some(lock),
        reading: None,
        files,
        volume,
        journal: opened.journal,
        setting,
        clean: before.closed(),
        topics: Mutex::new(topics),
        catalog: Mutex::new(ids),
        whole: RwLock::default(),
        copying: Copying::default(),
        closed: AtomicBool::new(false),
        ended: OnceLock::new(),
        journal_damaged: opened.damaged,
        pending: Mutex::new(opened.pending),
        recovering: Mutex::new(None),
        exporting: Mutex::new(None),
        processors: Mutex::default(),
        keeping: Mutex::new(None),
        options,
    });
    Ok(inner)
}

/// What logs are opened with, but for what the journal will say; so many threads in each crew.
pub(super) fn setting(
    options: &StoreOptions,
    backend: Backend,
    [flusher, preparer]: [usize; 2],
) -> Result<Setting> {
    let flusher = Crew::start("flusher", flusher, |log| log.round())?;
    let preparer = Crew::start("preparer", preparer, |log| log.prepare())?;
    Ok(Setting {
        clock: Arc::clone(&options.clock),
        flusher: Arc::new(flusher),
        preparer: Arc::new(preparer),
        pins: Arc::new(Pins::default()),
        backend,
        epoch: 0,
        same_boot: true,
        limits: Limits::default(),
        finished: false,
        parentage: Arc::new(Parentage::new()),
        bells: Arc::new(Bells::new()),
        board: None,
        retain: Arc::new(Call::new()),
        space: Arc::new(Alarm::new()),
    })
}

/// The topics that the journal knows, by name.
pub(super) fn topics(fold: &Fold) -> BTreeMap<String, Arc<TopicInner>> {
    let named = |topic: &TopicState| (topic.name.clone(), TopicInner::new(topic));
    fold.topics().map(named).collect()
}

/// The file system that the store lies on, where it can be synced as a whole.
fn volume(storage: &dyn Storage, root: &Path) -> Option<Arc<dyn Volume>> {
    let volume = storage.volume(root);
    volume
        .inspect_err(|error| tracing::debug!(%error, "each file is synced by itself"))
        .ok()
}

/// Takes over the journal, and finishes what its last owner left.
fn take_over(
    storage: &Arc<dyn Storage>,
    root: &Path,
    journal: Site,
    setting: &Setting,
    owner: Owner,
) -> Result<(Opened, Ids)> {
    let opened = Journal::open(journal, setting.clone(), owner)?;
    let carried = opened.before.carried();
    let mut ids = Ids {
        topic: carried.next_topic,
        log: carried.next_log,
        subscription: carried.next_subscription,
    };
    if ids.topic.max(ids.log).max(ids.subscription) > MOST_ID {
        return Err(Error::Mismatch {
            path: root.join("journal"),
            reason: "it names an id that no store has come to".to_owned(),
        });
    }
    opened.journal.tidy(&opened.before);
    quarantine::trim(storage.as_ref(), &root.join("quarantine"));
    tidy(storage.as_ref(), root, &opened.before, &mut ids)?;
    Ok((opened, ids))
}

/// Whether readers may hold what the last owner wrote: it lived in this boot, or who knows.
pub(super) fn lived_in(fold: &Fold, boot: Option<[u8; 16]>) -> bool {
    match (fold.owner().and_then(|owner| owner.boot), boot) {
        (Some(last), Some(this)) => last == this,
        _ => fold.owner().is_some(),
    }
}

/// Refuses a folder of another user before anything is made in it: that user could not open what would
/// be made, and so not the store any more.
fn refuse_strange(storage: &dyn Storage, root: &Path) -> Result<()> {
    match storage.stranger(root) {
        Ok(None) => Ok(()),
        Ok(Some(user)) => {
            let reason = format!("its folder belongs to user {user}: run it as that user");
            let error = io::Error::new(io::ErrorKind::PermissionDenied, reason);
            Err(Error::io("own", root, error))
        }
        Err(error) => Err(Error::io("inspect", root, error)),
    }
}

/// Makes the store's folder, and those above it. Until there is a journal in it, all of these
/// names are synced: a killed owner may have left them unsynced.
fn make_root(storage: &dyn Storage, root: &Path) -> Result<()> {
    if names(storage, root)?.iter().any(|name| name == "journal") {
        return Ok(());
    }
    make_dirs(storage, root)?;
    let parent = match root.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let synced = storage.sync_dir(parent);
    synced.map_err(|error| Error::io("sync", parent, error))?;
    for above in parent.ancestors().skip(1) {
        // Those further up may be somebody else's, whom nobody but he can open.
        if let Err(error) = storage.sync_dir(above) {
            tracing::debug!(folder = %above.display(), %error, "not synced");
        }
    }
    Ok(())
}

fn make_dirs(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let made = storage.create_dir(dir);
    let made = match (made, dir.parent()) {
        (Err(error), Some(parent))
            if error.kind() == io::ErrorKind::NotFound && !parent.as_os_str().is_empty() =>
        {
            make_dirs(storage, parent)?;
            storage.create_dir(dir)
        }
        (made, _) => made,
    };
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::io("create", dir, error))
        }
        _ => Ok(()),
    }
}

fn lock(storage: &dyn Storage, root: &Path, place: Option<&BoardPlace>) -> Result<Box<dyn Lock>> {
    let path = root.join("LOCK");
    // Others read it from elsewhere.
    let board = place.map(|place| std::path::absolute(&place.path).unwrap_or(place.path.clone()));
    let note = board.map(|board| format!("board {}", board.display()));
    let note = note.unwrap_or_default();
    storage.lock(&path, &note).map_err(|error| match error {
        LockError::Held { pid } => Error::Locked { path, pid },
        LockError::Io(error) => Error::opening("lock", path, error),
    })
}

/// Where the live board lies, if there can be one.
pub(super) fn board_place(options: &StoreOptions, root: &Path) -> Option<BoardPlace> {
    let place = options.storage.board(root, options.board.as_deref());
    let place = place.inspect_err(|error| tracing::warn!(%error, "there is no place for a board"));
    place.ok().flatten()
}

/// The live board. A store works without one: others then look at its files.
fn board(
    place: &BoardPlace,
    before: Option<&Path>,
    store: [u8; 16],
    boot: Option<[u8; 16]>,
) -> Option<Arc<Board>> {
    let key = Key { store, boot: boot? };
    if let Some(before) = before.filter(|before| *before != place.path) {
        board::discard(before, &key, place.user);
    }
    let board = Board::open(&place.path, &key, place.user, place.group);
    let path = place.path.display();
    let board = board.inspect_err(|error| tracing::warn!(%path, %error, "there is no live board"));
    board.ok()
}

/// Refuses a symbolic link, or anything but a folder, where a folder of the store should be.
pub(super) fn refuse_foreign(storage: &dyn Storage, root: &Path) -> Result<()> {
    FOLDERS
        .iter()
        .try_for_each(|name| refuse_link(storage, &root.join(name)))
}

/// Refuses a symbolic link, or anything but a folder, at a path; nothing there is fine.
pub(super) fn refuse_link(storage: &dyn Storage, path: &Path) -> Result<()> {
    let kind = storage.kind(path);
    match kind.map_err(|error| Error::io("inspect", path, error))? {
        None | Some(Kind::Folder) => Ok(()),
        Some(_) => Err(Error::Refused {
            path: path.to_owned(),
            reason: "a folder of the store must be a folder, not a link or a file",
        }),
    }
}

/// The store's id, which every segment of its journal carries; `None` if there is none yet.
fn known_id(storage: &Arc<dyn Storage>, root: &Path) -> Result<Option<[u8; 16]>> {
    let dir = root.join("journal");
    for entry in names(storage.as_ref(), &dir)? {
        if number_of(&entry).is_none() {
            continue;
        }
        let path = dir.join(&entry);
        let file = match storage.open(&path, Access::Read) {
            // Who looks beside a live owner sees segments go.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file.map_err(|error| Error::opening("open", &path, error))?,
        };
        let page = read_page(file.as_ref()).map_err(|error| Error::io("read", &path, error))?;
        match page {
            Page::Assigned(header) => return Ok(Some(header.identity.store)),
            Page::Bad(flaw) if flaw.is_unsupported() => return Err(unsupported(&path, flaw)),
            _ => {}
        }
    }
    Ok(None)
}

/// The id of the store that is there, or [`Error::NoStore`].
pub(super) fn existing_id(storage: &Arc<dyn Storage>, root: &Path) -> Result<[u8; 16]> {
    if let Some(id) = known_id(storage, root)? {
        return Ok(id);
    }
    refuse_unfinished(storage.as_ref(), root)?;
    let topics = root.join("topics");
    if !names(storage.as_ref(), &topics)?.is_empty() {
        return Err(Error::Mismatch {
            path: root.join("journal"),
            reason: "there are topics, and the journal that knows them is gone".to_owned(),
        });
    }
    Err(Error::NoStore {
        path: root.to_owned(),
    })
}

/// The id of the store, or one for a new store.
fn store_id(storage: &Arc<dyn Storage>, root: &Path, options: &StoreOptions) -> Result<[u8; 16]> {
    match existing_id(storage, root) {
        Err(Error::NoStore { .. }) => {}
        found => return found,
    }
    let (high, low) = (options.clock.random(), options.clock.random());
    Ok((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

/// The names in a folder; none where the folder is not there.
pub(super) fn names(storage: &dyn Storage, dir: &Path) -> Result<Vec<String>> {
    match storage.list(dir) {
        Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io("list", dir, error)),
    }
}

/// Finishes what a killed owner left: names that were not synced, deleted topics not yet gone.
/// Folders of logs that the journal does not know are left alone, and their ids never given.
fn tidy(storage: &dyn Storage, root: &Path, fold: &Fold, ids: &mut Ids) -> Result<()> {
    let topics = root.join("topics");
    if !fold.closed() && storage.kind(&topics).ok().flatten().is_some() {
        let synced = storage.sync_dir(&topics);
        synced.map_err(|error| Error::io("sync", &topics, error))?;
    }
    let known = ids.log;
    for topic in names(storage, &topics)? {
        let folder = topics.join(&topic);
        if storage.kind(&folder).ok().flatten() != Some(Kind::Folder) {
            continue;
        }
        let inside = match names(storage, &folder) {
            // Which ids are taken is known from elsewhere: one topic does not keep the others.
            Err(error) if !fold.carried().lost => {
                tracing::warn!(folder = %folder.display(), %error, "cannot be looked at");
                continue;
            }
            inside => inside?,
        };
        for name in inside {
            let Some(log) = log_of_folder(&name).filter(|log| *log < MOST_ID) else {
                continue;
            };
            ids.log = ids.log.max(log + 1);
            if fold.log(log).is_some() {
                continue;
            }
            if log < known && !fold.carried().lost {
                discard(storage, root, &folder.join(&name), &name);
            } else {
                tracing::warn!(folder = %folder.display(), name, "not in the journal, left alone");
            }
        }
    }
    empty_trash(storage, root);
    Ok(())
}

/// Moves the folder of a deleted log to the trash. What is not a folder was not put there by the
/// store, and stays. It is only space: what cannot be moved is left for the next opening; on a full
/// disk, where nothing can be moved, it is emptied where it is.
pub(super) fn discard(storage: &dyn Storage, root: &Path, from: &Path, name: &str) {
    if let Err(error) = throw_away(storage, root, from, name) {
        tracing::warn!(path = %from.display(), %error, "cannot be removed yet");
    }
}

fn throw_away(storage: &dyn Storage, root: &Path, from: &Path, name: &str) -> Result<()> {
    if !is_folder(storage, from)? {
        return Ok(());
    }
    match move_to_trash(storage, root, from, name) {
        Err(Error::StorageFull { .. }) => remove_folder(storage, from),
        moved => moved,
    }
}

fn move_to_trash(storage: &dyn Storage, root: &Path, from: &Path, name: &str) -> Result<()> {
    let trash = root.join("trash");
    match storage.create_dir(&trash) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Error::io("create", &trash, error)),
    }
    match storage.rename(from, &trash.join(name)) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("rename", from, error)),
    }
}

/// Whether a folder is there. Nothing is ever removed behind a link, which leads out of the store.
fn is_folder(storage: &dyn Storage, path: &Path) -> Result<bool> {
    match storage.kind(path) {
        Ok(Some(Kind::Folder)) => Ok(true),
        Ok(None) => Ok(false),
        Ok(Some(_)) => {
            tracing::warn!(path = %path.display(), "not a folder, left alone");
            Ok(false)
        }
        Err(error) => Err(Error::io("inspect", path, error)),
    }
}

/// Removes what lies in the trash. It is only space: what cannot be removed is left for the next
/// time.
pub(super) fn empty_trash(storage: &dyn Storage, root: &Path) {
    let trash = root.join("trash");
    let cannot = |path: &Path, error: &Error| {
        tracing::warn!(path = %path.display(), %error, "cannot be removed yet");
    };
    let inside = names(storage, &trash).inspect_err(|error| cannot(&trash, error));
    for name in inside.unwrap_or_default() {
        let folder = trash.join(&name);
        if let Err(error) = remove_folder(storage, &folder) {
            cannot(&folder, &error);
        }
    }
}

fn remove_folder(storage: &dyn Storage, folder: &Path) -> Result<()> {
    if !is_folder(storage, folder)? {
        return Ok(());
    }
    let mut each = Ok(());
    for name in names(storage, folder)? {
        let path = folder.join(&name);
        // Where a file was replaced by a folder, that may be empty.
        let removed = storage.remove_file(&path);
        let removed = removed.or_else(|error| storage.remove_dir(&path).map_err(|_| error));
        each = each.and(removed.map_err(|error| Error::io("remove", &path, error)));
    }
    each?;
    let removed = storage.remove_dir(folder);
    removed.map_err(|error| Error::io("remove", folder, error))
}

/// Opens every log, and fails with the first that cannot be.
pub(super) fn open_all(store: &Arc<Inner>) -> Result<()> {
    let topics: Vec<Arc<TopicInner>> = store.topics().values().cloned().collect();
    for topic in topics {
        for partition in 0..topic.partitions() {
            let opened = store.log(&topic, partition);
            opened.map_err(|error| named(error, &topic, partition))?;
        }
    }
    Ok(())
}
