//! From the records of a journal to the state of the store.
//!
//! A snapshot lags behind the records around it: it folds everything up to an offset below its
//! first part, so events between that offset and its last part are not in it. Hence events are not
//! only folded but also kept, from the offset that the newest complete snapshot names; when the
//! next one completes, the fold becomes that of the snapshot with the kept events from its offset
//! on laid over it, and those before are let go.
//!
//! Records that are missing count as lost at the place where they would have been, whether they
//! were reported ([`Replay::skip`]), were there but could not be read, or simply leave a gap in the
//! offsets, as the records do that an earlier snapshot made unneeded. A snapshot that folds the
//! place makes up for them.

use std::ops::Range;

use super::event::Event;
use super::flaw::FoldFlaw;
use super::fold::Fold;
use super::record::{EventFlaw, Record};
use super::redo::{Met, Pending};
use super::snapshot::{Assembler, Part, Snapshot};

/// Takes every record of a journal in order, from the lowest one kept, and adds them up.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    fold: Fold,
    assembler: Assembler,
    /// What was read at or above `needed_from`, in order.
    kept: Vec<(u64, Kept)>,
    needed_from: u64,
    /// The offset of the record that should come next.
    expected: u64,
    damaged: Vec<Range<u64>>,
    /// These two speak of what is kept, judged by the fold as it is now.
    ignored: u64,
    flaws: Vec<FoldFlaw>,
    redo: Met,
}

#[derive(Debug)]
enum Kept {
    Event(Box<Event>),
    Lost,
}

impl Replay {
    /// Takes the record at `offset`, which is above that of any record before.
    ///
    /// The only flaw that stops a replay is a record which this version does not know. Damage is
    /// counted and passed over.
    pub(crate) fn record(&mut self, offset: u64, payload: &[u8]) -> Result<(), EventFlaw> {
        self.arrive(offset);
        match Record::decode(payload) {
            Ok(Record::Event(event)) => self.keep(offset, Kept::Event(Box::new(event))),
            Ok(Record::Part(part)) => self.part(offset, &part),
            Ok(Record::Redo(stretches)) => self.redo.extend(offset, stretches),
            Ok(Record::Transaction(events, stretches)) => {
                for event in events {
                    self.keep(offset, Kept::Event(Box::new(event)));
                }
                self.redo.extend(offset, stretches);
            }
            Err(EventFlaw::Malformed { .. } | EventFlaw::Empty) => {
                self.damage(offset..offset.saturating_add(1));
            }
            Err(unknown @ EventFlaw::Unknown { .. }) => return Err(unknown),
        }
        Ok(())
    }

    /// Notes that the records of these offsets could not be read, however many there are.
    pub(crate) fn skip(&mut self, offsets: Range<u64>) {
        if offsets.is_empty() {
            return;
        }
        self.arrive(offsets.start);
        self.expected = offsets.end;
        self.damage(offsets);
    }

    /// The state after the records so far.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn fold(&self) -> &Fold {
        &self.fold
    }

    /// The state after all records.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn into_fold(self) -> Fold {
        self.fold
    }

    /// The state after all records, and the redo that may still be needed.
    pub(crate) fn finish(self) -> (Fold, Pending) {
        let pending = self.redo.pending(&self.fold);
        (self.fold, pending)
    }

    /// The lowest offset that is still needed to arrive at this fold again: that up to which the
    /// newest complete snapshot folds everything, or 0.
    pub(crate) fn needed_from(&self) -> u64 {
        self.needed_from
    }

    /// Which records were damaged, in order, also those that a snapshot made up for.
    pub(crate) fn damaged(&self) -> &[Range<u64>] {
        &self.damaged
    }

    /// The offsets of the damaged records, in order.
    #[cfg(test)]
    pub(crate) fn damaged_at(&self) -> Vec<u64> {
        self.damaged.iter().cloned().flatten().collect()
    }

    /// How many facts were about something that is gone.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The events, and the snapshots, that were refused.
    pub(crate) fn flaws(&self) -> &[FoldFlaw] {
        &self.flaws
    }

    fn arrive(&mut self, offset: u64) {
        if let Some(missing) = offset.checked_sub(1)
            && missing >= self.expected
        {
            self.assembler.discard();
            self.keep(missing, Kept::Lost);
        }
        self.expected = offset.saturating_add(1);
    }

    fn damage(&mut self, offsets: Range<u64>) {
        let last = offsets.end.saturating_sub(1);
        self.damaged.push(offsets);
        self.assembler.discard();
        // What makes up for the last of them makes up for all.
        self.keep(last, Kept::Lost);
    }

    fn part(&mut self, offset: u64, part: &Part) {
        match self.assembler.feed(offset, part) {
            Ok(None) => {}
            // An older one than the newest complete one: what it would go on from is let go.
            Ok(Some(snapshot)) if snapshot.folds_to < self.needed_from => {}
            Ok(Some(snapshot)) => self.adopt(snapshot),
            Err(flaw) => self.flaws.push(flaw),
        }
    }

    fn adopt(&mut self, snapshot: Snapshot) {
        self.fold = snapshot.fold;
        self.needed_from = snapshot.folds_to;
        self.ignored = 0;
        self.flaws.clear();
        let first = self.kept.partition_point(|(at, _)| *at < self.needed_from);
        self.kept.drain(..first);
        for (offset, kept) in &self.kept {
            lay(
                &mut self.fold,
                *offset,
                kept,
                &mut self.ignored,
                &mut self.flaws,
            );
        }
    }

    fn keep(&mut self, offset: u64, kept: Kept) {
        lay(
            &mut self.fold,
            offset,
            &kept,
            &mut self.ignored,
            &mut self.flaws,
        );
        self.kept.push((offset, kept));
    }
}

fn lay(fold: &mut Fold, offset: u64, kept: &Kept, ignored: &mut u64, flaws: &mut Vec<FoldFlaw>) {
    match kept {
        Kept::Lost => fold.lose(),
        Kept::Event(event) => match fold.apply(offset, event) {
            Ok(folded) => *ignored += folded.ignored,
            Err(flaw) => flaws.push(flaw),
        },
    }
}
