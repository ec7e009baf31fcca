//! A short life of a store, run with so much room, and then with a little more: so that each of its
//! steps is the one that finds the disk full.

use tidelog::{Durability, Error, Record, Result, Start, Store, Topic, TopicOptions, verify};

use crate::book::{Book, is_full, payload};
use crate::volume::{Kind, Volume, everywhere};

/// The steps that must each be refused in some run: whatever a full disk can be met by.
/// (What the journal alone states is refused in `facts`: here it has room, if it could be opened.)
const STEPS: [&str; 6] = [
    "open",
    "append",
    "batch",
    "spread",
    "append by hand",
    "append short",
];

/// What is found full, over all the runs, so that no step is passed over.
#[derive(Debug, Default)]
struct Found {
    refused: std::collections::BTreeMap<&'static str, usize>,
}

impl Found {
    /// Whether a step was done. It is, or there was no room for it: nothing else may happen.
    fn done<T>(&mut self, step: &'static str, answer: Result<T>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(error) if is_full(&error) => {
                *self.refused.entry(step).or_default() += 1;
                None
            }
            Err(error) => panic!("{step} said {error:?}"),
        }
    }
}

fn small() -> TopicOptions {
    TopicOptions::new()
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(64 << 10)
}

/// Opens, creates, appends, rolls, commits, flushes, finishes, deletes and closes.
fn live(volume: &Volume, book: &mut Book, found: &mut Found) {
    let Some(store) = found.done("open", volume.try_open("data")) else {
        return;
    };
    let quakes = found.done("create", store.create_topic("quakes", small()));
    let wide = found.done(
        "create wide",
        store.create_topic("wide", small().partitions(4)),
    );
    let manual = small().durability(Durability::Manual);
    let manual = found.done("create manual", store.create_topic("manual", manual));
    if let Some(quakes) = &quakes {
        append(quakes, book, found);
        commit(quakes, found);
    }
    if let Some(wide) = &wide {
        spread(wide, book, found);
    }
    if let Some(manual) = &manual {
        by_hand(manual, book, found);
    }
    if let Some(quakes) = &quakes {
        // Larger than a segment would be.
        let batch: Vec<Vec<u8>> = (0..9).map(|_| payload(12 << 10)).collect();
        book.batch(&batch);
        let answer = quakes.append_batch(batch.iter().map(Record::new));
        if let Some(at) = found.done("batch", answer) {
            at.iter()
                .zip(&batch)
                .for_each(|(at, payload)| book.note(&at, payload));
        }
    }
    if let Some(short) = found.done("create short", store.create_topic("short", small())) {
        found.done("append short", append_one(&short, book, 2000));
        let finished = found.done("finish", short.finish()).is_some();
        assert_eq!(short.is_finished(), finished);
        assert_eq!(
            matches!(
                short.append(Record::new("more")),
                Err(Error::Finished { .. })
            ),
            finished
        );
        // Freeing space must work where there is none.
        if found.done("delete", store.delete_topic("short")).is_some() {
            book.forget("short");
        }
    }
    assert!(store.health().failed.is_empty() && store.health().journal.is_none());
    book.check(&store);
    drop((quakes, wide, manual));
    found.done("close", store.close());
}

fn append_one(topic: &Topic, book: &mut Book, length: usize) -> Result<()> {
    let payload = payload(length);
    let at = topic.append(Record::new(&payload))?;
    book.note(&at, &payload);
    Ok(())
}

fn append(topic: &Topic, book: &mut Book, found: &mut Found) {
    for _ in 0..20 {
        found.done("append", append_one(topic, book, 3000));
    }
}

fn commit(topic: &Topic, found: &mut Found) {
    let Some(mut reader) = found.done("subscribe", topic.subscribe("reader")) else {
        return;
    };
    for _ in 0..3 {
        if reader.next().unwrap().is_some() {
            found.done("commit", reader.commit());
        }
    }
}

