//! Looking at a store that has just been opened, and saying what is there: from then on it must be.

use tidelog::{Result, Start, Subscription};

use super::bulk;
use super::catalog::name;
use super::stamp::Stamp;
use super::{Life, Live, SLOTS, say};

/// Says what topics, records and checkpoints there are.
pub fn everything(life: &Life) -> Result<()> {
    if let Some(limit) = bulk::stated(&life.store)? {
        say(&format!("limited {limit}"));
    }
    let topics = life.store.topics();
    for slot in 0..SLOTS {
        let Some(info) = topics.iter().find(|info| info.name == name(slot)) else {
            say(&format!("deleted {slot}"));
            continue;
        };
        let incarnation = incarnation(&info.content_type);
        let done = if info.finished { "finished" } else { "created" };
        say(&format!("{done} {slot} {incarnation}"));
        let live = Live {
            topic: life.store.existing_topic(&info.name)?,
            slot,
            incarnation,
        };
        for number in 0..live.topic.partitions() {
            for record in live.topic.partition(number)?.read(0..u64::MAX)? {
                let record = record?;
                seen(&live, number, record.offset(), record.payload());
            }
        }
        for subscription in ["a", "b"] {
            let places = checkpoint(&live, subscription)?;
            let places: Vec<String> = places.iter().map(u64::to_string).collect();
            let places = places.join(" ");
            say(&format!(
                "committed {slot} {incarnation} {subscription} {places}"
            ));
        }
        life.set(slot, Some(live));
    }
    Ok(())
}

/// Which one of its name a topic is.
pub fn incarnation(content_type: &str) -> u32 {
    let digits = content_type.strip_prefix("t/");
    digits.and_then(|it| it.parse().ok()).unwrap_or(u32::MAX)
}

/// Says that a record was read.
pub fn seen(live: &Live, number: u32, offset: u64, payload: &[u8]) {
    let (slot, incarnation) = (live.slot, live.incarnation);
    match Stamp::read(payload) {
        Ok(stamp) => say(&format!(
            "safe {slot} {incarnation} {number} {offset} {}",
            stamp.serial
        )),
        Err(wrong) => say(&format!("wrong {slot}/{number}@{offset}: {wrong}")),
    }
}

/// Where a subscription stands.
pub fn offsets(live: &Live, it: &Subscription) -> Result<Vec<u64>> {
    let partitions = 0..live.topic.partitions();
    partitions.map(|number| it.committed(number)).collect()
}

/// Where one stands that perhaps nobody has opened yet.
pub fn checkpoint(live: &Live, name: &str) -> Result<Vec<u64>> {
    let it = live
        .topic
        .subscription(name)
        .start(Start::Earliest)
        .open()?;
    offsets(live, &it)
}
