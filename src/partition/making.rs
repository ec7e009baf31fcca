//! Making the file of the next segment: as long as it should be, or as there is room for.

use std::io;
use std::path::Path;

use super::reuse::Used;
use super::site::Site;
use super::spare::Spare;
use crate::error::{Error, Result, is_full};
use crate::format::{Layout, PAGE};
use crate::index::INTERVAL;
use crate::segment::{Page, read_page};
use crate::sys::{Access, Kind};

/// Sees to the log's folder, unless that was done.
pub(super) fn place(site: &Site, placed: bool) -> Result<()> {
    if placed {
        return Ok(());
    }
    ensure_dir(site, &site.dir)
}

/// How long a spare is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) wish: u64,
    /// What is good enough where the disk has no room for more.
    pub(super) least: u64,
}

/// For want of room a segment is made as short as this, unless a topic wishes it shorter; and one
/// that is to be there at any rate as short as that, so that it finds what the others leave.
const SHORT: u64 = 64 << 10;
const SHORTEST: u64 = 16 << 10;

impl Sizes {
    /// `natural` is the log's own choice, `wanted` what somebody waits for, or 0.
    pub(super) fn of(natural: u64, wanted: u64, ahead: bool) -> Sizes {
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

pub(super) fn is_as_wished(spare: &Option<Spare>, sizes: Sizes) -> bool {
    let capacity = spare.as_ref().map(|spare| spare.layout.capacity);
    capacity.is_some_and(|capacity| capacity >= sizes.wish)
}

/// Makes a spare, of the space of an old segment where there is no other and that is enough.
pub(super) fn make(
    site: &Site,
    number: u32,
    sizes: Sizes,
    used: &mut Option<Used>,
) -> Result<Spare> {
    match make_one(site, number, sizes.wish) {
        Err(Error::StorageFull { .. }) => {}
        made => return made,
    }
    if let Some(used) = used.take_if(|used| used.length >= sizes.least) {
        match used.reuse(site, number) {
            Ok(spare) => return Ok(spare),
            Err(error) => tracing::warn!(%error, "an old segment cannot be used again"),
        }
    }
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
pub(super) fn again(site: &Site, number: u32, layout: Layout) -> Option<Spare> {
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
pub(super) fn throw_away(site: &Site, spare: &Spare) -> Result<()> {
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
pub(super) fn grow(site: &Site, spare: Spare, sizes: Sizes) -> (Option<Spare>, Result<()>) {
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
pub(super) fn discard(site: &Site, path: &Path) {
    if let Err(error) = site.storage.remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove a half-made segment");
    }
}

pub(super) fn layout(path: &Path, capacity: u64) -> Result<Layout> {
    Layout::new(capacity, INTERVAL).map_err(|flaw| Error::Mismatch {
        path: path.to_owned(),
        reason: flaw.to_string(),
    })
}

fn full(site: &Site, op: &'static str, path: &Path, needed: u64, error: io::Error) -> Error {
    match Error::io(op, path, error).needing(needed) {
        Error::StorageFull { path, needed, .. } => Error::StorageFull {
            path,
            needed,
            free: site.storage.free(&site.dir).ok(),
        },
        other => other,
    }
}

fn is_folder(site: &Site, dir: &Path) -> bool {
    let kind = site.storage.kind(dir);
    kind.is_ok_and(|kind| kind == Some(Kind::Folder))
}

/// Makes a folder of the store, and those above it, unless they are there. All of their names are
/// synced, also of those that were there: who made them may have failed to, or been killed.
pub(super) fn ensure_dir(site: &Site, dir: &Path) -> Result<()> {
    let root = site.quarantine.parent();
    let mut below: Vec<&Path> = dir
        .ancestors()
        .take_while(|above| Some(*above) != root)
        .collect();
    while let Some(dir) = below.pop() {
        match site.storage.create_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // On a full disk that may be what is said of one that is there.
            Err(error) if is_full(&error) && is_folder(site, dir) => {}
            Err(error) => return Err(Error::io("create", dir, error)),
        }
        let parent = dir.parent().unwrap_or(dir);
        site.sync_dir(parent)?;
    }
    Ok(())
}
