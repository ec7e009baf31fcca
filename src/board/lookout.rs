//! Finding the board: where the owner says that it lies, or where it would by itself.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::{Key, Watch};
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
        }
    }

    /// The board that was found when that was last tried.
    pub(crate) fn watch(&self) -> Option<Arc<Watch>> {
        self.watch.load_full()
    }

    /// Looks whether the board is still the one that its name leads to, and for another one if not:
    /// a few calls. Whether that has changed anything.
    pub(crate) fn look(&self) -> bool {
        let (Some(place), Some(key)) = (&self.place, &self.key) else {
            return false;
        };
        let path = self.stated().unwrap_or_else(|| place.path.clone());
        let before = self.watch();
        let found = named(&path);
        if found.is_some() && before.as_ref().map(|watch| watch.id) == found {
            return false;
        }
        let watch = Watch::open(&path, key, place.user);
        let watch = watch.inspect_err(|error| tracing::debug!(%error, "there is no board"));
        match watch {
            Ok(watch) => self.watch.store(Some(Arc::new(watch))),
            // What a board said that has lost its name may still be asked for.
            Err(_) => return false,
        }
        true
    }

    /// Whether the name of the board that was found leads elsewhere now: one call.
    pub(crate) fn is_lost(&self) -> bool {
        let found = self.watch();
        found.is_none_or(|watch| named(&watch.path) != Some(watch.id))
    }

    /// Where the board lies, as its owner, or the last one, has written it down.
    fn stated(&self) -> Option<PathBuf> {
        let said = self.storage.said(&self.lock).ok()?;
        let path = said
            .note
            .lines()
            .find_map(|line| line.strip_prefix("board "))?;
        Some(PathBuf::from(path))
    }

    /// The process that owns the store now.
    pub(crate) fn owner(&self) -> io::Result<Option<Holder>> {
        self.storage.holder(&self.lock)
    }
}
