//! Processors that are killed, again and again, at moments of nobody's choosing.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use std::{env, fs, thread};

use tidelog::{OwnedRecord, Record, Store, TopicOptions};

use crate::child::{self, Other};
use crate::kit::records;
use crate::memory;

/// So many kills, where nobody says how many.
const KILLS: u64 = 500;
/// So many of one store's processor.
const LIVES: u64 = 10;
/// Records of its input: more than are processed in that time.
const RECORDS: u64 = 20_000;
const TEST: &str = "kills::a_transactional_processor_that_is_killed_500_times_repeats_nothing";
const PLAIN: &str = "kills::a_processor_without_transactions_repeats_records_when_it_is_killed";

/// A folder that costs no syncs, where there is such a thing.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in(memory::folder()).unwrap()
}

/// Makes the input, and the topics that the processor writes to.
fn fill(folder: &Path) {
    let store = Store::open(folder).unwrap();
    let input = store.topic("in").unwrap();
    let record = |it: u64| Record::new(it.to_string()).key(format!("k{}", it % 13));
    input.append_batch((0..RECORDS).map(record)).unwrap();
    let two = TopicOptions::new().partitions(2);
    store.create_topic("out", two.clone()).unwrap();
    store.create_topic("thirds", two).unwrap();
    store.close().unwrap();
}

/// Processes the input.
fn process(store: &Store, transactional: bool) -> tidelog::Result<u64> {
    let it = store.processor("p").input("in");
    let it = it.output("out").output("thirds").batch(7);
    let it = if transactional {
        it.transactional()
    } else {
        it
    };
    let it = it.run_once(|record, out| {
        let text = record.text()?;
        out.append(Record::new(format!("{text} again")).key(record.key().unwrap_or_default()))?;
        if record.offset() % 3 == 0 {
            out.append_to("thirds", record.to_record())?;
        }
        Ok(())
    });
    it.map(|counts| counts.records_in)
}

/// The processor's part: in a process that will be killed.
fn play(folder: &Path, transactional: bool) {
    let store = Store::open(folder).unwrap();
    println!("@open");
    process(&store, transactional).unwrap();
    println!("@done");
    // It waits for its end.
    thread::sleep(Duration::from_secs(60));
}

/// Kills so many processors of one store, one after another.
fn lives(test: &str, folder: &Path, chance: &mut u64, count: u64) {
    for _ in 0..count {
        let mut other = Other::start(test, folder);
        other.says("@open");
        *chance = chance.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        thread::sleep(Duration::from_micros((*chance >> 33) % 6000));
        other.kill();
    }
}

/// Partition, key and payload of a record.
type Entry = (u32, String, String);

/// What is in a topic, partition by partition.
fn content(store: &Store, name: &str) -> Vec<Entry> {
    let content = |record: &OwnedRecord| {
        let key = String::from_utf8_lossy(record.key().unwrap()).into_owned();
        let text = record.text().unwrap().to_owned();
        (record.position().partition(), key, text)
    };
    records(store, name).iter().map(content).collect()
}

/// How far a processor came, and what it has put out by then.
fn left(folder: &Path) -> (u64, [Vec<Entry>; 2]) {
    let store = Store::open(folder).unwrap();
    let input = store.existing_topic("in").unwrap();
    let place = input.subscriptions().unwrap();
    let place = place.first().map_or(0, |it| it.committed[0]);
    let found = ["out", "thirds"].map(|name| content(&store, name));
    store.close().unwrap();
    (place, found)
}

/// A transactional processor with two outputs of two partitions each is killed 500 times, ten times in
/// each store. What it leaves each time is exactly what a run that nobody disturbs puts out of as many
/// records: nothing twice, nothing missing, in the same order.
#[test]
fn a_transactional_processor_that_is_killed_500_times_repeats_nothing() {
    if let Some(folder) = child::part() {
        return play(&folder, true);
    }
    let number = |name: &str| env::var(name).ok()?.parse().ok();
    let kills: u64 = number("TIDELOG_PROCESSOR_KILLS").unwrap_or(KILLS);
    let base = in_memory();
    let base = base.path();
    let (template, undisturbed) = (base.join("template"), base.join("undisturbed"));
    fill(&template);
    fill(&undisturbed);
    let whole = Store::open(&undisturbed).unwrap();
    assert_eq!(process(&whole, true).unwrap(), RECORDS);
    let whole_content = ["out", "thirds"].map(|name| content(&whole, name));
    whole.close().unwrap();
    let reached = Mutex::new(Vec::new());
    let seeds = Mutex::new(0..kills.div_ceil(LIVES));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(seed) = seeds.lock().unwrap().next() else {
                        return;
                    };
                    let folder = base.join(format!("s{seed}"));
                    crate::common::copy(&template, &folder).unwrap();
                    let count = LIVES.min(kills - seed * LIVES);
                    lives(TEST, &folder, &mut seed.wrapping_add(99), count);
                    let (place, found) = left(&folder);
                    for (found, whole) in found.iter().zip(&whole_content) {
                        assert_eq!(found, &below(whole, place), "seed {seed}, {place} records");
                    }
                    reached.lock().unwrap().push(place);
                    fs::remove_dir_all(&folder).unwrap();
                }
            });
        }
    });
    let reached = reached.into_inner().unwrap();
    println!(
        "{kills} kills, {} stores, at {reached:?} records of {RECORDS}",
        reached.len()
    );
    // Most of them died at work.
    let mut places: Vec<_> = reached.iter().filter(|it| **it < RECORDS).collect();
    places.sort_unstable();
    assert!(places.len() * 2 > reached.len() && places.iter().all(|it| **it > 0));
}

/// What an undisturbed run has put out of the records below a place: each says of which one it is.
fn below(whole: &[Entry], place: u64) -> Vec<Entry> {
    let of = |text: &str| -> u64 { text.split(' ').next().unwrap().parse().unwrap() };
    let below = whole.iter().filter(|(_, _, text)| of(text) < place);
    below.cloned().collect()
}

/// The same without transactions: nothing is missing, and before long something is there twice. So the
/// other test would notice.
#[test]
fn a_processor_without_transactions_repeats_records_when_it_is_killed() {
    if let Some(folder) = child::part() {
        return play(&folder, false);
    }
    let base = in_memory();
    let folder = base.path().join("s");
    fill(&folder);
    let mut chance = 1;
    let mut twice = 0;
    for _ in 0..20 {
        lives(PLAIN, &folder, &mut chance, 5);
        let (place, [out, _]) = left(&folder);
        let once: BTreeSet<_> = out.iter().collect();
        let missing = (0..place).filter(|it| {
            let (text, key) = (format!("{it} again"), format!("k{}", it % 13));
            !(0..2).any(|partition| once.contains(&(partition, key.clone(), text.clone())))
        });
        assert_eq!(missing.count(), 0);
        twice = out.len() - once.len();
        if twice > 0 {
            break;
        }
    }
    assert!(twice > 0, "a hundred kills, and nothing is there twice");
}
