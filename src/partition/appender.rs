//! What the partition's lock guards: the writing end.

use std::sync::Arc;

use super::mark::Mark;
use super::site::Site;
use super::spare::Spare;
use crate::error::{Error, Result};
use crate::format::{Identity, Predecessor};
use crate::index::{self, Pace};
use crate::segment::{Room, Segment, Unwritten, Writable, Writer};
use crate::sys::{Access, Backend, File, Pattern, region};

/// The active segment's two tails and the sums so far.
#[derive(Debug)]
pub(crate) struct Appender {
    /// Bytes of frames appended by this owner.
    pub(crate) bytes: u64,
    pub(crate) active: Option<Active>,
    /// Where the last segment ends, and the sums there.
    pub(crate) mark: Mark,
    /// The last segment.
    pub(crate) last: Option<Last>,
    /// When the first record of the last segment was appended, where that is known.
    pub(crate) began: Option<i64>,
    /// The segment that was active, and will be again, if the log has let go of its files.
    pub(crate) parked: Option<Identity>,
}

/// Which segment is the last one, active or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Last {
    pub(crate) number: u32,
    pub(crate) nonce: u64,
    pub(crate) capacity: u64,
}

/// The active segment.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    records: Writer,
    index: index::Writer,
    /// A header that says that the segment ends here may have been written.
    ended: bool,
}

/// How a segment that takes over is signed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signature {
    pub(crate) epoch: u32,
    pub(crate) nonce: u64,
    pub(crate) backend: Backend,
}

impl Active {
    /// Goes on writing behind `mark` in a segment whose header stands.
    pub(crate) fn resume(
        site: &Site,
        file: Arc<dyn File>,
        identity: Identity,
        backend: Backend,
        mark: Mark,
    ) -> Result<Active> {
        let number = identity.number;
        let fail = |error| site.io("map", number, error);
        let layout = identity.layout;
        let access = match backend {
            Backend::Mapped => Access::Write,
            Backend::Pwrite => Access::Read,
        };
        let map = Arc::new(file.map(access, layout.capacity).map_err(fail)?);
        map.advise(Pattern::Random).map_err(fail)?;
        let make = |range: std::ops::Range<u64>, published| {
            region(
                Arc::clone(&map),
                Arc::clone(&file),
                backend,
                range,
                published,
            )
        };
        let written = mark.place - layout.records_at;
        let records = make(layout.records_at..layout.capacity, written).map_err(fail)?;
        let index_at = u64::from(layout.index_at);
        let entries = u64::from(mark.index_entries) * crate::format::Entry::SIZE as u64;
        let index = make(index_at..layout.records_at, entries).map_err(fail)?;
        let seed = identity.seed();
        let writer = Writer::new(records.0, seed, layout.records_at, identity.base, mark.next);
        let pace = Pace::new(
            layout.interval,
            mark.greatest,
            mark.index_entries,
            mark.index_checksum,
        );
        let segment = Segment::new(file, identity, (records.1, index.1), None);
        Ok(Active {
            segment: Arc::new(segment),
            records: writer,
            index: index::Writer::new(index.0, pace),
            ended: false,
        })
    }

    /// Whether nothing may follow in this segment, since a write to it, or the header of the next
    /// one, has failed and may be there all the same.
    pub(crate) fn is_over(&self) -> bool {
        self.ended || self.records.is_broken()
    }

    pub(crate) fn fits(&self, room: Room) -> bool {
        !self.ended && self.records.fits(room)
    }

    pub(crate) fn place(&self) -> u64 {
        self.records.place()
    }

    /// The bytes that [`Appender::write`] would write for these records.
    pub(crate) fn frames(
        &self,
        records: &[Writable<'_>],
        durable: u64,
        epoch: u32,
    ) -> std::io::Result<Vec<u8>> {
        self.records.frames(records, durable, epoch)
    }
}

impl Appender {
    /// That of a log without a segment, or of one that another process writes.
    pub(crate) fn nothing(next: u64) -> Appender {
        Appender {
            bytes: 0,
            active: None,
            mark: Mark::empty(0, next),
            last: None,
            began: None,
            parked: None,
        }
    }

