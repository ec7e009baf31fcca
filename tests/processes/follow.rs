//! Following the owner's tail.

use std::time::Duration;

use tidelog::{Durability, Error, Start, Store, TopicOptions, Visibility};

use crate::child::{Other, part};
use crate::kit::{append, asked, opened, payload, reader, reads, small, tell};

/// The owner of the other process appends as fast as it can and lets go of what is old, over a thousand
/// segments. The reader is slower now and then, and sees every record once, in order and whole, or is
/// told which ones have gone.
#[test]
fn a_reader_follows_an_owner_over_a_thousand_segments_that_come_and_go() {
    const RECORDS: u64 = 460_000;
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let topic = store.create_topic("quakes", small()).unwrap();
        println!("opened");
        let partition = topic.partition(0).unwrap();
        for _ in 0..RECORDS / 1000 {
            append(&topic, 1000, 200);
            let end = partition.end().unwrap();
            partition
                .truncate_before(end.saturating_sub(20_000))
                .unwrap();
        }
        assert!(partition.first().unwrap() > 400_000);
        println!("done");
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Other::start(
        "follow::a_reader_follows_an_owner_over_a_thousand_segments_that_come_and_go",
        dir.path(),
    );
    owner.says("opened");
    let store = reader(&dir.path().join("store"));
    let topic = store.topic("quakes").unwrap();
    let mut tail = topic.follow(Start::Earliest).unwrap();
    let (mut next, mut gone, mut jumps) = (0, 0, 0);
    while next < RECORDS {
        if next % 150_000 == 149_999 {
            // It falls behind, and what it stands in goes away under it.
            std::thread::sleep(Duration::from_millis(400));
        }
        match tail.next_timeout(crate::kit::HANG) {
            Ok(record) => {
                let record = record.expect("it comes before the time is up");
                assert_eq!(record.offset(), next);
                assert_eq!(record.text().unwrap(), payload(next));
                next += 1;
            }
            Err(Error::OffsetExpired { asked, first, .. }) => {
                assert_eq!(asked, next);
                assert!(first > next);
                (gone, jumps) = (gone + first - next, jumps + 1);
                next = topic.partition(0).unwrap().first().unwrap();
                tail = topic.follow(Start::Offset(next)).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    owner.says("done");
    println!("{jumps} times {gone} records had gone");
    assert!(gone < RECORDS);
}

/// A reader stands in the middle of a segment. The owner goes on for many segments and lets go of all but
/// the last ones. The reader finishes the segment that it holds, and is then told what has gone; from
/// there on it reads what is left.
#[test]
fn a_reader_finishes_the_segment_it_stands_in_and_is_told_what_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let owner = Store::open(dir.path().join("store")).unwrap();
    let quakes = owner.create_topic("quakes", small()).unwrap();
    append(&quakes, 300, 100);
    let store = reader(&dir.path().join("store"));
    let topic = opened(&store, "quakes");
    let mut tail = topic.follow(Start::Earliest).unwrap();
    reads(&mut tail, 0, 100);
    append(&quakes, 6000, 100);
    let first = quakes.partition(0).unwrap().truncate_before(5000).unwrap();
    let mut next = 100;
    let (asked, there) = loop {
        match tail.next_timeout(crate::kit::HANG) {
            Ok(Some(record)) => {
                assert_eq!(record.offset(), next);
                assert_eq!(record.text().unwrap(), payload(next));
                next += 1;
            }
            Err(Error::OffsetExpired { asked, first, .. }) => break (asked, first),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((asked, there), (next, first));
    assert!(next >= 300, "{next}: the segment that it held has more");
    reads(&mut topic.follow(Start::Earliest).unwrap(), first, 6300);
    drop((quakes, tail, topic, store));
    owner.close().unwrap();
}

/// The owner is killed again and again in the middle of appending, and the next one goes on. One
/// reader sees it all: every record once, in order, over all owners.
#[test]
fn a_reader_outlives_many_owners_that_are_killed() {
    const NAME: &str = "follow::a_reader_outlives_many_owners_that_are_killed";
    const KILLS: usize = 100;
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let topic = store.create_topic("quakes", small()).unwrap();
        let end = topic.partition(0).unwrap().end().unwrap();
        println!("goes-on {end}");
        append(&topic, 50_000, 7);
        println!("done");
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Other::start(NAME, dir.path());
    owner.says("goes-on");
    let store = reader(&dir.path().join("store"));
    let mut tail = opened(&store, "quakes").follow(Start::Earliest).unwrap();
    let mut next = 0;
    for kill in 0..KILLS {
        let some = 1 + 37 * (kill as u64 % 11);
        reads(&mut tail, next, next + some);
        next += some;
        owner.kill();
        owner = Other::start(NAME, dir.path());
        let end: u64 = owner.says("goes-on").parse().unwrap();
        assert!(end >= next, "what was seen is still there: {end}, {next}");
    }
    reads(&mut tail, next, next + 10_000);
    assert_eq!(store.health().owner, Some(owner.child.id()));
}

/// What is written and not durable shows to who asks for it, in another process, too, and to nobody
/// else.
#[test]
fn written_records_show_to_those_who_ask_for_them() {
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let by_hand = TopicOptions::new().durability(Durability::Manual);
        let topic = store.create_topic("quakes", by_hand).unwrap();
        println!("opened");
        (0..3).for_each(|at| drop(topic.append_nowait(payload(at).as_str()).unwrap()));
        println!("written");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        topic.flush().unwrap();
        println!("durable");
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Other::start(
        "follow::written_records_show_to_those_who_ask_for_them",
        dir.path(),
    );
    owner.says("opened");
    let store = reader(&dir.path().join("store"));
    let topic = opened(&store, "quakes");
    owner.says("written");
    let mut durable = topic.follow(Start::Earliest).unwrap();
    let written = topic.follow(Start::Earliest).unwrap();
    reads(&mut written.visibility(Visibility::Written), 0, 3);
    assert!(durable.try_next().unwrap().is_none());
    tell(&mut owner, "flush");
    reads(&mut durable, 0, 3);
    owner.says("durable");
}

/// A topic with several partitions, more than the kernel can sleep on at once, is followed like one.
#[test]
fn many_partitions_are_followed_together() {
    const PARTITIONS: u32 = 200;
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let options = small().partitions(PARTITIONS);
        let topic = store.create_topic("quakes", options).unwrap();
        topic.partition(7).unwrap().append("first").unwrap();
        println!("opened");
        for number in (0..PARTITIONS).rev() {
            topic.partition(number).unwrap().append("next").unwrap();
        }
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "follow::many_partitions_are_followed_together";
    let mut owner = Other::start(name, dir.path());
    owner.says("opened");
    let store = reader(&dir.path().join("store"));
    let mut tail = opened(&store, "quakes").follow(Start::Earliest).unwrap();
    let mut seen = vec![0; PARTITIONS as usize];
    for _ in 0..=PARTITIONS {
        let record = tail.next_timeout(crate::kit::HANG).unwrap();
        let record = record.expect("it comes before the time is up");
        seen[record.partition() as usize] += 1;
    }
    assert!(
        seen.iter()
            .zip(0..)
            .all(|(seen, at)| *seen == if at == 7 { 2 } else { 1 })
    );
}

/// Finishing ends a follower in another process when it has read everything; a topic that is deleted
/// tells it so.
#[test]
fn a_follower_ends_with_its_topic() {
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let [ends, goes] = ["ends", "goes"].map(|name| store.topic(name).unwrap());
        append(&ends, 10, 10);
        append(&goes, 10, 10);
        println!("opened");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        append(&ends, 10, 3);
        ends.finish().unwrap();
        store.delete_topic("goes").unwrap();
        println!("done");
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Other::start("follow::a_follower_ends_with_its_topic", dir.path());
    owner.says("opened");
    let store = reader(&dir.path().join("store"));
    let mut ends = opened(&store, "ends").follow(Start::Earliest).unwrap();
    let mut goes = opened(&store, "goes").follow(Start::Earliest).unwrap();
    reads(&mut ends, 0, 10);
    reads(&mut goes, 0, 10);
    tell(&mut owner, "go on");
    reads(&mut ends, 10, 20);
    assert!(ends.next_timeout(crate::kit::HANG).unwrap().is_none());
    assert!(ends.is_ended());
    let gone = goes.next_timeout(crate::kit::HANG);
    assert!(matches!(gone, Err(Error::TopicDeleted { .. })), "{gone:?}");
    let gone = store.topic("goes");
    assert!(matches!(gone, Err(Error::TopicUnknown { .. })), "{gone:?}");
}
