//! What several tests need.

use std::path::Path;
use std::{fs, io};

/// Copies a folder as a killed process would leave it: what is in the cache is in the files. What the owner removes meanwhile may be missing.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let copied = match entry.file_type()?.is_dir() {
            true => copy(&path, &to),
            false => fs::copy(&path, &to).map(drop),
        };
        match copied {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}
