//! Power cuts, on the simulated disk: what was acknowledged is there, whichever sector and
//! whichever name was lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidelog::sys::sim::{Crash, Keep, Sim, SimClock};
use tidelog::{
    Error, Position, Record, Result, Start, Store, StoreOptions, Subscription, TopicOptions,
};

use crate::kit::{one, payload, payloads, segments_of};

const ROOT: &str = "/disk/deep/data";

fn options(sim: &Sim, seed: u64) -> StoreOptions {
    StoreOptions::new()
        .storage(Arc::new(sim.clone()))
        .clock(Arc::new(SimClock::new(seed, 1_700_000_000_000_000_000)))
}

/// What was answered before the cut.
#[derive(Debug, Default)]
struct Answered {
    /// How many records of each topic were acknowledged, and whether one more was asked for.
    records: BTreeMap<&'static str, u64>,
    /// Topics whose making was answered.
    topics: Vec<&'static str>,
    committed: u64,
    finished: bool,
    deleted: bool,
}

impl Answered {
    fn append(&mut self, store: &Store, topic: &'static str, count: u64) -> Result<()> {
        for _ in 0..count {
            let number = self.records.get(topic).copied().unwrap_or(0);
            let at = store
                .existing_topic(topic)?
                .append(Record::new(payload(number, 700)))?;
            assert_eq!(at.offset(), number);
            self.records.insert(topic, number + 1);
        }
        Ok(())
    }

    fn batch(&mut self, store: &Store, topic: &'static str, count: u64) -> Result<()> {
        let number = self.records.get(topic).copied().unwrap_or(0);
        let batch = (number..number + count).map(|n| Record::new(payload(n, 700)));
        store.existing_topic(topic)?.append_batch(batch)?;
        self.records.insert(topic, number + count);
        Ok(())
    }

    fn make(&mut self, store: &Store, topic: &'static str) -> Result<()> {
        store.create_topic(topic, segments_of(16 << 10))?;
        self.topics.push(topic);
        Ok(())
    }

    fn commit(&mut self, archive: &mut Subscription, count: u64) -> Result<()> {
        for _ in 0..count {
            archive.next()?.expect("it was acknowledged");
        }
        archive.commit()?;
        self.committed = archive.committed(0)?;
        Ok(())
    }

    /// Makes topics, rolls segments, commits, finishes, deletes, closes, opens again, goes on.
    fn play(&mut self, sim: &Sim, seed: u64) -> Result<()> {
        let store = Store::open_with(ROOT, options(sim, seed).inline())?;
        self.make(&store, "a")?;
        self.append(&store, "a", 25)?;
        self.make(&store, "b")?;
        let mut archive = store.existing_topic("a")?.subscribe("archive")?;
        self.commit(&mut archive, 12)?;
        self.batch(&store, "a", 8)?;
        self.commit(&mut archive, 18)?;
        self.append(&store, "b", 3)?;
        drop(archive);
        store.close()?;
        let store = Store::open_with(ROOT, options(sim, seed + 1).inline())?;
        self.append(&store, "a", 9)?;
        self.make(&store, "gone")?;
        self.append(&store, "gone", 2)?;
        store.existing_topic("b")?.finish()?;
        self.finished = true;
        store.delete_topic("gone")?;
        self.deleted = true;
        self.append(&store, "a", 2)?;
        store.close()
    }

    /// What was answered is there; of what was not, the one thing under way may be.
    fn check(&self, store: &Store, what: &str) {
        for topic in &self.topics {
            if *topic == "gone" {
                let there = store.existing_topic(topic).is_ok();
                assert!(!(there && self.deleted), "{what}: a deleted topic is back");
                continue;
            }
            let acknowledged = self.records.get(topic).copied().unwrap_or(0);
            let found = payloads(&one(store, topic));
            let more = found.len() as u64 - acknowledged;
            assert!(
                matches!(more, 0 | 1 | 8),
                "{what}: {topic} {acknowledged} {more}"
            );
            for (number, found) in (0..).zip(&found) {
                assert_eq!(*found, payload(number, 700), "{what}");
            }
        }
        if self.finished {
            let refused = store.existing_topic("b").unwrap().append("more");
            assert!(matches!(refused, Err(Error::Finished { .. })), "{what}");
        }
        if self.committed > 0 {
            let topic = store.existing_topic("a").unwrap();
            let mut archive = topic.subscribe("archive").unwrap();
            let (stands, end) = (
                archive.committed(0).unwrap(),
                one(store, "a").end().unwrap(),
            );
            assert!(
                (self.committed..=end).contains(&stands),
                "{what}: {stands} of {end}"
            );
            if stands < end {
                assert_eq!(archive.next().unwrap().unwrap().offset(), stands, "{what}");
            }
        }
    }
}

