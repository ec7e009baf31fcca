//! Everything that can be under way in a store at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidelog::{Ack, Durability, Error, Record, Start, Stopper, Store, Topic};

use crate::kit::small_segments;

/// Topics with one partition each: synced at once, at intervals, and by hand.
pub const COMMIT: &str = "commit";
const INTERVAL: &str = "interval";
const MANUAL: &str = "manual";
/// A topic with several partitions.
const SPREAD: &str = "spread";
/// One that nobody writes to.
const QUIET: &str = "quiet";
pub const TOPICS: [&str; 4] = [COMMIT, INTERVAL, MANUAL, SPREAD];
const APPENDERS: usize = 16;

/// What was acknowledged: by topic and partition, the payload of each offset.
#[derive(Debug, Default)]
pub struct Acknowledged(BTreeMap<(String, u32), BTreeMap<u64, String>>);

impl Acknowledged {
    fn note(&mut self, at: &tidelog::Position, payload: &str) {
        let place = (at.topic().to_owned(), at.partition());
        let offsets = self.0.entry(place).or_default();
        let before = offsets.insert(at.offset(), payload.to_owned());
        assert_eq!(before, None, "{at} was given twice");
    }

    /// Everything is there, where it was acknowledged, in a store that goes on behind it. What was
    /// looked for is forgotten, but for where it ended.
    pub fn check(&mut self, store: &Store) {
        for ((topic, number), offsets) in &mut self.0 {
            let Some(first) = offsets.keys().next().copied() else {
                continue;
            };
            let topic = store.existing_topic(topic).unwrap();
            let records = topic.partition(*number).unwrap().read(first..u64::MAX);
            let mut found = BTreeMap::new();
            for record in records.unwrap() {
                let record = record.unwrap();
                found.insert(record.offset(), record.text().unwrap().to_owned());
            }
            for (offset, payload) in offsets.iter() {
                assert_eq!(
                    found.get(offset),
                    Some(payload),
                    "{topic:?}/{number}@{offset}"
                );
            }
            let distinct: BTreeSet<_> = found.values().collect();
            assert_eq!(distinct.len(), found.len(), "a record is there twice");
            let last = offsets.pop_last();
            offsets.clear();
            offsets.extend(last);
        }
    }
}

/// All of it.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    stoppers: Vec<Stopper>,
    /// Acks that nobody has waited for, with their payloads.
    pub acks: Arc<Mutex<Vec<(Ack, String)>>>,
    noted: Arc<Mutex<Acknowledged>>,
}

/// The store's topics, made where they are missing.
pub fn topics(store: &Store) {
    let options = || small_segments();
    let interval = Durability::Interval(Duration::from_millis(3));
    let make = |name, options| store.create_topic(name, options).unwrap();
    make(COMMIT, options());
    make(INTERVAL, options().durability(interval));
    make(MANUAL, options().durability(Durability::Manual));
    make(SPREAD, options().partitions(3));
    make(QUIET, options());
}

/// That the store was closed; or that the topic was deleted, where that may be. Anything else is no
/// right answer.
fn closed(error: &Error) -> bool {
    match error {
        Error::Closed => true,
        other => panic!("{other:?}"),
    }
}

impl Load {
    /// Starts all of it; `life` tells the payloads of one store from those of another.
    pub fn start(store: &Store, life: usize, noted: &Arc<Mutex<Acknowledged>>) -> Load {
        let mut load = Load {
            stop: Arc::default(),
            threads: Vec::new(),
            stoppers: Vec::new(),
            acks: Arc::default(),
            noted: Arc::clone(noted),
        };
        for number in 0..APPENDERS {
            load.append(store, life, number);
        }
        load.follow(store);
        load.subscribe(store);
        load.flush(store);
        load.delete(store);
        load
    }

