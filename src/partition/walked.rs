//! A segment that recovery walks: what it found sound there, and what to write back.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::mark::Mark;
use crate::error::Flaw;
use crate::format::{Entry, most_frames};
use crate::index::Pace;
use crate::segment::{Budget, Header, Sums, Walk, could_be};
use crate::sys::File;

/// A place between two frames, with the offset that belongs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) place: u64,
    pub(crate) next: u64,
}

/// A frame that was checked, with the very bytes that were.
#[derive(Debug)]
pub(crate) struct Sound {
    place: u64,
    bytes: Vec<u8>,
    delta: u32,
    timestamp: i64,
    pub(crate) epoch: u32,
}

/// Frames that belong together, as far as they are sound.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) frames: Vec<Sound>,
    /// Behind the last of them.
    pub(crate) end: At,
    /// Why the batch is not whole.
    pub(crate) flaw: Option<Flaw>,
}

/// What lies beyond a place where the walk ends.
#[derive(Debug, Default)]
pub(crate) struct Beyond {
    /// The greatest durable mark that a sound frame there carries.
    pub(crate) promise: Option<u64>,
    /// The greatest epoch of a sound frame there; 0 without one.
    pub(crate) epoch: u32,
    /// Whether there is a sound frame.
    pub(crate) sound: bool,
    /// The first one of a later version, which is sound, too, and why it cannot be read.
    pub(crate) newer: Option<(At, Flaw)>,
    /// The blocks there that are not zero.
    pub(crate) dirty: Vec<Range<u64>>,
    /// How many bytes were looked at.
    pub(crate) passed: u64,
}

/// A segment on the walk.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) file: Arc<dyn File>,
    pub(crate) header: Header,
    /// Where the walk began in it.
    pub(crate) from: Mark,
    /// Where it stands.
    pub(crate) at: At,
    walk: Walk,
    pace: Pace,
    records: u64,
    /// The frames that were found sound, in stretches.
    pub(crate) adopted: Vec<(u64, Vec<u8>)>,
    /// The index entries for them, behind those that `from` counts.
    pub(crate) entries: Vec<Entry>,
}

impl Walked {
    /// Begins at a mark. `seen` is the file with what the journal holds for it.
    pub(crate) fn new(
        file: Arc<dyn File>,
        seen: Arc<dyn File>,
        header: Header,
        from: Mark,
    ) -> Walked {
        let layout = header.identity.layout;
        Walked {
            walk: Walk::new(seen, header.seed(), layout.capacity),
            pace: Pace::new(
                layout.interval,
                from.greatest,
                from.index_entries,
                from.index_checksum,
            ),
            records: from.records,
            at: At {
                place: from.place,
                next: from.next,
            },
            file,
            header,
            from,
            adopted: Vec::new(),
            entries: Vec::new(),
        }
    }

    fn base(&self) -> u64 {
        self.header.identity.base
    }

    /// Where the segment's seal says that it ends.
    pub(crate) fn seal(&self) -> Option<At> {
        self.header.seal.map(|seal| At {
            place: seal.place,
            next: seal.next,
        })
    }

    /// The batch that begins where the walk stands.
    pub(crate) fn batch(&mut self, epoch: u32) -> io::Result<Batch> {
        let (base, mut end, mut epoch) = (self.base(), self.at, epoch);
        let mut frames: Vec<Sound> = Vec::new();
        loop {
            let frame = match self.walk.frame(end.place)? {
                Ok(frame) => frame,
                Err(flaw) => {
                    return Ok(Batch {
                        frames,
                        end,
                        flaw: Some(flaw),
                    });
                }
            };
            let follows = base + u64::from(frame.delta()) == end.next;
            let of_age = match frames.is_empty() {
                true => frame.epoch() >= epoch,
                false => frame.epoch() == epoch,
            };
            if !follows || !of_age {
                let flaw = Some(Flaw::Stale);
                return Ok(Batch { frames, end, flaw });
            }
            epoch = frame.epoch();
            let more = frame.more();
            let (place, length) = (end.place, frame.padded_len() as u64);
            end.place += length;
            end.next += 1;
            let sound = Sound {
                place,
                delta: frame.delta(),
                timestamp: frame.timestamp(),
                epoch,
                bytes: self.walk.bytes(place, length)?.to_vec(),
            };
            frames.push(sound);
            if !more {
                return Ok(Batch {
                    frames,
                    end,
                    flaw: None,
                });
            }
        }
    }

