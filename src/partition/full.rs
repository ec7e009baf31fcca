//! How much a log may hold.

use std::time::Instant;

use super::appender::Appender;
use super::log::Log;
use super::waiting::Patience;
use crate::error::{Error, Result};
use crate::segment::Room;
use crate::sync::Ordering;

impl Log {
    /// Whether there is room for a batch among the bytes that the log may hold: `false` if it is to
    /// wait for that.
    ///
    /// # Errors
    ///
    /// [`Error::TopicFull`] if it is not.
    pub(super) fn check_total(&self, appender: &Appender, room: Room) -> Result<bool> {
        let Some(full) = self.full(appender, room) else {
            return Ok(true);
        };
        let limits = self.limits.load();
        // Where nobody else is at work nothing would change, and what is too long for an empty log is
        // too long for ever.
        let waits = limits.full_wait.is_some() && !self.setting.flusher.is_inline();
        match waits && limits.total.is_some_and(|limit| room.bytes <= limit) {
            true => Ok(false),
            false => Err(full),
        }
    }

    /// What who appends a batch is told, if there is no room for it.
    fn full(&self, appender: &Appender, room: Room) -> Option<Error> {
        let limit = self.limits.load().total?;
        let used = self.used(appender) + room.bytes;
        (used > limit).then(|| Error::TopicFull {
            topic: self.site.topic(),
            used,
            limit,
        })
    }

    /// How many bytes the log holds, where it has a limit.
    pub(super) fn used(&self, appender: &Appender) -> u64 {
        let start = appender.identity().map(|it| it.layout.records_at);
        let here = start.map_or(0, |start| appender.mark.place - start);
        self.bytes_before.load(Ordering::Relaxed) + here
    }

    /// Waits for room, as long as the topic says and who waits wants to.
    pub(super) fn wait_room(&self, room: Room, patience: &mut Patience) -> Result<()> {
        let wait = self.limits.load().full_wait.unwrap_or_default();
        let deadline = patience.for_room(wait);
        loop {
            let (freed, seen) = self.freed.heard();
            self.gate.appends(&self.site)?;
            let full = self.full(&self.lock(), room);
            let Some(full) = full else {
                return Ok(());
            };
            if Instant::now() >= deadline || patience.is_given_up() {
                return Err(full);
            }
            let stop = || self.gate.is_over() || patience.is_given_up();
            freed.wait_past(seen, Some(deadline), stop);
        }
    }

    /// Has those who wait for room look whether they still want to.
    pub(crate) fn ask_patience(&self) {
        self.freed.make();
    }

    /// What a future is told that would have to wait for room, and has no clock for that.
    pub(super) fn check_room(&self, room: Room) -> Result<()> {
        self.full(&self.lock(), room).map_or(Ok(()), Err)
    }

    /// Counts the bytes of the segments before the one that is written to, which only a log with a
    /// limit needs to know.
    pub(super) fn count(&self, appender: &Appender) {
        if self.limits.load().total.is_none() {
            return;
        }
        let links = self.segments.now();
        let pairs = links.iter().zip(links.iter().skip(1));
        let mut bytes: u64 = pairs.map(|(link, next)| link.bytes(&self.site, next)).sum();
        if let (None, Some(last)) = (appender.identity(), links.last())
            && let Ok(start) = last.records_at(&self.site)
        {
            bytes += appender.mark.place.saturating_sub(start);
        }
        self.bytes_before.store(bytes, Ordering::Relaxed);
    }
}
