//! The journal's values: what its records say, and the state of the store that follows from them.
//!
//! The journal is a log like any other, and the payloads of its records are events, redo,
//! transactions (events and redo in one) and parts of snapshots. Nothing in this folder touches a file, but for the
//! log underneath: a payload comes in, a value goes out, and the other way round.
//!
//! An [`Event`] states a fact absolutely, so that stating it again changes nothing. A [`Fold`] is
//! what all events so far add up to. A [`Snapshot`] is a fold written down as events, in parts
//! that ride between other records; it is there once its last part is. A [`Replay`] takes the
//! records of a journal from the lowest one kept and ends with the fold.
//!
//! What may be relied on:
//!
//! * A kind, an event or a field that this version does not know is [`EventFlaw::Unknown`], never
//!   passed over; what it does know but cannot read is damage.
//! * A fact about an id that is gone is passed over and counted; a fact that contradicts the state
//!   is refused as [`FoldFlaw`] and leaves the state as it was.
//! * A fold that lacks a record says so ([`Fold::lost`]) for good, and never that the store was
//!   closed cleanly: an end recorded before the loss may not be the last one.
//!
//! `docs/journal.md` has every kind, event and field in words; a test holds it to the code.

mod copying;
mod event;
mod flaw;
mod fold;
#[cfg(any(test, fuzzing))]
mod fuzz;
#[expect(clippy::module_inception, reason = "the noun of this floor")]
mod journal;
mod read;
mod record;
mod redo;
mod replay;
mod rescue;
mod rounds;
mod side;
mod snapshot;
#[cfg(test)]
mod tests;

pub(crate) use copying::write_anew;
pub(crate) use event::{
    Event, LogEnd, LogStart, Owner, RedoFiles, RetentionSettings, SegmentEnd, SubscriptionState,
    TopicSettings, TopicState,
};
pub(crate) use fold::Fold;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzz::fuzz_event;
pub(crate) use journal::{Journal, Opened, failed, peek, site};
pub(crate) use read::Read;
pub(crate) use redo::{Pending, PendingRedo};
