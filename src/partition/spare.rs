//! The next segment, made ahead of time: allocated, synced, its folder synced; and how to wait
//! for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::making::{Sizes, again, discard, grow, is_as_wished, make, place, throw_away};
use super::reuse::Used;
use super::site::Site;
use crate::error::{Error, Result};
use crate::format::Layout;
use crate::sync::{Waited, Watermark};
use crate::sys::File;

/// A segment file that nobody has taken over yet.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) number: u32,
    pub(crate) file: Arc<dyn File>,
    pub(crate) layout: Layout,
    /// A header was written to it in vain, and any part of it may be there: it is thrown away, so
    /// that no frame ever stands behind half a header.
    pub(crate) spoiled: bool,
}

/// Where the spare lies until it is taken, and what became of the last attempt to make one.
#[derive(Debug)]
pub(crate) struct Shelf {
    state: Mutex<State>,
    /// Counts attempts that ended.
    attempts: Watermark,
}

#[derive(Debug)]
struct State {
    spare: Option<Spare>,
    /// A spare whose file was let go of: it lies there as it was made.
    parked: Option<(u32, Layout)>,
    /// The space of a segment that is gone, for the next one.
    used: Option<Used>,
    /// The number of the segment that takes over next.
    number: u32,
    /// The length of the last segment that was taken over, if there is one, and of that before.
    capacity: Option<u64>,
    before: Option<u64>,
    /// The least length that the next one must have: of those who have asked since the last attempt
    /// began, which is the one that answers them, whatever becomes of it.
    wanted: u64,
    failed: Option<Error>,
    /// The log's folder is there, durably.
    placed: bool,
    /// Counts attempts that began.
    begun: u64,
    /// Somebody has asked for a spare since the last attempt began.
    asked: bool,
    /// A longer one is thrown away, unless somebody wants it to be.
    longest: u64,
}

impl State {
    /// Keeps a spare that was just made; or it comes back, to be thrown away: while it was made, the
    /// one before it was put back, and two with a number between them would tear the chain.
    fn keep(&mut self, made: Spare) -> Option<Spare> {
        if self.spare.is_some() || made.number != self.number {
            return Some(made);
        }
        self.spare = Some(made);
        None
    }

    /// Keeps space for the next spare; of two such files the shorter one comes back.
    fn offer(&mut self, used: Used) -> Option<Used> {
        match self.used {
            Some(before) if before.length >= used.length => Some(used),
            _ => self.used.replace(used),
        }
    }
}

