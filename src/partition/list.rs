//! The segments of a log: a list that readers take a look at without a lock, and whose files are
//! opened when somebody reads in them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use arc_swap::ArcSwap;

use super::site::Site;
use crate::error::{Error, Result};
use crate::format::Entry;
use crate::segment::{End, Header, Segment};
use crate::sys::{Access, View};

/// One segment in the list.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) number: u32,
    /// What its header says; read when first needed.
    header: OnceLock<Header>,
    /// The segment, while somebody holds it.
    open: Mutex<Weak<Segment>>,
}

impl Link {
    /// A segment of which only the name has been seen.
    pub(crate) fn named(number: u32) -> Arc<Link> {
        Arc::new(Link {
            number,
            header: OnceLock::new(),
            open: Mutex::new(Weak::new()),
        })
    }

    /// A segment of which the header has been read.
    pub(crate) fn known(header: Header) -> Arc<Link> {
        Arc::new(Link {
            number: header.identity.number,
            header: OnceLock::from(header),
            open: Mutex::new(Weak::new()),
        })
    }

    /// A segment that is held open by the caller.
    pub(crate) fn held(segment: &Arc<Segment>) -> Arc<Link> {
        Arc::new(Link {
            number: segment.number(),
            header: OnceLock::new(),
            open: Mutex::new(Arc::downgrade(segment)),
        })
    }

    fn open(&self) -> MutexGuard<'_, Weak<Segment>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The offset of the segment's first record.
    pub(crate) fn base(&self, site: &Site) -> Result<u64> {
        if let Some(segment) = self.open().upgrade() {
            return Ok(segment.base());
        }
        Ok(self.header(site)?.identity.base)
    }

    /// The greatest timestamp in the segment, where its seal says it.
    pub(crate) fn greatest(&self, site: &Site) -> Result<Option<i64>> {
        if self.open().upgrade().is_some() {
            return Ok(None);
        }
        let header = self.header(site)?;
        Ok(header.seal.and_then(|seal| seal.greatest))
    }

    fn header(&self, site: &Site) -> Result<&Header> {
        if let Some(header) = self.header.get() {
            return Ok(header);
        }
        let (_, header) = site.header(self.number)?;
        Ok(self.header.get_or_init(|| header))
    }

    /// The segment, opened if nobody holds it. `successor` tells where it ends if no seal does.
    pub(crate) fn segment(&self, site: &Site, successor: Option<&Link>) -> Result<Arc<Segment>> {
        let mut open = self.open();
        if let Some(segment) = open.upgrade() {
            return Ok(segment);
        }
        let path = site.segment(self.number);
        let fail = |op| move |error| Error::io(op, site.segment(self.number), error);
        let (file, header) = site.header(self.number)?;
        let end = end_of(site, &header, successor)?;
        let layout = header.identity.layout;
        let length = file.len().map_err(fail("inspect"))?;
        if length < layout.capacity || !(layout.records_at..=layout.capacity).contains(&end.place) {
            let reason = format!("{length} bytes long, its records end at {}", end.place);
            return Err(site.mismatch(&path, reason));
        }
        let map = Arc::new(
            file.map(Access::Read, layout.capacity)
                .map_err(fail("map"))?,
        );
        let view = |range| View::fixed(Arc::clone(&map), Arc::clone(&file), range);
        let records = view(layout.records_at..end.place).map_err(fail("map"))?;
        let index_at = u64::from(layout.index_at);
        let entries = sealed_entries(&header).min(layout.index_len());
        let mut index = view(index_at..index_at + entries).map_err(fail("map"))?;
        if !index_is_whole(&header, &index) {
            tracing::warn!(path = %path.display(), "its index is damaged and not used");
            index = view(index_at..index_at).map_err(fail("map"))?;
        }
        let identity = header.identity;
        let segment = Segment::new(Arc::clone(&file), identity, (records, index), Some(end));
        let segment = Arc::new(segment);
        *open = Arc::downgrade(&segment);
        Ok(segment)
    }
}

fn sealed_entries(header: &Header) -> u64 {
    let entries = header.seal.map_or(0, |seal| seal.index_entries);
    u64::from(entries) * Entry::SIZE as u64
}

/// Whether the entries that the seal counts are those in the file.
fn index_is_whole(header: &Header, index: &View) -> bool {
    let bytes = index.published();
    let expected = header.seal.map_or(0, |seal| seal.index_checksum);
    index.guard(0..bytes).is_ok() && crc32c::crc32c(index.bytes()) == expected
}

/// Where a segment ends that takes no more appends.
fn end_of(site: &Site, header: &Header, successor: Option<&Link>) -> Result<End> {
    let sealed = header.seal.is_some();
    let end = match successor {
        Some(successor) if !sealed => header.end(successor.header(site)?),
        _ => header.end(header).filter(|_| sealed),
    };
    end.ok_or_else(|| {
        let path = site.segment(header.identity.number);
        site.mismatch(&path, "nothing says where it ends")
    })
}

/// The list itself, ascending by number without a hole.
#[derive(Debug)]
pub(crate) struct Segments {
    links: ArcSwap<Vec<Arc<Link>>>,
    removing: Mutex<()>,
}

impl Segments {
    pub(crate) fn new(links: Vec<Arc<Link>>) -> Segments {
        Segments {
            links: ArcSwap::from_pointee(links),
            removing: Mutex::new(()),
        }
    }

    /// Held by the one who removes segments.
    pub(crate) fn removing(&self) -> MutexGuard<'_, ()> {
        self.removing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list as it is now.
    pub(crate) fn now(&self) -> Arc<Vec<Arc<Link>>> {
        self.links.load_full()
    }

    /// Adds the segment that has taken over.
    pub(crate) fn push(&self, link: &Arc<Link>) {
        self.links.rcu(|links| {
            let mut links = Vec::clone(links);
            links.push(Arc::clone(link));
            links
        });
    }

    /// Takes the segments below `number` out of the list; who stands in one keeps it.
    pub(crate) fn drop_below(&self, number: u32) {
        self.links.rcu(|links| {
            let kept = links.iter().filter(|link| link.number >= number);
            kept.cloned().collect::<Vec<_>>()
        });
    }
}
