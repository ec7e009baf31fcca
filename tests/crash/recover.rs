//! Opening after a life has ended, and looking at everything that must be there.

use std::sync::Arc;
use std::time::Duration;

use tidelog::sys::sim::{Call, Fault, When};
use tidelog::sys::{Backend, Storage as _};
use tidelog::{Error, OwnedRecord, Partition, Start, Store, Timestamp, VerifyReport};

use crate::beside::Beside;
use crate::model::{Check, There};
use crate::run::{ROOT, Run};
use crate::wide::BULK;

impl Run<'_> {
    /// Opens the store, through second and third crashes and faults, until everything was seen.
    pub fn reopen(&mut self) -> Check {
        for attempt in 0.. {
            self.calm();
            self.troubled = attempt < 3 && self.arm_recovery();
            if !self.troubled {
                self.sim.set_capacity(None);
            }
            let before = self.verify_before()?;
            let beside = match &before {
                Some(_) => self.read_beside()?,
                None => Beside::new(),
            };
            if self.open_once()? {
                self.troubled = false;
                self.whole = true;
                self.calm();
                self.sim.set_capacity(None);
                self.compare_beside(&beside)?;
                return self.verify_after(before);
            }
            if !self.troubled {
                return Err("recovery stopped for no reason".to_owned());
            }
            if self.sim.has_stopped() || self.dice.percent(50) {
                self.crash(self.sim.has_stopped())?;
            } else if self.store.is_some() {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Takes back whatever was ordered to go wrong.
    fn calm(&self) {
        self.sim.heal();
        self.sim.crash_after(u64::MAX);
    }

    /// Sometimes recovery is disturbed.
    fn arm_recovery(&mut self) -> bool {
        match self.dice.below(20) {
            0..6 => {
                let most = self.dice.pick(&[8, 40, 150]);
                let calls = self.dice.below(most);
                self.sim.crash_after(calls);
                self.say(format!("the machine will stop after {calls} calls"));
            }
            6..8 => {
                let call = self.dice.pick(&[Call::Sync, Call::Sync, Call::SyncDir]);
                let nth = self.dice.below(8);
                let errno = self.some_errno();
                self.sim.fail(Fault::new(call, When::Nth(nth), errno));
                self.say(format!("{call:?} {nth} of recovery will fail"));
            }
            8..10 => {
                let call = self.dice.pick(&[Call::Write, Call::Create, Call::Rename]);
                let rate = self.dice.pick(&[100, 1000]);
                let errno = self.some_errno();
                let fault = Fault::new(call, When::PerMille(rate), errno);
                self.sim.fail(fault);
                self.say(format!("{call:?} of recovery fails by {rate} with {errno}"));
            }
            _ => return false,
        }
        true
    }

    /// One attempt; whether everything was seen.
    fn open_once(&mut self) -> Check<bool> {
        let backend = self.dice.pick(&[Backend::Mapped, Backend::Pwrite]);
        self.sim.set_backend(backend);
        self.clock.advance(Duration::from_millis(3));
        self.say(format!("open, {backend:?}"));
        self.boot = self.sim.boot();
        let closed = std::mem::take(&mut self.closed);
        let holders = Arc::strong_count(&self.clock);
        let store = match Store::open_with(ROOT, self.options()) {
            Ok(store) => store,
            Err(error) => {
                if Arc::strong_count(&self.clock) != holders {
                    return Err("an open that failed left something at work".to_owned());
                }
                self.error("open", &error)?;
                return Ok(false);
            }
        };
        self.store = Some(store.clone());
        self.tally.redo += u64::from(store.health().unopened_redo > 0);
        if closed && !store.health().was_closed {
            return Err("it was closed, and does not know".to_owned());
        }
        self.see_topics(&store)?;
        self.see_bulk(&store)?;
        let mut whole = true;
        for name in self.topics.keys().cloned().collect::<Vec<_>>() {
            whole &= self.see_topic(&store, &name)?;
        }
        if whole {
            self.settle_together();
        }
        let health = store.health();
        if !health.damage.is_empty() || health.journal_damaged > 0 {
            return Err(format!("damage: {health:?}"));
        }
        Ok(
            whole
                && !self.sim.has_stopped()
                && health.failed.is_empty()
                && health.journal.is_none(),
        )
    }

    /// The catalog is what it must be; what was in doubt is settled.
    fn see_topics(&mut self, store: &Store) -> Check {
        let found = store.topics();
        let is_there = |name: &str| found.iter().find(|info| info.name == name);
        self.topics
            .retain(|name, topic| topic.there == There::Yes || is_there(name).is_some());
        for (name, topic) in &mut self.topics {
            let info = is_there(name).ok_or_else(|| format!("topic {name} is missing"))?;
            if info.finished != topic.finished && !topic.finishing {
                return Err(format!("topic {name}: finished is {}", info.finished));
            }
            if info.partitions as usize != topic.parts.len() {
                return Err(format!("topic {name}: {} partitions", info.partitions));
            }
            topic.there = There::Yes;
            if let Some(joint) = &mut self.doubt {
                joint.see_end(name, info.finished)?;
            }
            topic.finished = info.finished;
            topic.finishing = false;
            let opened = store.existing_topic(name).map_err(|e| e.to_string())?;
            topic.opened(opened.durability())?;
            topic.stuck = false;
        }
        match found.iter().find(|info| {
            !BULK.contains(&info.name.as_str()) && !self.topics.contains_key(&info.name)
        }) {
            Some(info) => Err(format!("topic {} is back", info.name)),
            None => Ok(()),
        }
    }

    /// A topic's records and checkpoints; whether all of it was seen.
    fn see_topic(&mut self, store: &Store, name: &str) -> Check<bool> {
        let topic = match store.existing_topic(name) {
            Ok(topic) => topic,
            Err(error) => {
                self.error("topic", &error)?;
                return Ok(false);
            }
        };
        let mut whole = true;
        for number in 0..topic.partitions() {
            let partition = topic.partition(number).map_err(|e| e.to_string())?;
            whole &= self.see_partition(&partition, name)?;
        }
        let subs = self.topics[name].subs.keys().cloned().collect::<Vec<_>>();
        for sub in subs {
            let opened = topic.subscription(&sub).start(Start::Latest).open();
            let opened = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    self.error("subscription", &error)?;
                    whole = false;
                    continue;
                }
            };
            let committed = (0..topic.partitions()).map(|n| opened.committed(n));
            let committed: Result<Vec<u64>, Error> = committed.collect();
            let committed = committed.map_err(|error| error.to_string())?;
            let known = self
                .topics
                .get_mut(name)
                .and_then(|it| it.subs.get_mut(&sub));
            let known = known.ok_or("no such subscription")?;
            let settled = known.settle(&committed, opened.is_paused());
            settled.map_err(|wrong| format!("{name} {sub}: {wrong}"))?;
            if let Some(joint) = &mut self.doubt {
                joint.see_commit(name, &sub, &committed)?;
            }
        }
        Ok(whole)
    }

    /// A partition of a store that has just been opened.
    fn see_partition(&mut self, partition: &Partition, name: &str) -> Check<bool> {
        let number = partition.number();
        let place = |wrong: String| format!("{name}/{number}: {wrong}");
        let Some((first, found)) = self.scan(partition)? else {
            return Ok(false);
        };
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        let part = &mut topic.parts[number as usize];
        part.begin(first).map_err(place)?;
        part.settle(&found, self.whole).map_err(place)?;
        let records = part.sure.len() as u64;
        if let Some(joint) = &mut self.doubt {
            joint.see_part(name, number, records).map_err(place)?;
        }
        self.look_up(partition, name).map_err(place)
    }

    /// All records of a partition, and where it begins; `None` if an error with a cause was in the way.
    pub fn scan(&mut self, partition: &Partition) -> Check<Option<(u64, Vec<OwnedRecord>)>> {
        let read = || -> Result<_, Error> {
            let (first, end) = (partition.first()?, partition.end()?);
            let all = partition
                .read(first..u64::MAX)?
                .collect::<Result<Vec<_>, _>>()?;
            Ok((first, end, all))
        };
        match read() {
            Ok((first, end, all)) if end == first + all.len() as u64 => Ok(Some((first, all))),
            Ok((first, end, all)) => Err(format!("{first} to {end}, {} records", all.len())),
            Err(error @ (Error::Corrupt { .. } | Error::Mismatch { .. })) => {
                Err(format!("damage: {error}"))
            }
            Err(error) => {
                self.error("scan", &error)?;
                Ok(None)
            }
        }
    }

    /// Looking up by offset and by time agrees with a scan.
    pub fn look_up(&mut self, partition: &Partition, name: &str) -> Check<bool> {
        let part = self.topics[name].parts[partition.number() as usize].clone();
        let (first, end) = (part.first, part.sure.len() as u64);
        if first == end {
            return Ok(true);
        }
        for _ in 0..2 {
            let at = first + self.dice.below(end - first);
            let kept = &part.sure[at as usize];
            let time = kept.time + self.dice.pick(&[0, 0, 1]);
            let look = || -> Result<_, Error> {
                let mut cursor = partition.cursor(Start::Offset(at))?;
                let record = cursor.next()?;
                let right = record.is_some_and(|it| it.offset() == at && kept.is_lent(&it));
                Ok((right, partition.find(Timestamp::from_nanos(time))?))
            };
            let looked = look();
            if self.sim.has_stopped() {
                // What cannot be read is passed over, and nothing can.
                return Ok(false);
            }
            match looked {
                Ok((false, _)) => return Err(format!("offset {at} leads elsewhere")),
                Ok((_, found)) => {
                    // Opening a file may have parked the log, and so made more of it durable.
                    let topic = self.topics.get_mut(name).ok_or("no such topic")?;
                    let now = &mut topic.parts[partition.number() as usize];
                    now.secure(partition.end().map_err(|error| error.to_string())?)?;
                    let wanted = [part.find(time), now.find(time)];
                    if !wanted.contains(&found) {
                        return Err(format!("time {time} leads to {found}, not {wanted:?}"));
                    }
                }
                Err(error) => {
                    self.error("look up", &error)?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// What verifying says before recovery; not always, and not while it would be disturbed.
    fn verify_before(&mut self) -> Check<Option<VerifyReport>> {
        if self.troubled || self.topics.is_empty() {
            return Ok(None);
        }
        self.verify().map(Some)
    }

    fn verify(&self) -> Check<VerifyReport> {
        let report = tidelog::verify(ROOT, &self.options());
        let report = report.map_err(|error| format!("verify: {error}"))?;
        match report.is_sound() {
            true => Ok(report),
            false => Err(format!("verify: {report:?}")),
        }
    }

    /// Verifying says the same before and after, and both say what the model says.
    fn verify_after(&mut self, before: Option<VerifyReport>) -> Check {
        let after = self.verify()?;
        for log in after
            .logs
            .iter()
            .filter(|log| !BULK.contains(&log.topic.as_str()))
        {
            let topic = self.topics.get(&log.topic);
            let topic = topic.ok_or_else(|| format!("verify knows {}", log.topic))?;
            let part = &topic.parts[log.partition as usize];
            let (first, sure) = (part.first, part.sure.len() as u64);
            let told = before.iter().flat_map(|before| &before.logs);
            let told = told
                .filter(|before| before.path == log.path)
                .map(|it| it.end);
            if log.records != sure - first || log.end != sure || told.clone().any(|end| end != sure)
            {
                let told: Vec<u64> = told.collect();
                return Err(format!("{sure} records; verify: {told:?}, {log:?}"));
            }
        }
        let rolled = |log: &tidelog::LogReport| {
            let before = self.segments.get(&log.path).copied().unwrap_or(1);
            log.segments > before
        };
        let crashed = std::mem::take(&mut self.crashed);
        self.tally.rolls += u64::from(crashed && after.logs.iter().any(rolled));
        let now = after.logs.iter();
        self.segments = now.map(|log| (log.path.clone(), log.segments)).collect();
        Ok(())
    }
}