impl Shelf {
    /// A shelf of which the first spare will have this number, and follows a segment of that length;
    /// it may lie there, of that layout, and space for another one.
    pub(crate) fn new(
        number: u32,
        capacity: Option<u64>,
        parked: Option<Layout>,
        used: Option<Used>,
    ) -> Shelf {
        Shelf {
            state: Mutex::new(State {
                spare: None,
                parked: parked.map(|layout| (number, layout)),
                used,
                number,
                capacity,
                before: capacity,
                wanted: 0,
                failed: None,
                placed: false,
                begun: 0,
                asked: false,
                longest: u64::MAX,
            }),
            attempts: Watermark::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this mutex.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the spare, if there is one of at least that length.
    pub(crate) fn take(&self, capacity: u64) -> Option<Spare> {
        let mut state = self.state();
        let longest = state.longest.max(capacity);
        let fits = |spare: &mut Spare| {
            !spare.spoiled && (capacity..=longest).contains(&spare.layout.capacity)
        };
        let spare = state.spare.take_if(fits)?;
        state.number = spare.number.saturating_add(1);
        state.before = state.capacity.replace(spare.layout.capacity);
        Some(spare)
    }

    /// Spares are to be no longer than that, also one that is there.
    pub(crate) fn limit(&self, longest: u64) {
        self.state().longest = longest;
    }

    /// Puts a spare back that could not be taken over. A spoiled one is only there to be thrown
    /// away.
    pub(crate) fn put_back(&self, spare: Spare) {
        let mut state = self.state();
        state.number = spare.number;
        state.capacity = state.before;
        state.spare = Some(spare);
    }

    /// The length of the segment that the next spare follows.
    pub(crate) fn last_capacity(&self) -> Option<u64> {
        self.state().capacity
    }

    /// Lets go of the spare's file, which stays where it is; whether there was one. One that is
    /// spoiled is kept, to be thrown away.
    pub(crate) fn park(&self) -> bool {
        let mut state = self.state();
        let spare = state.spare.take_if(|spare| !spare.spoiled);
        if let Some(spare) = &spare {
            state.parked = Some((spare.number, spare.layout));
        }
        spare.is_some()
    }

    /// Removes the spare, which nobody will take over any more; whether its folder's names may
    /// have changed and are not durable yet.
    pub(crate) fn remove(&self, site: &Site) -> Result<bool> {
        let (number, placed) = {
            let mut state = self.state();
            let spare = state.spare.take().map(|spare| spare.number);
            let parked = state.parked.take().map(|(number, _)| number);
            (spare.or(parked), state.placed)
        };
        if let Some(number) = number {
            let path = site.segment(number);
            let removed = site.storage.remove_file(&path);
            removed.map_err(|error| Error::io("remove", &path, error))?;
        }
        Ok(placed)
    }

    /// Keeps the space of a segment that is gone for the next one, unless there is a longer one: what
    /// is not kept comes back.
    pub(super) fn offer(&self, used: Used) -> Option<Used> {
        self.state().offer(used)
    }

    /// Leaves the spare to the next owner, unless it is spoiled.
    pub(crate) fn leave(&self, site: &Site) -> Result<()> {
        let spoiled = self.state().spare.as_ref().is_some_and(|it| it.spoiled);
        match spoiled {
            true => self.clear(site),
            false => Ok(()),
        }
    }

    /// Removes the spare durably: a header may have been written to it in vain.
    pub(crate) fn clear(&self, site: &Site) -> Result<()> {
        if !self.remove(site)? {
            return Ok(());
        }
        site.sync_dir(&site.dir)
    }

    /// Whether a spare is there, of whatever size.
    pub(crate) fn has_spare(&self) -> bool {
        self.state().spare.as_ref().is_some_and(|it| !it.spoiled)
    }

    /// Whether there is none, since the disk was full when it was to be made, or one that is shorter
    /// than that for the same reason.
    pub(crate) fn lacks_room(&self, natural: u64) -> bool {
        let state = self.state();
        match &state.spare {
            Some(spare) => spare.layout.capacity < natural,
            None => matches!(state.failed, Some(Error::StorageFull { .. })),
        }
    }

    /// Says that a spare of at least that length is needed; the number of attempts begun so far.
    pub(crate) fn want(&self, capacity: u64) -> u64 {
        let mut state = self.state();
        state.wanted = state.wanted.max(capacity);
        state.asked = true;
        state.begun
    }

    /// Waits until an attempt has ended that began after `begun` of them had: one that was under
    /// way before says nothing to who asks now. Its error, if it failed.
    pub(crate) fn wait(
        &self,
        begun: u64,
        until: Option<Instant>,
        stop: impl Fn() -> bool,
    ) -> Result<Waited> {
        let waited = self.attempts.wait_past(begun, until, stop);
        match waited {
            Waited::TimedOut => Ok(waited),
            _ => self.outcome().map(|()| waited),
        }
    }

    /// The same as a future.
    pub(crate) async fn attempted(&self, begun: u64, stop: impl Fn() -> bool) -> Result<()> {
        self.attempts.past(begun, stop).await;
        self.outcome()
    }

    fn outcome(&self) -> Result<()> {
        match &self.state().failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Wakes who waits, so that they look whether to stop.
    pub(crate) fn wake(&self) {
        self.attempts.wake();
    }

    /// The next time the preparer comes it shall see to the spare.
    pub(crate) fn ask(&self) {
        self.state().asked = true;
    }

    /// Whether somebody has asked for a spare since this was last asked.
    pub(crate) fn is_asked(&self) -> bool {
        std::mem::take(&mut self.state().asked)
    }

    /// Makes the spare, or makes the one there longer: the preparer's duty. `natural` is the length
    /// that the log would choose by itself. Where the disk has no room for that, and somebody waits or
    /// it is to be there `ahead` at any rate, it is shorter, down to what is needed.
    pub(crate) fn prepare(&self, site: &Site, natural: u64, ahead: bool) {
        let (spare, parked, mut used, number, wanted, placed, longest) = {
            let mut state = self.state();
            state.begun += 1;
            let wanted = std::mem::take(&mut state.wanted);
            let spare = (state.spare.take(), state.parked.take(), state.used.take());
            (
                spare.0,
                spare.1,
                spare.2,
                state.number,
                wanted,
                state.placed,
                state.longest.max(wanted),
            )
        };
        let spare =
            spare.or_else(|| parked.and_then(|(number, layout)| again(site, number, layout)));
        let spare = spare.map(|spare| Spare {
            spoiled: spare.spoiled || spare.layout.capacity > longest,
            ..spare
        });
        let sizes = Sizes::of(natural, wanted, ahead);
        let fresh = |used: &mut Option<Used>| {
            let made = place(site, placed).and_then(|()| make(site, number, sizes, used));
            match made {
                Ok(spare) => (Some(spare), Ok(())),
                Err(error) => (None, Err(error)),
            }
        };
        let (spare, made) = match spare {
            Some(spare) if spare.spoiled => match throw_away(site, &spare) {
                Ok(()) => fresh(&mut used),
                Err(error) => (Some(spare), Err(error)),
            },
            Some(spare) if spare.layout.capacity >= sizes.wish => (Some(spare), Ok(())),
            Some(spare) => match grow(site, spare, sizes) {
                (Some(short), Err(_))
                    if used.is_some_and(|it| {
                        it.length >= sizes.least && it.length > short.layout.capacity
                    }) =>
                {
                    discard(site, &site.segment(short.number));
                    fresh(&mut used)
                }
                grown => grown,
            },
            None => fresh(&mut used),
        };
        if let Some(used) = used.take_if(|_| made.is_ok() && is_as_wished(&spare, sizes)) {
            // There is room again.
            used.discard(site);
        }
        let (useless, other) = {
            let mut state = self.state();
            state.placed |= spare.is_some();
            let other = used.and_then(|used| state.offer(used));
            let useless = spare.and_then(|spare| state.keep(spare));
            state.failed = made.err();
            if let Some(error) = &state.failed {
                tracing::warn!(%error, "cannot prepare a segment");
            }
            (useless, other)
        };
        if let Some(other) = other {
            other.discard(site);
        }
        if let Some(spare) = useless {
            discard(site, &site.segment(spare.number));
        }
        self.attempts.advance(self.attempts.get() + 1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::partition::making::layout;
    use crate::sys::Storage;
    use crate::sys::sim::Sim;

    fn spare(sim: &Sim, number: u32) -> Spare {
        let path = Path::new("/").join(number.to_string());
        Spare {
            number,
            file: sim.create(&path, 64 << 10).unwrap(),
            layout: layout(&path, 64 << 10).unwrap(),
            spoiled: false,
        }
    }

    /// A spare was taken and cannot take over; while it is put back the preparer makes the next one.
    /// Two that follow one another must not change places: the one that was put back comes first.
    #[test]
    fn a_spare_that_is_put_back_while_the_next_one_is_made_keeps_its_turn() {
        let sim = Sim::new(1);
        let shelf = Shelf::new(7, None, None, None);
        assert!(shelf.state().keep(spare(&sim, 7)).is_none());
        let taken = shelf.take(4096).unwrap();
        let next = spare(&sim, 8);
        shelf.put_back(taken);
        let useless = shelf.state().keep(next).unwrap();
        assert_eq!(useless.number, 8);
        assert_eq!(shelf.take(4096).unwrap().number, 7);
        assert!(shelf.state().keep(useless).is_none());
        assert_eq!(shelf.take(4096).unwrap().number, 8);
    }
}
