//! How much stays of what was set aside.

use std::path::Path;

use super::open::names;
use crate::sys::{Access, Storage};

/// So many files stay in the quarantine, with so many bytes in all: the oldest go first.
const MOST_FILES: usize = 256;
const MOST_BYTES: u64 = 1 << 30;
/// So many go at once: the next opening goes on.
const AT_ONCE: usize = 1024;

/// Removes the oldest files of the quarantine, of those that are too many or too much. What was set aside
/// last stays, however much it is: nobody may have seen it yet. They are only space: what cannot be
/// removed is told, and left for the next time.
pub(super) fn trim(storage: &dyn Storage, quarantine: &Path) {
    let epoch = |name: &str| name.split('-').nth(1).and_then(|it| it.parse::<u32>().ok());
    let names = names(storage, quarantine);
    let names =
        names.inspect_err(|error| tracing::warn!(%error, "the quarantine is not looked at"));
    let mut files: Vec<(u32, String)> = names
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| Some((epoch(&name)?, name)))
        .collect();
    files.sort_unstable();
    let Some(newest) = files.last().map(|(epoch, _)| *epoch) else {
        return;
    };
    let length = |name: &String| {
        let file = storage.open(&quarantine.join(name), Access::Read);
        file.and_then(|file| file.len()).unwrap_or(0)
    };
    let mut bytes: u64 = 0;
    let fits = |(_, name): &&(u32, String)| {
        bytes = bytes.saturating_add(length(name));
        bytes <= MOST_BYTES
    };
    let stay = files.iter().rev().take(MOST_FILES).take_while(fits).count();
    let old = files.partition_point(|(epoch, _)| *epoch < newest);
    let too_much = old.min(files.len() - stay);
    for (_, name) in files.iter().take(too_much.min(AT_ONCE)) {
        let path = quarantine.join(name);
        if let Err(error) = storage.remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot be removed yet");
        }
    }
}
