//! The next segment, made ahead of time: allocated, synced, its folder synced; and how to wait
//! for it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::site::Site;
use crate::error::{Error, Result};
use crate::format::{Layout, PAGE};
use crate::index::INTERVAL;
use crate::segment::{Page, read_page};
use crate::sync::Watermark;
use crate::sys::{Access, File};

/// A segment file that nobody has taken over yet.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) number: u32,
    pub(crate) file: Arc<dyn File>,
    pub(crate) layout: Layout,
    /// A header was written to it in vain, and any part of it may be there: it is thrown away, so
    /// that no frame ever stands behind half a header.
    pub(crate) spoiled: bool,
}

/// Where the spare lies until it is taken, and what became of the last attempt to make one.
#[derive(Debug)]
pub(crate) struct Shelf {
    state: Mutex<State>,
    /// Counts attempts that ended.
    attempts: Watermark,
}

#[derive(Debug)]
struct State {
    spare: Option<Spare>,
    /// A spare whose file was let go of: it lies there as it was made.
    parked: Option<(u32, Layout)>,
    /// The number of the segment that takes over next.
    number: u32,
    /// The length of the last segment that was taken over, if there is one, and of that before.
    capacity: Option<u64>,
    before: Option<u64>,
    /// The least length that the next one must have: of those who have asked since the last attempt
    /// began, which is the one that answers them, whatever becomes of it.
    wanted: u64,
    failed: Option<Error>,
    /// The log's folder is there, durably.
    placed: bool,
    /// Counts attempts that began.
    begun: u64,
    /// Somebody has asked for a spare since the last attempt began.
    asked: bool,
}

impl State {
    /// Keeps a spare that was just made; or it comes back, to be thrown away: while it was made, the
    /// one before it was put back, and two with a number between them would tear the chain.
    fn keep(&mut self, made: Spare) -> Option<Spare> {
        if self.spare.is_some() || made.number != self.number {
            return Some(made);
        }
        self.spare = Some(made);
        None
    }
}

