//! Making the steps of a repair, durably.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::making::ensure_dir;
use super::mending::{Mending, Step, sealed_at};
use super::patient::Patient;
use super::plan::Promises;
use super::site::Site;
use crate::error::{Error, Flaw, Result};
use crate::format::{Identity, RedoFile, SECTOR, Sector, Slot};
use crate::segment::{file_name, number_of};
use crate::sys::{Access, File, Kind};

/// How much is copied at once.
const CHUNK: usize = 256 << 10;

/// Makes the plan true, durably. What is replaced goes to the quarantine under a name with that epoch.
pub(crate) fn mend(site: &Site, promises: &Promises, mending: &Mending, epoch: u32) -> Result<()> {
    ensure_dir(site, &site.quarantine)?;
    ensure_dir(site, &site.dir)?;
    for step in &mending.steps {
        match step {
            Step::Lengthen { number, to } => {
                let (path, file) = open(site, *number)?;
                let grown = file.grow(*to).and_then(|()| file.sync());
                grown.map_err(|error| Error::io("lengthen", &path, error).needing(*to))?;
            }
            Step::Reread { number } => reread(site, *number, epoch)?,
            Step::Header { number, identity } => header(site, *number, identity, epoch)?,
            Step::Make { identity } => put(site, identity, None, epoch)?,
            Step::Aside { number } => {
                set_aside(site, *number, epoch)?;
                site.sync_dir(&site.dir)?;
            }
            Step::StandIn { identity, next } => {
                let seal = sealed_at(identity, *next).seal(identity.epoch);
                put(site, identity, Some(seal), epoch)?;
            }
        }
    }
    if let Some(end) = &mending.end {
        lay(site, promises, (epoch, end.nonce))?;
    }
    // What was moved from there is safe where it is now before it is gone there.
    site.sync_dir(&site.dir)?;
    site.sync_dir(&site.quarantine)
}

fn open(site: &Site, number: u32) -> Result<(PathBuf, Arc<dyn File>)> {
    let path = site.segment(number);
    let file = site.storage.open(&path, Access::Write);
    let file = file.map_err(|error| Error::opening("open", &path, error))?;
    Ok((path, file))
}

fn aside(site: &Site, number: u32, epoch: u32, what: &str) -> PathBuf {
    site.aside(site.log, epoch, format!("{}{what}", file_name(number)))
}

/// Makes a file in the quarantine, in place of one that an earlier attempt left.
fn fresh(site: &Site, path: &Path, length: u64) -> Result<Arc<dyn File>> {
    let fail = |error| Error::io("create", path, error);
    if site.storage.kind(path).map_err(fail)? == Some(Kind::File) {
        site.storage.remove_file(path).map_err(fail)?;
    }
    site.storage.create(path, length).map_err(fail)
}

fn reread(site: &Site, number: u32, epoch: u32) -> Result<()> {
    let path = site.segment(number);
    let fail = |error| Error::io("replace", &path, error);
    let copy = match site.storage.kind(&path).map_err(fail)? {
        Some(_) => {
            let copy = aside(site, number, epoch, ".copy");
            copied(site, &path, &copy)?;
            set_aside(site, number, epoch)?;
            copy
        }
        // A repair before was cut off here.
        None => copies(site)?.remove(&number).unwrap_or_default(),
    };
    site.storage.rename(&copy, &path).map_err(fail)
}

/// Copies what can be read of a file, durably.
fn copied(site: &Site, path: &Path, copy: &Path) -> Result<()> {
    let from = site.storage.open(path, Access::Read);
    let from = from.map_err(|error| Error::opening("open", path, error))?;
    let from = Patient::new(Some(from), 0);
    let fail = |error| Error::io("copy to", copy, error);
    let length = from.len().map_err(fail)?;
    let to = fresh(site, copy, length)?;
    let mut bytes = vec![0; CHUNK];
    let mut at = 0;
    while at < length {
        let read = from.read_at(&mut bytes, at).map_err(fail)?;
        if read == 0 {
            break;
        }
        to.write_at(&bytes[..read], at).map_err(fail)?;
        at += read as u64;
    }
    to.sync().map_err(fail)?;
    site.sync_dir(&site.quarantine)
}

/// Moves a segment file, if there is one, to the quarantine, durably so before anything takes its name.
fn set_aside(site: &Site, number: u32, epoch: u32) -> Result<()> {
    let path = site.segment(number);
    let there = site.storage.kind(&path);
    if there
        .map_err(|error| Error::io("inspect", &path, error))?
        .is_none()
    {
        return Ok(());
    }
    let moved = site.storage.rename(&path, &aside(site, number, epoch, ""));
    moved.map_err(|error| Error::io("set aside", &path, error))?;
    site.sync_dir(&site.quarantine)
}

