//! A journalled round: the frames of several logs go into the journal, which alone is synced.

use std::sync::Arc;

use super::{DirtyLog, Next, RedoSink};

/// A page is closed when it has grown to this; what one log offers is never parted.
const PAGE_BYTES: usize = 1 << 20;
/// More than so many pages are not written at once: who comes later goes alone.
const PAGES: usize = 8;

/// Runs a round of the journal with these logs; what the journal, and each of them, is to do next.
///
/// The redo is written behind the events that are there already, and before the sync that makes
/// both durable.
pub(super) fn together(journal: &dyn RedoSink, logs: &[Arc<dyn DirtyLog>]) -> (Next, Vec<Next>) {
    let mut pages: Vec<Vec<u8>> = Vec::new();
    let mut page = journal.page();
    let blank = page.len();
    let mut riders = Vec::with_capacity(logs.len());
    for log in logs {
        if pages.len() < PAGES && log.offer(&mut page) {
            riders.push(log.id());
        }
        if page.len() >= PAGE_BYTES {
            pages.push(std::mem::replace(&mut page, journal.page()));
        }
    }
    if page.len() > blank {
        pages.push(page);
    }
    if !journal.write(&pages, &riders) {
        riders.clear();
    }
    let next = {
        let _span = tracing::debug_span!("flush", logs = riders.len()).entered();
        journal.log().round()
    };
    let failure = journal.failure();
    let mut riders = riders.into_iter().peekable();
    let each = logs.iter().map(|log| {
        let rode = riders.next_if_eq(&log.id()).is_some();
        match &failure {
            _ if !rode => Next::Alone,
            None => log.kept(),
            Some(cause) => log.lost(cause),
        }
    });
    let each = each.collect();
    journal.tidy();
    (next, each)
}

#[cfg(all(test, not(loom)))]
#[path = "together_tests.rs"]
mod tests;
