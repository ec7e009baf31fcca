//! What happens as one: batches over several partitions, last batches that end their topic, and (see
//! `transact`) transactions. After every crash all of it is there, or nothing.

use std::collections::{BTreeMap, BTreeSet};

use tidelog::{Error, Position, Positions, Result, Span};

use crate::model::{Check, Joint, Kept, There};
use crate::run::{Run, in_doubt};
use crate::tally::Kinds;

/// What is to happen as one.
#[derive(Debug, Clone, Default)]
pub struct Together {
    /// Records in the order of their calls, with their topics and partitions.
    pub records: Vec<(String, u32, Kept)>,
    /// The topics that end with it.
    pub ends: Vec<String>,
    /// Where subscriptions will stand, by topic and name: those that it moves.
    pub commits: BTreeMap<(String, String), Vec<u64>>,
}

impl Together {
    /// The topics that it writes to, or ends.
    fn topics(&self) -> BTreeSet<&String> {
        let names = self.records.iter().map(|(name, ..)| name);
        names.chain(&self.ends).collect()
    }

    /// What each partition gets.
    fn parts(&self) -> BTreeMap<(String, u32), Vec<Kept>> {
        let mut parts = BTreeMap::<_, Vec<Kept>>::new();
        for (name, number, kept) in &self.records {
            let here = parts.entry((name.clone(), *number)).or_default();
            here.push(kept.clone());
        }
        parts
    }

    /// Whether there is anything in it.
    fn is_none(&self) -> bool {
        self.topics().is_empty() && self.commits.is_empty()
    }

    fn kinds(&self) -> Kinds {
        Kinds {
            all: 1,
            topics: u64::from(self.topics().len() > 1),
            checkpoints: u64::from(!self.commits.is_empty()),
            ends: u64::from(!self.ends.is_empty()),
        }
    }
}

