//! D32: what fails while a store is closed is no reason to leave anybody without an answer.

use std::sync::Arc;
use std::time::Duration;

use tidelog::sys::Storage;
use tidelog::sys::sim::{Call as SimCall, Crash, Fault, Keep, When};
use tidelog::{Durability, Error, Record, Store, StoreOptions, TopicOptions};

use crate::faulty::{Call, Faulty};
use crate::kit::{BACKENDS, Place, payload, segments_of};
use crate::machine::{Machine, ROOT};

/// So many that one sync of the file system is to stand for theirs.
const TOPICS: usize = 12;

/// Many topics have records that nobody has flushed, and one of them several segments, so that it is
/// settled by itself. Removing its spare fails. It was not settled then, and its acks waited for
/// ever.
#[test]
fn acks_are_answered_although_a_spare_cannot_be_removed() {
    for backend in BACKENDS {
        let place = Place::new();
        let disk = Faulty::new(backend);
        let storage = Arc::new(disk.clone());
        let options = StoreOptions::new().storage(storage);
        let store = Store::open_with(&place.root, options).unwrap();
        let by_hand = || segments_of(16 << 10).durability(Durability::Manual);
        let mut acks = Vec::new();
        for number in 0..TOPICS {
            let topic = store
                .create_topic(&format!("t{number}"), by_hand())
                .unwrap();
            acks.push(topic.append_nowait("one").unwrap());
        }
        let topic = store.create_topic("long", by_hand()).unwrap();
        for number in 0..4 {
            let record = Record::new(payload(number, 9000));
            acks.push(topic.append_nowait(record).unwrap());
        }
        // The preparer may still be at it, and gets one of these.
        disk.answer(Call::SyncDir, "topics/long/", &[Some(libc::EIO); 8]);
        let closed = store.close();
        assert!(matches!(closed, Err(Error::Io { .. })), "{closed:?}");
        for ack in acks {
            let answer = ack.wait_timeout(Duration::from_secs(20));
            assert!(answer.is_ok(), "{answer:?}");
        }
    }
}

/// D07: the one sync of the file system that is to settle many topics fails, and takes with it what none of
/// their files, nor the journal's, had safe before. The files were synced once more behind it, the journal's
/// among them, and what was gone was believed. Now nothing is: the next owner finds what is durable.
#[test]
fn a_failed_sync_of_the_file_system_is_one_of_every_file() {
    for keep in [Keep::Nothing, Keep::Half, Keep::Everything] {
        for seed in 0..20 {
            let machine = Machine::new(seed);
            let store = machine.open();
            let two = || TopicOptions::new().partitions(2);
            for number in 0..TOPICS {
                let name = format!("t{number}");
                let topic = store.create_topic(&name, two()).unwrap();
                // Durable in the journal alone.
                let both = [0, 1].map(|part| Record::new(name.clone()).partition(part));
                topic.append_batch(both).unwrap();
            }
            // One that has to be settled by itself.
            let long = store.create_topic("long", segments_of(16 << 10)).unwrap();
            for number in 0..4 {
                long.append(payload(number, 9000)).unwrap();
            }
            drop(long);
            machine.stop(store, Crash::Kill);
            let store = machine.open();
            for number in 0..TOPICS / 2 {
                let topic = store.existing_topic(&format!("t{number}")).unwrap();
                let more = [0, 1].map(|part| Record::new("more").partition(part));
                topic.append_batch(more).unwrap();
            }
            // Where recovery finds the ends of the others is stated, and nobody waits for that.
            for info in store.topics() {
                let topic = store.existing_topic(&info.name).unwrap();
                for part in 0..topic.partitions() {
                    topic.partition(part).unwrap().end().unwrap();
                }
            }
            machine
                .sim
                .fail(Fault::new(SimCall::Sync, When::Nth(0), libc::EIO).on(ROOT));
            let before = machine.sim.stats().volume_syncs.get();
            let closed = store.close();
            assert!(matches!(closed, Err(Error::Io { .. })), "{closed:?}");
            assert_eq!(machine.sim.stats().volume_syncs.get(), before + 1);
            machine.sim.crash(Crash::Cut(keep)).unwrap();
            machine.sim.heal();

            let store = machine.open();
            let health = store.health();
            assert_eq!(health.journal_damaged, 0, "{keep:?} {seed}: {health:?}");
            assert!(health.failed.is_empty(), "{keep:?} {seed}: {health:?}");
            for number in 0..TOPICS {
                let name = format!("t{number}");
                let topic = store.existing_topic(&name).unwrap();
                for part in 0..2 {
                    let read = topic.partition(part).unwrap().read(0..9).unwrap();
                    let read: Vec<_> = read.map(|record| record.unwrap().offset()).collect();
                    assert_eq!(
                        read.len(),
                        1 + usize::from(number < TOPICS / 2),
                        "{name}/{part}"
                    );
                }
            }
            let long = store.existing_topic("long").unwrap().partition(0).unwrap();
            assert_eq!(long.end().unwrap(), 4);
            store.close().unwrap();
        }
    }
}
