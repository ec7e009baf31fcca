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
//! This floor does not know what a log is: [`DirtyLog`] is all it sees.

mod crew;

pub(crate) use crew::Crew;

use std::time::Duration;

/// What a crew should do with a log whose duty has just ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing, until it is asked for again.
    Rest,
    /// The duty once more, when the crew has nothing else to do for this long.
    After(Duration),
}

/// A log, as the crews see it.
pub(crate) trait DirtyLog: Send + Sync {
    /// The log's id: one claim for each.
    fn id(&self) -> u64;

    /// Syncs what was written before this call, moves `durable`, wakes who waits for it.
    fn round(&self) -> Next;

    /// Sees to it that the next segment is ready.
    fn prepare(&self) -> Next;

    /// A duty of this log panicked: it must answer whoever waits on it with an error, and may
    /// never acknowledge anything again.
    fn abandon(&self, thread: &'static str, reason: String);
}