fn spread(topic: &Topic, book: &mut Book, found: &mut Found) {
    for round in 0..3 {
        let batch: Vec<Vec<u8>> = (0..8).map(|_| payload(1000)).collect();
        book.batch(&batch);
        let records = (0..8_u8)
            .zip(&batch)
            .map(|(key, it)| Record::new(it).key(vec![key, round]));
        if let Some(at) = found.done("spread", topic.append_batch(records)) {
            at.iter()
                .zip(&batch)
                .for_each(|(at, payload)| book.note(&at, payload));
        }
    }
}

fn by_hand(topic: &Topic, book: &mut Book, found: &mut Found) {
    let mut written = Vec::new();
    for _ in 0..10 {
        let payload = payload(3000);
        let answer = topic.append_nowait(Record::new(&payload));
        written.extend(
            found
                .done("append by hand", answer)
                .map(|ack| (ack, payload)),
        );
    }
    match found.done("flush", topic.flush()) {
        Some(()) => written
            .iter()
            .for_each(|(ack, it)| book.note(&ack.wait().unwrap(), it)),
        None => written.iter().for_each(|(_, it)| book.doubt(it)),
    }
}

/// What is there afterwards takes appends, finishes and goes.
fn go_on(store: &Store, book: &mut Book) {
    for name in ["quakes", "wide", "short"] {
        let topic = store.create_topic(
            name,
            match name {
                "wide" => small().partitions(4),
                _ => small(),
            },
        );
        let topic = topic.unwrap();
        if !topic.is_finished() {
            append_one(&topic, book, 3000).unwrap();
        }
    }
    let manual = store
        .create_topic("manual", small().durability(Durability::Manual))
        .unwrap();
    let payload = payload(3000);
    let ack = manual.append_nowait(Record::new(&payload)).unwrap();
    manual.flush().unwrap();
    book.note(&ack.wait().unwrap(), &payload);
    let mut tail = manual.follow(Start::Earliest).unwrap();
    assert!(tail.next().unwrap().is_some());
}

/// One run with so much room: a life, another owner on the full disk, and then one with room.
fn run(volume: &Volume, free: u64, found: &mut Found) {
    let mut book = Book::default();
    let ballast = volume.leave(free);
    live(volume, &mut book, found);
    let store = found.done("reopen", volume.try_open("data"));
    if let Some(store) = &store {
        book.check(store);
    }
    drop(ballast);
    let store = store.unwrap_or_else(|| volume.open("data"));
    book.check(&store);
    go_on(&store, &mut book);
    book.check(&store);
    store.close().unwrap();
    let store = volume.open("data");
    book.check(&store);
    store.close().unwrap();
    let root = volume.dir().join("data");
    assert!(verify(&root, &volume.options()).unwrap().is_sound());
    std::fs::remove_dir_all(root).unwrap();
}

/// A short life of a store is run on a disk with no room at all, and again and again with a little
/// more, until all of it fits: so every one of its steps finds the disk full once. Each either
/// happens or is refused for want of space; another owner opens what is left, and once there is
/// room everything works.
#[test]
#[ignore = "mounts a file system, needs root; run by .ci/run with --ignored"]
fn whatever_step_finds_the_disk_full_is_refused_and_nothing_is_lost() {
    everywhere(|volume| {
        let mut found = Found::default();
        let step = match volume.kind() {
            Kind::Tmpfs => 8 << 10,
            _ => 16 << 10,
        };
        for free in (0..1 << 20).step_by(step) {
            let run = std::panic::AssertUnwindSafe(|| run(volume, free, &mut found));
            if let Err(panic) = std::panic::catch_unwind(run) {
                eprintln!("{volume}: with {free} bytes free");
                std::panic::resume_unwind(panic);
            }
        }
        eprintln!("{volume}: {:?}", found.refused);
        for step in STEPS {
            assert!(
                found.refused.contains_key(step),
                "{volume}: {step} was never refused"
            );
        }
    });
}
