//! The owner's side: entries that come and go with its logs.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CHUNK, Head, IN_USE, Key, MAGIC, MOST_SLOTS, Row, SLOTS, Slot};
use crate::sync::bell;
use crate::sys::board::{Sheet, Words, named, wake};

/// What an entry shows of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) log: u64,
    /// The first offset that is still there, and the number of its segment.
    pub(crate) first: u64,
    pub(crate) first_segment: u32,
    /// Everything below is written, and durable.
    pub(crate) next: u64,
    pub(crate) state: u32,
}

/// The board of a store that this process owns.
#[derive(Debug)]
pub(crate) struct Board {
    path: PathBuf,
    user: u32,
    id: (u64, u64),
    pub(super) head: Head,
    rows: Mutex<Rows>,
    /// Another owner may have it now.
    closed: AtomicBool,
    /// Whose it is: not a forked child's.
    process: u32,
}

#[derive(Debug)]
struct Rows {
    chunks: Vec<Arc<Words>>,
    /// Slots that were used, and are not now.
    vacant: Vec<u32>,
    used: u32,
}

impl Board {
    /// Takes over the board that lies there, or makes one: in the first case whoever sleeps on it is
    /// woken, and finds no entry until this owner makes it.
    pub(crate) fn open(path: &Path, key: &Key, user: u32, group: bool) -> io::Result<Arc<Board>> {
        let (sheet, first, used) = match take_over(path, key, user) {
            Ok(taken) => taken,
            Err(error) => {
                tracing::debug!(%error, "no board to take over");
                create(path, key, group)?
            }
        };
        let head = Head::of(&first);
        let mut chunks = vec![first];
        let mut to = CHUNK;
        while (chunks.len() * SLOTS) < used as usize {
            chunks.push(Arc::new(sheet.map(to..to + CHUNK)?));
            to += CHUNK;
        }
        let board = Arc::new(Board {
            path: path.to_owned(),
            user,
            id: sheet.id()?,
            rows: Mutex::new(Rows {
                chunks,
                vacant: (1..used).rev().collect(),
                used,
            }),
            head,
            closed: AtomicBool::new(false),
            process: std::process::id(),
        });
        let rows = board.rows();
        (1..used).for_each(|index| vacate(&rows.row(index)));
        drop(rows);
        board
            .head
            .pid()
            .store(std::process::id(), Ordering::Relaxed);
        board.head.generation().fetch_add(1, Ordering::Relaxed);
        board.head.live().store(1, Ordering::Release);
        board.changed();
        Ok(board)
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn is_mine(&self) -> bool {
        self.process == std::process::id()
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        // Nothing that can panic runs under this mutex but on a board that is not as it was made.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An entry for a log; none where there is no room for it, and the log is followed by other means.
    pub(crate) fn entry(self: &Arc<Self>, shown: &Shown) -> Option<Entry> {
        let index = {
            let mut rows = self.rows();
            let index = rows.vacant.pop();
            index.or_else(|| rows.grown(self))
        }?;
        let row = self.rows().row(index);
        change(&row, || {
            row.log().store(shown.log, Ordering::Relaxed);
            row.first().store(shown.first, Ordering::Relaxed);
            let segment = shown.first_segment;
            row.first_segment().store(segment, Ordering::Relaxed);
            row.written().store(shown.next, Ordering::Relaxed);
            row.durable().store(shown.next, Ordering::Relaxed);
            row.state().store(IN_USE | shown.state, Ordering::Relaxed);
        });
        self.changed();
        Some(Entry {
            board: Arc::clone(self),
            index,
            row,
        })
    }

    /// Entries have come or gone.
    fn changed(&self) {
        self.head.changes().fetch_add(1, Ordering::Release);
        fence(Ordering::SeqCst);
        let bell = self.head.bell();
        bell::ring(bell, || wake(bell));
    }

    /// The store is closed: whoever sleeps looks for its next owner elsewhere, and the name goes.
    pub(crate) fn close(&self) {
        if !self.is_mine() || self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.head.live().store(0, Ordering::Release);
        let rows = self.rows();
        (1..rows.used).for_each(|index| ring_all(&rows.row(index)));
        drop(rows);
        self.changed();
        if named(&self.path) == Some(self.id)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "the board stays");
        }
    }
}

impl Rows {
    fn row(&self, index: u32) -> Row {
        let index = index as usize;
        let words = Arc::clone(&self.chunks[index / SLOTS]);
        let at = index % SLOTS;
        Row(Slot { words, at })
    }

    /// A slot that was never used.
    fn grown(&mut self, board: &Board) -> Option<u32> {
        let index = self.used;
        if index as usize == self.chunks.len() * SLOTS {
            let chunk = self.chunk(board);
            let chunk = chunk.inspect_err(|error| tracing::warn!(%error, "the board is full"));
            self.chunks.push(chunk.ok()?);
        }
        self.used += 1;
        board.head.used().store(self.used, Ordering::Release);
        Some(index)
    }

