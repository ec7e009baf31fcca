//! The segments of a log: a list that readers take a look at without a lock, and whose files are
//! opened when somebody reads in them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::mark::Mark;
use super::site::Site;
use crate::error::{Error, Result};
use crate::format::{Entry, Identity};
use crate::segment::{End, Header, Segment};
use crate::sync::List;
use crate::sys::{Access, View};

/// One segment in the list.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) number: u32,
    /// What its header says; read when first needed.
    header: OnceLock<Header>,
    view: Mutex<Shown>,
    /// Bytes of its frames, and when it was last appended to: once its seal is there.
    sums: OnceLock<(u64, Option<i64>)>,
    /// What it counts for among the bytes that the log may hold: once it has ended.
    bytes: OnceLock<u64>,
    /// Since when the time of its last append is known to be still to come, and where it ended then.
    ahead: Mutex<Option<(u64, i64)>>,
}

/// How a segment is seen now.
#[derive(Debug, Default)]
struct Shown {
    /// The segment, while somebody holds it.
    open: Weak<Segment>,
    /// Which one it is and where it ends for now, if it is the last one of a parked log.
    parked: Option<(Identity, Mark)>,
}

impl Shown {
    fn held(segment: &Arc<Segment>) -> Shown {
        Shown {
            open: Arc::downgrade(segment),
            parked: None,
        }
    }
}

impl Link {
    /// A segment of which only the name has been seen.
    pub(crate) fn named(number: u32) -> Arc<Link> {
        Link::of(number, OnceLock::new(), Shown::default())
    }

    /// A segment of which the header has been read.
    pub(crate) fn known(header: Header) -> Arc<Link> {
        let number = header.identity.number;
        Link::of(number, OnceLock::from(header), Shown::default())
    }

    /// A segment that is held open by the caller.
    pub(crate) fn held(segment: &Arc<Segment>) -> Arc<Link> {
        Link::of(segment.number(), OnceLock::new(), Shown::held(segment))
    }

    /// A segment that is held open by the caller, and whose header need not be in its file.
    pub(crate) fn laid(header: Header, segment: &Arc<Segment>) -> Arc<Link> {
        Link::of(
            segment.number(),
            OnceLock::from(header),
            Shown::held(segment),
        )
    }

    fn of(number: u32, header: OnceLock<Header>, shown: Shown) -> Arc<Link> {
        Arc::new(Link {
            number,
            header,
            view: Mutex::new(shown),
            sums: OnceLock::new(),
            bytes: OnceLock::new(),
            ahead: Mutex::default(),
        })
    }

    fn view(&self) -> MutexGuard<'_, Shown> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The appender lets go of the segment, which ends at `mark` for now; false, and nothing has
    /// changed, while somebody is opening it.
    pub(crate) fn park(&self, segment: &Segment, mark: Mark) -> bool {
        let Ok(mut view) = self.view.try_lock() else {
            return false;
        };
        segment.retire();
        *view = Shown {
            open: Weak::new(),
            parked: Some((segment.identity, mark)),
        };
        true
    }

    /// The appender holds the segment again; who reads in another view of it moves over.
    pub(crate) fn resume(&self, segment: &Arc<Segment>) {
        let mut view = self.view();
        if let Some(reader) = view.open.upgrade() {
            reader.retire();
        }
        *view = Shown::held(segment);
    }

    /// The offset of the segment's first record.
    pub(crate) fn base(&self, site: &Site) -> Result<u64> {
        let parked = {
            let view = self.view();
            if let Some(segment) = view.open.upgrade() {
                return Ok(segment.base());
            }
            view.parked
        };
        if let Some((identity, _)) = parked {
            return Ok(identity.base);
        }
        Ok(self.header(site)?.identity.base)
    }

    /// The greatest timestamp in the segment, where its seal says it.
    pub(crate) fn greatest(&self, site: &Site) -> Result<Option<i64>> {
        let parked = {
            let view = self.view();
            if view.open.upgrade().is_some() {
                return Ok(None);
            }
            view.parked
        };
        if let Some((_, mark)) = parked {
            return Ok(mark.greatest);
        }
        let header = self.header(site)?;
        Ok(header.seal.and_then(|seal| seal.greatest))
    }

    /// Whether somebody holds it open.
    pub(crate) fn is_open(&self) -> bool {
        self.view().open.strong_count() > 0
    }

    /// Bytes of the frames in the segment, which this one follows, and when it was last appended to,
    /// where its seal says that.
    pub(crate) fn sums(&self, site: &Site, successor: &Link) -> Result<(u64, Option<i64>)> {
        if let Some(sums) = self.sums.get() {
            return Ok(*sums);
        }
        let known = self.header(site)?;
        let later;
        let header = match known.seal {
            Some(_) => known,
            // It may have been sealed since that was read.
            None => {
                later = site.header(self.number)?.1;
                &later
            }
        };
        let end = end_of(site, header, Some(successor))?;
        let bytes = end.place.saturating_sub(header.identity.layout.records_at);
        Ok(match &header.seal {
            Some(seal) => *self.sums.get_or_init(|| (bytes, seal.last_append)),
            None => (bytes, None),
        })
    }

    /// What the segment, which this one follows, counts for among the bytes that the log may hold, now
    /// and when it is removed: the bytes of its frames, or, where its header does not tell them, those
    /// of its file up to their end.
    pub(crate) fn bytes(&self, site: &Site, successor: &Link) -> u64 {
        let of_file = || -> Option<u64> {
            let named = successor.header(site).ok()?.identity.predecessor;
            named.map(|end| end.place)
        };
        let length = || -> Option<u64> {
            let file = site.storage.open(&site.segment(self.number), Access::Read);
            file.ok()?.len().ok()
        };
        *self.bytes.get_or_init(|| match self.sums(site, successor) {
            Ok((bytes, _)) => bytes,
            Err(_) => of_file().or_else(length).unwrap_or(0),
        })
    }

