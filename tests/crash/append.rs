//! Appending, and what is known of a batch afterwards.

use tidelog::{Error, Result};

use crate::model::{Check, Kept};
use crate::run::Run;
use crate::wide::BIG;

/// Which partition a batch is meant for.
#[derive(Debug, Clone)]
enum Aim {
    Turn,
    Key(String),
    Partition(u32),
}

/// Where a batch went.
type Went = (u32, std::ops::Range<u64>);

impl Run<'_> {
    pub fn append(&mut self, batch: bool) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        let partitions = self.topics[&name].parts.len() as u64;
        let aim = match self.dice.below(3) {
            0 => Aim::Turn,
            1 if !self.even => Aim::Key(format!("key {}", self.dice.below(8))),
            _ => Aim::Partition(self.dice.below(partitions) as u32),
        };
        let count = if batch { self.dice.within(1, 9) } else { 1 };
        let key = match &aim {
            Aim::Key(key) => Some(key.clone()),
            _ => None,
        };
        let kept: Vec<Kept> = (0..count)
            .map(|_| self.some_record(key.as_deref(), name == BIG))
            .collect();
        let bytes: usize = kept.iter().map(|kept| kept.payload.len()).sum();
        let how = if batch { "batch" } else { "record" };
        self.say(format!(
            "append {how} {name} {aim:?}: {count}, {bytes} bytes"
        ));
        match self.send(&name, &aim, &kept, batch) {
            Ok(went) => self.acknowledged(&name, &aim, kept, went),
            Err(error) => self.refused(&name, kept, &error),
        }
    }

    fn send(&self, name: &str, aim: &Aim, kept: &[Kept], batch: bool) -> Result<Went> {
        let store = self.store.as_ref().ok_or(Error::Closed)?;
        let topic = store.existing_topic(name)?;
        let records: Vec<_> = kept.iter().map(Kept::record).collect();
        if batch {
            let went = match aim {
                Aim::Partition(number) => topic.partition(*number)?.append_batch(records)?,
                _ => topic.append_batch(records)?,
            };
            return Ok((went.partition(), went.offsets()));
        }
        let mut went = (0, 0..0);
        for record in records {
            let at = match aim {
                Aim::Partition(number) => topic.partition(*number)?.append(record)?,
                _ => topic.append(record)?,
            };
            went = (at.partition(), at.offset()..at.offset() + 1);
        }
        Ok(went)
    }

    fn acknowledged(&mut self, name: &str, aim: &Aim, kept: Vec<Kept>, went: Went) -> Check {
        let (number, offsets) = went;
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        if topic.finished {
            return Err("a finished topic was appended to".to_owned());
        }
        let right = match aim {
            Aim::Turn => true,
            Aim::Key(key) => *topic.homes.entry(key.clone()).or_insert(number) == number,
            Aim::Partition(wanted) => number == *wanted,
        };
        let part = topic.parts.get_mut(number as usize);
        let part = part
            .filter(|_| right)
            .ok_or(format!("it went to partition {number}"))?;
        let end = part.sure.len() as u64;
        if offsets != (end..end + kept.len() as u64) {
            return Err(format!(
                "{name}/{number} ends at {end}; it went to {offsets:?}"
            ));
        }
        part.sure.extend(kept);
        part.doubts.clear();
        Ok(())
    }

    fn refused(&mut self, name: &str, kept: Vec<Kept>, error: &Error) -> Check {
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        match error {
            Error::Finished { .. } if topic.finished => return Ok(()),
            Error::InDoubt {
                partition, offsets, ..
            } => {
                let part = topic.parts.get_mut(*partition as usize);
                let part = part.ok_or("in doubt in a partition that is not there")?;
                let end = part.sure.len() as u64;
                if *offsets != (end..end + kept.len() as u64) {
                    return Err(format!("the end is {end}: {error}"));
                }
                part.doubts.push(kept);
            }
            // With any other answer none of it may ever be there.
            _ => {}
        }
        self.error("append", error)
    }
}