    fn chunk(&self, board: &Board) -> io::Result<Arc<Words>> {
        if self.used >= MOST_SLOTS {
            return Err(ErrorKind::OutOfMemory.into());
        }
        let sheet = Sheet::open(&board.path, board.user)?;
        if sheet.id()? != board.id {
            return Err(io::Error::new(
                ErrorKind::NotFound,
                "its name leads elsewhere",
            ));
        }
        let from = self.chunks.len() as u64 * CHUNK;
        if sheet.len()? < from + CHUNK {
            sheet.grow(from + CHUNK)?;
        }
        Ok(Arc::new(sheet.map(from..from + CHUNK)?))
    }
}

/// Changes whose entry a slot is.
fn change(row: &Row, assign: impl FnOnce()) {
    let version = row.version();
    let before = version.load(Ordering::Relaxed) | 1;
    version.store(before, Ordering::Relaxed);
    // Who sees what is assigned sees the odd version, too.
    fence(Ordering::Release);
    assign();
    version.store(before.wrapping_add(1), Ordering::Release);
}

fn vacate(row: &Row) {
    change(row, || row.state().store(0, Ordering::Relaxed));
    ring_all(row);
}

fn ring_all(row: &Row) {
    fence(Ordering::SeqCst);
    for word in [row.written_bell(), row.durable_bell()] {
        bell::ring(word, || wake(word));
    }
}

/// Removes a board of this store that lies elsewhere than its owner's: readers that sleep there shall
/// look for his.
pub(crate) fn discard(path: &Path, key: &Key, user: u32) {
    if take_over(path, key, user).is_ok()
        && let Err(error) = fs::remove_file(path)
    {
        tracing::debug!(path = %path.display(), %error, "an old board stays");
    }
}

fn take_over(path: &Path, key: &Key, user: u32) -> io::Result<(Sheet, Arc<Words>, u32)> {
    let sheet = Sheet::open(path, user)?;
    let first = Arc::new(sheet.map(0..CHUNK)?);
    let head = Head::of(&first);
    let used = head.used().load(Ordering::Acquire);
    let chunks = sheet.len()? / CHUNK;
    let fits = (1..=MOST_SLOTS).contains(&used) && u64::from(used) <= chunks * SLOTS as u64;
    if !sheet.is_writable() || !fits || !head.is_of(key) {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            "not a board of this store",
        ));
    }
    Ok((sheet, first, used))
}

fn create(path: &Path, key: &Key, group: bool) -> io::Result<(Sheet, Arc<Words>, u32)> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let sheet = Sheet::create(path, group)?;
    let made = sheet.grow(CHUNK).and_then(|()| sheet.map(0..CHUNK));
    let first = Arc::new(made.inspect_err(|_| drop(fs::remove_file(path)))?);
    let head = Head::of(&first);
    for (word, half) in head.key().into_iter().zip(key.words()) {
        word.store(half, Ordering::Relaxed);
    }
    head.used().store(1, Ordering::Relaxed);
    head.magic().store(MAGIC, Ordering::Release);
    Ok((sheet, first, 1))
}

/// The entry of a log on the board, for as long as the owner has the log open.
#[derive(Debug)]
pub(crate) struct Entry {
    board: Arc<Board>,
    index: u32,
    row: Row,
}

impl Entry {
    /// Shows how much is written: one thread at a time, and never less. The caller passes a
    /// sequentially consistent fence before it [rings](Entry::ring_written).
    pub(crate) fn put_written(&self, next: u64) {
        self.row.written().store(next, Ordering::Release);
    }

    /// As [`Entry::put_written`], of what is durable.
    pub(crate) fn put_durable(&self, next: u64) {
        self.row.durable().fetch_max(next, Ordering::Release);
    }

    /// Wakes who sleeps for written records.
    pub(crate) fn ring_written(&self) {
        let word = self.row.written_bell();
        bell::ring(word, || wake(word));
    }

    /// Wakes who sleeps for durable records.
    pub(crate) fn ring_durable(&self) {
        let word = self.row.durable_bell();
        bell::ring(word, || wake(word));
    }

    /// Shows the first offset that is still there, and its segment.
    pub(crate) fn put_first(&self, first: u64, segment: u32) {
        let number = self.row.first_segment();
        number.fetch_max(segment, Ordering::Release);
        self.row.first().fetch_max(first, Ordering::Release);
    }

    /// Shows the log's state, behind everything that was shown before, and wakes everybody.
    pub(crate) fn put_state(&self, state: u32) {
        self.row.state().fetch_or(state, Ordering::Release);
        ring_all(&self.row);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.board.is_mine() || self.board.closed.load(Ordering::Acquire) {
            return;
        }
        vacate(&self.row);
        self.board.rows().vacant.push(self.index);
        self.board.changed();
    }
}
