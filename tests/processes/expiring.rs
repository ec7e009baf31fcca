//! D14: what an owner lets go of by itself, beside those who read it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tidelog::{Cursor, Error, Retention, Start, Store, StoreOptions, Topic};

use crate::child::{Other, part};
use crate::kit::{append, asked, opened, payload, reader, reads, small, tell, until};

/// A topic expires to its last record while one reader has read all of it and waits, and another one
/// stands in the middle. The first one gets what comes next; the other one reads the segment that it holds
/// to its end and is told what has gone; both do so as often as it happens.
#[test]
fn readers_of_a_topic_that_expires_go_on_where_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let owner = Store::open(dir.path().join("store")).unwrap();
    let short = small().retention(Retention::age(Duration::from_millis(200)));
    let quakes = owner.create_topic("quakes", short).unwrap();
    append(&quakes, 100, 100);
    let store = reader(&dir.path().join("store"));
    let topic = opened(&store, "quakes");
    let mut waits = topic.follow(Start::Latest).unwrap();
    let mut from = 100;
    for _ in 0..5 {
        let mut stands = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
        let first = stands.next().unwrap().map(|record| record.offset());
        let begin = Instant::now();
        while quakes.partition(0).unwrap().first().unwrap() < from {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "it never expires"
            );
            assert!(
                waits
                    .next_timeout(Duration::from_millis(20))
                    .unwrap()
                    .is_none()
            );
        }
        append(&quakes, 100, 100);
        reads(&mut waits, from, from + 100);
        let mut next = first.map_or(from, |first| first + 1);
        loop {
            match stands.next() {
                Ok(Some(record)) => next = record.offset() + 1,
                Ok(None) => break assert_eq!(next, from + 100),
                Err(Error::OffsetExpired { asked, first, .. }) => {
                    assert!(asked == next && first > next, "{asked} {next} {first}");
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        from += 100;
    }
    drop((quakes, waits, topic, store));
    owner.close().unwrap();
}

/// Beside a live owner a reader is told what would go, as it grows older, without stopping anybody: nothing
/// at first, then exactly what the owner lets go of, the last segment included.
#[test]
fn a_reader_audits_beside_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions::new().retention_interval(Duration::from_secs(3600));
    let owner = Store::open_with(dir.path().join("store"), options).unwrap();
    let days = small().retention(Retention::days(1));
    let quakes = owner.create_topic("quakes", days).unwrap();
    append(&quakes, 5000, 100);
    let store = reader(&dir.path().join("store"));
    let topic = opened(&store, "quakes");
    let young = topic.audit().unwrap();
    assert_eq!(young.partitions[0].records(), 0, "{young:?}");
    assert_eq!(young.partitions[0].first, Some(0));
    append(&quakes, 5000, 100);
    let few = Retention::bytes(100_000).keep_required(1 << 30);
    let kept = quakes.options().retention(few);
    let mut must = quakes.subscription("must").required().open().unwrap();
    for _ in 0..6000 {
        must.next().unwrap().unwrap();
    }
    must.commit().unwrap();
    drop(owner.create_topic("quakes", kept).unwrap());
    let begin = Instant::now();
    let mut audits = Vec::new();
    while quakes.partition(0).unwrap().first().unwrap() < 5000 {
        audits.push(store.audit().unwrap());
        assert!(begin.elapsed() < Duration::from_secs(60), "it never goes");
    }
    let first = quakes.partition(0).unwrap().first().unwrap();
    assert!((5000..=6000).contains(&first), "{first}");
    for audit in audits {
        let told: Vec<_> = audit.partitions.iter().map(|it| &*it.topic).collect();
        assert!(told.contains(&"quakes"));
        let quakes = audit.partitions.iter().find(|it| it.topic == "quakes");
        assert!(quakes.is_some_and(|it| it.failed.is_none() && it.first.unwrap() <= first));
    }
    let refused = topic.apply_retention().unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
    drop((topic, store, must, quakes));
    owner.close().unwrap();
}

/// The base of a segment of the only log of `quakes`, as its header has it.
fn base(folder: &Path, number: u32) -> u64 {
    let name = format!("topics/quakes/000000-1/{number:08}.seg");
    let bytes = fs::read(folder.join(name)).unwrap();
    u64::from_le_bytes(bytes[48..56].try_into().unwrap())
}

