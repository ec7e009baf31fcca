//! A reader's side: what stands on a board, doubted.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use super::{CHUNK, Head, IN_USE, Key, MOST_SLOTS, Row, SLOTS, Slot};
use crate::options::Visibility;
use crate::sys::board::{Sheet, Words};

static SERIAL: AtomicU32 = AtomicU32::new(1);

/// What an entry says of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) first: u64,
    pub(crate) first_segment: u32,
    pub(crate) written: u64,
    pub(crate) durable: u64,
    pub(crate) state: u32,
}

/// A board that this process has mapped.
#[derive(Debug)]
pub(crate) struct Watch {
    sheet: Sheet,
    head: Head,
    chunks: Mutex<Vec<Arc<Words>>>,
    pub(super) id: (u64, u64),
    pub(super) path: PathBuf,
    /// Tells it from others that this process has mapped.
    serial: u32,
}

/// The entry of one log.
#[derive(Debug)]
pub(crate) struct Seen {
    row: Row,
    log: u64,
    version: u32,
    head: Head,
    generation: u32,
    serial: u32,
}

impl Watch {
    /// Opens the board at a path, if it is one of this store and this boot.
    pub(crate) fn open(path: &Path, key: &Key, user: u32) -> io::Result<Watch> {
        let sheet = Sheet::open(path, user)?;
        let first = Arc::new(sheet.map(0..CHUNK)?);
        let head = Head::of(&first);
        if !head.is_of(key) {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "not a board of this store",
            ));
        }
        Ok(Watch {
            id: sheet.id()?,
            path: path.to_owned(),
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            head,
            chunks: Mutex::new(vec![first]),
            sheet,
        })
    }

    /// Whether an owner has the store open, as far as the board says.
    pub(crate) fn is_live(&self) -> bool {
        self.head.live().load(Ordering::Acquire) == 1
    }

    /// Whether a sleeper can announce itself.
    pub(crate) fn is_writable(&self) -> bool {
        self.sheet.is_writable()
    }

    /// The word that rings when entries or the owner change.
    pub(crate) fn bell(&self) -> &AtomicU32 {
        self.head.bell()
    }

    /// How often entries and the owner had changed, and which board that is of: another one than last
    /// time says that it is worth while to look again.
    pub(crate) fn changes(&self) -> u64 {
        let changes = self.head.changes().load(Ordering::Acquire);
        u64::from(self.serial) << 32 | u64::from(changes)
    }

    /// The process that has the store open, as far as the board says.
    pub(crate) fn pid(&self) -> u32 {
        self.head.pid().load(Ordering::Relaxed)
    }

    /// Tells this board from others that this process has mapped; never 0.
    pub(super) fn serial(&self) -> u32 {
        self.serial
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The entry of a log.
    pub(crate) fn find(&self, log: u64) -> Option<Seen> {
        let generation = self.head.generation().load(Ordering::Acquire);
        let used = self.head.used().load(Ordering::Acquire).min(MOST_SLOTS);
        let rows = (1..used).map_while(|index| self.row(index));
        let seen = rows.map(|row| Seen {
            version: row.version().load(Ordering::Acquire),
            row,
            log,
            head: self.head.clone(),
            generation,
            serial: self.serial,
        });
        let mut found = seen.filter(|seen| seen.row.log().load(Ordering::Relaxed) == log);
        found.find(|seen| seen.read().is_some())
    }

    fn row(&self, index: u32) -> Option<Row> {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let index = index as usize;
        while chunks.len() <= index / SLOTS {
            let from = chunks.len() as u64 * CHUNK;
            chunks.push(Arc::new(self.sheet.map(from..from + CHUNK).ok()?));
        }
        let words = Arc::clone(&chunks[index / SLOTS]);
        let at = index % SLOTS;
        Some(Row(Slot { words, at }))
    }
}

impl Seen {
    /// Whether it stands on the board with this [serial](Watch::serial).
    pub(super) fn is_on(&self, serial: u32) -> bool {
        self.serial == serial
    }

    /// What it says now; nothing once it is not the entry of this log and this owner any more.
    pub(crate) fn read(&self) -> Option<Marks> {
        let row = &self.row;
        // The state first: it is shown behind everything that it stands for.
        let state = row.state().load(Ordering::Acquire);
        // Nothing is durable and not written.
        let durable = row.durable().load(Ordering::Acquire);
        let written = row.written().load(Ordering::Acquire).max(durable);
        let first = row.first().load(Ordering::Acquire);
        let first_segment = row.first_segment().load(Ordering::Acquire);
        let log = row.log().load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let version = row.version().load(Ordering::Relaxed);
        let current = version == self.version && version.is_multiple_of(2);
        let owner = self.head.generation().load(Ordering::Relaxed) == self.generation;
        let live = self.head.live().load(Ordering::Relaxed) == 1;
        let mine = current && owner && live && log == self.log && state & IN_USE != 0;
        mine.then_some(Marks {
            first,
            first_segment,
            written,
            durable,
            state: state & !IN_USE,
        })
    }

    /// The word that rings when there is more for who reads these records.
    pub(crate) fn bell(&self, visibility: Visibility) -> &AtomicU32 {
        match visibility {
            Visibility::Written => self.row.written_bell(),
            Visibility::Durable => self.row.durable_bell(),
        }
    }
}
