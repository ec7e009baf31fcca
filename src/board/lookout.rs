//! Finding the board: where the owner says that it lies, or where it would by itself.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwapOption;

use super::{Key, Seen, Watch};
use crate::sys::board::named;
use crate::sys::{BoardPlace, Holder, Storage};

/// Who looks out for the owner of a store, and for its board.
#[derive(Debug)]
pub(crate) struct Lookout {
    storage: Arc<dyn Storage>,
    lock: PathBuf,
    /// Where the board lies if nobody says otherwise; nothing where there can be none.
    place: Option<BoardPlace>,
    /// Nothing where it cannot be known which boot this is.
    key: Option<Key>,
    watch: ArcSwapOption<Watch>,
    /// [`Watch::serial`] of that, or 0: looking at it costs a load.
    serial: AtomicU32,
}

/// Where the board lies, as its owner, or the last one, has written down in the lock file.
pub(crate) fn stated(storage: &dyn Storage, lock: &Path) -> Option<PathBuf> {
    let said = storage.said(lock).ok()?;
    let mut lines = said.note.lines();
    let path = lines.find_map(|line| line.strip_prefix("board "))?;
    Some(PathBuf::from(path))
}

impl Lookout {
    /// Looks out for the board of the store whose lock file this is.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        lock: PathBuf,
        place: Option<BoardPlace>,
        store: [u8; 16],
    ) -> Lookout {
        let boot = storage.boot();
        Lookout {
            key: boot.map(|boot| Key { store, boot }),
            storage,
            lock,
            place,
            watch: ArcSwapOption::empty(),
            serial: AtomicU32::new(0),
        }
    }

    /// The board that was found when that was last tried.
    pub(crate) fn watch(&self) -> Option<Arc<Watch>> {
        self.watch.load_full()
    }

    /// Looks whether the board is still the one that its name leads to, and for another one if not:
    /// a few calls. A board that somebody else's owner has left does not count.
    pub(crate) fn look(&self) {
        let (Some(place), Some(key)) = (&self.place, &self.key) else {
            return;
        };
        let holder = self.owner().ok().flatten().and_then(|holder| holder.pid);
        let stated = stated(self.storage.as_ref(), &self.lock);
        let paths = stated.iter().chain([&place.path]);
        let mut boards = paths.filter_map(|path| self.open(path, key, place.user));
        // Without an owner that of the last one tells what it had shown.
        let current = |watch: &Arc<Watch>| holder.is_none_or(|pid| pid == watch.pid());
        let found = boards.find(current);
        let serial = found.as_ref().map_or(0, |watch| watch.serial());
        self.watch.store(found);
        self.serial.store(serial, Ordering::Release);
    }

    /// The board at a path: the one that is known, if it is that.
    fn open(&self, path: &Path, key: &Key, user: u32) -> Option<Arc<Watch>> {
        let known = self.watch();
        let found = named(path)?;
        if let Some(watch) = known.filter(|watch| watch.id == found) {
            return Some(watch);
        }
        let watch = Watch::open(path, key, user);
        let watch = watch.inspect_err(|error| tracing::debug!(%error, "there is no board"));
        watch.ok().map(Arc::new)
    }

    /// Whether an entry stands on the board that was found.
    pub(crate) fn has(&self, seen: &Seen) -> bool {
        seen.is_on(self.serial.load(Ordering::Acquire))
    }

    /// Whether the name of the board that was found leads elsewhere now: one call.
    pub(crate) fn is_lost(&self) -> bool {
        let found = self.watch();
        found.is_none_or(|watch| named(&watch.path) != Some(watch.id))
    }

    /// The process that owns the store now.
    pub(crate) fn owner(&self) -> io::Result<Option<Holder>> {
        self.storage.holder(&self.lock)
    }
}
