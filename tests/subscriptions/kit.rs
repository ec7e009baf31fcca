//! Stores to subscribe in.

use tidelog::{Record, Retention, Store, Subscription, Topic, TopicOptions};

use crate::machine::Machine;

/// A topic whose segments hold a dozen records each.
pub fn small() -> TopicOptions {
    TopicOptions::new()
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(16 << 10)
        .retention(Retention::forever())
}

pub fn fill(topic: &Topic, records: u64) {
    for _ in 0..records {
        topic.append(Record::new(vec![7; 950])).unwrap();
    }
}

/// All that it is given until there is nothing: partition and offset.
pub fn drain(subscription: &mut Subscription) -> Vec<(u32, u64)> {
    let mut all = Vec::new();
    while let Some(record) = subscription.next().unwrap() {
        all.push((record.partition(), record.offset()));
    }
    all
}

/// The same, of a topic with one partition.
pub fn offsets(subscription: &mut Subscription) -> Vec<u64> {
    drain(subscription)
        .into_iter()
        .map(|(_, offset)| offset)
        .collect()
}

impl Machine {
    pub fn topic(&self, options: TopicOptions) -> (Store, Topic) {
        let store = self.open();
        let topic = store.create_topic("t", options).unwrap();
        (store, topic)
    }

    /// Closes the store and opens it again.
    pub fn again(&self, (store, topic): (Store, Topic)) -> (Store, Topic) {
        drop(topic);
        store.close().unwrap();
        let store = self.open();
        let topic = store.existing_topic("t").unwrap();
        (store, topic)
    }
}
