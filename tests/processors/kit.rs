//! What the tests have in common.

use std::time::{Duration, Instant};

use tidelog::{OwnedRecord, Store, Topic};

/// Waits until it is so; a minute is too slow for no machine.
pub fn soon(mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never is");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A topic with these records.
pub fn topic(store: &Store, name: &str, texts: &[&str]) -> Topic {
    let topic = store.topic(name).unwrap();
    topic.append_batch(texts.iter().copied()).unwrap();
    topic
}

/// All records of a topic, partition by partition.
pub fn records(store: &Store, name: &str) -> Vec<OwnedRecord> {
    let topic = store.existing_topic(name).unwrap();
    let mut all = Vec::new();
    for partition in 0..topic.partitions() {
        let records = topic.partition(partition).unwrap().read(0..u64::MAX);
        all.extend(records.unwrap().map(Result::unwrap));
    }
    all
}

pub fn texts(store: &Store, name: &str) -> Vec<String> {
    let text = |record: &OwnedRecord| record.text().unwrap().to_owned();
    records(store, name).iter().map(text).collect()
}

/// What is committed of the only partition of a processor's input.
pub fn committed(store: &Store, input: &str) -> u64 {
    let topic = store.existing_topic(input).unwrap();
    topic.subscriptions().unwrap()[0].committed[0]
}
