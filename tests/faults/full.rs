//! D08, D39: a full disk, where the simulated one can tell at which call. On real file systems:
//! `tests/full_disk`.

use std::path::Path;

use tidelog::sys::Storage;
use tidelog::sys::sim::{Call, Fault, When};
use tidelog::{Error, Record, Start, TopicOptions};

use crate::kit::{payload, segments_of};
use crate::machine::{Machine, ROOT};

impl Machine {
    /// The disk has so many bytes left, and no more.
    fn leave(&self, free: u64) {
        let large = 1 << 30;
        self.sim.set_capacity(Some(large));
        let used = large - self.sim.free(Path::new("/")).unwrap();
        self.sim.set_capacity(Some(used + free));
    }
}

/// A program deletes a topic to make room, on a disk so full that no folder can be made and nothing
/// moved. The topic is gone and so are its files: a refusal behind the deletion would be untrue.
#[test]
fn a_topic_is_deleted_on_a_full_disk_and_its_space_is_free() {
    for call in [Call::CreateDir, Call::Rename] {
        let machine = Machine::new(1);
        let store = machine.open();
        let topic = store.create_topic("t", segments_of(16 << 10)).unwrap();
        for number in 0..30 {
            topic.append(Record::new(payload(number, 1000))).unwrap();
        }
        drop(topic);
        let full = Fault::new(call, When::From(0), libc::ENOSPC);
        machine.sim.fail(full);
        store.delete_topic("t").unwrap();
        assert!(store.topics().is_empty());
        let left = machine.sim.list(&Path::new(ROOT).join("topics")).unwrap();
        assert!(left.is_empty(), "{call:?} {left:?}");
        machine.sim.heal();
        store.close().unwrap();
        assert!(machine.open().topics().is_empty());
    }
}

/// A topic's next segment would be of 16 MiB and the disk has two: the record is small, and gets a
/// segment that is. When there is nothing left it is refused, and taken again when there is room.
#[test]
fn a_segment_is_as_short_as_the_room_that_is_left() {
    let machine = Machine::new(1);
    let store = machine.open();
    let topic = store
        .create_topic("t", TopicOptions::new().first_segment_bytes(16 << 20))
        .unwrap();
    machine.leave(2 << 20);
    let mut taken = 0;
    let refused = loop {
        match topic.append(Record::new(payload(taken, 10_000))) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::StorageFull { .. }), "{refused}");
    assert!(taken * 10_000 > 3 << 19, "{taken}");
    machine.sim.set_capacity(None);
    topic.append(Record::new(payload(taken, 10_000))).unwrap();
    let mut cursor = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
    for number in 0..=taken {
        let record = cursor.next().unwrap().unwrap();
        assert_eq!(record.payload(), payload(number, 10_000));
    }
}

/// The disk is full and a subscription commits again and again, far more often than the journal had
/// room for: its old segments go, and that is the room of the next ones.
#[test]
fn commits_go_on_for_as_long_as_the_disk_is_full() {
    let machine = Machine::new(1);
    let store = machine.open();
    let topic = store.topic("t").unwrap();
    topic.append(Record::new("first")).unwrap();
    let mut reader = topic.subscribe("reader").unwrap();
    store.flush().unwrap();
    machine.leave(0);
    for _ in 0..3000 {
        assert!(reader.next().unwrap().is_some());
        reader.commit().unwrap();
        reader.reset(Start::Earliest).unwrap();
    }
    machine.sim.set_capacity(None);
    drop((reader, topic));
    store.close().unwrap();
}
