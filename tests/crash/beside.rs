//! Reading a store that its owner has left, before the next owner comes.

use std::collections::BTreeMap;

use tidelog::sys::Storage as _;
use tidelog::{Start, Store, Visibility};

use crate::model::Check;
use crate::run::{ROOT, Run};

/// What a reader saw: the payloads of each partition.
pub type Beside = BTreeMap<(String, u32), Vec<Vec<u8>>>;

impl Run<'_> {
    /// Now and then somebody reads the store as it lies there, and changes nothing. He sees what the next
    /// owner will find; and of that as durable what nobody can take back any more.
    pub fn read_beside(&self) -> Check<Beside> {
        let mut seen = Beside::new();
        if !self.tally.images.is_multiple_of(3) {
            return Ok(seen);
        }
        let print = || self.sim.fingerprint().map_err(|error| error.to_string());
        let before = print()?;
        let store = Store::open_read_only_with(ROOT, self.options());
        let store = store.map_err(|error| format!("opening beside: {error}"))?;
        let place = |error: tidelog::Error| format!("reading beside: {error}");
        for name in self.topics.keys() {
            // Whether it is there was in doubt.
            let Ok(topic) = store.existing_topic(name) else {
                continue;
            };
            for number in 0..topic.partitions() {
                let partition = topic.partition(number).map_err(place)?;
                let durable = partition.end().map_err(place)?;
                let cursor = partition.cursor(Start::Earliest).map_err(place)?;
                let mut cursor = cursor.visibility(Visibility::Written);
                let mut payloads = Vec::new();
                while let Some(record) = cursor.next().map_err(place)? {
                    payloads.push(record.payload().to_vec());
                }
                let all = partition.first().map_err(place)? + payloads.len() as u64;
                let rebooted = self.boot != self.sim.boot();
                if durable > all || rebooted && durable < all {
                    return Err(format!(
                        "beside {name}/{number}: {durable} of {all} durable"
                    ));
                }
                seen.insert((name.clone(), number), payloads);
            }
        }
        store.close().map_err(place)?;
        match print()? == before {
            true => Ok(seen),
            false => Err("reading has changed the disk".to_owned()),
        }
    }

    /// The next owner has found what the reader saw, no more and no less.
    pub fn compare_beside(&self, seen: &Beside) -> Check {
        for ((name, number), payloads) in seen {
            let topic = self.topics.get(name);
            let Some(part) = topic.and_then(|topic| topic.parts.get(*number as usize)) else {
                return Err(format!("beside: {name}/{number} was there"));
            };
            let sure = part.sure.iter().skip(part.first as usize);
            let sure = sure.map(|kept| &kept.payload);
            if !sure.eq(payloads) {
                let (saw, found) = (payloads.len(), part.sure.len());
                return Err(format!(
                    "beside: {saw} records of {name}/{number}, then {found}"
                ));
            }
        }
        Ok(())
    }
}
