//! The waits of a log as futures: the crews do what a caller who blocks does himself.
//!
//! Whoever drops a future leaves the list he stood in, and nothing else has to be undone: what was
//! written stays written, and becomes durable like everything else.

use std::ops::Range;
use std::sync::Arc;

use super::held::Lacks;
use super::log::Log;
use super::waiting::Patience;
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::segment::{Room, Writable};

impl Log {
    /// As [`Log::write_keeping`], but where that would wait for room it is [`Error::TopicFull`]. What may still block is what the disk takes to open the file of a log
    /// that was parked.
    pub(crate) async fn write_async(
        self: &Arc<Self>,
        records: &[Writable<'_>],
        now: i64,
    ) -> Result<Range<u64>> {
        let room = Room::of(records);
        let mut wanted = None;
        loop {
            match self.attempt(records, room, now, &mut wanted, &mut Patience::default())? {
                Ok(offsets) => return Ok(offsets),
                Err(lacks) => self.wait_for_async(lacks, room).await?,
            }
        }
    }

    async fn wait_for_async(self: &Arc<Self>, lacks: Lacks, room: Room) -> Result<()> {
        let over = || self.gate.is_over();
        match lacks {
            _ if self.setting.flusher.is_inline() => {
                self.wait_for(lacks, room, &mut Patience::default())
            }
            Lacks::Settling => {
                let seen = self.settled_bytes.get();
                self.hurry();
                self.ask(self.ledger.next());
                self.setting.flusher.request(self.as_dirty());
                let enough = || over() || self.has_room(room);
                self.settled_bytes.past(seen, enough).await;
                Ok(())
            }
            Lacks::Segment if self.is_parked() => {
                self.wait_for(lacks, room, &mut Patience::default())
            }
            Lacks::Room => self.check_room(room),
            Lacks::Segment => {
                let seen = self.want_spare(room)?;
                self.setting.preparer.request(self.as_dirty());
                self.shelf.attempted(seen, over).await
            }
        }
    }

    /// As [`Log::wait_durable`].
    pub(crate) async fn until_durable(self: &Arc<Self>, offsets: Range<u64>) -> Result<()> {
        if self.durability() == Durability::Manual {
            self.ask(offsets.end);
        }
        let Some(last) = offsets.end.checked_sub(1) else {
            return Ok(());
        };
        if self.setting.flusher.is_inline() {
            return self.wait_durable(offsets);
        }
        self.gate.check_owner()?;
        if !self.is_durable(offsets.end) {
            self.setting.flusher.request(self.as_dirty());
            self.durable.past(last, || self.gate.is_lost()).await;
        }
        match self.answer(offsets)? {
            true => Ok(()),
            false => Err(Error::Closed),
        }
    }

    /// As [`Log::wait_acknowledged`].
    pub(crate) async fn acknowledged(self: &Arc<Self>, offsets: Range<u64>) -> Result<()> {
        self.check_covered(&offsets)?;
        self.until_durable(offsets).await
    }

    /// As [`Log::flush_to`].
    pub(crate) async fn flushed_to(self: &Arc<Self>, end: u64) -> Result<()> {
        let end = end.min(self.ledger.next());
        if self.is_durable(end) {
            return Ok(());
        }
        self.ask(end);
        self.until_durable(self.durable.get().min(end)..end).await
    }
}
