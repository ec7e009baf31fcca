//! D32: what fails while a store is closed is no reason to leave anybody without an answer.

use std::sync::Arc;
use std::time::Duration;

use tidelog::{Durability, Error, Record, Store, StoreOptions};

use crate::faulty::{Call, Faulty};
use crate::kit::{BACKENDS, Place, payload, segments_of};

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