impl Shelf {
    /// An empty shelf; the first spare will have this number, and follows a segment of that
    /// length.
    pub(crate) fn new(number: u32, capacity: Option<u64>) -> Shelf {
        Shelf {
            state: Mutex::new(State {
                spare: None,
                parked: None,
                number,
                capacity,
                before: capacity,
                wanted: 0,
                failed: None,
                placed: false,
                begun: 0,
                asked: false,
            }),
            attempts: Watermark::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this mutex.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the spare, if there is one of at least that length.
    pub(crate) fn take(&self, capacity: u64) -> Option<Spare> {
        let mut state = self.state();
        let fits = |spare: &mut Spare| !spare.spoiled && spare.layout.capacity >= capacity;
        let spare = state.spare.take_if(fits)?;
        state.number = spare.number.saturating_add(1);
        state.before = state.capacity.replace(spare.layout.capacity);
        Some(spare)
    }

    /// Puts a spare back that could not be taken over. A spoiled one is only there to be thrown
    /// away.
    pub(crate) fn put_back(&self, spare: Spare) {
        let mut state = self.state();
        state.number = spare.number;
        state.capacity = state.before;
        state.spare = Some(spare);
    }

    /// The length of the segment that the next spare follows.
    pub(crate) fn last_capacity(&self) -> Option<u64> {
        self.state().capacity
    }

    /// Lets go of the spare's file, which stays where it is; whether there was one. One that is
    /// spoiled is kept, to be thrown away.
    pub(crate) fn park(&self) -> bool {
        let mut state = self.state();
        let spare = state.spare.take_if(|spare| !spare.spoiled);
        if let Some(spare) = &spare {
            state.parked = Some((spare.number, spare.layout));
        }
        spare.is_some()
    }

    /// Removes the spare, which nobody will take over any more; whether its folder's names may
    /// have changed and are not durable yet.
    pub(crate) fn remove(&self, site: &Site) -> Result<bool> {
        let (number, placed) = {
            let mut state = self.state();
            let spare = state.spare.take().map(|spare| spare.number);
            let parked = state.parked.take().map(|(number, _)| number);
            (spare.or(parked), state.placed)
        };
        if let Some(number) = number {
            let path = site.segment(number);
            let removed = site.storage.remove_file(&path);
            removed.map_err(|error| Error::io("remove", &path, error))?;
        }
        Ok(placed)
    }

    /// Removes the spare durably: a header may have been written to it in vain.
    pub(crate) fn clear(&self, site: &Site) -> Result<()> {
        if !self.remove(site)? {
            return Ok(());
        }
        let synced = site.storage.sync_dir(&site.dir);
        synced.map_err(|error| Error::io("sync", &site.dir, error))
    }

    /// Whether a spare is there, of whatever size.
    pub(crate) fn has_spare(&self) -> bool {
        self.state().spare.as_ref().is_some_and(|it| !it.spoiled)
    }

    /// Whether there is none, since the disk was full when it was to be made, or one that is shorter
    /// than that for the same reason.
    pub(crate) fn lacks_room(&self, natural: u64) -> bool {
        let state = self.state();
        match &state.spare {
            Some(spare) => spare.layout.capacity < natural,
            None => matches!(state.failed, Some(Error::StorageFull { .. })),
        }
    }

    /// Says that a spare of at least that length is needed; the number of attempts begun so far.
    pub(crate) fn want(&self, capacity: u64) -> u64 {
        let mut state = self.state();
        state.wanted = state.wanted.max(capacity);
        state.asked = true;
        state.begun
    }

    /// Waits until an attempt has ended that began after `begun` of them had: one that was under
    /// way before says nothing to who asks now. Its error, if it failed.
    pub(crate) fn wait(&self, begun: u64, stop: impl Fn() -> bool) -> Result<()> {
        self.attempts.wait_past(begun, None, stop);
        self.outcome()
    }

    /// The same as a future.
    pub(crate) async fn attempted(&self, begun: u64, stop: impl Fn() -> bool) -> Result<()> {
        self.attempts.past(begun, stop).await;
        self.outcome()
    }

    fn outcome(&self) -> Result<()> {
        match &self.state().failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Wakes who waits, so that they look whether to stop.
    pub(crate) fn wake(&self) {
        self.attempts.wake();
    }

    /// The next time the preparer comes it shall see to the spare.
    pub(crate) fn ask(&self) {
        self.state().asked = true;
    }

    /// Whether somebody has asked for a spare since this was last asked.
    pub(crate) fn is_asked(&self) -> bool {
        std::mem::take(&mut self.state().asked)
    }

    /// Makes the spare, or makes the one there longer: the preparer's duty. `natural` is the length
    /// that the log would choose by itself. Where the disk has no room for that, and somebody waits or
    /// it is to be there `ahead` at any rate, it is shorter, down to what is needed.
    pub(crate) fn prepare(&self, site: &Site, natural: u64, ahead: bool) {
        let (spare, parked, number, wanted, placed) = {
            let mut state = self.state();
            state.begun += 1;
            let wanted = std::mem::take(&mut state.wanted);
            let spare = (state.spare.take(), state.parked.take());
            (spare.0, spare.1, state.number, wanted, state.placed)
        };
        let spare =
            spare.or_else(|| parked.and_then(|(number, layout)| again(site, number, layout)));
        let sizes = Sizes::of(natural, wanted, ahead);
        let fresh = || match place(site, placed).and_then(|()| make(site, number, sizes)) {
            Ok(spare) => (Some(spare), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let (spare, made) = match spare {
            Some(spare) if spare.spoiled => match throw_away(site, &spare) {
                Ok(()) => fresh(),
                Err(error) => (Some(spare), Err(error)),
            },
            Some(spare) if spare.layout.capacity >= sizes.wish => (Some(spare), Ok(())),
            Some(spare) => grow(site, spare, sizes),
            None => fresh(),
        };
        let useless = {
            let mut state = self.state();
            state.placed |= spare.is_some();
            let useless = spare.and_then(|spare| state.keep(spare));
            state.failed = made.err();
            if let Some(error) = &state.failed {
                tracing::warn!(%error, "cannot prepare a segment");
            }
            useless
        };
        if let Some(spare) = useless {
            discard(site, &site.segment(spare.number));
        }
        self.attempts.advance(self.attempts.get() + 1);
    }
}

/// Sees to the log's folder, unless that was done.
fn place(site: &Site, placed: bool) -> Result<()> {
    if placed {
        return Ok(());
    }
    ensure_dir(site, &site.dir)
}

/// How long a spare is to be.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    wish: u64,
    /// What is good enough where the disk has no room for more.
    least: u64,
}

/// For want of room a segment is made as short as this, unless a topic wishes it shorter; and one
/// that is to be there at any rate as short as that, so that it finds what the others leave.
const SHORT: u64 = 64 << 10;
const SHORTEST: u64 = 16 << 10;

impl Sizes {
    /// `natural` is the log's own choice, `wanted` what somebody waits for, or 0.
    fn of(natural: u64, wanted: u64, ahead: bool) -> Sizes {
        let wish = natural.max(wanted);
        let least = match (wanted, ahead) {
            (0, false) => wish,
            (wanted, false) => wanted.max(SHORT).min(wish),
            (wanted, true) => wanted.max(SHORTEST).min(wish),
        };
        Sizes { wish, least }
    }

    /// Tries one length after another, each half of the one before, as long as the disk is full.
    fn longest<T>(self, mut attempt: impl FnMut(u64) -> Result<T>) -> Result<T> {
        let mut length = self.wish;
        loop {
            match attempt(length) {
                Err(Error::StorageFull { .. }) if length > self.least => {
                    length = (length / 2).next_multiple_of(PAGE).max(self.least);
                }
                done => return done,
            }
        }
    }
}

fn make(site: &Site, number: u32, sizes: Sizes) -> Result<Spare> {
    sizes.longest(|length| make_one(site, number, length))
}

fn make_one(site: &Site, number: u32, capacity: u64) -> Result<Spare> {
    let path = site.segment(number);
    let layout = layout(&path, capacity)?;
    let created = match site.storage.create(&path, layout.capacity) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            remove_leftover(site, &path)?;
            site.storage.create(&path, layout.capacity)
        }
        created => created,
    };
    let file = created.map_err(|error| full(site, "create", &path, layout.capacity, error))?;
    let synced = file
        .sync()
        .and_then(|()| site.storage.sync_dir(&site.dir))
        .map_err(|error| Error::io("sync", &path, error));
    if let Err(error) = synced {
        // It was never used, and no later sync of it could be believed.
        discard(site, &path);
        return Err(error);
    }
    Ok(Spare {
        number,
        file,
        layout,
        spoiled: false,
    })
}

/// Opens a spare whose file was let go of. One that cannot be opened is made anew.
fn again(site: &Site, number: u32, layout: Layout) -> Option<Spare> {
    let path = site.segment(number);
    let opened = site.storage.open(&path, Access::Write);
    let file = opened.inspect_err(
        |error| tracing::warn!(path = %path.display(), %error, "the spare cannot be opened again"),
    );
    Some(Spare {
        number,
        file: file.ok()?,
        layout,
        spoiled: false,
    })
}

/// Removes a spoiled spare. The one that is made in its place has the same name, which leads to it
/// once the folder has been synced; before that, nothing is written behind any header there.
fn throw_away(site: &Site, spare: &Spare) -> Result<()> {
    let path = site.segment(spare.number);
    match site.storage.remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", &path, error))
        }
        _ => Ok(()),
    }
}

