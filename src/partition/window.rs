//! The pages before the tail, made ready while records stream in, so that appends meet no fault.
//!
//! A store to a page that was never touched costs a fault, which costs more than all the rest of an
//! append. The preparer walks ahead and takes the faults. It does that only where much is appended
//! between two syncs: a page made ready is dirty, so the next sync writes it, and it has to be made
//! ready again after that. It keeps no further ahead than what was appended since the last sync, so
//! that no sync writes more than twice what it must.

use std::sync::Arc;

use super::appender::Appender;
use super::ledger::Entry;
use super::log::Log;
use crate::segment::Segment;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::sys::Backend;

/// So many bytes between two syncs are a stream.
const STREAM: u64 = 256 << 10;
/// The farthest it keeps ahead.
const AHEAD: u64 = 1 << 20;
/// When so little is ready, more is asked for.
const LOW: u64 = 512 << 10;
/// So much is made ready at a time, and told.
const STEP: u64 = 512 << 10;

/// What is asked of the preparer, and what it goes by.
#[derive(Debug, Default)]
pub(super) struct Window {
    asked: AtomicBool,
    /// It could not be done, and is not asked for again.
    in_vain: AtomicBool,
    /// Bytes that the last round by itself made durable.
    pace: AtomicU64,
}

impl Log {
    /// Whether the preparer should walk on; true once for each time it should.
    pub(super) fn wants_window(&self, appender: &Appender) -> bool {
        let Some(active) = &appender.active else {
            return false;
        };
        let stream = self.stream(appender.bytes);
        if stream < STREAM || self.setting.backend != Backend::Mapped {
            return false;
        }
        let (place, segment) = (active.place(), &active.segment);
        let ready = segment.ready();
        let low = ready < segment.identity.layout.capacity && ready < place + LOW.min(stream);
        low && !self.window.in_vain.load(Ordering::Acquire)
            && !self.window.asked.swap(true, Ordering::AcqRel)
    }

    /// A round by itself has synced the active segment, which makes so many bytes durable: what was
    /// ready there has to be made ready anew.
    pub(super) fn renew_window(&self, entry: &Entry, bytes: u64) {
        self.window.pace.store(bytes, Ordering::Release);
        if let Some(open) = entry.open.last() {
            open.segment.set_ready(0);
        }
    }

    /// Bytes appended between two syncs: the last two, or since the last.
    fn stream(&self, appended: u64) -> u64 {
        let durable = self.durable_bytes.load(Ordering::Acquire);
        let pace = self.window.pace.load(Ordering::Acquire);
        appended.saturating_sub(durable).max(pace)
    }

    /// The preparer's walk.
    pub(super) fn prepare_window(&self) {
        if !self.window.asked.swap(false, Ordering::AcqRel) {
            return;
        }
        let entry = self.ledger.read();
        let Some(open) = entry.open.last() else {
            return;
        };
        let segment: &Arc<Segment> = &open.segment;
        let capacity = segment.identity.layout.capacity;
        let ahead = self.stream(entry.bytes).min(AHEAD);
        let mut from = segment.ready().max(segment.published());
        let to = (segment.published() + ahead).min(capacity);
        while from < to {
            let step = (from + STEP).min(to);
            if let Err(error) = segment.populate(from..step) {
                tracing::debug!(log = self.site.log, %error, "pages are not made ready");
                // Perhaps the kernel cannot do it at all.
                self.window.in_vain.store(true, Ordering::Release);
                return;
            }
            segment.set_ready(step);
            from = step.max(segment.published());
        }
    }
}
