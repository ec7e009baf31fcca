//! Recovery as a plan: computed by reading only, then applied, or printed.
//!
//! # The algorithm
//!
//! 1. *The chain.* Segment numbers without a hole from the log's start on. From the highest
//!    downward, the first segment with a seal, a slot or a recorded end is where the walk starts:
//!    a slot is written only at a place where everything below it is safe in its own file.
//!    Over the files is laid what the journal holds for them (redo): byte for byte what they held,
//!    so laying it twice changes nothing. All of it must find its place.
//! 2. *The walk*, with positioned reads. A batch counts when all its frames are sound, its
//!    offsets follow, its epoch is one and does not fall. A segment ends at its seal, or where its
//!    successor says that it ends.
//! 3. *The judgement*, where no sound batch follows. What is promised beyond that place (a
//!    recorded end, a checkpoint, the durable mark that a later frame carries) decides: below the
//!    greatest promise it is damage, which is reported and walked past; above all promises it is
//!    the torn tail, which is cut. A read error is an error, never a tail.
//!
//! 4. *The rest.* Segment files behind the chain are set aside, but for one that can only have
//!    rotted: a header is written whole or not at all, and a file whose header's writing failed is
//!    thrown away. So where the next segment's header is damaged and something lies behind it, the
//!    log fails, and everything is kept.
//!
//! The plan is idempotent: applied in part and computed again, it comes to the same log.

use super::mark::RecordedEnd;
use super::site::Damage;
use super::walked::{At, Sound, Walked};
use crate::error::Flaw;
use crate::format::Redo;
use crate::segment::End;

/// What the rest of the store says about a log.
#[derive(Debug, Clone)]
pub(crate) struct Promises {
    /// The end that was recorded when the log was last settled for good.
    pub(crate) end: Option<RecordedEnd>,
    /// Nobody has used the log since then.
    pub(crate) clean: bool,
    /// Records below this offset were durable.
    pub(crate) floor: u64,
    /// The number of the log's first segment; `None`: whichever is lowest.
    pub(crate) start: Option<u32>,
    /// The log has held durable records: its folder must be there.
    pub(crate) exists: bool,
    /// How many bytes may have been written beyond what was safe.
    pub(crate) reach: u64,
    /// What the journal holds for the log beyond its recorded end, in the order in which it was
    /// written: it is laid over the files.
    pub(crate) redo: Vec<Redo>,
}

impl Promises {
    /// Records below this offset were durable, in the log's own files or in the journal.
    pub(super) fn promised(&self) -> u64 {
        let redo = self.redo.iter().map(|redo| redo.of.next);
        redo.max().unwrap_or(0).max(self.floor)
    }

    /// Whether the recorded end is all there is to the log.
    pub(super) fn is_clean(&self) -> bool {
        self.clean && self.redo.is_empty()
    }

    /// The redo of one segment.
    pub(super) fn redo_of(&self, number: u32) -> impl Iterator<Item = &Redo> + Clone {
        self.redo
            .iter()
            .filter(move |redo| redo.of.number == number)
    }
}

/// What recovery found, and what it will do about it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The chain: these numbers, each with a file of the log.
    pub(crate) first: u32,
    pub(crate) last: Option<u32>,
    /// The segments from the start of the walk on, the last of the chain last.
    pub(crate) walked: Vec<Walked>,
    /// Where the log goes on: the next record's offset.
    pub(crate) next: u64,
    /// The greatest epoch of what was adopted.
    pub(crate) epoch: u32,
    /// The greatest epoch of anything that was seen, adopted or not: in frames that are cut or
    /// passed over, and in the headers and frames of files that are set aside.
    pub(crate) seen: u32,
    /// The last segment ends here for good: the log goes on in a new one.
    pub(crate) sealed: bool,
    /// Records that are lost, and where.
    pub(crate) damage: Vec<(Damage, Flaw)>,
    /// Stretches beyond the end of the last segment that hold what was never acknowledged.
    pub(crate) cut: Vec<std::ops::Range<u64>>,
    /// A sound frame lies in what is cut.
    pub(crate) cut_is_sound: bool,
    /// Segment files that are not in the chain.
    pub(crate) later: Vec<(u32, Aside)>,
    /// Nobody has used the log since its end was recorded: there is nothing to write back.
    pub(super) untouched: bool,
}

/// What becomes of a segment file that is not in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aside {
    /// It was never taken over by anybody: a spare, or the beginning of one.
    Remove,
    /// It holds something: it is moved to the quarantine.
    Keep,
}

impl Plan {
    pub(super) fn empty(first: u32, epoch: u32) -> Plan {
        Plan {
            first,
            last: None,
            walked: Vec::new(),
            next: 0,
            epoch,
            seen: epoch,
            sealed: false,
            damage: Vec::new(),
            cut: Vec::new(),
            cut_is_sound: false,
            later: Vec::new(),
            untouched: false,
        }
    }

    /// Whether the log is as its end was recorded: no record was read.
    pub(crate) fn is_untouched(&self) -> bool {
        self.untouched
    }

    /// Where the last segment ends. Only a plan with a last segment has one.
    pub(crate) fn end(&self) -> End {
        let at = self.at();
        End {
            place: at.place,
            next: at.next,
        }
    }

    pub(super) fn last(&self) -> &Walked {
        self.walked.last().expect("a walk has entered a segment")
    }

    pub(super) fn last_mut(&mut self) -> &mut Walked {
        self.walked
            .last_mut()
            .expect("a walk has entered a segment")
    }

    /// Where the walk stands.
    pub(super) fn at(&self) -> At {
        self.last().at
    }

    /// The segment in which it stands.
    pub(super) fn number(&self) -> u32 {
        self.last().header.identity.number
    }

    pub(super) fn take(&mut self, frames: Vec<Sound>) {
        for frame in frames {
            self.epoch = self.epoch.max(frame.epoch);
            self.last_mut().take(frame);
        }
    }
}
