//! Subscriptions: read a little, then commit, or something else.

use tidelog::{Error, Position, Start, Subscription};

use crate::model::{Check, Sub, There};
use crate::run::{Run, in_doubt};

pub const NAMES: [&str; 2] = ["archive", "alarm"];

/// What is done at the end.
enum Deed {
    Checkpoints(Vec<u64>),
    Pause(bool),
    Nothing,
}

impl Run<'_> {
    pub fn subscription(&mut self) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        let sub = self.dice.pick(&NAMES);
        self.learn(&name)?;
        let Some(mut opened) = self.subscribe(&name, sub)? else {
            return Ok(());
        };
        let failed = self.journal_failed();
        let (deed, done) = self.deed(&name, sub, &mut opened)?;
        drop(opened);
        let topic = self.topics.get_mut(&name).ok_or("no such topic")?;
        let known = topic.subs.get_mut(sub).ok_or("no such subscription")?;
        let Err(error) = done else {
            match deed {
                Deed::Checkpoints(all) => {
                    for (part, next) in topic.parts.iter_mut().zip(&all) {
                        part.secure(*next)?;
                    }
                    known.committed = all;
                }
                Deed::Pause(paused) => known.paused = paused,
                Deed::Nothing => {}
            }
            return Ok(());
        };
        if !failed && in_doubt(&error) {
            match deed {
                Deed::Checkpoints(all) => known.doubt = Some(all),
                Deed::Pause(paused) => known.paused_doubt = Some(paused),
                Deed::Nothing => {}
            }
        }
        self.error("subscription", &error)
    }

    /// Opens a subscription, which stands where it must.
    pub fn subscribe(&mut self, name: &str, sub: &str) -> Check<Option<Subscription>> {
        let failed = self.journal_failed();
        let latest = self.dice.percent(30);
        let start = if latest {
            Start::Latest
        } else {
            Start::Earliest
        };
        self.say(format!("subscribe {name} {sub} {start:?}"));
        let topic = self.open_store()?.existing_topic(name);
        let opened = topic.and_then(|topic| topic.subscription(sub).start(start).open());
        let model = self.topics.get_mut(name).ok_or("no such topic")?;
        let starts = model.parts.iter().map(|part| match latest {
            true => part.sure.len() as u64,
            false => part.first,
        });
        let fresh = |there| Sub {
            there,
            committed: starts.collect(),
            doubt: None,
            paused: false,
            paused_doubt: None,
        };
        match opened {
            Ok(opened) => {
                let count = model.parts.len() as u32;
                let committed = (0..count).map(|n| opened.committed(n));
                let committed: Result<Vec<u64>, Error> = committed.collect();
                let committed = committed.map_err(|error| error.to_string())?;
                let known = model.subs.entry(sub.to_owned());
                let known = known.or_insert_with(|| fresh(There::Yes));
                let unsettled = known.doubt.is_some() || known.paused_doubt.is_some();
                if !unsettled {
                    let settled = known.settle(&committed, opened.is_paused());
                    settled.map_err(|wrong| format!("{name} {sub}: {wrong}"))?;
                }
                Ok((!unsettled).then_some(opened))
            }
            Err(error) => {
                let doubt = !failed && in_doubt(&error);
                if doubt && !model.subs.contains_key(sub) {
                    model.subs.insert(sub.to_owned(), fresh(There::Perhaps));
                }
                self.error("subscribe", &error)?;
                Ok(None)
            }
        }
    }

    fn deed(
        &mut self,
        name: &str,
        sub: &str,
        opened: &mut Subscription,
    ) -> Check<(Deed, Result<(), Error>)> {
        if opened.is_paused() {
            if !matches!(opened.next(), Err(Error::SubscriptionPaused { .. })) {
                return Err("a paused subscription goes on".to_owned());
            }
            self.say(format!("resume {sub}"));
            return Ok((Deed::Pause(false), opened.resume()));
        }
        let at = match self.read_some(name, sub, opened)? {
            Ok(at) => at,
            Err(error) => return Ok((Deed::Nothing, Err(error))),
        };
        if self.relaxed
            && self.dice.percent(30)
            && let Some((all, done)) = self.commit_ahead(name, sub, opened)
        {
            return Ok((Deed::Checkpoints(all), done));
        }
        Ok(match self.dice.below(10) {
            0..5 => (Deed::Checkpoints(at), opened.commit()),
            5..7 => self.commit_to(name, sub, opened)?,
            7 => match self.dice.percent(50) {
                true => {
                    let parts = self.topics[name].parts.iter();
                    let firsts = parts.map(|part| part.first).collect();
                    (Deed::Checkpoints(firsts), opened.reset(Start::Earliest))
                }
                false => self.reset_to_latest(name, opened)?,
            },
            8 => (Deed::Pause(true), opened.pause()),
            _ => (Deed::Nothing, Ok(())),
        })
    }

    /// Reads some records; where it stands then.
    pub fn read_some(
        &mut self,
        name: &str,
        sub: &str,
        opened: &mut Subscription,
    ) -> Check<Result<Vec<u64>, Error>> {
        self.learn(name)?;
        let mut at = self.topics[name].subs[sub].committed.clone();
        for _ in 0..self.dice.below(12) {
            match self.read_one(name, opened, &mut at)? {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Ok(Err(error)),
            }
        }
        self.say(format!("{sub} stands at {at:?}"));
        Ok(Ok(at))
    }

    /// Goes to the end of what is durable. That may be more than before: opening a file may park a
    /// log, and so make durable what it holds.
    fn reset_to_latest(
        &mut self,
        name: &str,
        opened: &mut Subscription,
    ) -> Check<(Deed, Result<(), Error>)> {
        let done = opened.reset(Start::Latest);
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        for (number, part) in (0..).zip(&mut topic.parts) {
            if done.is_ok() {
                let at = opened.committed(number);
                part.secure(at.map_err(|error| error.to_string())?)?;
            }
        }
        let ends = topic.parts.iter().map(|part| part.sure.len() as u64);
        let ends: Vec<u64> = ends.collect();
        for (number, end) in (0..).zip(&ends) {
            let at = opened.committed(number);
            if done.is_ok() && at.as_ref().ok() != Some(end) {
                return Err(format!("the end is {end}, not {at:?}"));
            }
        }
        Ok((Deed::Checkpoints(ends), done))
    }

    /// Reads the next record, which must be the next of its partition.
    fn read_one(
        &mut self,
        name: &str,
        opened: &mut Subscription,
        at: &mut [u64],
    ) -> Check<Result<bool, Error>> {
        let record = match opened.next() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(Ok(false)),
            Err(error @ Error::Corrupt { .. }) => return Err(error.to_string()),
            Err(Error::OffsetExpired {
                partition, asked, ..
            }) if asked == at[partition as usize]
                && asked < self.topics[name].parts[partition as usize].first =>
            {
                return Ok(Ok(false));
            }
            Err(error) => return Ok(Err(error)),
        };
        let number = record.partition() as usize;
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        let part = &mut topic.parts[number];
        // Opening a file may have parked a log, and so made what it held durable.
        part.secure(record.offset() + 1)?;
        let kept = part.sure.get(at[number] as usize);
        if record.offset() != at[number] || !kept.is_some_and(|kept| kept.is_lent(&record)) {
            let position = record.position();
            return Err(format!("{position} was delivered, not {}", at[number]));
        }
        at[number] += 1;
        Ok(Ok(true))
    }

    fn commit_to(
        &mut self,
        name: &str,
        sub: &str,
        opened: &mut Subscription,
    ) -> Check<(Deed, Result<(), Error>)> {
        let known = &self.topics[name].subs[sub];
        let mut all = known.committed.clone();
        let number = self.dice.below(all.len() as u64) as usize;
        let part = &self.topics[name].parts[number];
        let (first, end) = (part.first, part.sure.len() as u64);
        if end == first {
            return Ok((Deed::Nothing, Ok(())));
        }
        let next = first + self.dice.below(end - first);
        let topic = opened.topic().clone();
        let position = |next: u64| -> Result<Position, Error> {
            let mut cursor = topic
                .partition(number as u32)?
                .cursor(Start::Offset(next))?;
            let record = cursor.next()?.ok_or(Error::Closed)?;
            Ok(record.next())
        };
        let position = match position(next) {
            Ok(position) => position,
            Err(error) => return Ok((Deed::Nothing, Err(error))),
        };
        all[number] = all[number].max(next + 1);
        Ok((Deed::Checkpoints(all), opened.commit_to(&position)))
    }
}
