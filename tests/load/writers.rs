//! Threads that append, in every way there is.

use std::thread;
use std::time::Duration;

use tidelog::{Ack, Durability, Partition, Position, Positions, Record, Result, Topic};

use super::catalog::LONG;
use super::stamp::{Stamp, serial};
use super::{Life, Live, say};
use crate::dice::Dice;

/// One writer, and what it waits for.
struct Writer<'a> {
    life: &'a Life,
    thread: u64,
    number: u64,
    dice: Dice,
    /// What was written, with the facts that are true once it is durable.
    waiting: Vec<(Ack, Vec<String>)>,
}

/// Appends until the life is over.
pub fn write(life: &Life, thread: u64, dice: Dice) {
    let mut writer = Writer {
        life,
        thread,
        number: 0,
        dice,
        waiting: Vec::new(),
    };
    while !life.is_over() {
        let Some(live) = life.some(&mut writer.dice) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        if let Err(error) = writer.step(&live) {
            life.failed("append", &error);
        }
    }
}

/// The same fact, as said when a record is written and when it is durable.
pub fn fact(live: &Live, at: &Position, stamp: &Stamp) -> String {
    let (slot, incarnation) = (live.slot, live.incarnation);
    let (partition, offset) = (at.partition(), at.offset());
    format!("{slot} {incarnation} {partition} {offset} {}", stamp.serial)
}

/// Records of a batch, in its order, and where they are.
pub fn facts(live: &Live, positions: &Positions, batch: &[Stamp]) -> Vec<String> {
    let placed = positions.iter().zip(batch);
    placed.map(|(at, stamp)| fact(live, &at, stamp)).collect()
}

fn tell(mark: &str, facts: &[String]) {
    facts.iter().for_each(|fact| say(&format!("{mark} {fact}")));
}

impl Writer<'_> {
    fn step(&mut self, live: &Live) -> Result<()> {
        let by_hand = live.topic.durability() == Durability::Manual;
        match self.dice.below(100) {
            0..25 if !by_hand => self.append(live),
            0..55 => self.append_nowait(live),
            55..85 => {
                let keyed = self.dice.percent(50);
                self.batch(live, keyed, by_hand)
            }
            85..93 => self.settle(),
            93..98 => self.flush(live, |topic| topic.flush()),
            _ => {
                let store = self.life.store.clone();
                self.flush(live, move |_| store.flush())
            }
        }
    }

    /// Stamps for a batch of so many.
    fn stamps(&mut self, live: &Live, count: u32) -> Vec<Stamp> {
        let first = serial(self.life.number, self.thread, self.number);
        self.number += u64::from(count);
        let stamp = |n: u32| Stamp {
            serial: first + u64::from(n),
            first,
            count,
            slot: live.slot as u32,
            incarnation: live.incarnation,
        };
        (0..count).map(stamp).collect()
    }

    fn payload(&mut self, stamp: &Stamp) -> Vec<u8> {
        let len = match self.dice.below(100) {
            0..50 if stamp.slot as usize == LONG => self.dice.within(10_000, 100_000),
            0..60 => self.dice.within(0, 200),
            60..97 => self.dice.within(200, 3000),
            _ => self.dice.within(10_000, 40_000),
        };
        stamp.payload(len as usize)
    }

    fn append(&mut self, live: &Live) -> Result<()> {
        let stamp = self.stamps(live, 1)[0];
        let payload = self.payload(&stamp);
        let key = self.dice.below(16).to_string();
        let record = match self.dice.percent(50) {
            true => Record::new(&payload).key(&key),
            false => Record::new(&payload),
        };
        let at = live.topic.append(record)?;
        tell("safe", &[fact(live, &at, &stamp)]);
        Ok(())
    }

    fn append_nowait(&mut self, live: &Live) -> Result<()> {
        let stamp = self.stamps(live, 1)[0];
        let payload = self.payload(&stamp);
        let number = self.dice.below(u64::from(live.topic.partitions())) as u32;
        let partition: Partition = live.topic.partition(number)?;
        let ack = partition.append_nowait(Record::new(&payload))?;
        self.wrote(live, ack, &[stamp]);
        Ok(())
    }

    fn batch(&mut self, live: &Live, keyed: bool, by_hand: bool) -> Result<()> {
        let count = self.dice.within(2, 9) as u32;
        let stamps = self.stamps(live, count);
        let payloads: Vec<Vec<u8>> = stamps.iter().map(|it| self.payload(it)).collect();
        let keys: Vec<String> = stamps
            .iter()
            .map(|it| (it.serial % 11).to_string())
            .collect();
        let records = payloads.iter().zip(&keys);
        let records = records.map(|(payload, key)| match keyed {
            true => Record::new(payload).key(key),
            false => Record::new(payload),
        });
        if by_hand || self.dice.percent(40) {
            let ack = live.topic.append_batch_nowait(records)?;
            self.wrote(live, ack, &stamps);
        } else {
            let positions = live.topic.append_batch(records)?;
            tell("safe", &facts(live, &positions, &stamps));
        }
        Ok(())
    }

    fn wrote(&mut self, live: &Live, ack: Ack, stamps: &[Stamp]) {
        let facts = facts(live, &ack.positions(), stamps);
        tell("wrote", &facts);
        self.waiting.push((ack, facts));
        if self.waiting.len() > 200 {
            self.waiting.remove(0);
        }
    }

    /// Looks after what was not waited for: some of it is waited for now.
    fn settle(&mut self) -> Result<()> {
        for (ack, facts) in std::mem::take(&mut self.waiting) {
            if ack.is_durable() {
                tell("safe", &facts);
            } else if self.dice.percent(20) {
                match ack.wait_timeout(Duration::from_millis(50)) {
                    Ok(_) => tell("safe", &facts),
                    Err(error) => self.life.failed("wait", &error),
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self, live: &Live, flush: impl FnOnce(&Topic) -> Result<()>) -> Result<()> {
        flush(&live.topic)?;
        let name = live.topic.name();
        let covered = |(ack, _): &(Ack, _)| ack.position().topic() == name;
        let (mine, others) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(covered);
        self.waiting = others;
        let mine: Vec<(Ack, Vec<String>)> = mine;
        mine.iter()
            .filter(|(ack, _)| ack.is_durable())
            .for_each(|(_, facts)| tell("safe", facts));
        Ok(())
    }
}
