//! Files of redo beside the journal's segments: what failed logs need, so that the journal need not
//! keep it.
//!
//! Such a file counts if the fold names it, and only then. It is named when it and its name are safe,
//! and only then does the journal let go of its own copy; an end that is recorded later says that the
//! log's own files are safe. So a file that is not named holds nothing that is not elsewhere, and may
//! go, provided that the fold lacks no record that could have named it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::fold::Fold;
use super::redo::{Pending, is_needed};
use crate::error::{Error, Result};
use crate::format::{Redo, RedoFile};
use crate::partition::{Site, unsupported};
use crate::sys::{Access, Storage};

const SUFFIX: &str = ".redo";

/// The name of a log's file.
fn file_name(log: u64, nonce: u64) -> String {
    format!("{log}-{nonce:016x}{SUFFIX}")
}

/// The log and the nonce in such a name.
fn named(name: &str) -> Option<(u64, u64)> {
    let (log, nonce) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    let (log, nonce) = (log.parse().ok()?, u64::from_str_radix(nonce, 16).ok()?);
    (file_name(log, nonce) == name).then_some((log, nonce))
}

/// Puts the redo of the files that the fold names before what the journal itself keeps: it is older.
pub(super) fn add(site: &Site, fold: &Fold, pending: &mut Pending) {
    for files in fold.redo_files() {
        let log = files.log;
        for nonce in files.nonces.iter().rev() {
            match read(site, log, *nonce) {
                Ok(mut stretches) => {
                    stretches.retain(|redo| is_needed(fold, redo));
                    if !stretches.is_empty() {
                        let of_log = pending.entry(log).or_default();
                        of_log.stretches.splice(0..0, stretches);
                    }
                }
                Err(error) => {
                    tracing::error!(log, %error, "redo of a failed log cannot be read");
                    pending.entry(log).or_default().unread = Some(Arc::new(error));
                }
            }
        }
    }
}

/// What such a file says. It must be there, whole, and the one that is meant.
pub(super) fn read(site: &Site, log: u64, nonce: u64) -> Result<Vec<Redo>> {
    let path = site.dir.join(file_name(log, nonce));
    let mismatch = |reason: String| Error::Mismatch {
        path: path.clone(),
        reason,
    };
    let file = match site.storage.open(&path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(mismatch(
                "it holds acknowledged records, and is gone".to_owned(),
            ));
        }
        file => file.map_err(|error| Error::opening("open", &path, error))?,
    };
    let fail = |error| Error::io("read", &path, error);
    let mut bytes = vec![0; RedoFile::HEAD];
    let read = file.read_at(&mut bytes, 0).map_err(fail)?;
    bytes.truncate(read);
    // Whatever length the file has, only as much is read as it says, if it has that.
    let said = RedoFile::length(&bytes).unwrap_or(0);
    if said == file.len().map_err(fail)? {
        let said = usize::try_from(said).map_err(|error| fail(io::Error::other(error)))?;
        let full = |error| fail(io::Error::other(error));
        bytes.try_reserve_exact(said - bytes.len()).map_err(full)?;
        bytes.resize(said, 0);
        let read = file.read_at(&mut bytes, 0).map_err(fail)?;
        bytes.truncate(read);
    }
    let file = RedoFile::decode(&bytes).map_err(|flaw| match flaw.is_unsupported() {
        true => unsupported(&path, flaw),
        false => mismatch(flaw.to_string()),
    })?;
    if (file.store, file.log, file.nonce) != (site.store, log, nonce) {
        return Err(mismatch("it belongs elsewhere".to_owned()));
    }
    Ok(file.stretches)
}

/// Writes such a file. When this returns, it and its name are safe; what a failure leaves is not
/// named, and may go.
pub(super) fn write(site: &Site, file: &RedoFile) -> Result<()> {
    let path = site.dir.join(file_name(file.log, file.nonce));
    let bytes = file
        .encode()
        .map_err(|flaw| Error::io("encode", &path, io::Error::other(flaw)))?;
    let written = site
        .storage
        .create(&path, bytes.len() as u64)
        .map_err(|error| Error::io("create", &path, error).needing(bytes.len() as u64))
        .and_then(|file| {
            let written = file.write_at(&bytes, 0).and_then(|()| file.sync());
            written.map_err(|error| Error::io("write", &path, error))
        })
        .and_then(|()| site.sync_dir(&site.dir));
    if written.is_err() {
        remove(site.storage.as_ref(), &path);
    }
    written
}

/// Moves those files of a log that are there and cannot be read to the quarantine, under a name with that
/// epoch, durably. Fails if all can be: whoever gave them up has not seen what is in them.
pub(super) fn set_aside(site: &Site, log: u64, nonces: &[u64], epoch: u32) -> Result<()> {
    let (sound, unread): (Vec<u64>, Vec<u64>) = nonces
        .iter()
        .partition(|nonce| read(site, log, **nonce).is_ok());
    if let (Some(nonce), []) = (sound.first(), unread.as_slice()) {
        let path = site.dir.join(file_name(log, *nonce));
        let by_now = io::Error::other("it can be read by now");
        return Err(Error::io("give up", path, by_now));
    }
    for nonce in &unread {
        let name = file_name(log, *nonce);
        let path = site.dir.join(&name);
        let aside = site.aside(log, epoch, &name);
        match site.storage.rename(&path, &aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved.map_err(|error| Error::io("set aside", &path, error))?,
        }
    }
    site.sync_dir(&site.quarantine)
}

/// Removes files of a log, which must not be named any more, now or after a crash.
pub(super) fn discard(site: &Site, log: u64, nonces: &[u64]) {
    for nonce in nonces {
        let path = site.dir.join(file_name(log, *nonce));
        remove(site.storage.as_ref(), &path);
    }
}

/// Removes the files that nothing names. What cannot be removed is only space.
pub(super) fn tidy(site: &Site, fold: &Fold) {
    let Ok(entries) = site.storage.list(&site.dir) else {
        return;
    };
    for name in entries.into_iter().map(|entry| entry.name) {
        let Some((log, nonce)) = named(&name) else {
            continue;
        };
        let mut named = fold.redo_files().filter(|files| files.log == log);
        if named.any(|files| files.nonces.contains(&nonce)) {
            continue;
        }
        let carried = fold.carried();
        if carried.lost || log >= carried.next_log {
            // A record is missing that may have named it.
            tracing::warn!(name, "redo that the journal does not name, left alone");
            continue;
        }
        discard(site, log, &[nonce]);
    }
}

fn remove(storage: &dyn Storage, path: &Path) {
    match storage.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot be removed yet");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_log_and_which_file() {
        for (log, nonce) in [(1, 0), (17, 0xfeed), (u64::MAX, u64::MAX)] {
            assert_eq!(named(&file_name(log, nonce)), Some((log, nonce)));
        }
        for other in [
            "1-1.redo",
            "01-0000000000000001.redo",
            "00000001.seg",
            ".redo",
        ] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
