//! Who is due, and who has claimed whom.
//!
//! Plain bookkeeping under the crew's mutex: nothing here waits, syncs or can panic.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{DirtyLog, Next, RedoSink};

/// What a thread is to do next.
pub(super) enum Job {
    /// The duty of one log.
    Alone(Arc<dyn DirtyLog>),
    /// One sync of the journal, with the redo of these.
    Together(Arc<dyn RedoSink>, Vec<Arc<dyn DirtyLog>>),
}

#[derive(Default)]
pub(super) struct Queue {
    /// Logs that are due. Where there is a journal, they may ride with it.
    due: VecDeque<Arc<dyn DirtyLog>>,
    /// Logs that are due and have too much to ride.
    alone: VecDeque<Arc<dyn DirtyLog>>,
    claims: BTreeMap<u64, Claim>,
    /// Logs that so many callers wait to claim: nobody else takes them up meanwhile.
    wanted: BTreeMap<u64, usize>,
    /// How many of the claims are running.
    running: usize,
    later: BTreeMap<u64, (Instant, Arc<dyn DirtyLog>)>,
    /// Something was added there that no thread has seen when it went to sleep.
    sooner: bool,
    /// Whether those that may ride come first, next time.
    turn: bool,
    journal: Option<Arc<dyn RedoSink>>,
    pub(super) stopping: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Due, and nobody is at it.
    Queued,
    /// A thread is at it.
    Running,
    /// A thread is at it, and it was asked for again meanwhile.
    RunningAndDue,
}

impl Queue {
    /// From now on logs that are due together ride with this journal.
    pub(super) fn set_journal(&mut self, journal: Arc<dyn RedoSink>) {
        self.journal = Some(journal);
    }

    /// From now on each log is synced by itself.
    pub(super) fn forget_journal(&mut self) {
        let Some(journal) = self.journal.take() else {
            return;
        };
        // Its claim alone said that it is due.
        let log = journal.log();
        if self.claims.get(&log.id()) == Some(&Claim::Queued) {
            self.due.push_back(log);
        }
    }

    fn is_journal(&self, id: u64) -> bool {
        self.journal
            .as_ref()
            .is_some_and(|journal| journal.log().id() == id)
    }

    /// Asks for a log's duty. Whether nobody had before, and nobody is at it.
    pub(super) fn push(&mut self, log: Arc<dyn DirtyLog>) -> bool {
        match self.claims.entry(log.id()) {
            Entry::Vacant(none) => {
                none.insert(Claim::Queued);
                self.enqueue(log);
                true
            }
            Entry::Occupied(mut claim) => {
                if *claim.get() == Claim::Running {
                    claim.insert(Claim::RunningAndDue);
                }
                false
            }
        }
    }

    fn enqueue(&mut self, log: Arc<dyn DirtyLog>) {
        if self.is_journal(log.id()) || self.wanted.contains_key(&log.id()) {
            // Its claim says it; who wants it sees to it.
        } else if self.journal.is_some() && !log.rides() {
            self.alone.push_back(log);
        } else {
            self.due.push_back(log);
        }
    }

    /// From now on the log is left to who calls [`Queue::take`] next.
    pub(super) fn want(&mut self, id: u64) {
        *self.wanted.entry(id).or_default() += 1;
        for list in [&mut self.due, &mut self.alone] {
            list.retain(|log| log.id() != id);
        }
    }

