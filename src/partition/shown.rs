//! What readers in other processes are shown of a log.

use super::log::Log;
use crate::board::{Entry, Shown};
use crate::sync::{Ordering, fence};

impl Log {
    /// From now on the log's watermarks stand on the board, if the store has one.
    pub(super) fn enter_board(&mut self) {
        let Some(board) = &self.setting.board else {
            return;
        };
        let segments = self.segments.now();
        self.entry = board.entry(&Shown {
            log: self.site.log,
            first: self.first.load(Ordering::Acquire),
            first_segment: segments.first().map_or(0, |link| link.number),
            next: self.durable.get(),
            state: self.gate.lasting(),
        });
    }

    /// Everything below is written: said by who holds the partition's lock, so one at a time. Nobody is
    /// woken yet.
    pub(super) fn show_written(&self, next: u64) {
        if let Some(entry) = &self.entry {
            entry.put_written(next);
        }
        self.written.set(next);
    }

    /// Wakes who waits for what was shown to be written below an offset.
    pub(super) fn ring_written(&self, next: u64) {
        // Between showing and looking who waits; the other fences are theirs.
        fence(Ordering::SeqCst);
        // Those who are farthest away come first.
        self.entry.iter().for_each(Entry::ring_written);
        let bell = &self.setting.bells.written;
        self.written.ring(next, bell);
    }

    /// Everything below is durable. Whoever wrote it has noted it, and may not have come to showing it as
    /// written: who looks takes the greater one.
    pub(super) fn show_durable(&self, next: u64) {
        if let Some(entry) = &self.entry {
            entry.put_durable(next);
        }
        self.durable.advance(next);
        self.entry.iter().for_each(Entry::ring_durable);
        self.setting.bells.durable.wake();
    }

    /// Shows the states that others go by, behind everything that was shown before.
    pub(super) fn show_state(&self) {
        let state = self.gate.lasting();
        if state != 0
            && let Some(entry) = &self.entry
        {
            entry.put_state(state);
        }
    }

    /// Retention lets the log begin there.
    pub(super) fn show_first(&self, first: u64, segment: u32) {
        if let Some(entry) = &self.entry {
            entry.put_first(first, segment);
        }
    }
}
