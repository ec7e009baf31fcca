//! A store on a simulated machine, and records of a thousand bytes in segments of ten or so.

use std::path::Path;
use std::time::{Duration, Instant};

use tidelog::sys::{Clock, Storage};
use tidelog::{Error, Partition, Record, Retention, Start, Store, Timestamp, Topic, TopicOptions};

use crate::machine::{Machine, ROOT};

pub const SECOND: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(3600);

/// Waits for something that threads bring about.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A topic whose segments hold a dozen records each.
pub fn small(retention: Retention) -> TopicOptions {
    TopicOptions::new()
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(16 << 10)
        .retention(retention)
}

/// Appends records of about a thousand bytes.
pub fn fill(topic: &Topic, records: u64) {
    for _ in 0..records {
        topic.append(Record::new(vec![7; 950])).unwrap();
    }
}

/// The same with times of their own.
pub fn fill_at(topic: &Topic, records: u64, time: i64) {
    for _ in 0..records {
        let record = Record::new(vec![7; 950]).at(Timestamp::from_nanos(time));
        topic.append(record).unwrap();
    }
}

pub fn one(topic: &Topic) -> Partition {
    topic.partition(0).unwrap()
}

/// The first offset and the one behind the last.
pub fn range(topic: &Topic) -> (u64, u64) {
    (one(topic).first().unwrap(), one(topic).end().unwrap())
}

/// The offsets that can be read.
pub fn offsets(topic: &Topic) -> Vec<u64> {
    let (first, end) = range(topic);
    let records = one(topic).read(first..end).unwrap();
    records.map(|record| record.unwrap().offset()).collect()
}

/// What has gone is told to who asks for it, with where the log begins now: each of these offsets.
pub fn expired(topic: &Topic, offsets: std::ops::Range<u64>) {
    let begins = range(topic).0;
    let says = |error: Error, offset: u64| match error {
        Error::OffsetExpired { asked, first, .. } => assert_eq!((asked, first), (offset, begins)),
        other => panic!("{offset} of {begins}: {other:?}"),
    };
    for offset in offsets {
        let partition = one(topic);
        says(partition.read(offset..u64::MAX).unwrap_err(), offset);
        let cursor = partition.cursor(Start::Offset(offset));
        says(
            cursor.and_then(|mut it| it.next().map(|_| ())).unwrap_err(),
            offset,
        );
        let tail = partition.follow(Start::Offset(offset));
        says(
            tail.and_then(|mut it| it.try_next().map(|_| ()))
                .unwrap_err(),
            offset,
        );
    }
}

/// Applies retention, which must do what its audit said.
pub fn apply(topic: &Topic) -> tidelog::PartitionAudit {
    let would = topic.audit().unwrap();
    let before = range(topic);
    assert_eq!(topic.audit().unwrap(), would, "an audit changes nothing");
    assert_eq!(range(topic), before);
    let done = topic.apply_retention().unwrap();
    assert_eq!(done, would);
    let again = topic.audit().unwrap();
    assert!(again.partitions[0].removals.is_empty(), "{again:?}");
    let [done] = <[_; 1]>::try_from(done.partitions).unwrap();
    assert_eq!(done.first, Some(range(topic).0));
    done
}

impl Machine {
    pub fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    pub fn now(&self) -> i64 {
        self.clock.now()
    }

    /// The segment files of a topic's only partition, the spare among them.
    pub fn segments(&self, topic: &str) -> Vec<String> {
        let folder = Path::new(ROOT).join("topics").join(topic);
        let log = self.sim.list(&folder).unwrap();
        let files = self.sim.list(&folder.join(&log[0].name)).unwrap();
        files.into_iter().map(|entry| entry.name).collect()
    }

    pub fn topic(&self, options: TopicOptions) -> (Store, Topic) {
        let store = self.open();
        let topic = store.create_topic("t", options).unwrap();
        (store, topic)
    }
}