    /// Whether anybody waits to claim a log.
    pub(super) fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Claims a log that was wanted; false if somebody is still at it. What it was asked for is
    /// done when the claim is given back.
    pub(super) fn take(&mut self, id: u64) -> bool {
        let claim = match self.claims.get(&id) {
            Some(Claim::Running | Claim::RunningAndDue) => return false,
            Some(Claim::Queued) => Claim::RunningAndDue,
            None => Claim::Running,
        };
        self.run(id);
        self.claims.insert(id, claim);
        if let Some(count) = self.wanted.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.wanted.remove(&id);
            }
        }
        true
    }

    /// Whether anybody has asked for the log, or is at it.
    pub(super) fn is_claimed(&self, id: u64) -> bool {
        self.claims.contains_key(&id)
    }

    /// Claims a log that nobody has asked for.
    pub(super) fn claim(&mut self, id: u64) -> bool {
        let free = !self.is_claimed(id);
        if free {
            self.run(id);
        }
        free
    }

    /// Whether a thread could do something now, or should sleep less long.
    pub(super) fn is_ready(&self) -> bool {
        if self.sooner || !self.alone.is_empty() {
            return true;
        }
        match self
            .journal
            .as_ref()
            .map(|it| self.claims.get(&it.log().id()))
        {
            None | Some(None) => !self.due.is_empty(),
            Some(Some(claim)) => *claim == Claim::Queued,
        }
    }

    /// The next job, claimed.
    pub(super) fn next(&mut self) -> Option<Job> {
        // In turn, so that neither starves behind the other.
        self.turn = !self.turn;
        if self.turn
            && let Some(job) = self.next_of_due()
        {
            return Some(job);
        }
        match self.alone.pop_front() {
            Some(log) => Some(self.by_itself(log)),
            None => self.next_of_due(),
        }
    }

    /// The job that has this log's duty in it, if that was asked for and can be done now: what who
    /// waits for the log does himself.
    pub(super) fn next_with(&mut self, id: u64) -> Option<Job> {
        if self.claims.get(&id) != Some(&Claim::Queued) {
            return None;
        }
        let large = self.alone.iter().position(|log| log.id() == id);
        if let Some(log) = large.and_then(|at| self.alone.remove(at)) {
            return Some(self.by_itself(log));
        }
        if self.journal.is_none() {
            let at = self.due.iter().position(|log| log.id() == id)?;
            let log = self.due.remove(at)?;
            return Some(self.by_itself(log));
        }
        self.next_of_due()
    }

    /// Of the logs that may ride. While the journal is being synced they gather; a lone one, when
    /// nobody is at anything, is synced by itself.
    fn next_of_due(&mut self) -> Option<Job> {
        let Some(journal) = self.journal.clone() else {
            let log = self.due.pop_front()?;
            return Some(self.by_itself(log));
        };
        let id = journal.log().id();
        match self.claims.get(&id) {
            Some(Claim::Running | Claim::RunningAndDue) => return None,
            Some(Claim::Queued) => {}
            None if self.due.is_empty() => return None,
            None if self.due.len() == 1 && self.running == 0 => {
                let log = self.due.pop_front()?;
                return Some(self.by_itself(log));
            }
            None => {}
        }
        self.run(id);
        let riders: Vec<_> = self.due.drain(..).collect();
        for log in &riders {
            self.run(log.id());
        }
        Some(Job::Together(journal, riders))
    }

    fn by_itself(&mut self, log: Arc<dyn DirtyLog>) -> Job {
        self.run(log.id());
        Job::Alone(log)
    }

    fn run(&mut self, id: u64) {
        self.claims.insert(id, Claim::Running);
        self.running += 1;
    }

    /// Gives the claim on a log back.
    pub(super) fn done(&mut self, log: Arc<dyn DirtyLog>, next: Next, now: Instant) {
        let id = log.id();
        self.running -= 1;
        let asked = self.claims.remove(&id) == Some(Claim::RunningAndDue);
        match next {
            Next::Alone => {
                self.claims.insert(id, Claim::Queued);
                if !self.wanted.contains_key(&id) {
                    self.alone.push_back(log);
                }
            }
            _ if asked => {
                self.claims.insert(id, Claim::Queued);
                self.enqueue(log);
            }
            Next::After(pause) if !self.stopping => {
                let at = now + pause;
                // A look that is due earlier says itself when to look again.
                if self.later.get(&id).is_none_or(|(before, _)| at < *before) {
                    self.later.insert(id, (at, log));
                    self.sooner = true;
                }
            }
            Next::After(_) | Next::Rest => {}
        }
    }

    /// Moves the log that has rested longest into the queue, whether its time has come or not.
    pub(super) fn promote_one(&mut self) {
        let longest = self.later.iter().min_by_key(|(_, (at, _))| *at);
        let Some(id) = longest.map(|(id, _)| *id) else {
            return;
        };
        if let Some((_, log)) = self.later.remove(&id) {
            self.push(log);
        }
    }

    /// Moves what has rested long enough into the queue; how long until the next of the others.
    pub(super) fn promote(&mut self) -> Option<Duration> {
        self.sooner = false;
        let now = Instant::now();
        let ripe: Vec<u64> = self
            .later
            .iter()
            .filter(|(_, (at, _))| *at <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in ripe {
            if let Some((_, log)) = self.later.remove(&id) {
                self.push(log);
            }
        }
        let nearest = self.later.values().map(|(at, _)| *at).min()?;
        Some(nearest.saturating_duration_since(now))
    }

    /// Forgets the logs that are due, but for the journal.
    pub(super) fn forget_due(&mut self) {
        for log in self.due.drain(..).chain(self.alone.drain(..)) {
            self.claims.remove(&log.id());
        }
    }

    /// Forgets what rests.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
        self.later.clear();
    }

    /// Whether nobody is in the middle of a duty.
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0
    }
}
