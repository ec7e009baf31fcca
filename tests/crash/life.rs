//! What a program does with the store, and what it must get for it.

use std::time::Duration;

use tidelog::TopicOptions;
use tidelog::sys::sim::{Call, Fault, When};

use crate::model::{Check, Kept, There, Topic};
use crate::run::{Run, in_doubt};

const TOPICS: [&str; 4] = ["tides", "quakes", "winds", "stars"];

impl Run<'_> {
    /// Ends a life, by a close or a crash, and begins the next one.
    pub fn end_life(&mut self) -> Check {
        if !self.sim.has_stopped() && self.dice.percent(25) {
            self.close()?;
            if self.closed {
                self.all_is_durable()?;
            }
            self.settle_doubts();
        } else {
            self.crash(false)?;
        }
        self.reopen()?;
        self.copy_something();
        Ok(())
    }

    /// Ends the last one.
    pub fn last_life(&mut self) -> Check {
        self.close()?;
        if self.closed {
            self.all_is_durable()?;
        }
        self.settle_doubts();
        self.take_print()?;
        self.put_something_back()
    }

    /// All logs were open, and closed: what was in doubt by its writing lies behind a sealed end.
    fn settle_doubts(&mut self) {
        if self.closed {
            let parts = self.topics.values_mut().flat_map(|topic| &mut topic.parts);
            parts.for_each(|part| part.doubts.clear());
        }
    }

    pub fn step(&mut self) -> Check {
        // What was appended without waiting may have ridden with something else since.
        for name in self.topics.keys().cloned().collect::<Vec<_>>() {
            if self.topics[&name].there == There::Yes && !self.topics[&name].stuck {
                self.learn(&name)?;
            }
        }
        if self.bulk.is_some() && self.dice.percent(20) {
            return self.wide_step();
        }
        if self.joint && self.dice.percent(15) {
            return self.joint_step();
        }
        if self.transacts && self.dice.percent(15) {
            return self.transaction_step();
        }
        if self.retained && self.dice.percent(12) {
            return self.retain();
        }
        if self.relaxed && self.dice.percent(45) {
            return self.relaxed_step();
        }
        match self.dice.below(100) {
            0..35 => self.append(false, false),
            35..50 => self.append(true, false),
            50..58 => self.create(),
            58..60 => self.delete(),
            60..61 => self.finish(),
            61..73 => self.subscription(),
            73..79 => self.look(),
            79..85 => self.pass_time(),
            85..90 => self.stop_soon(),
            90..97 => self.order_fault(),
            _ => self.relieve(),
        }
    }

    pub fn pass_time(&mut self) -> Check {
        let millis = self.dice.pick(&[1, 300, 1_500, 60_000]);
        self.clock.advance(Duration::from_millis(millis));
        if self.dice.percent(10) {
            let back = self.dice.within(1, 1_000_000_000) as i64;
            self.clock.jump(self.now() - back);
        }
        Ok(())
    }

    fn stop_soon(&mut self) -> Check {
        let most = self.dice.pick(&[3, 10, 40]);
        let calls = self.dice.below(most);
        self.sim.crash_after(calls);
        self.say(format!("the machine will stop after {calls} calls"));
        Ok(())
    }

    pub fn order_fault(&mut self) -> Check {
        self.troubled = true;
        let fault = match self.dice.below(10) {
            0..5 => {
                let nth = self.dice.below(4);
                (Call::Sync, When::Nth(nth), self.some_errno())
            }
            5 => (Call::Sync, When::PerMille(self.dice.within(50, 400)), 5),
            6 => {
                let nth = self.dice.below(2);
                (Call::SyncDir, When::Nth(nth), self.some_errno())
            }
            7 => {
                let capacity = self.dice.within(100, 1_000) << 10;
                self.sim.set_capacity(Some(capacity));
                self.say(format!("the disk has {capacity} bytes"));
                return Ok(());
            }
            _ => {
                let call = self
                    .dice
                    .pick(&[Call::Create, Call::Write, Call::Grow, Call::Map]);
                let call = match self.side.below(4) {
                    0 => self.side.pick(&[Call::Open, Call::Rename, Call::List]),
                    _ => call,
                };
                let when = self
                    .dice
                    .pick(&[When::Nth(0), When::PerMille(300), When::From(1)]);
                (call, when, self.some_errno())
            }
        };
        let (call, when, errno) = fault;
        self.say(format!("{call:?} fails, {when:?}, with {errno}"));
        self.sim.fail(Fault::new(call, when, errno));
        Ok(())
    }

    /// What a call may fail with: a bad disk, a full one, none left of a kind, a signal.
    pub fn some_errno(&mut self) -> i32 {
        let rare = [libc::ENOSPC, libc::EMFILE, libc::EDQUOT, libc::EINTR];
        match self.side.percent(60) {
            true => libc::EIO,
            false => self.side.pick(&rare),
        }
    }

    /// Nothing fails by order any more; what has failed for good stays so.
    pub(super) fn relieve(&mut self) -> Check {
        self.sim.heal();
        self.sim.set_capacity(None);
        let health = self.open_store()?.health();
        let stuck = self.topics.values().any(|topic| topic.stuck);
        self.troubled = stuck || health.journal.is_some() || !health.failed.is_empty();
        self.say(format!("no more faults; trouble stays: {}", self.troubled));
        Ok(())
    }

    /// A topic to do something with.
    pub fn some_topic(&mut self) -> Option<String> {
        let usable = |topic: &&Topic| topic.there == There::Yes && !topic.stuck;
        let all = self.topics.iter().filter(|(_, topic)| usable(topic));
        let all: Vec<&String> = all.map(|(name, _)| name).collect();
        let count = all.len() as u64;
        (count > 0).then(|| all[self.dice.below(count) as usize].clone())
    }

    pub fn create(&mut self) -> Check {
        let name = self.dice.pick(&TOPICS);
        if self.topics.contains_key(name) {
            return Ok(());
        }
        let partitions = self.dice.within(1, 4) as u32;
        let max = self.dice.pick(&[16, 32, 64]) << 10;
        let retention = self.some_retention();
        let options = TopicOptions::new()
            .partitions(partitions)
            .retention(retention)
            .first_segment_bytes(16 << 10)
            .max_segment_bytes(max)
            .max_batch_bytes(256 << 10)
            .unsettled_bytes(64 << 10);
        self.say(format!("create {name}: {partitions} partitions"));
        self.make(name, partitions, options)
    }

    /// Makes a topic: it is there, or perhaps.
    pub(super) fn make(&mut self, name: &str, partitions: u32, options: TopicOptions) -> Check {
        let durability = self.some_durability();
        let options = options.durability(durability);
        let failed = self.journal_failed();
        let made = self.open_store()?.create_topic(name, options.clone());
        let there = match made {
            Ok(_) => There::Yes,
            Err(error) => {
                self.error("create", &error)?;
                if failed || !in_doubt(&error) {
                    return Ok(());
                }
                self.troubled = true;
                There::Perhaps
            }
        };
        let topic = Topic::new(partitions, there, (options, durability));
        self.topics.insert(name.to_owned(), topic);
        Ok(())
    }

    pub fn delete(&mut self) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        self.say(format!("delete {name}"));
        let failed = self.journal_failed();
        let store = self.open_store()?;
        let deleted = store.delete_topic(&name);
        let gone = !store.topics().iter().any(|info| info.name == name);
        self.acks.retain(|acked| acked.name != name);
        let Err(error) = deleted else {
            self.topics.remove(&name);
            return Ok(());
        };
        self.error("delete", &error)?;
        if gone {
            self.topics.remove(&name);
            return Ok(());
        }
        let topic = self.topics.get_mut(&name).ok_or("no such topic")?;
        topic.stuck = in_doubt(&error);
        if !failed && topic.stuck {
            topic.there = There::Perhaps;
        }
        Ok(())
    }

    pub fn finish(&mut self) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        self.say(format!("finish {name}"));
        let failed = self.journal_failed();
        let topic = self.open_store()?.existing_topic(&name);
        let topic = topic.map_err(|error| error.to_string())?;
        let finished = topic.finish();
        let model = self.topics.get_mut(&name).ok_or("no such topic")?;
        if topic.is_finished() != (finished.is_ok() || model.finished) {
            return Err(format!("finished is {}", topic.is_finished()));
        }
        let Err(error) = finished else {
            model.finished = true;
            for part in &mut model.parts {
                part.secure(part.end())?;
            }
            return Ok(());
        };
        model.stuck = in_doubt(&error);
        model.finishing = !failed && model.stuck;
        self.error("finish", &error)
    }

    /// A partition, in the middle of everything.
    pub fn look(&mut self) -> Check {
        let Some(name) = self.some_topic() else {
            return Ok(());
        };
        let number = self.dice.below(self.topics[&name].parts.len() as u64) as u32;
        self.say(format!("look at {name}/{number}"));
        let topic = self.open_store()?.existing_topic(&name);
        let partition = match topic.and_then(|topic| topic.partition(number)) {
            Ok(partition) => partition,
            Err(error) => return self.error("partition", &error),
        };
        let Some((first, found)) = self.scan(&partition)? else {
            return Ok(());
        };
        let parts = &mut self.topics.get_mut(&name).ok_or("no such topic")?.parts;
        let part = &mut parts[number as usize];
        let place = |wrong: String| format!("{name}/{number}: {wrong}");
        part.secure(first + found.len() as u64).map_err(place)?;
        if first != part.first {
            return Err(place(format!("it begins at {first}, not {}", part.first)));
        }
        if first + found.len() as u64 != part.sure.len() as u64 {
            return Err(place(format!("{} records", found.len())));
        }
        part.compare(&found).map_err(place)?;
        self.look_up(&partition, &name).map(drop).map_err(place)
    }

    /// A record that was never appended before.
    pub fn some_record(&mut self, key: Option<&str>, big: bool) -> Kept {
        self.serial += 1;
        let tombstone = key.is_some() && self.dice.percent(5);
        let len = match self.dice.below(100) {
            _ if tombstone => 0,
            _ if self.even => 200,
            _ if big => self.dice.within(20_000, 120_000),
            0..10 => self.dice.below(9),
            10..80 => self.dice.below(1_000),
            80..97 => self.dice.below(3_001),
            _ => self.dice.within(12_000, 40_000),
        };
        let mut payload = format!("{} ", self.serial).into_bytes();
        let mut fill = crate::dice::Dice::new(self.serial);
        while (payload.len() as u64) < len {
            payload.extend_from_slice(&fill.next().to_le_bytes());
        }
        payload.truncate(len as usize);
        let stamped = self.dice.percent(20);
        let shift = self.dice.below(10_000_000_000) as i64 - 5_000_000_000;
        Kept {
            key: key.map(str::to_owned),
            payload,
            source: (!self.even && self.dice.percent(20)).then(|| self.serial.to_string()),
            time: self.now() + if stamped { shift } else { 0 },
            stamped,
            tombstone,
        }
    }
}
