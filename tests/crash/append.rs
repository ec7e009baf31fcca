//! Appending, and what is known of a batch afterwards.

use tidelog::{Ack, Durability, Error, Result};

use crate::model::{Check, Kept};
use crate::run::{Run, is_failed_sync};
use crate::wide::BIG;

/// Which partition a batch is meant for.
#[derive(Debug, Clone)]
enum Aim {
    Turn,
    Key(String),
    Partition(u32),
}

/// Where a batch went.
type Went = (u32, std::ops::Range<u64>, Option<Ack>);

impl Run<'_> {
    /// Appends a record or a batch; `nowait` without waiting until it is durable.
    pub fn append(&mut self, batch: bool, nowait: bool) -> Check {
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
        let how = if nowait {
            format!("{how}, nowait,")
        } else {
            how.to_owned()
        };
        self.say(format!(
            "append {how} {name} {aim:?}: {count}, {bytes} bytes"
        ));
        let sent = match nowait {
            true => self.send_nowait(&name, &aim, &kept, batch),
            false => self.send(&name, &aim, &kept, batch),
        };
        match sent {
            Ok(went) => self.accepted(&name, &aim, kept, went),
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
            return Ok((went.parts()[0].0, went.parts()[0].1.clone(), None));
        }
        let mut went = (0, 0..0, None);
        for record in records {
            let at = match aim {
                Aim::Partition(number) => topic.partition(*number)?.append(record)?,
                _ => topic.append(record)?,
            };
            went = (at.partition(), at.offset()..at.offset() + 1, None);
        }
        Ok(went)
    }

    fn send_nowait(&self, name: &str, aim: &Aim, kept: &[Kept], batch: bool) -> Result<Went> {
        let store = self.store.as_ref().ok_or(Error::Closed)?;
        let topic = store.existing_topic(name)?;
        let records: Vec<_> = kept.iter().map(Kept::record).collect();
        let ack = match (aim, batch, &records[..]) {
            (Aim::Partition(number), false, [record]) => {
                topic.partition(*number)?.append_nowait(record.clone())?
            }
            (Aim::Partition(number), ..) => {
                topic.partition(*number)?.append_batch_nowait(records)?
            }
            (_, false, [record]) => topic.append_nowait(record.clone())?,
            _ => topic.append_batch_nowait(records)?,
        };
        let went = ack.positions();
        Ok((went.parts()[0].0, went.parts()[0].1.clone(), Some(ack)))
    }

    fn accepted(&mut self, name: &str, aim: &Aim, kept: Vec<Kept>, went: Went) -> Check {
        let (number, offsets, ack) = went;
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        if topic.finished {
            return Err("a finished topic was appended to".to_owned());
        }
        if topic.durability == Durability::Manual && ack.is_none() {
            return Err("it has waited for a flush".to_owned());
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
        let end = part.end();
        if offsets != (end..end + kept.len() as u64) {
            return Err(format!(
                "{name}/{number} ends at {end}; it went to {offsets:?}"
            ));
        }
        part.pending.push(kept);
        match ack {
            None => part.secure(offsets.end),
            Some(ack) => {
                self.keep_ack(name, ack);
                Ok(())
            }
        }
    }

    fn refused(&mut self, name: &str, kept: Vec<Kept>, error: &Error) -> Check {
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        match error {
            Error::Finished { .. } if topic.finished => return Ok(()),
            Error::NeedsFlush { .. } if topic.durability == Durability::Manual => return Ok(()),
            Error::InDoubt { spans, .. } => {
                let span = spans.first().ok_or("nothing is in doubt")?;
                let part = topic.parts.get_mut(span.partition as usize);
                let part = part.ok_or("in doubt in a partition that is not there")?;
                let end = part.end();
                if span.offsets != (end..end + kept.len() as u64) {
                    return Err(format!("the end is {end}: {error}"));
                }
                // After a failed sync nothing follows; after a write whose last word failed the log
                // goes on, and gives the offsets again.
                match is_failed_sync(error) {
                    true => part.pending.push(kept),
                    false => part.doubts.push((part.pending.len(), kept)),
                }
            }
            // With any other answer none of it may ever be there.
            _ => {}
        }
        self.error("append", error)
    }
}
