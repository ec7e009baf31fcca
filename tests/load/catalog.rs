//! The one thread that makes, finishes and deletes topics.

use std::thread;
use std::time::Duration;

use tidelog::{Durability, Record, Result, TopicOptions};

use super::stamp::{Stamp, serial};
use super::writers::facts;
use super::{Life, Live, SLOTS, say};
use crate::dice::Dice;

/// The number of the keeper among the threads that write.
const KEEPER: u64 = 99;

/// The topic with long segments and large records, in which slots are written between the ends.
pub const LONG: usize = 1;

/// Keeps the catalog until the life is over.
pub fn keep(life: &Life, mut dice: Dice) {
    let mut made = 0;
    while !life.is_over() {
        let slot = dice.below(SLOTS as u64) as usize;
        let done = match life.get(slot) {
            None => {
                made += 1;
                create(life, slot, (life.number * 1000 + made) as u32, &mut dice)
            }
            Some(live) if live.topic.is_finished() => match dice.percent(30) {
                true => delete(life, &live),
                false => Ok(()),
            },
            Some(live) => match dice.below(100) {
                0..12 => delete(life, &live),
                12..17 => finish(&live),
                17..22 => {
                    made += 1;
                    finish_with(life, &live, made)
                }
                _ => Ok(()),
            },
        };
        if let Err(error) = done {
            life.failed("catalog", &error);
        }
        thread::sleep(Duration::from_millis(dice.within(1, 15)));
    }
}

/// The name of the topic in a place.
pub fn name(slot: usize) -> String {
    format!("t{slot}")
}

fn create(life: &Life, slot: usize, incarnation: u32, dice: &mut Dice) -> Result<()> {
    let durability = match slot {
        0 | 1 | 4 => Durability::Commit,
        2 => Durability::Interval(Duration::from_millis(4)),
        _ => Durability::Manual,
    };
    let options = TopicOptions::new()
        .partitions(dice.within(1, 5) as u32)
        .content_type(format!("t/{incarnation}"))
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(
            if slot == LONG {
                4096
            } else {
                dice.pick(&[16, 32, 64])
            } << 10,
        )
        .max_batch_bytes(256 << 10)
        .unsettled_bytes(dice.pick(&[64, 1024]) << 10)
        .durability(durability);
    say(&format!("create {slot} {incarnation}"));
    let topic = life.store.create_topic(&name(slot), options)?;
    say(&format!("created {slot} {incarnation}"));
    life.set(
        slot,
        Some(Live {
            topic,
            slot,
            incarnation,
        }),
    );
    Ok(())
}

fn delete(life: &Life, live: &Live) -> Result<()> {
    let slot = live.slot;
    say(&format!("delete {slot}"));
    if !live.incarnation.is_multiple_of(2) {
        // Nobody begins anything with it; else they run into it.
        life.set(slot, None);
    }
    life.store.delete_topic(&name(slot))?;
    say(&format!("deleted {slot}"));
    life.set(slot, None);
    Ok(())
}

fn finish(live: &Live) -> Result<()> {
    let (slot, incarnation) = (live.slot, live.incarnation);
    say(&format!("finish {slot} {incarnation}"));
    live.topic.finish()?;
    say(&format!("finished {slot} {incarnation}"));
    Ok(())
}

/// The last batch of a topic, and its end, in one.
fn finish_with(life: &Life, live: &Live, number: u64) -> Result<()> {
    let (slot, incarnation) = (live.slot, live.incarnation);
    let first = serial(life.number, KEEPER, number * 8);
    let stamp = |n: u64| Stamp {
        serial: first + n,
        first,
        count: 6,
        slot: slot as u32,
        incarnation,
    };
    let stamps: Vec<Stamp> = (0..6).map(stamp).collect();
    let payloads: Vec<Vec<u8>> = stamps.iter().map(|it| it.payload(100)).collect();
    let keys: Vec<String> = (0..6).map(|key| key.to_string()).collect();
    let records = payloads.iter().zip(&keys);
    let records = records.map(|(payload, key)| Record::new(payload).key(key));
    say(&format!("finish {slot} {incarnation}"));
    let positions = live.topic.append_and_finish(records)?;
    for fact in facts(live, &positions, &stamps) {
        say(&format!("safe {fact}"));
    }
    say(&format!("finished {slot} {incarnation}"));
    Ok(())
}