    /// Adopts a frame; the walk stands behind it.
    pub(crate) fn take(&mut self, frame: Sound) {
        let entry = self
            .pace
            .note(frame.place, frame.delta, frame.bytes.len(), frame.timestamp);
        if let Some(entry) = entry
            && self.has_room_for_entry()
        {
            self.pace.count(entry);
            self.entries.push(entry);
        }
        self.records += 1;
        self.at = At {
            place: frame.place + frame.bytes.len() as u64,
            next: self.at.next + 1,
        };
        match self.adopted.last_mut() {
            Some((at, bytes)) if *at + bytes.len() as u64 == frame.place => {
                bytes.extend_from_slice(&frame.bytes);
            }
            _ => self.adopted.push((frame.place, frame.bytes)),
        }
    }

    fn has_room_for_entry(&self) -> bool {
        let room = self.header.identity.layout.index_len();
        (u64::from(self.pace.entries()) + 1) * Entry::SIZE as u64 <= room
    }

    /// Passes over damage.
    pub(crate) fn jump(&mut self, to: At) {
        self.at = to;
    }

    /// What lies from where the walk stands up to `reach` bytes further: which of it is not zero,
    /// and what the sound frames prove: about what was durable, those behind `bad` whose epoch
    /// does not fall; about the epochs there were, all of them.
    pub(crate) fn beyond(&mut self, bad: At, epoch: u32, reach: u64) -> io::Result<Beyond> {
        let (base, from) = (self.base(), self.at.place);
        let start = self.header.identity.layout.records_at;
        let to = from
            .saturating_add(reach)
            .min(self.header.identity.layout.capacity);
        let (mut promise, mut greatest, mut sound) = (None, 0, false);
        let (mut newer, mut sums) = (None, Sums::new(from));
        // Most bytes that are no head look like one of a later version.
        let [mut budget, mut budget_newer] = [(); 2].map(|()| Budget::of(to.saturating_sub(from)));
        let dirty = self.walk.search(from, to, |walk, place, peek| {
            let offset = base + u64::from(peek.delta);
            let proves = offset.saturating_sub(u64::from(peek.lag));
            let plausible = place > bad.place && offset > bad.next && peek.epoch >= epoch;
            let tells = plausible
                && u64::from(peek.lag) <= most_frames(reach)
                && Some(proves) > promise
                && proves > bad.next.min(offset);
            let looks = could_be(peek, place - start, reach)
                && match peek.newer {
                    true => newer.is_none() && budget_newer.affords(peek),
                    false if tells => walk.agrees(&mut sums, place, peek)?,
                    false => (peek.epoch > greatest || !sound) && budget.affords(peek),
                };
            if !looks {
                return Ok(ControlFlow::Continue(()));
            }
            match walk.frame(place)? {
                Ok(_) => {
                    sound = true;
                    greatest = greatest.max(peek.epoch);
                    promise = if tells { Some(proves) } else { promise };
                }
                Err(flaw) if flaw.is_unsupported() => {
                    newer = Some((
                        At {
                            place,
                            next: offset,
                        },
                        flaw,
                    ));
                }
                Err(_) => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Beyond {
            promise,
            epoch: greatest,
            sound,
            newer,
            dirty,
            passed: to - from,
        })
    }

    /// The first sound frame behind the bad one at the walk's place, with an offset up to
    /// `promise`.
    pub(crate) fn resume(&mut self, epoch: u32, promise: u64) -> io::Result<Option<At>> {
        let (base, at) = (self.base(), self.at);
        let capacity = self.header.identity.layout.capacity;
        let bad = (at.place, at.next);
        let found = self.walk.resume(bad, capacity, base, |offset, peek| {
            offset <= promise && peek.epoch >= epoch
        })?;
        Ok(found.map(|(place, next)| At { place, next }))
    }

    /// What the segment adds up to where the walk stands.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            place: self.at.place,
            next: self.at.next,
            records: self.records,
            greatest: self.pace.greatest(),
            last_append: self.from.last_append,
            index_entries: self.pace.entries(),
            index_checksum: self.pace.checksum(),
        }
    }

    /// Whether the entries that the mark counts are those in the file.
    pub(crate) fn index_is_whole(&self) -> io::Result<bool> {
        let mut bytes = vec![0; self.from.index_entries as usize * Entry::SIZE];
        let place = u64::from(self.header.identity.layout.index_at);
        let read = self.file.read_at(&mut bytes, place)?;
        Ok(read == bytes.len() && crc32c::crc32c(&bytes) == self.from.index_checksum)
    }

    /// Gives up the entries that the mark counts; lookups below those kept walk further.
    pub(crate) fn restart_index(&mut self) {
        self.from.index_entries = 0;
        self.from.index_checksum = 0;
        let interval = self.header.identity.layout.interval;
        let mut pace = Pace::new(interval, self.pace.greatest(), 0, 0);
        for entry in &self.entries {
            pace.count(*entry);
        }
        self.pace = pace;
    }
}