/// D05. The bytes of a new segment were synced, and the name that leads to them was not: the
/// segment was gone with its acknowledged records. So cut the power at every single call, with
/// every name lost that no sync of a folder covers, and with some of them: topics, segments,
/// checkpoints, finished and deleted topics are as they were answered. The folders above the store
/// are new, too.
#[test]
fn names_that_an_answer_depends_on_are_synced_before_it() {
    let sim = Sim::new(0);
    base(&sim);
    let before = sim.calls();
    Answered::default().play(&sim, 0).unwrap();
    let calls = sim.calls() - before;
    for cut in 0..calls {
        for keep in [Keep::Nothing, Keep::Half, Keep::Everything] {
            let sim = Sim::new(cut);
            base(&sim);
            let mut answered = Answered::default();
            sim.crash_after(cut);
            let played = answered.play(&sim, 0);
            assert!(
                played.is_err(),
                "the machine stopped after {cut} of {calls} calls"
            );
            sim.crash(Crash::Cut(keep)).unwrap();
            let what = format!("cut after {cut} calls, {keep:?}");
            let store = Store::open_with(ROOT, options(&sim, 7).inline()).expect(&what);
            answered.check(&store, &what);
            drop(store);
            let report = tidelog::verify(ROOT, &options(&sim, 8)).expect(&what);
            assert!(report.is_sound(), "{what}: {report:?}");
        }
    }
}

