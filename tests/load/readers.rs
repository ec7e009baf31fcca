//! Threads that read: what they saw as durable must stay.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use tidelog::{Result, Start, Subscription};

use super::look::{offsets, seen};
use super::{Life, Live, say};
use crate::dice::Dice;

/// How many records are read at a time.
const STRETCH: usize = 40;

/// Reads what has become durable, here and there.
pub fn read(life: &Life, mut dice: Dice) {
    let mut places = HashMap::new();
    while !life.is_over() {
        if let Some(live) = life.some(&mut dice) {
            for number in 0..live.topic.partitions() {
                let place = (live.slot, live.incarnation, number);
                let next = places.entry(place).or_insert(0);
                if let Err(error) = stretch(&live, number, next) {
                    life.failed("read", &error);
                }
            }
        }
        thread::sleep(Duration::from_millis(dice.within(1, 4)));
    }
}

fn stretch(live: &Live, number: u32, next: &mut u64) -> Result<()> {
    let partition = live.topic.partition(number)?;
    let mut cursor = partition.cursor(Start::Offset(*next))?;
    for _ in 0..STRETCH {
        let Some(record) = cursor.next()? else {
            break;
        };
        seen(live, number, record.offset(), record.payload());
        *next = record.offset() + 1;
    }
    Ok(())
}

/// Reads through subscriptions, and commits.
pub fn subscribe(life: &Life, mut dice: Dice) {
    while !life.is_over() {
        if let Some(live) = life.some(&mut dice) {
            let name = dice.pick(&["a", "b"]);
            let opened = live.topic.subscription(name).start(Start::Earliest).open();
            let done = opened.and_then(|mut it| commits(&live, name, &mut it, &mut dice));
            if let Err(error) = done {
                life.failed("subscription", &error);
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn commits(live: &Live, name: &str, it: &mut Subscription, dice: &mut Dice) -> Result<()> {
    let mut next = offsets(live, it)?;
    for _ in 0..dice.within(1, 5) {
        for _ in 0..dice.within(1, 30) {
            let Some(record) = it.next()? else {
                break;
            };
            next[record.partition() as usize] = record.offset() + 1;
        }
        let (slot, incarnation) = (live.slot, live.incarnation);
        let places: Vec<String> = next.iter().map(u64::to_string).collect();
        let fact = format!("{slot} {incarnation} {name} {}", places.join(" "));
        say(&format!("commit {fact}"));
        it.commit()?;
        say(&format!("committed {fact}"));
    }
    Ok(())
}
