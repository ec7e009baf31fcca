//! Batches over several partitions, and last batches that end their topic: whole after every crash.

use tidelog::{Error, Positions, Result};

use crate::model::{Check, Joint, Kept};
use crate::run::{Run, in_doubt};

impl Run<'_> {
    pub fn joint_step(&mut self) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        let last = self.dice.percent(8);
        let partitions = self.topics[&name].parts.len() as u64;
        let count = self.dice.within(u64::from(!last), 9);
        let aimed: Vec<(u32, Kept)> = (0..count)
            .map(|_| {
                let kept = self.some_record(None, false);
                (self.dice.below(partitions) as u32, kept)
            })
            .collect();
        let nowait = self.relaxed && self.dice.percent(50);
        let failed = self.journal_failed();
        let to: Vec<u32> = aimed.iter().map(|(number, _)| *number).collect();
        self.say(format!("append to {name} {to:?}, the last ones: {last}"));
        match self.send_spread(&name, &aimed, last, nowait) {
            Ok(None) => Ok(()),
            Ok(Some(went)) => self.spread_accepted(&name, aimed, last, &went),
            Err(error) => self.spread_refused(&name, aimed, last && !failed, &error),
        }
    }

    /// `None` if what was sent goes to one partition, and was written without waiting.
    fn send_spread(
        &mut self,
        name: &str,
        aimed: &[(u32, Kept)],
        last: bool,
        nowait: bool,
    ) -> Result<Option<Positions>> {
        let store = self.store.as_ref().ok_or(Error::Closed)?;
        let topic = store.existing_topic(name)?;
        let records = aimed
            .iter()
            .map(|(number, kept)| kept.record().partition(*number));
        if last {
            return topic.append_and_finish(records).map(Some);
        }
        let one = aimed.iter().all(|(number, _)| *number == aimed[0].0);
        if one {
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

    fn spread_accepted(
        &mut self,
        name: &str,
        aimed: Vec<(u32, Kept)>,
        last: bool,
        went: &Positions,
    ) -> Check {
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        if topic.finished && !aimed.is_empty() {
            return Err("a finished topic was appended to".to_owned());
        }
        let positions: Vec<_> = went.iter().collect();
        if positions.len() != aimed.len() {
            return Err(format!("{} positions", positions.len()));
        }
        for ((number, kept), at) in aimed.into_iter().zip(positions) {
            let part = &mut topic.parts[number as usize];
            // What lies below it is durable with it.
            part.secure(part.end())?;
            if (at.partition(), at.offset()) != (number, part.end()) {
                return Err(format!("it went to {at}, not {number}@{}", part.end()));
            }
            part.sure.push(kept);
            part.doubts.clear();
        }
        if last {
            topic.finished = true;
            for part in &mut topic.parts {
                part.secure(part.end())?;
            }
        }
        // A partition that it could not be copied to shows it when it has been opened again.
        let store = self.store.as_ref().ok_or("no store")?;
        topic.stuck = !store.health().failed.is_empty();
        Ok(())
    }

    fn spread_refused(
        &mut self,
        name: &str,
        aimed: Vec<(u32, Kept)>,
        last: bool,
        error: &Error,
    ) -> Check {
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        match error {
            Error::Finished { .. } if topic.finished => return Ok(()),
            Error::InDoubt { spans, .. } => {
                let mut joint = Joint::default();
                for (number, part) in topic.parts.iter_mut().enumerate() {
                    let here = aimed.iter().filter(|(to, _)| *to as usize == number);
                    let here: Vec<Kept> = here.map(|(_, kept)| kept.clone()).collect();
                    if here.is_empty() {
                        continue;
                    }
                    let offsets = part.end()..part.end() + here.len() as u64;
                    let told = spans.iter().find(|span| span.partition as usize == number);
                    if told.is_none_or(|span| span.offsets != offsets) {
                        return Err(format!("the end is {}: {error}", offsets.start));
                    }
                    part.pending.push(here);
                    joint.ends.push((number, offsets.end));
                }
                topic.stuck = true;
                topic.finishing = last;
                joint.finish = last;
                topic.joint = Some(joint);
            }
            error if last => {
                topic.stuck = in_doubt(error);
                topic.finishing = topic.stuck;
            }
            // With any other answer none of it may ever be there.
            _ => {}
        }
        self.error("append together", error)
    }
}