/// The copies of segments that repairs have left in the quarantine, which were to take their places: of
/// each the newest.
pub(super) fn copies(site: &Site) -> Result<BTreeMap<u32, PathBuf>> {
    let entries = match site.storage.list(&site.quarantine) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries.map_err(|error| Error::io("list", &site.quarantine, error))?,
    };
    let mut found: BTreeMap<u32, (u32, PathBuf)> = BTreeMap::new();
    for entry in entries {
        let mut parts = entry.name.splitn(3, '-');
        let log = parts.next().and_then(|log| log.parse().ok());
        let epoch = parts.next().and_then(|epoch| epoch.parse().ok());
        let number = parts.next().and_then(|name| name.strip_suffix(".copy"));
        let (Some(epoch), Some(number)) = (epoch, number.and_then(number_of)) else {
            continue;
        };
        let newest = found
            .get(&number)
            .is_none_or(|(before, _)| *before <= epoch);
        if log == Some(site.log) && newest {
            found.insert(number, (epoch, site.quarantine.join(entry.name)));
        }
    }
    let paths = found.into_iter().map(|(number, (_, path))| (number, path));
    Ok(paths.collect())
}

fn header(site: &Site, number: u32, identity: &Identity, epoch: u32) -> Result<()> {
    let (path, file) = open(site, number)?;
    let fail = |error| Error::io("write", &path, error);
    let mut page = [0; 4 * SECTOR];
    let read = file.read_at(&mut page, 0).map_err(fail)?;
    let kept = aside(site, number, epoch, ".head");
    let copy = fresh(site, &kept, read as u64)?;
    let copied = copy.write_at(&page[..read], 0).and_then(|()| copy.sync());
    copied.map_err(|error| Error::io("copy to", &kept, error))?;
    site.sync_dir(&site.quarantine)?;
    let sector = identity.encode().map_err(std::io::Error::other);
    let sector = sector.map_err(fail)?;
    file.write_at(&sector, 0).map_err(fail)?;
    file.sync().map_err(fail)
}

/// Makes a segment in place of what there is: without records, and sealed where it stands for offsets.
fn put(site: &Site, identity: &Identity, seal: Option<Slot>, epoch: u32) -> Result<()> {
    let number = identity.number;
    let path = site.segment(number);
    let made = aside(site, number, epoch, ".made");
    let fail = |error| Error::io("write", &made, error);
    let encode = |bytes: std::result::Result<[u8; SECTOR], Flaw>| {
        bytes.map_err(|flaw| fail(io::Error::other(flaw)))
    };
    let file = fresh(site, &made, identity.layout.capacity)?;
    file.write_at(&encode(identity.encode())?, 0)
        .map_err(fail)?;
    if let Some(seal) = seal {
        let seal = encode(seal.encode(identity.seed()))?;
        file.write_at(&seal, Sector::Seal.place()).map_err(fail)?;
    }
    file.sync().map_err(fail)?;
    set_aside(site, number, epoch)?;
    let renamed = site.storage.rename(&made, &path);
    renamed.map_err(|error| Error::io("rename to", &path, error))
}

/// Writes what the journal holds into the files of its segments. What has no file there is kept in the
/// quarantine, as a file of redo: the end that is stated next voids it.
fn lay(site: &Site, promises: &Promises, (epoch, nonce): (u32, u64)) -> Result<()> {
    let mut unfit = Vec::new();
    for redo in &promises.redo {
        let laid = site
            .header_with(redo.of.number, &promises.redo)
            .inspect_err(|error| tracing::warn!(log = site.log, %error, "no file for redo"))
            .ok()
            .filter(|(_, header)| header.identity.nonce == redo.of.nonce);
        let Some((file, _)) = laid else {
            unfit.push(redo.clone());
            continue;
        };
        let (path, to) = open(site, redo.of.number)?;
        let fail = |error| Error::io("write", &path, error);
        let mut sector = [0; SECTOR];
        file.read_at(&mut sector, 0).map_err(fail)?;
        to.write_at(&sector, 0).map_err(fail)?;
        to.write_at(&redo.frames, redo.of.place).map_err(fail)?;
        to.sync().map_err(fail)?;
    }
    if unfit.is_empty() {
        return Ok(());
    }
    let kept = RedoFile {
        store: site.store,
        log: site.log,
        nonce,
        stretches: unfit,
    };
    let path = site.aside(site.log, epoch, "redo");
    let fail = |error| Error::io("copy to", &path, error);
    let bytes = kept.encode().map_err(|flaw| fail(io::Error::other(flaw)))?;
    let file = fresh(site, &path, bytes.len() as u64)?;
    let written = file.write_at(&bytes, 0).and_then(|()| file.sync());
    written.map_err(fail)
}
