//! The header page: the identity and, each in a sector of its own, two slots and the seal.

use std::io;

use super::reader::End;
use crate::format::{Choice, Flaw, Identity, SECTOR, Sector, Seed, Slot, choose};
use crate::sys::File;

/// What the first sectors of a segment file say.
#[derive(Debug)]
pub(crate) enum Page {
    /// The file is too short for a header: its creation was cut off.
    Short,
    /// Nobody has taken the segment over yet.
    Unassigned,
    /// The identity is all zero, and one of the sectors beside it, which are only written once the
    /// identity has been synced, is not.
    Headless,
    /// It belongs to a log.
    Assigned(Box<Header>),
    /// It is not a segment header, or a damaged one, or one of a later version.
    Bad(Flaw),
}

/// A header that was read whole.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    /// The newest slot that is whole, and the sector that the next one goes to.
    pub(crate) slots: Choice,
    /// Where the segment ends, if that has been written.
    pub(crate) seal: Option<Slot>,
    /// The four sectors as they were read.
    pub(crate) bytes: [u8; 4 * SECTOR],
}

impl Header {
    /// The greatest epoch in it.
    pub(crate) fn epoch(&self) -> u32 {
        let slots = [self.slots.slot, self.seal].into_iter().flatten();
        slots.fold(self.identity.epoch, |epoch, slot| epoch.max(slot.epoch))
    }

    /// What frames and slots of this life of the segment are checked with.
    pub(crate) fn seed(&self) -> Seed {
        self.identity.seed()
    }

    /// Where the segment ends: at its seal, else where its successor says.
    pub(crate) fn end(&self, successor: &Header) -> Option<End> {
        if let Some(seal) = &self.seal {
            return Some(End {
                place: seal.place,
                next: seal.next,
            });
        }
        let end = successor.identity.predecessor?;
        Some(End {
            place: end.place,
            next: end.next,
        })
    }
}

/// Reads and checks the header page. A file that ends before its records begin holds none, and
/// counts as damaged, however sound its header is.
pub(crate) fn read_page(file: &dyn File) -> io::Result<Page> {
    let mut bytes = [0; 4 * SECTOR];
    if file.read_at(&mut bytes, 0)? < bytes.len() {
        return Ok(Page::Short);
    }
    let page = parse(bytes).unwrap_or_else(Page::Bad);
    let Page::Assigned(header) = &page else {
        return Ok(page);
    };
    let (needed, have) = (header.identity.layout.records_at, file.len()?);
    if have >= needed {
        return Ok(page);
    }
    let bytes = |length: u64| usize::try_from(length).unwrap_or(usize::MAX);
    Ok(Page::Bad(Flaw::Short {
        needed: bytes(needed),
        have: bytes(have),
    }))
}

fn parse(bytes: [u8; 4 * SECTOR]) -> Result<Page, Flaw> {
    let Some(first) = bytes.first_chunk::<SECTOR>() else {
        return Ok(Page::Short);
    };
    let Some(identity) = Identity::decode(first)? else {
        let bare = bytes.iter().all(|byte| *byte == 0);
        return Ok(if bare {
            Page::Unassigned
        } else {
            Page::Headless
        });
    };
    let seed = identity.seed();
    let read = |at: Sector| match at.of(&bytes) {
        Some(sector) => Slot::decode(sector, seed),
        None => Ok(None),
    };
    let slots = choose(read(Sector::A)?, read(Sector::B)?);
    let seal = read(Sector::Seal)?.filter(|slot| slot.is_final);
    Ok(Page::Assigned(Box::new(Header {
        identity,
        slots,
        seal,
        bytes,
    })))
}