/// Makes a spare longer. One whose sync failed is thrown away, since no later sync of it could be
/// believed.
fn grow(site: &Site, spare: Spare, sizes: Sizes) -> (Option<Spare>, Result<()>) {
    let path = site.segment(spare.number);
    let grown = sizes.longest(|length| {
        let layout = layout(&path, length.max(spare.layout.capacity))?;
        let grown = spare.file.grow(layout.capacity);
        grown.map_err(|error| full(site, "grow", &path, layout.capacity, error))?;
        Ok(layout)
    });
    let layout = match grown {
        Ok(layout) => layout,
        Err(error) => return (Some(spare), Err(error)),
    };
    if let Err(error) = spare.file.sync() {
        discard(site, &path);
        return (None, Err(Error::io("sync", &path, error)));
    }
    (Some(Spare { layout, ..spare }), Ok(()))
}

/// Removes what an attempt before has left where the spare belongs: one that failed, and whose file
/// could not be discarded. Nobody has ever taken that over.
fn remove_leftover(site: &Site, path: &Path) -> Result<()> {
    let file = site.storage.open(path, Access::Read);
    let file = file.map_err(|error| Error::opening("open", path, error))?;
    let page = read_page(file.as_ref()).map_err(|error| Error::io("read", path, error))?;
    if !matches!(page, Page::Short | Page::Unassigned) {
        return Err(site.mismatch(path, "it lies where the next segment belongs"));
    }
    let removed = site.storage.remove_file(path);
    removed.map_err(|error| Error::io("remove", path, error))
}

