//! Where records are.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Which record: topic, partition and offset.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let at = store.topic("quakes")?.append(Record::new("M 4.6 Volcano, Hawaii"))?;
/// assert_eq!(at.to_string(), "quakes/0@0");
/// assert_eq!(at.next().offset(), 1);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    topic: Arc<str>,
    partition: u32,
    offset: u64,
}

impl Position {
    pub(crate) fn new(topic: &Arc<str>, partition: u32, offset: u64) -> Position {
        Position {
            topic: Arc::clone(topic),
            partition,
            offset,
        }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition's number, from 0.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// The record's number in its partition, from 0.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The position of the record that follows: what a commit behind this one names.
    pub fn next(&self) -> Position {
        Position {
            offset: self.offset + 1,
            ..self.clone()
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.topic, self.partition, self.offset)
    }
}

/// Where a batch went: to one partition, or to several, with offsets in a row in each.
///
/// # Examples
///
/// ```
/// # use tidelog::{Record, Store, TopicOptions};
/// # let dir = tempfile::tempdir()?;
/// # let store = Store::open(dir.path().join("data"))?;
/// let topic = store.create_topic("quakes", TopicOptions::new().partitions(4))?;
/// let places = ["hv", "us", "hv"].map(|key| Record::new("M 4.6").key(key));
/// let batch = topic.append_batch(places)?;
/// let positions: Vec<_> = batch.iter().collect();
/// assert_eq!(positions[0].partition(), positions[2].partition());
/// assert_eq!(batch.parts().len(), 2);
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positions {
    topic: Arc<str>,
    parts: Places,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Places {
    One((u32, Range<u64>)),
    Several {
        parts: Vec<(u32, Range<u64>)>,
        /// Which of the parts each record is in.
        order: Vec<usize>,
    },
}

impl Positions {
    pub(crate) fn new(topic: &Arc<str>, partition: u32, offsets: Range<u64>) -> Positions {
        Positions {
            topic: Arc::clone(topic),
            parts: Places::One((partition, offsets)),
        }
    }

    /// Several parts, and in which of them each record is.
    pub(crate) fn spread(
        topic: &Arc<str>,
        parts: Vec<(u32, Range<u64>)>,
        order: Vec<usize>,
    ) -> Positions {
        Positions {
            topic: Arc::clone(topic),
            parts: Places::Several { parts, order },
        }
    }

    /// The partitions it went to, in ascending order, and the offsets there.
    pub fn parts(&self) -> &[(u32, Range<u64>)] {
        match &self.parts {
            Places::One(part) => std::slice::from_ref(part),
            Places::Several { parts, .. } => parts,
        }
    }

    /// Which part a record is in, of those that there are.
    fn part_of(&self, record: usize) -> Option<usize> {
        match &self.parts {
            Places::One(_) => Some(0),
            Places::Several { order, .. } => order.get(record).copied(),
        }
    }

    /// The position of the first record; of an empty batch, of the one that comes next.
    pub(crate) fn first(&self) -> Position {
        let part = self.parts().get(self.part_of(0).unwrap_or(0));
        let (partition, offsets) = part.cloned().unwrap_or((0, 0..0));
        Position::new(&self.topic, partition, offsets.start)
    }

    /// The position of each record, in the order of the batch.
    pub fn iter(&self) -> impl Iterator<Item = Position> + '_ {
        let mut left = self.parts().to_vec();
        (0..).map_while(move |record| {
            let (partition, offsets) = left.get_mut(self.part_of(record)?)?;
            let offset = offsets.next()?;
            Some(Position::new(&self.topic, *partition, offset))
        })
    }
}
