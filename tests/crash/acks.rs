//! Appends that do not wait, in topics of every durability; what their acks say, and flushing.

use std::time::Duration;

use tidelog::{Ack, Durability, Error, Subscription};

use crate::model::Check;
use crate::run::{Run, in_doubt};

const INTERVAL: Duration = Duration::from_millis(250);
/// More acks than these are let go of.
const MOST: usize = 20;

/// An ack, and where the records are.
#[derive(Debug, Clone)]
pub struct Acked {
    pub name: String,
    pub ack: Ack,
}

impl Acked {
    fn part(&self) -> usize {
        self.ack.position().partition() as usize
    }

    fn end(&self) -> u64 {
        self.ack.positions().parts()[0].1.end
    }
}

impl Run<'_> {
    pub fn relaxed_step(&mut self) -> Check {
        match self.dice.below(100) {
            0..40 => self.append(false, true),
            40..60 => self.append(true, true),
            60..77 => self.ask_an_ack(),
            77..87 => self.flush(),
            87..92 => self.change_durability(),
            _ => self.look(),
        }
    }

    /// How a topic is to be synced; in most programs as it is by default.
    pub fn some_durability(&mut self) -> Durability {
        if !self.relaxed {
            return Durability::Commit;
        }
        self.dice.pick(&[
            Durability::Commit,
            Durability::Interval(INTERVAL),
            Durability::Manual,
        ])
    }

    /// What was written without waiting: nothing is known of its durability.
    pub fn keep_ack(&mut self, name: &str, ack: Ack) {
        if self.acks.len() == MOST {
            let at = self.dice.below(MOST as u64) as usize;
            self.acks.remove(at);
        }
        let name = name.to_owned();
        self.acks.push(Acked { name, ack });
    }

    fn ask_an_ack(&mut self) -> Check {
        if self.acks.is_empty() {
            return Ok(());
        }
        let at = self.dice.below(self.acks.len() as u64) as usize;
        let acked = self.acks[at].clone();
        let timeout = match self.dice.below(10) {
            0..4 => return self.look_at(&acked).map(drop),
            4..7 => None,
            _ => Some(self.dice.pick(&[Duration::ZERO, INTERVAL, INTERVAL * 100])),
        };
        self.say(format!("wait for {}, {timeout:?}", acked.ack.position()));
        let waited = match timeout {
            None => acked.ack.wait(),
            Some(timeout) => acked.ack.wait_timeout(timeout),
        };
        let topic = self.topics.get_mut(&acked.name).ok_or("no such topic")?;
        let mode = topic.durability;
        let part = &mut topic.parts[acked.part()];
        match waited {
            Ok(position) if position != acked.ack.position() => Err(format!(
                "an ack of {} names {position}",
                acked.ack.position()
            )),
            Ok(_) => part.secure(acked.end()),
            Err(Error::NeedsFlush { .. })
                if mode == Durability::Manual && part.asked < acked.end() =>
            {
                Ok(())
            }
            Err(Error::TimedOut { .. })
                if mode == Durability::Interval(INTERVAL)
                    && timeout.is_some_and(|timeout| timeout < INTERVAL) =>
            {
                Ok(())
            }
            Err(error) if (part.sure.len() as u64) >= acked.end() => {
                Err(format!("it is durable: {error}"))
            }
            Err(error) => self.error("ack", &error),
        }
    }

    /// What an ack calls durable must be there from now on.
    fn look_at(&mut self, acked: &Acked) -> Check<bool> {
        let durable = acked.ack.is_durable();
        let topic = self.topics.get_mut(&acked.name).ok_or("no such topic")?;
        let part = &mut topic.parts[acked.part()];
        if durable {
            part.secure(acked.end())?;
        } else if part.sure.len() as u64 >= acked.end() {
            return Err(format!("{} is not durable any more", acked.ack.position()));
        }
        Ok(durable)
    }

    /// Lets go of all acks, each of which is asked a last time.
    pub fn last_look_at_acks(&mut self) -> Check {
        for acked in std::mem::take(&mut self.acks) {
            self.look_at(&acked)?;
        }
        Ok(())
    }

    /// Everything that was written is durable now.
    pub fn all_is_durable(&mut self) -> Check {
        for part in self.topics.values_mut().flat_map(|it| &mut it.parts) {
            part.secure(part.end())?;
        }
        Ok(())
    }

    /// Asks how much of a topic is durable.
    pub fn learn(&mut self, name: &str) -> Check {
        if !self.relaxed {
            return Ok(());
        }
        let topic = self.open_store()?.existing_topic(name);
        let ends = topic.and_then(|topic| {
            let end = |number| topic.partition(number)?.end();
            (0..topic.partitions())
                .map(end)
                .collect::<Result<Vec<_>, _>>()
        });
        let ends = match ends {
            Ok(ends) => ends,
            Err(error) => return self.error("end", &error),
        };
        let model = self.topics.get_mut(name).ok_or("no such topic")?;
        for (part, end) in model.parts.iter_mut().zip(ends) {
            part.secure(end)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        let store = self.open_store()?;
        let count = self.topics[&name].parts.len();
        let which = self.dice.below(4);
        let number = self.dice.below(count as u64) as usize;
        self.say(format!(
            "flush {name}: {}",
            ["all", "topic", "part", "part"][which as usize]
        ));
        let topic = store.existing_topic(&name);
        let flushed = topic.and_then(|topic| match which {
            0 => store.flush(),
            1 => topic.flush(),
            _ => topic.partition(number as u32)?.flush(),
        });
        let covered = |other: &str, part: usize| match which {
            0 => true,
            1 => other == name,
            _ => other == name && part == number,
        };
        for (other, topic) in &mut self.topics {
            for (at, part) in topic.parts.iter_mut().enumerate() {
                if covered(other, at) {
                    part.asked = part.end();
                    if flushed.is_ok() {
                        part.secure(part.end())?;
                    }
                }
            }
        }
        match flushed {
            Ok(()) => Ok(()),
            Err(error) => self.error("flush", &error),
        }
    }

    fn change_durability(&mut self) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        let durability = self.some_durability();
        self.say(format!("{name} is synced by {durability:?}"));
        let options = self.topics[&name].options.clone().durability(durability);
        let failed = self.journal_failed();
        let changed = self.open_store()?.create_topic(&name, options);
        let model = self.topics.get_mut(&name).ok_or("no such topic")?;
        match changed {
            Ok(_) if model.durability != durability => {
                model.durability = durability;
                // Whoever waits under the old one is answered.
                model.parts.iter_mut().for_each(|it| it.asked = it.end());
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => {
                if !failed && in_doubt(&error) {
                    model.durability_doubt = Some(durability);
                }
                self.error("change", &error)
            }
        }
    }

    /// Commits behind a record that may not be durable yet.
    pub fn commit_ahead(
        &mut self,
        name: &str,
        sub: &str,
        opened: &mut Subscription,
    ) -> Option<(Vec<u64>, Result<(), Error>)> {
        let acked = self.acks.iter().rfind(|acked| acked.name == name)?;
        let next = acked.ack.position().next();
        let mut all = self.topics[name].subs[sub].committed.clone();
        let committed = &mut all[next.partition() as usize];
        *committed = next.offset().max(*committed);
        self.say(format!("{sub} commits {next}"));
        Some((all, opened.commit_to(&next)))
    }
}
