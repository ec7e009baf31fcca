//! A journal that has no room at all: what only it states is refused.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use tidelog::{Durability, Record, Result, Start, Topic, TopicOptions, verify};

use crate::book::{Book, is_full, payload};
use crate::volume::{Kind, Volume, everywhere};

/// Each of these must be refused in some run.
const FACTS: [&str; 6] = ["create", "mode", "subscribe", "commit", "finish", "close"];

type Refused = BTreeMap<&'static str, usize>;

fn small() -> TopicOptions {
    TopicOptions::new()
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(16 << 10)
}

/// Whether a fact was stated. It was, or there was no room for it: nothing else may happen.
fn stated<T>(refused: &mut Refused, fact: &'static str, answer: Result<T>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) if is_full(&error) => {
            *refused.entry(fact).or_default() += 1;
            false
        }
        Err(error) => panic!("{fact} said {error:?}"),
    }
}

/// Takes away the journal's next segment, as an owner of an earlier version did at a close.
fn remove_the_spare(volume: &Volume) {
    for entry in fs::read_dir(volume.dir().join("data/journal")).unwrap() {
        let path = entry.unwrap().path();
        let mut magic = [0; 8];
        File::open(&path)
            .unwrap()
            .read_exact_at(&mut magic, 0)
            .unwrap();
        if magic == [0; 8] {
            fs::remove_file(path).unwrap();
        }
    }
}

/// Commits back and forth, so many times or until there is no room; how often.
fn commit(topic: &Topic, times: usize) -> usize {
    let mut reader = topic.subscribe("reader").unwrap();
    for time in 0..times {
        let committed = match reader.next().unwrap().is_some() {
            true => reader.commit(),
            false => reader.reset(Start::Earliest),
        };
        if let Err(error) = committed {
            assert!(is_full(&error), "{error:?}");
            return time;
        }
    }
    times
}

fn append(topic: &Topic, partition: u32, book: &mut Book) {
    let payload = payload(100);
    let at = topic
        .partition(partition)
        .unwrap()
        .append(Record::new(&payload));
    book.note(&at.unwrap(), &payload);
}

/// Topics with room in their segments, on a disk with no room, and a journal without a next segment.
fn begin(volume: &Volume, book: &mut Book) {
    let store = volume.open("data");
    let quakes = store.create_topic("quakes", small()).unwrap();
    let wide = store.create_topic("wide", small().partitions(24)).unwrap();
    store.create_topic("short", small()).unwrap();
    quakes.subscribe("reader").unwrap();
    append(&quakes, 0, book);
    (0..24).for_each(|partition| append(&wide, partition, book));
    drop((quakes, wide));
    store.close().unwrap();
    remove_the_spare(volume);
}

/// One run: so many facts before the journal has no room, and then one of each kind, a close, and
/// another owner on the disk that is still full; or as many as there is room for, for how many.
fn run(volume: &Volume, times: Option<usize>, refused: &mut Refused) -> usize {
    let ballast = volume.leave(match volume.kind() {
        // It gives back late what the run before has removed.
        Kind::Btrfs => 48 << 20,
        _ => 8 << 20,
    });
    let mut book = Book::default();
    begin(volume, &mut book);
    let rest = volume.leave(0);
    let store = volume.open("data");
    let quakes = store.existing_topic("quakes").unwrap();
    // All of their ends are to be told at the close.
    let wide = store.existing_topic("wide").unwrap();
    (0..24).for_each(|partition| append(&wide, partition, &mut book));
    let fitted = commit(&quakes, times.unwrap_or(usize::MAX >> 1));

    let created = stated(refused, "create", store.topic("late"));
    assert_eq!(store.existing_topic("late").is_ok(), created);
    let manual = small().durability(Durability::Manual);
    stated(refused, "mode", store.create_topic("short", manual));
    stated(refused, "subscribe", quakes.subscribe("late"));
    let mut reader = quakes.subscribe("reader").unwrap();
    let before = reader.committed(0).unwrap();
    reader.next().unwrap();
    let committed = stated(refused, "commit", reader.commit());
    assert!(committed || reader.committed(0).unwrap() == before);
    let at = reader.committed(0).unwrap();
    let short = store.existing_topic("short").unwrap();
    let finished = stated(refused, "finish", short.finish());
    assert_eq!(short.is_finished(), finished);
    // What was refused has changed nothing, and what needs no fact goes on.
    append(&quakes, 0, &mut book);
    book.check(&store);
    let health = store.health();
    assert!(health.journal.is_none() && health.failed.is_empty());
    drop((reader, short, wide, quakes));
    stated(refused, "close", store.close());

    let store = volume.try_open("data");
    let store = store.unwrap_or_else(|error| panic!("{volume}: in the full state: {error}"));
    book.check(&store);
    assert_eq!(store.existing_topic("late").is_ok(), created);
    assert_eq!(
        store.existing_topic("short").unwrap().is_finished(),
        finished
    );
    let quakes = store.existing_topic("quakes").unwrap();
    assert_eq!(
        quakes.subscribe("reader").unwrap().committed(0).unwrap(),
        at
    );
    drop((rest, ballast));
    assert_eq!(commit(&quakes, 1000), 1000, "{volume}: when there was room");
    append(&quakes, 0, &mut book);
    store.topic("later").unwrap();
    book.check(&store);
    drop(quakes);
    store.close().unwrap();
    let root = volume.dir().join("data");
    assert!(verify(&root, &volume.options()).unwrap().is_sound());
    fs::remove_dir_all(root).unwrap();
    fitted
}

/// A journal without a next segment, on a disk without room for one, is filled to the last fact, or to
/// the last but one, and so on; then a topic is made, one gets another mode, a subscription is made,
/// one commits, a topic is finished, the store is closed. Each of them is refused in some run, and has
/// changed nothing then; appends with room go on, and the next owner opens the store as it stands.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn each_fact_that_finds_the_journal_full_is_refused_and_changes_nothing() {
    everywhere(|volume| {
        let mut refused = Refused::new();
        let most = run(volume, None, &mut refused);
        assert!(most > 20, "{volume}: {most} facts");
        for left in 1..9 {
            run(volume, Some(most - left), &mut refused);
        }
        eprintln!("{volume}: {most} facts, {refused:?}");
        for fact in FACTS {
            assert!(
                refused.contains_key(fact),
                "{volume}: {fact} was never refused"
            );
        }
    });
}
