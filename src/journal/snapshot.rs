//! A fold written down, so that the journal before it need not be kept.
//!
//! A snapshot goes in parts, each a journal record of its own, and other records may come between
//! them. It names the journal offset up to which it folds everything; who reads it goes on from
//! there, not from its last part. The facts of all parts, in order, make the fold from an empty
//! one; the last part adds what no fact states. Parts that do not follow one another are worth
//! nothing: a writer that died half-way leaves a beginning, which the next snapshot replaces.

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::flaw::FoldFlaw;
use super::fold::{Carried, Fold};
use super::record;

/// The most a part holds. Only a single event that is larger gets a part that is larger, too.
pub(crate) const MAX_PART_BYTES: usize = 1 << 20;

/// Room for what a part holds beside its events.
const FRAME_BYTES: usize = 512;

/// A fold, and the journal offset up to which it folds everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The state.
    pub(crate) fold: Fold,
    /// Every record below this offset is in it; whoever reads on begins here.
    pub(crate) folds_to: u64,
}

/// A part of a snapshot, as a journal record holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    /// The offset up to which the snapshot folds everything; parts of one snapshot agree in it.
    pub(crate) snapshot: u64,
    /// Counts the parts, from 0.
    pub(crate) part: u32,
    /// Facts that hold.
    pub(crate) events: Vec<Event>,
    /// In the last part, what the fold carries beyond facts; `null` in the others.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) last: Option<Carried>,
}

/// Puts the parts of snapshots together, one snapshot at a time.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    unfinished: Option<Unfinished>,
}

#[derive(Debug)]
struct Unfinished {
    snapshot: u64,
    next_part: u32,
    fold: Fold,
}

impl Snapshot {
    /// The payloads of the journal records that hold this fold, in order; at least one.
    pub(crate) fn of(fold: &Fold, folds_to: u64) -> Vec<Vec<u8>> {
        Self::in_parts(fold, folds_to, MAX_PART_BYTES)
    }

    /// The same in parts of at most this many bytes.
    pub(super) fn in_parts(fold: &Fold, folds_to: u64, most: usize) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        let mut next = Part {
            snapshot: folds_to,
            part: 0,
            events: Vec::new(),
            last: None,
        };
        let mut size = FRAME_BYTES;
        for event in fold.events() {
            // The kind in front of a payload takes as much as the comma between two events.
            let more = event.encode().len();
            if !next.events.is_empty() && size + more > most {
                parts.push(next.encode());
                next.part += 1;
                next.events.clear();
                size = FRAME_BYTES;
            }
            size += more;
            next.events.push(event);
        }
        next.last = Some(fold.carried().clone());
        parts.push(next.encode());
        parts
    }
}

impl Part {
    /// The payload of the journal record that holds this part.
    pub(crate) fn encode(&self) -> Vec<u8> {
        record::encode(record::PART, self)
    }
}

impl Assembler {
    /// Takes the part in the journal record at `offset`. The snapshot, once this is its last part.
    ///
    /// A part 0 begins anew. Any other part that does not follow the one before it, or a snapshot
    /// that claims to fold its own records, discards what was begun. So does a fact that cannot be
    /// folded, which is an error besides: such a snapshot was never the state of a store.
    pub(crate) fn feed(&mut self, offset: u64, part: &Part) -> Result<Option<Snapshot>, FoldFlaw> {
        let Some(mut begun) = self.follows(offset, part) else {
            return Ok(None);
        };
        for event in &part.events {
            if begun.fold.apply(offset, event)?.ignored > 0 {
                return Err(FoldFlaw::Baseless { offset });
            }
        }
        if let Some(carried) = &part.last {
            begun.fold.carry(carried);
            return Ok(Some(Snapshot {
                fold: begun.fold,
                folds_to: begun.snapshot,
            }));
        }
        begun.next_part = begun.next_part.saturating_add(1);
        self.unfinished = Some(begun);
        Ok(None)
    }

    /// Discards what was begun: a record was lost that may have been its next part.
    pub(crate) fn discard(&mut self) {
        self.unfinished = None;
    }

    /// What this part goes on from. What was begun is taken out, and stays out if it is not that.
    fn follows(&mut self, offset: u64, part: &Part) -> Option<Unfinished> {
        let begun = self.unfinished.take();
        if part.snapshot > offset {
            return None;
        }
        if part.part == 0 {
            return Some(Unfinished {
                snapshot: part.snapshot,
                next_part: 0,
                fold: Fold::default(),
            });
        }
        begun.filter(|begun| begun.snapshot == part.snapshot && begun.next_part == part.part)
    }
}

/// Whether it is time for a snapshot: the events since the last one take more room than that and
/// more than 1 MiB, so that neither small stores write many nor large ones spend more on snapshots
/// than on events.
pub(crate) fn should_snapshot(bytes_since: u64, last_snapshot_bytes: u64) -> bool {
    const LEAST: u64 = 1 << 20;
    bytes_since > last_snapshot_bytes.max(LEAST)
}
