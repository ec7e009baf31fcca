//! What was acknowledged and what was refused, and whether the store agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use tidelog::{Error, Position, Record, Result, Start, Store, Topic};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A payload that no other record has: its number first, and then bytes that follow from it.
pub fn payload(length: usize) -> Vec<u8> {
    filled(NEXT.fetch_add(1, Ordering::Relaxed), length)
}

fn filled(number: u64, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = number.to_le_bytes().to_vec();
    let byte = |at: usize| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (at % 57)) as u8;
    bytes.extend((8..length).map(byte));
    bytes
}

/// The number of a payload, which must be whole.
fn number(payload: &[u8]) -> u64 {
    let number = u64::from_le_bytes(payload[..8].try_into().unwrap());
    assert!(
        filled(number, payload.len()) == payload,
        "record {number} came back altered"
    );
    number
}

/// The partition of a topic.
type Place = (String, u32);

#[derive(Debug, Default)]
pub struct Book {
    /// By offset, which record.
    acknowledged: BTreeMap<Place, BTreeMap<u64, u64>>,
    /// Records that may be there or not, since nobody was told that they are.
    doubtful: BTreeSet<u64>,
    /// Batches of which all or nothing must be there.
    batches: Vec<Vec<u64>>,
}

impl Book {
    /// A record was acknowledged.
    pub fn note(&mut self, at: &Position, payload: &[u8]) {
        let place = (at.topic().to_owned(), at.partition());
        let here = self.acknowledged.entry(place).or_default();
        let before = here.insert(at.offset(), number(payload));
        assert_eq!(before, None, "{at} was given twice");
    }

    /// Nobody was told whether a record is there.
    pub fn doubt(&mut self, payload: &[u8]) {
        self.doubtful.insert(number(payload));
    }

    /// A batch is there whole, or not at all.
    pub fn batch(&mut self, payloads: &[Vec<u8>]) {
        self.batches
            .push(payloads.iter().map(|it| number(it)).collect());
    }

    /// What an append has come to: true, or false where it was refused for want of space. Nothing
    /// else may happen to it.
    pub fn tell(&mut self, answer: Result<Position>, payload: &[u8]) -> bool {
        match answer {
            Ok(at) => {
                self.note(&at, payload);
                true
            }
            Err(error) => {
                assert!(is_full(&error), "an append said {error:?}");
                false
            }
        }
    }

    /// Appends one record.
    pub fn append(&mut self, topic: &Topic, length: usize) -> bool {
        let payload = payload(length);
        self.tell(topic.append(Record::new(&payload)), &payload)
    }

    /// Appends until the disk is full; how many were taken.
    pub fn fill(&mut self, topic: &Topic, length: usize) -> usize {
        let taken = (0..1 << 20)
            .take_while(|_| self.append(topic, length))
            .count();
        assert!(taken < 1 << 20, "the disk does not fill");
        taken
    }

    /// How many were acknowledged.
    pub fn len(&self) -> usize {
        self.acknowledged.values().map(BTreeMap::len).sum()
    }

    pub fn absorb(&mut self, other: Book) {
        for (place, records) in other.acknowledged {
            let here = self.acknowledged.entry(place).or_default();
            for (offset, record) in records {
                assert_eq!(
                    here.insert(offset, record),
                    None,
                    "{offset} was given twice"
                );
            }
        }
        self.doubtful.extend(other.doubtful);
        self.batches.extend(other.batches);
    }

    /// A topic is gone, with all that was in it.
    pub fn forget(&mut self, topic: &str) {
        self.acknowledged.retain(|(name, _), _| name != topic);
    }

    /// Reads everything: what was acknowledged is there, at its offset and nowhere else, without a
    /// gap, and nothing is there that was refused.
    pub fn check(&self, store: &Store) {
        let mut found = BTreeSet::new();
        for ((name, partition), records) in &self.acknowledged {
            let topic = store.existing_topic(name).unwrap();
            let mut cursor = topic
                .partition(*partition)
                .unwrap()
                .cursor(Start::Earliest)
                .unwrap();
            let mut next = 0;
            while let Some(record) = cursor.next().unwrap() {
                let (offset, number) = (record.offset(), number(record.payload()));
                let at = record.position();
                assert_eq!(offset, next, "{at} follows a gap");
                assert!(
                    found.insert(number),
                    "record {number} is there twice, at {at}"
                );
                match records.get(&offset) {
                    Some(wanted) => assert_eq!(number, *wanted, "at {at}"),
                    None => assert!(
                        self.doubtful.contains(&number),
                        "{number} was refused: {at}"
                    ),
                }
                next += 1;
            }
            let end = records.keys().next_back().map_or(0, |last| last + 1);
            assert!(
                next >= end,
                "{name}/{partition} ends at {next}, {end} was acknowledged"
            );
        }
        for batch in &self.batches {
            let there = batch.iter().filter(|it| found.contains(it)).count();
            assert!(
                there == 0 || there == batch.len(),
                "{there} of a batch of {}",
                batch.len()
            );
        }
    }
}

/// Whether an error says that there was no room.
pub fn is_full(error: &Error) -> bool {
    matches!(error, Error::StorageFull { .. })
}