    /// Whether a batch fits into the active segment.
    pub(crate) fn fits(&self, room: Room) -> bool {
        self.active.as_ref().is_some_and(|active| active.fits(room))
    }

    /// The segment that is active or, in a parked log, was.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        let active = self.active.as_ref().map(|active| &active.segment.identity);
        active.or(self.parked.as_ref())
    }

    /// Lets a spare take over: one header sector names the base, the end of the predecessor, the
    /// epoch and a nonce. After an error the spare can be tried again, unless it is spoiled.
    pub(crate) fn roll(
        &mut self,
        site: &Site,
        spare: &mut Spare,
        signature: Signature,
    ) -> Result<Arc<Segment>> {
        let identity = Identity {
            store: site.store,
            log: site.log,
            topic: site.topic,
            partition: site.partition,
            number: spare.number,
            nonce: signature.nonce,
            epoch: signature.epoch,
            base: self.mark.next,
            predecessor: self.last.map(|_| Predecessor {
                place: self.mark.place,
                next: self.mark.next,
            }),
            gaps_allowed: false,
            covers_to: None,
            layout: spare.layout,
        };
        let path = site.segment(spare.number);
        let sector = identity.encode().map_err(|flaw| Error::Mismatch {
            path: path.clone(),
            reason: flaw.to_string(),
        })?;
        let file = Arc::clone(&spare.file);
        let mark = Mark::empty(spare.layout.records_at, self.mark.next);
        let active = Active::resume(site, Arc::clone(&file), identity, signature.backend, mark)?;
        if let Err(error) = file.write_at(&sector, 0) {
            // The header may be there all the same, or a part of it: nothing may go behind it, nor
            // behind the end it names.
            spare.spoiled = true;
            if let Some(active) = &mut self.active {
                active.ended = true;
            }
            return Err(Error::io("write", &path, error).needing(sector.len() as u64));
        }
        if let Some(before) = &self.active {
            before.segment.set_end(self.mark.end());
        }
        let segment = Arc::clone(&active.segment);
        self.active = Some(active);
        self.mark = mark;
        self.began = None;
        self.last = Some(Last {
            number: spare.number,
            nonce: signature.nonce,
            capacity: spare.layout.capacity,
        });
        Ok(segment)
    }

    /// Writes a batch that fits, and shows it to readers of the segment. [`Error::InDoubt`] if it may
    /// be there although the write failed; with any other error nothing of it counts. After either
    /// the segment has ended where it ended before.
    pub(crate) fn write(
        &mut self,
        site: &Site,
        records: &[Writable<'_>],
        (durable, epoch, now): (u64, u32, i64),
    ) -> Result<()> {
        let Some(active) = &mut self.active else {
            return Err(Error::Closed);
        };
        let number = active.segment.number();
        let (mut place, first) = (active.records.place(), active.records.next());
        let written = active.records.append(records, durable, epoch);
        let bytes = Room::of(records).bytes;
        written.map_err(|unwritten| match unwritten {
            Unwritten::Harmless(error) => site.io("write", number, error).needing(bytes),
            Unwritten::Doubtful(error) => Error::InDoubt {
                spans: vec![site.span(first..first + records.len() as u64)],
                cause: Arc::new(site.io("write", number, error).needing(bytes)),
            },
        })?;
        for (index, record) in records.iter().enumerate() {
            let delta = first + index as u64 - active.segment.base();
            let delta = u32::try_from(delta).unwrap_or(u32::MAX);
            let bytes = crate::format::padded(record.length);
            // The index only speeds looking up: without an entry, looking up walks further.
            if let Err(error) = active.index.note(place, delta, bytes, record.timestamp) {
                tracing::warn!(%error, log = site.log, number, "the index does not grow");
            }
            place += bytes as u64;
        }
        active.records.publish();
        active.index.publish();
        let pace = active.index.pace();
        if self.mark.records == 0 {
            self.began = Some(now);
        }
        self.mark = Mark {
            place,
            next: active.records.next(),
            records: self.mark.records + records.len() as u64,
            greatest: pace.greatest(),
            last_append: self.mark.last_append.max(Some(now)),
            index_entries: pace.entries(),
            index_checksum: pace.checksum(),
        };
        Ok(())
    }
}