/// Removes a segment file that nobody will use. It is only space: if that fails, the next attempt,
/// or recovery, will.
fn discard(site: &Site, path: &Path) {
    if let Err(error) = site.storage.remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove a half-made segment");
    }
}

fn layout(path: &Path, capacity: u64) -> Result<Layout> {
    Layout::new(capacity, INTERVAL).map_err(|flaw| Error::Mismatch {
        path: path.to_owned(),
        reason: flaw.to_string(),
    })
}

fn full(site: &Site, op: &'static str, path: &Path, needed: u64, error: io::Error) -> Error {
    match Error::io(op, path, error) {
        Error::StorageFull { path, .. } => Error::StorageFull {
            path,
            needed,
            free: site.storage.free(&site.dir).ok(),
        },
        other => other,
    }
}

/// Makes a folder of the store, and those above it, unless they are there. All of their names are
/// synced, also of those that were there: who made them may have failed to, or been killed.
pub(crate) fn ensure_dir(site: &Site, dir: &Path) -> Result<()> {
    let root = site.quarantine.parent();
    let mut below: Vec<&Path> = dir
        .ancestors()
        .take_while(|above| Some(*above) != root)
        .collect();
    while let Some(dir) = below.pop() {
        match site.storage.create_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", dir, error)),
        }
        let parent = dir.parent().unwrap_or(dir);
        let synced = site.storage.sync_dir(parent);
        synced.map_err(|error| Error::io("sync", parent, error))?;
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::Storage;
    use crate::sys::sim::Sim;

    fn spare(sim: &Sim, number: u32) -> Spare {
        let path = Path::new("/").join(number.to_string());
        Spare {
            number,
            file: sim.create(&path, 64 << 10).unwrap(),
            layout: layout(&path, 64 << 10).unwrap(),
            spoiled: false,
        }
    }

    /// A spare was taken and cannot take over; while it is put back the preparer makes the next one.
    /// Two that follow one another must not change places: the one that was put back comes first.
    #[test]
    fn a_spare_that_is_put_back_while_the_next_one_is_made_keeps_its_turn() {
        let sim = Sim::new(1);
        let shelf = Shelf::new(7, None);
        assert!(shelf.state().keep(spare(&sim, 7)).is_none());
        let taken = shelf.take(4096).unwrap();
        let next = spare(&sim, 8);
        shelf.put_back(taken);
        let useless = shelf.state().keep(next).unwrap();
        assert_eq!(useless.number, 8);
        assert_eq!(shelf.take(4096).unwrap().number, 7);
        assert!(shelf.state().keep(useless).is_none());
        assert_eq!(shelf.take(4096).unwrap().number, 8);
    }
}
