//! A segment file with its pending redo laid over it: what it would hold, had it been synced.

use std::io;
use std::sync::Arc;

use crate::format::{Redo, SECTOR};
use crate::segment::{Page, read_page};
use crate::sys::{Access, File, Map};

/// So much is copied at a time.
const PIECE: usize = 1 << 20;

/// Reads see the stretches; writes and syncs go to the file.
#[derive(Debug)]
struct Overlay {
    file: Arc<dyn File>,
    patches: Vec<(u64, Vec<u8>)>,
}

/// Lays redo over a segment file: that of this life of the segment only. A header that is not in
/// the file is laid, too.
pub(super) fn lay<'a>(
    file: &Arc<dyn File>,
    page: Page,
    redo: impl Iterator<Item = &'a Redo> + Clone,
) -> io::Result<(Arc<dyn File>, Page)> {
    let header = redo
        .clone()
        .filter_map(|it| Some((it.of.nonce, it.identity.as_ref()?)));
    let (nonce, header) = match (&page, header.last()) {
        (Page::Assigned(header), _) => (header.identity.nonce, None),
        (_, Some((nonce, sector))) => (nonce, Some(&**sector)),
        (_, None) => return Ok((Arc::clone(file), page)),
    };
    let Some(file) = over(file, (nonce, header), redo) else {
        return Ok((Arc::clone(file), page));
    };
    let page = read_page(file.as_ref())?;
    Ok((file, page))
}

/// Lays the redo of one life of a segment over its file, and a header; `None` if there is none.
pub(super) fn over<'a>(
    file: &Arc<dyn File>,
    (nonce, header): (u64, Option<&[u8; SECTOR]>),
    redo: impl Iterator<Item = &'a Redo>,
) -> Option<Arc<dyn File>> {
    let frames = redo.filter(|it| it.of.nonce == nonce && !it.frames.is_empty());
    let frames = frames.map(|it| (it.of.place, it.frames.clone()));
    let header = header.map(|sector| (0, sector.to_vec()));
    let patches: Vec<_> = header.into_iter().chain(frames).collect();
    if patches.is_empty() {
        return None;
    }
    let file = Arc::clone(file);
    Some(Arc::new(Overlay { file, patches }))
}

impl File for Overlay {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        let read = self.file.read_at(buf, place)?;
        let end = place + read as u64;
        for (at, bytes) in &self.patches {
            let from = place.max(*at);
            let to = end.min(at.saturating_add(bytes.len() as u64));
            if from >= to {
                continue;
            }
            let span = |start: u64| {
                let index = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
                index(from)..index(to)
            };
            if let (Some(into), Some(of)) = (buf.get_mut(span(place)), bytes.get(span(*at))) {
                into.copy_from_slice(of);
            }
        }
        Ok(read)
    }

    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()> {
        self.file.write_at(buf, place)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.file.grow(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// A mapping of the file would lack what is laid over it: so this is a copy in memory.
    fn map(&self, access: Access, len: u64) -> io::Result<Map> {
        if access == Access::Write {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.len()? < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Map::filled(len, |memory| {
            let mut at = 0;
            for piece in memory.chunks_mut(PIECE) {
                at += self.read_at(piece, at)? as u64;
            }
            Ok(())
        })
    }
}