/// What this process holds of files below a folder that are gone: by mappings and by descriptors.
fn gone(folder: &Path) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    let held = links.map(|link| link.to_string_lossy().into_owned());
    let held = held.chain(maps.lines().map(str::to_owned));
    let folder = folder.to_str().unwrap();
    held.filter(|it| it.contains(folder) && it.ends_with(" (deleted)"))
        .collect()
}

/// Reads on until something is told, or to the end; what was told, as one word.
fn on(cursor: &mut Cursor) -> String {
    let mut next = None;
    loop {
        match cursor.next() {
            Ok(Some(record)) => {
                assert!(next.is_none_or(|next| next == record.offset()));
                assert_eq!(record.text().unwrap(), payload(record.offset()));
                next = Some(record.offset() + 1);
            }
            Ok(None) => return format!("end:{}", next.unwrap_or(0)),
            Err(Error::OffsetExpired { asked, first, .. }) => {
                assert!(next.is_none_or(|next| next == asked));
                return format!("expired:{asked}:{first}");
            }
            Err(error) => return error.to_string().replace(' ', "_"),
        }
    }
}

/// A cursor that has read the record at an offset.
fn stands(topic: &Topic, offset: u64) -> Cursor {
    let mut cursor = topic
        .partition(0)
        .unwrap()
        .cursor(Start::Offset(offset))
        .unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().offset(), offset);
    cursor
}

/// What a reader goes through, in whichever process, step by step; it says what came of each.
/// `removed` is the segment that somebody has removed by hand.
fn reader_of(topic: &Topic, folder: &Path, removed: u32, mut say: impl FnMut(String)) {
    let mut cursor = stands(topic, 0);
    say("stands".to_owned());
    assert!(!gone(folder).is_empty(), "what it stands in is held");
    say(on(&mut cursor));
    // Where the log begins now, the file is not there any more.
    cursor.seek(Start::Earliest).unwrap();
    say(on(&mut cursor));
    cursor = stands(topic, base(folder, removed + 1));
    until("the space is free", || gone(folder).is_empty());
    say(on(&mut cursor));
    say(on(&mut cursor));
}

/// Ten segments and more; one reader stands in the first one in the owner's process, and one in another. The first
/// five are trimmed away, and somebody removes the sixth by hand. Both readers finish the segment that they stand
/// in, are told what has expired, and where the sixth one was they are told which file is missing. They go on behind
/// it, and nobody holds any of the removed files then, so that their space is free. The owner has gone on all the
/// time. Nobody is ended by a signal.
#[test]
fn readers_go_on_behind_segments_that_are_trimmed_away_or_removed_by_hand() {
    const NAME: &str =
        "expiring::readers_go_on_behind_segments_that_are_trimmed_away_or_removed_by_hand";
    if let Some(folder) = part() {
        let store = reader(&folder.join("store"));
        let mut lines = std::io::stdin().lines();
        reader_of(
            &opened(&store, "quakes"),
            &folder.join("store"),
            5,
            |told| {
                println!("told {told}");
                lines.next().unwrap().unwrap();
            },
        );
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let owner = Store::open(&place).unwrap();
    let quakes = owner.create_topic("quakes", small()).unwrap();
    let log = place.join("topics/quakes/000000-1");
    while !log.join("00000011.seg").exists() {
        append(&quakes, 100, 100);
    }
    let end = quakes.partition(0).unwrap().end().unwrap();
    let (second, sixth) = (base(&place, 1), base(&place, 5));
    let mut other = Other::start(NAME, dir.path());
    let mut step = 0;
    reader_of(&quakes, &place, 5, |here| {
        let there = other.says("told ");
        match step {
            0 => {
                let partition = quakes.partition(0).unwrap();
                assert_eq!(partition.truncate_before(sixth).unwrap(), sixth);
                fs::remove_file(log.join("00000005.seg")).unwrap();
            }
            1 => assert_eq!([&here, &there], [&format!("expired:{second}:{sixth}"); 2]),
            2 => {
                for told in [here, there] {
                    assert!(
                        told.contains("00000005.seg") && told.contains("quakes"),
                        "{told}"
                    );
                }
            }
            3 => {
                assert_eq!([&here, &there], [&format!("end:{end}"); 2]);
                append(&quakes, 100, 10);
            }
            _ => assert_eq!([&here, &there], [&format!("end:{}", end + 100); 2]),
        }
        step += 1;
        tell(&mut other, "go on");
    });
    assert_eq!(step, 5);
    assert_eq!(owner.health().failed.len(), 0, "{:?}", owner.health());
    drop(quakes);
    owner.close().unwrap();
}
