//! Holds what is left of a store against what was claimed of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tidelog::sys::Storage;
use tidelog::{Error, Record, Store, StoreOptions, Topic, VerifyReport, verify};

use super::bulk;
use super::catalog::name;
use super::claims::{Claims, Place};
use super::look::{checkpoint, incarnation};
use super::stamp::{Stamp, writer};
use super::{Live, SLOTS};
use crate::dice::Dice;

type Check<T = ()> = Result<T, String>;

/// What was found beside that everything is as it must be.
#[derive(Debug, Default)]
pub struct Found {
    pub records: u64,
    pub redo: bool,
    pub rolls: bool,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.records, self.redo, self.rolls)
    }
}

/// Everything there is in one topic: the records of each partition.
type Records = Vec<Vec<Stamp>>;

/// Looks at everything, and then uses the store: appends, closes, and looks again.
pub fn check(
    folder: &Path,
    storage: &Arc<dyn Storage>,
    claims: &Claims,
    seed: u64,
) -> Check<Found> {
    if let Some(wrong) = claims.wrong.first() {
        return Err(format!("the load says: {wrong}"));
    }
    let mut dice = Dice::new(seed);
    let options = || StoreOptions::new().storage(Arc::clone(storage));
    if dice.percent(25) {
        match verify(folder, &options()) {
            // The power went while it was made. What was promised of it is missed further down.
            Err(Error::NoStore { .. }) => {}
            report => {
                sound(report)?;
            }
        }
    }
    let open = || Store::open_with(folder, options()).map_err(|error| format!("open: {error:?}"));
    let store = open()?;
    let mut found = Found {
        redo: store.health().unopened_redo > 0,
        ..Found::default()
    };
    let mut before = look(&store, claims)?;
    found.records = before
        .values()
        .flatten()
        .map(|part| part.len() as u64)
        .sum();
    if dice.percent(50) {
        for (slot, records) in &mut before {
            extend(&store, *slot, records)?;
        }
    }
    store.close().map_err(|error| format!("close: {error:?}"))?;
    found.rolls = sound(verify(folder, &options()))?;
    if dice.percent(50) {
        let store = open()?;
        let after = look(&store, claims)?;
        if after != before {
            return Err("a second opening finds something else".to_owned());
        }
        store.close().map_err(|error| format!("close: {error:?}"))?;
    }
    Ok(found)
}

/// Verifying finds nothing; whether a log has more than one segment.
fn sound(report: tidelog::Result<VerifyReport>) -> Check<bool> {
    let report = report.map_err(|error| format!("verify: {error:?}"))?;
    if report.is_sound() {
        return Ok(report.logs.iter().any(|log| log.segments > 1));
    }
    let bad = report.logs.iter().filter(|log| !log.damage.is_empty());
    let (bad, journal) = (bad.take(3).collect::<Vec<_>>(), report.journal_damaged);
    Err(format!("verify: journal {journal}, {bad:?}"))
}

fn look(store: &Store, claims: &Claims) -> Check<BTreeMap<usize, Records>> {
    let topics = store.topics();
    let mut all = BTreeMap::new();
    let mut serials = HashSet::new();
    for slot in 0..SLOTS {
        let info = topics.iter().find(|info| info.name == name(slot));
        let there = info.map(|info| (incarnation(&info.content_type), info.finished));
        if !claims.allows(slot, there) {
            let story = claims.story(slot);
            return Err(format!("topic {slot}: {there:?} is there, after {story}"));
        }
        let Some((incarnation, _)) = there else {
            continue;
        };
        let topic = store.existing_topic(&name(slot));
        let live = Live {
            topic: topic.map_err(|error| format!("topic {slot}: {error:?}"))?,
            slot,
            incarnation,
        };
        let records = look_at(&live, claims, &mut serials);
        all.insert(
            slot,
            records.map_err(|wrong| format!("topic {slot}: {wrong}"))?,
        );
    }
    let limit = bulk::stated(store).map_err(|error| format!("{error:?}"))?;
    if !claims.allows_limit(limit) {
        return Err(format!("the limit is {limit:?}"));
    }
    let health = store.health();
    let ill = health.failed.len() + health.damage.len() + health.journal_damaged;
    if ill > 0 || health.journal.is_some() {
        return Err(format!("health: {health:?}"));
    }
    Ok(all)
}

