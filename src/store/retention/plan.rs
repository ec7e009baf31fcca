//! What goes, and why: a plan that is computed from facts alone. An audit tells it, applying does it.
//!
//! A piece of a log goes when a limit says so, but not before those that are older than it, and not
//! while it is kept for a required subscription. The last piece never does: where its first record is
//! old enough, another segment takes over, and then it is one of the others.

use std::ops::Range;

use crate::options::Retention;
use crate::partition::{Holding, Piece};

/// Why a segment goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Its last record was appended too long ago.
    Age,
    /// There are enough bytes behind it.
    Bytes,
    /// A required subscription has not committed all of it, and there are more bytes behind it than are
    /// kept for that.
    HardLimit,
}

/// Records that go.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removal {
    /// The numbers of the segments: one, but where a damaged header hides where the next one begins.
    pub segments: Range<u32>,
    /// The offsets of the records.
    pub offsets: Range<u64>,
    /// Their bytes.
    pub bytes: u64,
    /// Why.
    pub reason: Reason,
}

/// From what a plan is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) holding: &'a Holding,
    pub(super) retention: Retention,
    /// What the required subscription that is behind most reads next, if there is any.
    pub(super) required: Option<u64>,
    /// Whether the last segment can be ended.
    pub(super) rolls: bool,
    pub(super) now: i64,
}

/// What retention does to a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The segment that ends, since its first record is old, or it holds too much.
    pub(super) rolls: Option<u32>,
    /// What goes, oldest first.
    pub(super) removals: Vec<Removal>,
    /// With which segment and offset the log begins afterwards, if anything goes.
    pub(super) start: Option<(u32, u64)>,
    /// When there is more to do, as far as only time has to pass.
    pub(super) due: Option<i64>,
}

/// Plans what retention does to a log now.
pub(super) fn plan(facts: Facts<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut pieces = facts.holding.pieces.clone();
    let Some(last) = pieces.last().copied() else {
        return plan;
    };
    let rolls_at = rolls_at(facts, last);
    match rolls_at.is_some_and(|at| at <= facts.now) {
        true => {
            plan.rolls = Some(last.number);
            pieces.push(following(last));
        }
        false => plan.due = rolls_at,
    }
    let mut behind: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    for pair in pieces.windows(2) {
        let (piece, next) = (pair[0], pair[1]);
        behind -= piece.bytes;
        let Some(reason) = reason(facts, piece, behind) else {
            let age = facts.retention.age_nanos();
            let expires = age.and_then(|age| Some(piece.last_append?.saturating_add(age)));
            // What is kept for a subscription does not go by the clock.
            let expires = expires.filter(|at| *at > facts.now);
            plan.due = plan.due.into_iter().chain(expires).min();
            break;
        };
        plan.removals.push(Removal {
            segments: piece.number..next.number,
            offsets: piece.base..piece.next,
            bytes: piece.bytes,
            reason,
        });
        plan.start = Some((next.number, next.base));
    }
    plan
}

/// When the last segment ends: by the age of its first record, and where that is not known it is old; or
/// since it holds as much as all together are to hold, as one does that is older than the limit.
fn rolls_at(facts: Facts<'_>, last: Piece) -> Option<i64> {
    let bytes = facts.retention.bytes;
    if facts.rolls && bytes.is_some_and(|bytes| last.bytes >= bytes.max(1)) {
        return Some(i64::MIN);
    }
    let age = facts.retention.roll_nanos()?;
    let began = facts.holding.began;
    let at = began.map_or(i64::MIN, |began| began.saturating_add(age));
    (facts.rolls && last.next > last.base).then_some(at)
}

/// The segment that will have taken over.
fn following(last: Piece) -> Piece {
    Piece {
        number: last.number.saturating_add(1),
        base: last.next,
        next: last.next,
        bytes: 0,
        last_append: None,
    }
}

/// Why a piece goes that has so many bytes behind it; nothing if it stays.
fn reason(facts: Facts<'_>, piece: Piece, behind: u64) -> Option<Reason> {
    let retention = facts.retention;
    let is_old = |age| {
        let expires = piece.last_append.map(|at| at.saturating_add(age));
        expires.is_some_and(|at| at <= facts.now)
    };
    let reason = match (retention.age_nanos(), retention.bytes) {
        (Some(age), _) if is_old(age) => Reason::Age,
        (_, Some(bytes)) if behind >= bytes => Reason::Bytes,
        _ => return None,
    };
    match (retention.required, facts.required) {
        (Some(limit), Some(next)) if piece.next > next => {
            (behind >= limit).then_some(Reason::HardLimit)
        }
        _ => Some(reason),
    }
}

/// With which segment and offset a log begins if everything goes that lies wholly below an offset, but
/// for the last segment; nothing if nothing goes.
pub(super) fn before(holding: &Holding, offset: u64) -> Option<(u32, u64)> {
    let others = holding.pieces.iter().skip(1);
    let start = others.take_while(|piece| piece.base <= offset).last()?;
    Some((start.number, start.base))
}

#[cfg(all(test, not(loom)))]
#[path = "plan_tests.rs"]
mod tests;
