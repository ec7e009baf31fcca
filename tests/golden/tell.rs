//! A store as text, with everything that can be read in it: what a golden store must read as.

use std::fmt::Write as _;
use std::path::Path;

use tidelog::{Error, OwnedRecord, Partition, Result, Store, StoreOptions, Topic, verify};

/// The payload of records appended after a golden store was opened.
pub const LATER: &str = "appended by the test";

/// What looking from outside finds.
pub fn verified(root: &Path, options: &StoreOptions) -> String {
    let report = verify(root, options).unwrap();
    let mut told = format!(
        "verify: was closed {}, damaged journal records {}\n",
        report.was_closed, report.journal_damaged
    );
    for log in &report.logs {
        let (topic, partition) = (&log.topic, log.partition);
        let (first, end, records) = (log.first, log.end, log.records);
        let (segments, beyond) = (log.segments, log.beyond);
        writeln!(
            told,
            "verify {topic}/{partition}: {first}..{end}, {records} records in {segments} segments, \
             {beyond} bytes beyond"
        )
        .unwrap();
        for damage in &log.damage {
            writeln!(told, "  damage: {}", inside(damage, root)).unwrap();
        }
    }
    told
}

/// What an owner finds: how it found the store, and everything in it.
pub fn opened(store: &Store, subscriptions: &[(&str, &str)]) -> String {
    let health = store.health();
    let mut told = format!(
        "open: epoch {}, was closed {}, damaged journal records {}, logs with redo {}\n",
        health.epoch, health.was_closed, health.journal_damaged, health.unopened_redo
    );
    told.push_str(&contents(store, subscriptions, 0));
    let health = store.health();
    assert!(health.failed.is_empty() && health.journal.is_none());
    for damage in &health.damage {
        let damage = inside(damage, &store.path());
        writeln!(told, "damage found on opening: {damage}").unwrap();
    }
    told
}

/// All topics, records and subscriptions. At the end of each partition of a topic that is not
/// finished there must be so many records that were appended later, which are left out.
pub fn contents(store: &Store, subscriptions: &[(&str, &str)], later: u64) -> String {
    let mut told = String::new();
    for info in store.topics() {
        let (name, partitions) = (&info.name, info.partitions);
        let topic = store.existing_topic(name).unwrap();
        writeln!(
            told,
            "topic {name}: {partitions} partitions of {}, finished {}, {:?}, records up to {}, \
             batches up to {}",
            info.content_type,
            info.finished,
            topic.durability(),
            topic.max_record_bytes(),
            topic.max_batch_bytes()
        )
        .unwrap();
        let later = if info.finished { 0 } else { later };
        for number in 0..partitions {
            partition(&mut told, store, &topic.partition(number).unwrap(), later);
        }
        for (_, name) in subscriptions.iter().filter(|(on, _)| on == name) {
            subscription(&mut told, &topic, name);
        }
    }
    told
}

fn partition(told: &mut String, store: &Store, partition: &Partition, later: u64) {
    let (first, end) = (partition.first().unwrap(), partition.end().unwrap());
    let end = end - later;
    let number = partition.number();
    writeln!(told, "partition {number}: {first}..{end}").unwrap();
    for found in partition.read(first..end).unwrap() {
        record(told, store, partition, found);
    }
    let added = partition.read(end..u64::MAX).unwrap();
    let added: Vec<OwnedRecord> = added.map(Result::unwrap).collect();
    assert_eq!(added.len() as u64, later);
    assert!(
        added
            .iter()
            .all(|record| record.payload() == LATER.as_bytes())
    );
}

fn record(told: &mut String, store: &Store, partition: &Partition, found: Result<OwnedRecord>) {
    let record = match found {
        Ok(record) => record,
        Err(error) => {
            writeln!(told, "  {}", inside(&error, &store.path())).unwrap();
            return;
        }
    };
    assert_eq!(record.position().topic(), partition.topic().name());
    assert_eq!(record.position().partition(), partition.number());
    let (offset, time) = (record.offset(), record.timestamp().as_nanos());
    write!(told, "  {offset} at {time}").unwrap();
    if let Some(key) = record.key() {
        // Where a key leads is stored in effect.
        let leads = partition.topic().partition_of(key);
        write!(told, " key \"{}\" for {leads}", key.escape_ascii()).unwrap();
    }
    if record.is_tombstone() {
        told.push_str(" tombstone");
    }
    write!(told, " id {}", record.event_id().escape_ascii()).unwrap();
    for (name, value) in record.headers() {
        write!(told, " {name:?}: \"{}\"", value.escape_ascii()).unwrap();
    }
    writeln!(told, " payload \"{}\"", short(record.payload())).unwrap();
}

/// The payload, with runs of zeroes counted.
fn short(payload: &[u8]) -> String {
    let mut told = String::new();
    let zeroes = |run: &[u8]| run.len() > 16 && run[0] == 0;
    for run in payload.chunk_by(|one, next| (*one == 0) == (*next == 0)) {
        if zeroes(run) {
            write!(told, "\\0*{}", run.len()).unwrap();
        } else {
            write!(told, "{}", run.escape_ascii()).unwrap();
        }
    }
    told
}

fn subscription(told: &mut String, topic: &Topic, name: &str) {
    let mut held = topic.subscribe(name).unwrap();
    let paused = held.is_paused();
    write!(told, "subscription {name}: paused {paused}, committed").unwrap();
    for partition in 0..topic.partitions() {
        write!(told, " {}", held.committed(partition).unwrap()).unwrap();
    }
    told.push('\n');
    let stored = topic.subscriptions().unwrap();
    let stored = stored.iter().find(|it| it.name == name).unwrap();
    for span in &stored.expired {
        let (partition, offsets) = (span.partition, span.offsets.clone());
        writeln!(told, "  expired {partition}: {offsets:?}").unwrap();
    }
    if stored.filter.is_some() || stored.sampling.is_some() {
        told.push_str("  given");
        while let Some(record) = held.next().unwrap() {
            if record.payload() != LATER.as_bytes() {
                let (partition, offset) = (record.position().partition(), record.offset());
                write!(told, " {partition}@{offset}").unwrap();
            }
        }
        told.push('\n');
    }
}

/// An error with paths from the store's folder on.
fn inside(error: &Error, root: &Path) -> String {
    error
        .to_string()
        .replace(&format!("{}/", root.display()), "")
}
