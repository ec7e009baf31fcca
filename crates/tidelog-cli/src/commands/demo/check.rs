//! What is there, against what should be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidelog::{OwnedRecord, Topic};

use super::events::Event;
use crate::failure::{Failure, Result};

/// What the last check found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) events: u64,
    pub(super) networks: u64,
    pub(super) took: Duration,
}

/// How many events each partition holds: the first ones of its share, which their ids show.
pub(super) fn present(topic: &Topic, shares: &[Vec<Event<'_>>]) -> Result<Vec<usize>> {
    let mut present = Vec::new();
    for (number, share) in (0..).zip(shares) {
        let mut count = 0;
        for record in topic.partition(number)?.read(0..u64::MAX)? {
            let record = record?;
            let expected = share.get(count).map(|event| event.id.as_bytes());
            if expected != Some(record.event_id()) {
                return Err(foreign(&record, "is not the event that comes next"));
            }
            count += 1;
        }
        present.push(count);
    }
    Ok(present)
}

/// Reads everything back: each event as it was given, none twice, and those of each network in
/// order.
pub(super) fn all(topic: &Topic, events: &[Event<'_>]) -> Result<Found> {
    let began = Instant::now();
    let mut expected: BTreeMap<&str, Vec<&Event<'_>>> = BTreeMap::new();
    for event in events {
        expected.entry(event.net).or_default().push(event);
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for number in 0..topic.partitions() {
        for record in topic.partition(number)?.read(0..u64::MAX)? {
            let record = record?;
            let Ok(event) = record.text().map(Event::parse)? else {
                return Err(foreign(&record, "is not an earthquake"));
            };
            let next = seen.entry(event.net.to_owned()).or_default();
            let due = expected.get(event.net).and_then(|due| due.get(*next));
            if due.is_none_or(|due| !is_same(&record, due)) {
                return Err(foreign(
                    &record,
                    "is not the event that comes next in its network",
                ));
            }
            if !ids.insert(event.id.to_owned()) {
                return Err(foreign(&record, "is there twice"));
            }
            *next += 1;
        }
    }
    if ids.len() != events.len() {
        let counts = format!("{} of {} events", ids.len(), events.len());
        return Err(Failure::NotTheDemo(counts));
    }
    Ok(Found {
        events: ids.len() as u64,
        networks: seen.len() as u64,
        took: began.elapsed(),
    })
}

/// Whether a record is the event as it was given, in every part.
fn is_same(record: &OwnedRecord, event: &Event<'_>) -> bool {
    record.payload() == event.line.as_bytes()
        && record.event_id() == event.id.as_bytes()
        && record.key() == Some(event.net.as_bytes())
        && record.timestamp() == tidelog::Timestamp::from_millis(event.time)
}

fn foreign(record: &OwnedRecord, what: &str) -> Failure {
    Failure::NotTheDemo(format!("{} {what}", record.position()))
}
