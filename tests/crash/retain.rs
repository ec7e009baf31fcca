//! Retention and truncation: what goes is what was told, from the beginning on, and it stays gone.

use std::time::Duration;

use tidelog::{Audit, Error, Retention, Topic};

use crate::model::Check;
use crate::run::Run;

impl Run<'_> {
    /// How long a topic of this program keeps its records.
    pub fn some_retention(&mut self) -> Retention {
        if !self.retained {
            return Retention::forever();
        }
        let bytes = self.dice.pick(&[0, 20_000, 60_000]);
        let age = Duration::from_millis(self.dice.pick(&[1_000, 30_000]));
        match self.dice.below(3) {
            0 => Retention::age(age),
            1 => Retention::bytes(bytes),
            _ => Retention::age(age).or_bytes(bytes),
        }
    }

    /// Lets a topic go of something, by its limits or by hand.
    pub fn retain(&mut self) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        let topic = self.open_store()?.existing_topic(&name);
        let topic = topic.map_err(|error| error.to_string())?;
        match self.dice.percent(30) {
            true => self.truncate(&name, &topic),
            false => self.apply(&name, &topic),
        }
    }

    fn truncate(&mut self, name: &str, topic: &Topic) -> Check {
        let number = self.dice.below(self.topics[name].parts.len() as u64) as u32;
        let durable = topic.partition(number).and_then(|partition| {
            let end = partition.end()?;
            Ok((partition, end))
        });
        let (partition, end) = match durable {
            Ok(durable) => durable,
            Err(error) => return self.error("partition", &error),
        };
        let to = self.dice.below(end + 1);
        self.say(format!("truncate {name}/{number} before {to}"));
        let done = partition.truncate_before(to);
        self.begins(name, topic, number, Some(to))?;
        match done {
            Ok(first) if first == self.part(name, number)?.first => Ok(()),
            Ok(first) => Err(format!("{name}/{number} begins at {first}")),
            Err(error) => self.error("truncate", &error),
        }
    }

    fn apply(&mut self, name: &str, topic: &Topic) -> Check {
        self.say(format!("retain {name}"));
        let would = topic.audit();
        let done = topic.apply_retention();
        for number in 0..topic.partitions() {
            let of = |audit: &Result<Audit, Error>| {
                let audit = audit.as_ref().ok()?;
                let all = audit.partitions.iter();
                all.clone().find(|it| it.partition == number).cloned()
            };
            let (told, did) = (of(&would), of(&done));
            self.begins(name, topic, number, told.as_ref().and_then(|it| it.first))?;
            let calm = !self.sim.has_stopped() && !self.troubled;
            if calm && told != did {
                return Err(format!("{name}/{number}: told {told:?}, did {did:?}"));
            }
            if let Some(failed) = did.and_then(|did| did.failed) {
                self.say(format!("    retain: {failed}"));
                if calm {
                    return Err(format!("{name}/{number} for no reason: {failed}"));
                }
            }
        }
        match done {
            Ok(_) => Ok(()),
            Err(error) => self.error("retain", &error),
        }
    }

    /// Notes where a partition begins, which may be up to there.
    fn begins(&mut self, name: &str, topic: &Topic, number: u32, most: Option<u64>) -> Check {
        let found = topic
            .partition(number)
            .and_then(|partition| Ok((partition.first()?, partition.end()?)));
        let part = self.part(name, number)?;
        if let Some(most) = most {
            part.may_begin = part.may_begin.max(Some(most));
        }
        let Ok((first, end)) = found else {
            return Ok(());
        };
        part.secure(end)?;
        if first > part.first {
            part.begin(first)?;
        }
        Ok(())
    }

    fn part(&mut self, name: &str, number: u32) -> Check<&mut crate::model::Part> {
        let topic = self.topics.get_mut(name).ok_or("no such topic")?;
        let part = topic.parts.get_mut(number as usize);
        part.ok_or_else(|| format!("no partition {number}"))
    }
}