fn look_at(live: &Live, claims: &Claims, serials: &mut HashSet<u64>) -> Check<Records> {
    let mut records = Records::new();
    for number in 0..live.topic.partitions() {
        let place = (live.slot, live.incarnation, number);
        let part = scan(&live.topic, place, serials)
            .and_then(|part| hold(&part, place, claims).map(|()| part));
        records.push(part.map_err(|wrong| format!("{place:?}: {wrong}"))?);
    }
    whole_batches(&records)?;
    for subscription in ["a", "b"] {
        let offsets = checkpoint(live, subscription).map_err(|error| format!("{error:?}"))?;
        let key = (live.slot, live.incarnation, subscription.to_owned());
        let marks = claims.marks.get(&key).cloned().unwrap_or_default();
        for (number, offset) in offsets.iter().enumerate() {
            let of = |marks: &[u64]| marks.get(number).copied().unwrap_or(0);
            let (least, most) = (of(&marks.least), of(&marks.most));
            let end = records[number].len() as u64;
            if *offset < least || *offset > most.max(least) || *offset > end {
                return Err(format!(
                    "subscription {subscription}/{number} is at {offset}, not within {least} to {most}; the log ends at {end}"
                ));
            }
        }
    }
    Ok(records)
}

/// All records of a partition: in order, none twice, none altered, none of another topic.
fn scan(topic: &Topic, place: Place, serials: &mut HashSet<u64>) -> Check<Vec<Stamp>> {
    let partition = topic
        .partition(place.2)
        .map_err(|error| format!("{error:?}"))?;
    let records = partition
        .read(0..u64::MAX)
        .map_err(|error| format!("{error:?}"))?;
    let mut stamps: Vec<Stamp> = Vec::new();
    let mut last = HashMap::new();
    for record in records {
        let record = record.map_err(|error| format!("behind {}: {error:?}", stamps.len()))?;
        let stamp = Stamp::read(record.payload())?;
        let (offset, serial) = (record.offset(), stamp.serial);
        if offset != stamps.len() as u64 {
            return Err(format!("offset {offset} in place {}", stamps.len()));
        }
        if (stamp.slot as usize, stamp.incarnation) != (place.0, place.1) {
            return Err(format!("{serial:x} at {offset} belongs to another topic"));
        }
        if !serials.insert(serial) {
            return Err(format!("{serial:x} is there twice, at {offset}"));
        }
        if last.insert(writer(serial), serial) > Some(serial) {
            return Err(format!("{serial:x} at {offset} is out of order"));
        }
        stamps.push(stamp);
    }
    Ok(stamps)
}

/// What was promised is there, and so is what was written before something that is there.
fn hold(part: &[Stamp], place: Place, claims: &Claims) -> Check {
    for (offset, serial) in claims.safe.get(&place).into_iter().flatten() {
        match part.get(*offset as usize) {
            Some(stamp) if stamp.serial == *serial => {}
            Some(stamp) => {
                let found = stamp.serial;
                return Err(format!(
                    "{serial:x} was promised at {offset}, {found:x} is there"
                ));
            }
            None => {
                let end = part.len();
                return Err(format!(
                    "{serial:x} was promised at {offset}; the end is {end}"
                ));
            }
        }
    }
    let mut last = HashMap::new();
    for stamp in part {
        last.insert(writer(stamp.serial), stamp.serial);
    }
    for (offset, serial) in claims.wrote.get(&place).into_iter().flatten() {
        let later = last.get(&writer(*serial)).is_some_and(|it| it > serial);
        let there = part.get(*offset as usize).map(|stamp| stamp.serial);
        if later && there != Some(*serial) {
            return Err(format!(
                "{serial:x} was written at {offset}; {there:x?} is there"
            ));
        }
    }
    Ok(())
}

fn whole_batches(records: &Records) -> Check {
    let mut batches: HashMap<u64, (u32, u32)> = HashMap::new();
    for stamp in records.iter().flatten() {
        batches.entry(stamp.first).or_insert((stamp.count, 0)).1 += 1;
    }
    match batches.iter().find(|(_, (count, there))| count != there) {
        Some((first, (count, there))) => {
            Err(format!("{there} records of batch {first:x}, of {count}"))
        }
        None => Ok(()),
    }
}

/// Another record for each partition of a topic that takes some.
fn extend(store: &Store, slot: usize, records: &mut Records) -> Check {
    let topic = store
        .existing_topic(&name(slot))
        .map_err(|error| format!("{error:?}"))?;
    if topic.is_finished() {
        return Ok(());
    }
    for (number, part) in records.iter_mut().enumerate() {
        // No life has this number.
        let serial = u64::MAX - (slot * 1000 + number) as u64;
        let stamp = Stamp {
            serial,
            first: serial,
            count: 1,
            slot: slot as u32,
            incarnation: incarnation(topic.content_type()),
        };
        let payload = stamp.payload(100);
        let record = Record::new(&payload).partition(number as u32);
        let appended = topic.append_nowait(record);
        let ack = appended.map_err(|error| format!("append: {error:?}"))?;
        topic.flush().map_err(|error| format!("flush: {error:?}"))?;
        if ack.position().offset() != part.len() as u64 || !ack.is_durable() {
            return Err(format!("{} behind {}", ack.position(), part.len()));
        }
        part.push(stamp);
    }
    Ok(())
}