impl Run<'_> {
    pub fn joint_step(&mut self) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        let last = self.dice.percent(8);
        let partitions = self.topics[&name].parts.len() as u64;
        let count = self.dice.within(u64::from(!last), 9);
        let records = (0..count).map(|_| {
            let kept = self.some_record(None, false);
            let number = self.dice.below(partitions) as u32;
            (name.clone(), number, kept)
        });
        let batch = Together {
            records: records.collect(),
            ends: last.then(|| name.clone()).into_iter().collect(),
            ..Together::default()
        };
        let nowait = self.relaxed && self.dice.percent(50);
        let failed = self.journal_failed();
        let to: Vec<u32> = batch.records.iter().map(|(_, number, _)| *number).collect();
        self.say(format!("append to {name} {to:?}, the last ones: {last}"));
        match self.send_spread(&name, &batch, nowait) {
            Ok(None) => Ok(()),
            Ok(Some(went)) => self.together_accepted(batch, went.iter().collect()),
            Err(error) => self.together_refused(&batch, failed, &error),
        }
    }

    /// `None` if what was sent goes to one partition, and was written without waiting.
    fn send_spread(&self, name: &str, batch: &Together, nowait: bool) -> Result<Option<Positions>> {
        let store = self.store.as_ref().ok_or(Error::Closed)?;
        let topic = store.existing_topic(name)?;
        let records = batch.records.iter();
        let records = records.map(|(_, number, kept)| kept.record().partition(*number));
        if !batch.ends.is_empty() {
            return topic.append_and_finish(records).map(Some);
        }
        if batch.parts().len() == 1 {
            // That is what other steps are for.
            return Ok(None);
        }
        if nowait {
            let ack = topic.append_batch_nowait(records)?;
            assert!(ack.is_durable(), "a transaction is durable at once");
            return Ok(Some(ack.positions()));
        }
        match topic.append_batch(records) {
            Err(Error::NeedsFlush { .. }) => Ok(None),
            sent => sent.map(Some),
        }
    }

    pub fn together_accepted(&mut self, all: Together, went: Vec<Position>) -> Check {
        if went.len() != all.records.len() {
            return Err(format!("{} positions", went.len()));
        }
        if all.is_none() {
            return Ok(());
        }
        self.tally.acked.add(all.kinds());
        // A partition that it could not be copied to shows it when it has been opened again.
        let failed = !self.open_store()?.health().failed.is_empty();
        for name in all.topics() {
            let topic = self.topics.get_mut(name);
            let topic = topic.ok_or("a deleted topic was appended to")?;
            let any = all.records.iter().any(|(to, ..)| to == name);
            if topic.finished && any {
                return Err("a finished topic was appended to".to_owned());
            }
            topic.stuck |= failed;
        }
        for ((name, number, kept), at) in all.records.into_iter().zip(went) {
            let topic = self.topics.get_mut(&name).ok_or("no such topic")?;
            let part = &mut topic.parts[number as usize];
            // What lies below it is durable with it.
            part.secure(part.end())?;
            let right = (at.topic(), at.partition(), at.offset()) == (&name, number, part.end());
            if !right {
                return Err(format!(
                    "it went to {at}, not {name}/{number}@{}",
                    part.end()
                ));
            }
            part.sure.push(kept);
            part.doubts.clear();
        }
        for name in &all.ends {
            let topic = self.topics.get_mut(name).ok_or("no such topic")?;
            topic.finished = true;
            for part in &mut topic.parts {
                part.secure(part.end())?;
            }
        }
        for ((name, sub), to) in all.commits {
            let topic = self.topics.get_mut(&name);
            let topic = topic.ok_or("a deleted topic was committed")?;
            let sub = topic.subs.get_mut(&sub).ok_or("no such subscription")?;
            sub.committed = to;
        }
        Ok(())
    }

    /// `failed`: the journal had failed before.
    pub fn together_refused(&mut self, all: &Together, failed: bool, error: &Error) -> Check {
        match error {
            Error::InDoubt { spans, .. } if !all.records.is_empty() => {
                self.leave_in_doubt(all, spans)?;
            }
            error if all.records.is_empty() && !failed && in_doubt(error) => {
                self.leave_in_doubt(all, &[])?;
            }
            // With any other answer none of it may ever be there.
            _ => {
                self.tally.refused += u64::from(!failed);
                if self.must_refuse(all, error) {
                    return Ok(());
                }
            }
        }
        self.error("together", error)
    }

    /// Whether somebody else has made it impossible, in that way.
    fn must_refuse(&self, all: &Together, error: &Error) -> bool {
        let mut topics = all.topics();
        let known = |name: &&String| self.topics.get(*name);
        match error {
            Error::Finished { .. } => topics.iter().filter_map(known).any(|it| it.finished),
            Error::TopicDeleted { .. } => {
                topics.extend(all.commits.keys().map(|(name, _)| name));
                let there = |name| known(name).is_some_and(|it| it.there == There::Yes);
                !topics.iter().all(there)
            }
            _ => false,
        }
    }

    fn leave_in_doubt(&mut self, all: &Together, spans: &[Span]) -> Check {
        let mut joint = Joint {
            commits: all.commits.clone(),
            kinds: all.kinds(),
            ..Joint::default()
        };
        for ((name, number), here) in all.parts() {
            let topic = self.topics.get_mut(&name).ok_or("no such topic")?;
            let part = &mut topic.parts[number as usize];
            let offsets = part.end()..part.end() + here.len() as u64;
            let mut told = spans.iter();
            let told = told.find(|it| (&it.topic, it.partition) == (&name, number));
            if told.is_none_or(|span| span.offsets != offsets) {
                return Err(format!(
                    "the end of {name}/{number} is {offsets:?}: {spans:?}"
                ));
            }
            part.pending.push(here);
            joint.ends.insert((name, number), offsets.end);
        }
        if spans.len() != joint.ends.len() {
            return Err(format!("nothing was for all of {spans:?}"));
        }
        for name in all.topics() {
            let topic = self.topics.get_mut(name).ok_or("no such topic")?;
            topic.stuck = true;
            if all.ends.contains(name) && !topic.finished {
                topic.finishing = true;
                joint.finishes.push(name.clone());
            }
        }
        for ((name, sub), to) in &all.commits {
            let topic = self.topics.get_mut(name).ok_or("no such topic")?;
            let sub = topic.subs.get_mut(sub).ok_or("no such subscription")?;
            sub.doubt = Some(to.clone());
        }
        match self.doubt.replace(joint) {
            None => Ok(()),
            Some(before) => Err(format!("a second one is in doubt, behind {before:?}")),
        }
    }

    /// What was in doubt was seen, as far as there was anything to see.
    pub fn settle_together(&mut self) {
        let Some(joint) = self.doubt.take() else {
            return;
        };
        match joint.seen {
            Some(true) => self.tally.whole.add(joint.kinds),
            Some(false) => self.tally.absent.add(joint.kinds),
            None => {}
        }
    }
}