/// The disk itself, on which everything else is made by the store.
fn base(sim: &Sim) {
    use tidelog::sys::Storage;
    sim.create_dir(Path::new("/disk")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
}

/// D06. Writes were acknowledged at once and synced two minutes later. So let sixteen producers
/// wait for durability side by side, cut the power at 500 random moments, and look for every
/// acknowledged record where it was said to be. What was seen as durable meanwhile is there, too.
#[test]
fn sixteen_producers_lose_nothing_that_was_acknowledged_at_500_cuts() {
    const PRODUCERS: u64 = 16;
    let mut acknowledged = 0;
    for seed in 0..500_u64 {
        let sim = Sim::new(seed);
        base(&sim);
        let store = Store::open_with(ROOT, options(&sim, seed)).unwrap();
        store.create_topic("t", segments_of(16 << 10)).unwrap();
        // Later cuts for later seeds, spread out by a multiplier that is prime to their number.
        sim.crash_after(seed * 197 % 499);
        let seen = AtomicU64::new(0);
        let answers: Vec<Vec<(Position, String)>> = thread::scope(|scope| {
            let (store, seen) = (&store, &seen);
            let produce = |producer: u64| move || produce(store, producer, seen);
            let running: Vec<_> = (0..PRODUCERS)
                .map(|producer| scope.spawn(produce(producer)))
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        drop(store);
        sim.crash(Crash::Cut(Keep::Chance)).unwrap();

        let store = Store::open_with(ROOT, options(&sim, seed + 1)).unwrap();
        let found = payloads(&one(&store, "t"));
        assert!(
            seen.into_inner() <= found.len() as u64,
            "seed {seed}: durable went back"
        );
        for (at, said) in answers.iter().flatten() {
            let there = found
                .get(at.offset() as usize)
                .map(|found| String::from_utf8_lossy(found));
            assert_eq!(there.as_deref(), Some(said.as_str()), "seed {seed}: {at}");
        }
        acknowledged += answers.iter().map(Vec::len).sum::<usize>();
        for producer in 0..PRODUCERS {
            let prefix = format!("{producer} ");
            let own = found
                .iter()
                .filter_map(|found| std::str::from_utf8(found).ok());
            let own: Vec<u64> = own
                .filter_map(|text| text.strip_prefix(&prefix)?.trim().parse().ok())
                .collect();
            let expected: Vec<u64> = (0..own.len() as u64).collect();
            assert_eq!(
                own, expected,
                "seed {seed}: the order of producer {producer}"
            );
        }
        store.close().unwrap();
    }
    assert!(
        acknowledged > 10_000,
        "the cuts came too early to show anything: {acknowledged}"
    );
}

/// Appends until it is refused; what was acknowledged.
fn produce(store: &Store, producer: u64, seen: &AtomicU64) -> Vec<(Position, String)> {
    let mut answers = Vec::new();
    let topic = store.existing_topic("t").unwrap();
    for number in 0.. {
        let said = format!("{producer} {number:<200}");
        match topic.append(Record::new(&said)) {
            Ok(at) => answers.push((at, said)),
            Err(_) => break,
        }
        if let Ok(end) = one(store, "t").end() {
            seen.fetch_max(end, Ordering::SeqCst);
        }
    }
    answers
}

/// D04. Every beginning of the next segment's header, at every length from nothing to all four
/// sectors, and whole files of zeroes.
#[test]
fn every_beginning_of_a_next_segment_is_replaced_and_nothing_is_lost() {
    let sim = Sim::new(4);
    base(&sim);
    let store = Store::open_with(ROOT, options(&sim, 4).inline()).unwrap();
    store.create_topic("t", segments_of(16 << 10)).unwrap();
    for number in 0..5 {
        store
            .existing_topic("t")
            .unwrap()
            .append(Record::new(payload(number, 700)))
            .unwrap();
    }
    let five = sim.snapshot();
    for number in 5..11 {
        store
            .existing_topic("t")
            .unwrap()
            .append(Record::new(payload(number, 700)))
            .unwrap();
    }
    // As many as the first segment holds: the header of the next one names this end.
    let full = sim.snapshot();
    store
        .existing_topic("t")
        .unwrap()
        .append(Record::new(payload(11, 700)))
        .unwrap();
    let next = folder(&sim).join("00000001.seg");
    let header = sim.bytes(&next).unwrap();
    assert_ne!(header[..8], [0; 8]);
    drop(store);
    // Four sectors; the header page; the index, behind which the records begin.
    let lengths = (0..=2048).chain([2049, 4095, 4096, 4097, 8191]);
    for length in lengths {
        let (some, none) = (&header[..length], &vec![0; length][..]);
        for (snapshot, count, bytes) in [(&full, 11, some), (&five, 5, some), (&full, 11, none)] {
            if count == 5 && length % 8 != 0 {
                continue;
            }
            sim.restore(snapshot).unwrap();
            put(&sim, &next, bytes);
            let store = Store::open_with(ROOT, options(&sim, 5).inline()).unwrap();
            let topic = store.existing_topic("t").unwrap();
            assert_eq!(one(&store, "t").end().unwrap(), count, "length {length}");
            for number in count..13 {
                topic.append(Record::new(payload(number, 700))).unwrap();
            }
            let expected: Vec<_> = (0..13).map(|number| payload(number, 700)).collect();
            assert_eq!(payloads(&one(&store, "t")), expected, "length {length}");
        }
    }
}

fn folder(sim: &Sim) -> std::path::PathBuf {
    use tidelog::sys::Storage;
    let topic = Path::new(ROOT).join("topics/t");
    topic.join(&sim.list(&topic).unwrap()[0].name)
}

/// Puts a file there, in place of any other.
fn put(sim: &Sim, path: &Path, bytes: &[u8]) {
    use tidelog::sys::Storage;
    if sim.kind(path).unwrap().is_some() {
        sim.remove_file(path).unwrap();
    }
    sim.create(path, bytes.len() as u64).unwrap();
    sim.overwrite(path, 0, bytes).unwrap();
    sim.sync_dir(path.parent().unwrap()).unwrap();
}

/// D17. A checkpoint was ahead of the end of its log: what came next was never delivered. So cut
/// the power at every call of a run that commits behind each record: no checkpoint that survives
/// names a record that did not.
#[test]
fn no_checkpoint_that_survives_a_cut_is_ahead_of_its_log() {
    let play = |sim: &Sim| -> Result<()> {
        let store = Store::open_with(ROOT, options(sim, 0).inline())?;
        let topic = store.create_topic("t", TopicOptions::new().first_segment_bytes(16 << 10))?;
        let mut archive = topic.subscribe("archive")?;
        for number in 0..30 {
            topic.append(Record::new(payload(number, 700)))?;
            archive.next()?;
            archive.commit()?;
        }
        Ok(())
    };
    let sim = Sim::new(0);
    base(&sim);
    play(&sim).unwrap();
    for cut in 0..sim.calls() {
        let sim = Sim::new(cut);
        base(&sim);
        sim.crash_after(cut);
        drop(play(&sim));
        sim.crash(Crash::Cut(Keep::Chance)).unwrap();
        let store = Store::open_with(ROOT, options(&sim, 7).inline()).unwrap();
        let Ok(topic) = store.existing_topic("t") else {
            continue;
        };
        let mut archive = topic
            .subscription("archive")
            .start(Start::Earliest)
            .open()
            .unwrap();
        let end = one(&store, "t").end().unwrap();
        assert!(
            archive.committed(0).unwrap() <= end,
            "cut after {cut} calls"
        );
        while archive.next().unwrap().is_some() {}
        topic.append("next").unwrap();
        let next = archive.next().unwrap().map(|record| record.offset());
        assert_eq!(next, Some(end), "cut after {cut} calls");
    }
}