    /// It has ended with so many bytes of frames.
    pub(crate) fn ended(&self, bytes: u64) {
        self.bytes.get_or_init(|| bytes);
    }

    /// From when its age counts, if it was last appended to then, by the clock of that time, and has
    /// ended for now in front of the offset `next`: from then, or from when that was first found to be
    /// still to come, `now` by a clock that has been set right, or set back.
    pub(crate) fn counts_from(&self, last_append: i64, next: u64, now: i64) -> i64 {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let since = ahead.filter(|(end, since)| *end == next && *since <= now);
        *ahead = (last_append > now).then(|| since.unwrap_or((next, now)));
        ahead.map_or(last_append, |(_, since)| since)
    }

    /// Where the records of the segment begin.
    pub(crate) fn records_at(&self, site: &Site) -> Result<u64> {
        Ok(self.header(site)?.identity.layout.records_at)
    }

    fn header(&self, site: &Site) -> Result<&Header> {
        if let Some(header) = self.header.get() {
            return Ok(header);
        }
        let (_, header) = site.header(self.number)?;
        Ok(self.header.get_or_init(|| header))
    }

    /// The segment, opened if nobody holds it. `successor` tells where it ends if no seal does, and
    /// the log has not been parked.
    pub(crate) fn segment(&self, site: &Site, successor: Option<&Link>) -> Result<Arc<Segment>> {
        let mut view = self.view();
        if let Some(segment) = view.open.upgrade() {
            return Ok(segment);
        }
        let path = site.segment(self.number);
        let fail = |op| move |error| Error::io(op, site.segment(self.number), error);
        let (file, header) = site.header(self.number)?;
        let ended = match view.parked {
            Some((identity, mark)) if identity == header.identity => Ended::at(&mark),
            Some(_) => return Err(site.mismatch(&path, "it is not the segment that it was")),
            None => Ended::of(&header, end_of(site, &header, successor)?),
        };
        let end = ended.end;
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
        let part = |range| View::fixed(Arc::clone(&map), Arc::clone(&file), range);
        let records = part(layout.records_at..end.place).map_err(fail("map"))?;
        let index_at = u64::from(layout.index_at);
        let entries = ended.entries.min(layout.index_len());
        let mut index = part(index_at..index_at + entries).map_err(fail("map"))?;
        if !ended.index_is_whole(&index) {
            tracing::warn!(path = %path.display(), "its index is damaged and not used");
            index = part(index_at..index_at).map_err(fail("map"))?;
        }
        let identity = header.identity;
        let segment = Segment::new(Arc::clone(&file), identity, (records, index), Some(end));
        let segment = Arc::new(segment);
        view.open = Arc::downgrade(&segment);
        Ok(segment)
    }
}

/// A segment's end, and its index there.
struct Ended {
    end: End,
    /// Bytes of its index, and their checksum.
    entries: u64,
    checksum: u32,
}

impl Ended {
    fn at(mark: &Mark) -> Ended {
        Ended {
            end: mark.end(),
            entries: u64::from(mark.index_entries) * Entry::SIZE as u64,
            checksum: mark.index_checksum,
        }
    }

    /// Only a seal counts index entries.
    fn of(header: &Header, end: End) -> Ended {
        match &header.seal {
            Some(seal) => Ended {
                end,
                ..Ended::at(&Mark::of(seal))
            },
            None => Ended {
                end,
                entries: 0,
                checksum: 0,
            },
        }
    }

    /// Whether the entries that are counted are those in the file.
    fn index_is_whole(&self, index: &View) -> bool {
        index.guard(0..index.published()).is_ok() && crc32c::crc32c(index.bytes()) == self.checksum
    }
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
    links: List<Arc<Link>>,
    removing: Mutex<Removing>,
}

/// What the one who removes segments has to know.
#[derive(Debug, Default)]
pub(crate) struct Removing {
    /// The numbers of segments that are not in the list any more, and whose files are there still.
    pub(crate) stuck: Vec<u32>,
    /// How many need those files that are there.
    keepers: usize,
}

impl Removing {
    /// Whether files have to stay for now.
    pub(crate) fn is_kept(&self) -> bool {
        self.keepers > 0
    }
}

impl Segments {
    pub(crate) fn new(links: Vec<Arc<Link>>) -> Segments {
        Segments {
            links: List::new(links),
            removing: Mutex::default(),
        }
    }

    /// Held by the one who removes segments.
    pub(crate) fn removing(&self) -> MutexGuard<'_, Removing> {
        self.removing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing is removed.
    pub(crate) fn keep(&self) {
        self.removing().keepers += 1;
    }

    /// One fewer needs them.
    pub(crate) fn unkeep(&self) {
        self.removing().keepers -= 1;
    }

    /// The list as it is now.
    pub(crate) fn now(&self) -> Arc<Vec<Arc<Link>>> {
        self.links.now()
    }

    /// Adds the segment that has taken over.
    pub(crate) fn push(&self, link: &Arc<Link>) {
        self.links.push(link);
    }

    /// Takes the segments below `number` out of the list; who stands in one keeps it.
    pub(crate) fn drop_below(&self, number: u32) {
        self.links.retain(|link| link.number >= number);
    }
}
