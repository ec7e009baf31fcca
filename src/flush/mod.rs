//! Making written records durable, in groups, and keeping the next segment ready.
//!
//! # The algorithm
//!
//! A log that has something to do is put into a queue by whoever noticed it; a crew of threads
//! takes one log at a time and does its duty once: the *flusher* crew runs rounds (a round is one
//! sync and what it makes durable), the *preparer* makes spare segments. While a log's duty runs
//! the log is *claimed*: asked for again, it is queued once more when the duty ends. Who waits for
//! a log that nobody has claimed does its duty on its own thread, so that a lone appender waits for
//! its sync and for no other thread (decision 2). So
//!
//! * rounds of one log are strictly one after another, and each begins after the request that
//!   asked for it: no record is forgotten, none is acknowledged by a sync that began before it
//!   was written;
//! * appends that arrive while a round is under way share the next one: that is the group
//!   commit, and there is no delay timer;
//! * an idle crew makes no system call.
//!
//! # One sync for many logs
//!
//! Once a crew knows the journal, logs with few bytes that are due at the same time *ride*: their
//! new frames are written, as they are, into the journal, and only the journal is synced. Each of
//! their own files is synced later, when the log has been quiet, or when the journal would have to
//! keep its redo for too long. While the journal is being synced, logs that become due gather for
//! its next round, and events of the journal ride along. A log with many bytes is synced by itself,
//! at the same time; so is a lone one when nobody is at anything, which is the cheapest round there
//! is. The journal is claimed like a log, so its rounds, too, are strictly one after another.
//!
//! # Claims of others
//!
//! Who must keep a log's rounds away for a while, as a transaction does, [claims](Crew::claim) it.
//! Claims of several logs are taken in the order of their ids, so callers never wait for one
//! another in a circle, and a log that somebody waits to claim is taken up by nobody else.
//!
//! This floor does not know what a log is: [`DirtyLog`] and [`RedoSink`] are all it sees.

mod crew;
mod pins;
mod queue;
mod together;

pub(crate) use crew::{Claims, Crew, is_serving, panic_message, serving};
pub(crate) use pins::Pins;

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// What a crew should do with a log whose duty has just ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing, until it is asked for again.
    Rest,
    /// The duty once more, when the crew has nothing else to do for this long.
    After(Duration),
    /// The duty at once, and not together with others.
    Alone,
}

/// The journal, as the flusher sees it.
pub(crate) trait RedoSink: Send + Sync {
    /// The log underneath, whose claim and whose round are the journal's.
    fn log(&self) -> Arc<dyn DirtyLog>;

    /// A page without redo.
    fn page(&self) -> Vec<u8>;

    /// Writes pages of redo of these logs, which from then on it keeps for them, durable or not;
    /// and a snapshot if one is due. It waits for nothing. False if there is no redo, or if it does
    /// not fit what is prepared or cannot be written; what may be there all the same says nothing
    /// that is not so.
    fn write(&self, pages: &[Vec<u8>], riders: &[u64]) -> bool;

    /// Why nothing becomes durable in the journal any more, if it has failed.
    fn failure(&self) -> Option<Arc<Error>>;

    /// The round is over: time to let go of what need not be kept any more.
    fn tidy(&self);
}

/// A log, as the crews see it: by itself one that never rides and needs nothing prepared.
pub(crate) trait DirtyLog: Send + Sync {
    /// The log's id: one claim for each.
    fn id(&self) -> u64;

    /// Syncs what was written before this call, moves `durable`, wakes who waits for it.
    fn round(&self) -> Next;

    /// Whether it has so little to make durable that it should ride with the journal.
    fn rides(&self) -> bool {
        false
    }

    /// Adds what is written and not durable to a page of redo; false, and nothing is added, if it
    /// would rather be synced by itself.
    fn offer(&self, _page: &mut Vec<u8>) -> bool {
        false
    }

    /// What it offered is durable: moves `durable`, wakes who waits for it.
    fn kept(&self) -> Next {
        Next::Rest
    }

    /// The journal failed of this while it was to keep what was offered.
    fn lost(&self, _cause: &Arc<Error>) -> Next {
        Next::Rest
    }

    /// Sees to it that the next segment is ready.
    fn prepare(&self) -> Next {
        Next::Rest
    }

    /// A duty of this log panicked: it must answer whoever waits on it with an error, and may
    /// never acknowledge anything again.
    fn abandon(&self, thread: &'static str, reason: String);
}
