//! Appending to several logs, and stating facts, as one: after whatever crash all of it, or nothing.
//!
//! The logs are claimed and locked in the order of their ids, so their next offsets are fixed; one
//! record of the journal then holds the new frames, what the logs hold below them that is not
//! durable yet, and the facts. One sync of the journal makes it durable, and only then are the
//! frames copied to their segments and shown. Giving up before that is forgetting: nothing has been
//! written. Nothing is held while a log is waited for, so transactions never wait in a circle.

use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::inner::Inner;
use crate::error::{Error, Result};
use crate::flush::{Claims, DirtyLog};
use crate::journal::{Event, failed};
use crate::partition::{Copied, Held, Lacks, Log, Patience};
use crate::segment::{Room, Writable};

/// What goes to one log.
pub(super) struct Part<'a> {
    pub(super) log: Arc<Log>,
    pub(super) records: Vec<Writable<'a>>,
    /// Nothing may follow it in this log.
    pub(super) last: bool,
}

/// What a part lacks.
struct Lacking<'a> {
    log: &'a Arc<Log>,
    lacks: Lacks,
    room: Room,
}

/// Commits parts, of which no two are for the same log, in the order of the ids of their logs, and
/// facts: the offsets that the records of each part have got.
///
/// # Errors
///
/// [`Error::InDoubt`] if the journal failed while it was to make all that durable; if there are no
/// records, [`Error::StoreFailed`], as for any fact. With another error nothing was written.
pub(super) fn commit(
    store: &Inner,
    parts: &[Part<'_>],
    events: &[Event],
    mut now: i64,
    mut patience: Patience,
) -> Result<Vec<Range<u64>>> {
    let begun = Instant::now();
    let mut wanted = Vec::new();
    // Who ends a topic holds the catalog, without which nobody can make room: that is not waited for.
    if parts.iter().any(|part| part.last) {
        patience = Patience::not_for_room();
    }
    loop {
        let logs = parts
            .iter()
            .map(|part| Arc::clone(&part.log) as Arc<dyn DirtyLog>);
        // Who looks at the whole store sees all of it or nothing.
        let whole = store.whole.read().unwrap_or_else(PoisonError::into_inner);
        let mut claims = store.setting.flusher.claim(logs.collect());
        parts.iter().for_each(|part| part.log.lighten());
        let lacking = match hold(parts, now)? {
            Ok(held) => {
                let offsets = write(store, &mut claims, held, events)?;
                let took = begun.elapsed();
                let appended = parts.iter().filter(|part| !part.records.is_empty());
                appended.for_each(|part| part.log.append_times().add(took));
                return Ok(offsets);
            }
            Err(lacking) => lacking,
        };
        drop(claims);
        drop(whole);
        wanted.push(lacking.log.want_files());
        let (lacks, room) = (lacking.lacks, lacking.room);
        now = lacking.log.wait_from(now, lacks, room, &mut patience)?;
    }
}

/// Holds all logs, or none.
fn hold<'a>(
    parts: &'a [Part<'a>],
    now: i64,
) -> Result<std::result::Result<Vec<Held<'a>>, Lacking<'a>>> {
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        match part.log.hold(&part.records, part.last, now)? {
            Ok(held) => all.push(held),
            Err(lacks) => {
                return Ok(Err(Lacking {
                    log: &part.log,
                    lacks,
                    room: Room::of(&part.records),
                }));
            }
        }
    }
    Ok(Ok(all))
}

/// Hands everything to the journal, waits until it is durable, and shows it.
fn write(
    store: &Inner,
    claims: &mut Claims<'_>,
    held: Vec<Held<'_>>,
    events: &[Event],
) -> Result<Vec<Range<u64>>> {
    let redo = |page: &mut Vec<u8>| held.iter().try_for_each(|held| held.add_redo(page));
    let keep = |from, bytes| held.iter().for_each(|held| held.keep(from, bytes));
    let durable = match store.journal.transact(events, redo, keep) {
        Ok(end) => store.journal.wait(end),
        Err(doubt @ Error::InDoubt { .. }) => Err(failed(doubt)),
        Err(error) => return Err(failed(error)),
    };
    if let Err(cause) = durable {
        let spans: Vec<_> = held.iter().filter_map(Held::span).collect();
        // Letting go of the partitions undoes it here. What becomes of it shows at the next opening.
        drop(held);
        let cause = Arc::new(cause);
        claims.lost(&cause);
        return Err(match spans.is_empty() {
            true => Error::clone(&cause),
            false => Error::InDoubt { spans, cause },
        });
    }
    let offsets = held.iter().map(Held::offsets).collect();
    // Who is woken may come back at once, and to any of these partitions.
    let copied: Vec<_> = held.into_iter().map(Held::copy).collect();
    copied.iter().flatten().for_each(Copied::tell);
    claims.kept();
    Ok(offsets)
}
