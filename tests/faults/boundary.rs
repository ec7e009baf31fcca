//! D19, where it takes a disk that fails or is slow: ends of segments that nobody meant.

use std::fs;
use std::sync::Arc;
use std::thread;

use tidelog::sys::Backend;
use tidelog::{Durability, Record, Start, Store, StoreOptions};

use crate::faulty::{Call, Faulty};
use crate::kit::{Place, one, payload, payloads, segments_of};
use crate::life;

const EIO: i32 = libc::EIO;

fn open(place: &Place, disk: &Faulty) -> Store {
    let storage = Arc::new(disk.clone());
    Store::open_with(&place.root, StoreOptions::new().storage(storage)).unwrap()
}

/// Three segments in a row end without a record, since the first write to each of them fails. Who
/// stands before them goes on behind them, at once and after any end of the owner.
#[test]
fn readers_cross_three_segments_without_a_record() {
    let place = Place::new();
    let disk = Faulty::new(Backend::Pwrite);
    let store = open(&place, &disk);
    let topic = store.create_topic("t", segments_of(16 << 10)).unwrap();
    topic.append("0").unwrap();
    let mut cursor = one(&store, "t").cursor(Start::Latest).unwrap();
    let mut tail = topic.follow(Start::Earliest).unwrap();
    assert_eq!(tail.next().unwrap().unwrap().text().unwrap(), "0");
    // The header of each of the three can be written, and then nothing.
    let fails = [Some(EIO), None, Some(EIO), None, Some(EIO), None, Some(EIO)];
    disk.answer(Call::Write, "topics/t", &fails);
    let answers: Vec<_> = (0..4).map(|_| topic.append("lost").is_err()).collect();
    assert_eq!(answers, [true; 4]);
    let follower = thread::spawn(move || {
        let record = tail.next().unwrap().unwrap();
        (record.offset(), record.text().unwrap().to_owned())
    });
    topic.append("1").unwrap();
    assert_eq!(follower.join().unwrap(), (1, "1".to_owned()));
    assert_eq!(cursor.next().unwrap().unwrap().text().unwrap(), "1");
    assert_eq!(place.segments("t").len(), 5, "three are empty");
    let image = place.killed();
    drop((cursor, topic));
    store.close().unwrap();
    for place in [place, image] {
        let store = place.open(Backend::Pwrite);
        assert_eq!(payloads(&one(&store, "t")), [b"0", b"1"]);
        assert_eq!(one(&store, "t").append("2").unwrap().offset(), 2);
        store.close().unwrap();
    }
}

/// A segment is being synced, all of it, when the next one takes over. It was let go of without a
/// seal: its index was not used any more, and a reader that had looked at the list just before
/// found nothing that said where it ends.
#[test]
fn a_segment_that_is_followed_while_it_is_synced_is_sealed_by_the_next_round() {
    for backend in [Backend::Mapped, Backend::Pwrite] {
        let place = Place::new();
        let disk = Faulty::new(backend);
        let store = open(&place, &disk);
        let by_hand = segments_of(16 << 10).durability(Durability::Manual);
        let topic = store.create_topic("t", by_hand).unwrap();
        let send = |number: u64| {
            topic
                .append_nowait(Record::new(payload(number, 9000)))
                .unwrap()
        };
        drop(send(0));
        disk.hold(Call::Sync, "00000000.seg", &[None]);
        thread::scope(|scope| {
            let flush = scope.spawn(|| topic.flush());
            life::until(|| disk.waiting() == 1);
            // There is no room for it behind the first one.
            drop(send(1));
            disk.release();
            flush.join().unwrap().unwrap();
        });
        topic.flush().unwrap();
        let first = fs::read(place.segment("t", 0)).unwrap();
        assert_eq!(&first[3 * 512..3 * 512 + 4], b"SLOT", "the seal");
        drop(topic);
        store.close().unwrap();
    }
}