    /// A thread that does something again and again, until it is told to stop or the store is
    /// closed.
    fn again(&mut self, mut act: impl FnMut() -> tidelog::Result<()> + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || {
            while !stop.load(Ordering::Acquire) {
                match act() {
                    Ok(()) => {}
                    Err(error) if closed(&error) => return,
                    Err(_) => {}
                }
            }
        }));
    }

    fn append(&mut self, store: &Store, life: usize, number: usize) {
        let topic = |name| store.existing_topic(name).unwrap();
        let topics: Vec<Topic> = TOPICS.map(topic).into();
        let (noted, acks) = (Arc::clone(&self.noted), Arc::clone(&self.acks));
        let mut count = 0;
        self.again(move || {
            count += 1;
            let topic = &topics[(number + count) % topics.len()];
            let by_hand = topic.name() == MANUAL;
            let payload = |part| format!("{life}.{number}.{count}.{part}.{:0200}", 0);
            let record = |part| Record::new(payload(part)).key(format!("{part}"));
            match number % 4 {
                0 if !by_hand => {
                    let at = topic.append(record(0))?;
                    noted.lock().unwrap().note(&at, &payload(0));
                }
                1 if !by_hand => {
                    let batch = topic.append_batch((0..3).map(record))?;
                    let mut noted = noted.lock().unwrap();
                    for (part, at) in (0..3).zip(batch.iter()) {
                        noted.note(&at, &payload(part));
                    }
                }
                2 if !by_hand => {
                    let ack = topic.append_nowait(record(0))?;
                    let at = ack.wait()?;
                    noted.lock().unwrap().note(&at, &payload(0));
                }
                _ => {
                    let ack = topic.append_nowait(record(0))?;
                    acks.lock().unwrap().push((ack, payload(0)));
                    // So that there is time for others.
                    thread::sleep(Duration::from_micros(200));
                }
            }
            Ok(())
        });
    }

    /// One that has much to read, and one that waits for what never comes.
    fn follow(&mut self, store: &Store) {
        for name in [SPREAD, QUIET] {
            let topic = store.existing_topic(name).unwrap();
            let mut tail = topic.follow(Start::Latest).unwrap();
            self.stoppers.push(tail.stopper());
            self.again(move || match tail.next()? {
                Some(record) => {
                    assert!(record.text()?.contains('.'));
                    Ok(())
                }
                None => Err(Error::Closed),
            });
        }
    }

    fn subscribe(&mut self, store: &Store) {
        let topic = store.existing_topic(COMMIT).unwrap();
        let mut held = topic
            .subscription("held")
            .start(Start::Latest)
            .open()
            .unwrap();
        self.again(move || {
            match held.next()? {
                Some(_) => held.commit()?,
                None => thread::sleep(Duration::from_micros(100)),
            }
            Ok(())
        });
    }

    fn flush(&mut self, store: &Store) {
        let store = store.clone();
        self.again(move || {
            store.flush()?;
            store.existing_topic(MANUAL)?.flush()
        });
    }

    /// Topics that are made, written to and deleted.
    fn delete(&mut self, store: &Store) {
        let store = store.clone();
        self.again(move || {
            let doomed = store.create_topic("doomed", small_segments())?;
            let ack = doomed.append_nowait("gone soon")?;
            store.delete_topic("doomed")?;
            match ack.wait() {
                Ok(_) | Err(Error::TopicDeleted { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        });
    }

    /// Lets every thread end by itself, and drop what it holds.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.stoppers.iter().for_each(Stopper::stop);
    }

    /// Waits for all threads.
    pub fn join(&mut self) {
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }

    /// After the store was closed each ack that nobody has waited for is answered at once: nothing
    /// has failed, so its records are durable.
    pub fn settle(&self) {
        let mut noted = self.noted.lock().unwrap();
        for (ack, payload) in self.acks.lock().unwrap().drain(..) {
            let at = ack.wait().unwrap();
            assert!(ack.is_durable());
            noted.note(&at, &payload);
        }
    }
}
