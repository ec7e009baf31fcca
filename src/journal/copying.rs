//! A journal that states what another one adds up to.

use super::event::Event;
use super::fold::Fold;
use super::journal::{LIMITS, PROMISES};
use super::rounds::{stamp, writables};
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::partition::{Log, Patience, Setting, Site};

/// Writes a journal where there is none, durably but for its folder's name: that of an owner who states
/// all facts of the fold and closes the store. `setting` has no threads.
pub(crate) fn write_anew(site: Site, mut setting: Setting, fold: &Fold) -> Result<()> {
    let Some(owner) = fold.owner() else {
        return Err(site.mismatch(&site.dir, "nobody has ever owned the store"));
    };
    setting.epoch = owner.epoch;
    setting.limits = LIMITS;
    setting.same_boot = false;
    let log = Log::open(site, setting, &PROMISES)?;
    let epoch = Event::Epoch(owner.clone()).encode();
    let closed = Event::Closed { epoch: owner.epoch }.encode();
    // Behind the epoch: the snapshot folds that.
    let parts = Snapshot::of(fold, 1);
    for payload in [vec![epoch], parts, vec![closed]].concat() {
        let payloads = [payload];
        log.write_keeping(&mut writables(&payloads)?, stamp, 0, Patience::default())?;
    }
    log.drain()?;
    log.finish_close().map(|_| ())
}

impl Fold {
    /// The same state with these facts added.
    pub(crate) fn with(&self, events: &[Event]) -> Fold {
        let mut fold = self.clone();
        for event in events {
            if let Err(flaw) = fold.apply(0, event) {
                tracing::error!(%flaw, ?event, "the journal would state what cannot be");
            }
        }
        fold
    }
}
