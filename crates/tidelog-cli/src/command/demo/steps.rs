//! What the demo does, step by step; each says in a line what it did and what it measured.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidelog::{Record, Start};

use super::{Quake, Stage, thousands};
use crate::exit::Failure;
use crate::output::time;

/// How many of the events are in the topic already.
pub fn present(stage: &Stage, quakes: &[Quake]) -> Result<usize, Failure> {
    let known = ids(stage)?;
    Ok(quakes
        .iter()
        .filter(|quake| known.contains(quake.id.as_bytes()))
        .count())
}

/// The event ids that are in the topic.
fn ids(stage: &Stage) -> Result<BTreeSet<Vec<u8>>, Failure> {
    let mut ids = BTreeSet::new();
    for number in 0..stage.topic.partitions() {
        let mut cursor = stage.topic.partition(number)?.cursor(Start::Earliest)?;
        while let Some(record) = cursor.next()? {
            ids.insert(record.event_id().into_owned());
        }
    }
    Ok(ids)
}

/// Appends what is missing, one event after another, each durable before the next.
pub fn append(stage: &Stage, quakes: &[Quake]) -> Result<String, Failure> {
    let known = ids(stage)?;
    let syncs = stage.store.io().syncs.get();
    let mut times = Vec::new();
    for quake in quakes {
        if known.contains(quake.id.as_bytes()) {
            continue;
        }
        let record = Record::new(quake.line)
            .key(&quake.net)
            .event_id(&quake.id)
            .at(quake.time);
        let start = Instant::now();
        stage.topic.append(record)?;
        times.push(start.elapsed());
    }
    if times.is_empty() {
        return Ok("append     nothing is missing".to_owned());
    }
    times.sort_unstable();
    let at = |percent| times[(times.len() - 1) * percent / 100];
    Ok(format!(
        "append     {} events, each durable before the next: {} us median, {} us at 99 %, {} syncs",
        thousands(times.len()),
        at(50).as_micros(),
        at(99).as_micros(),
        thousands(usize::try_from(stage.store.io().syncs.get() - syncs).unwrap_or(usize::MAX)),
    ))
}

/// Reads everything under the name `archive`, committing every hundred events.
pub fn archive(stage: &Stage, expected: usize) -> Result<String, Failure> {
    let mut archive = stage.topic.subscribe("archive")?;
    let before = expected - usize::try_from(archive.lag()?.records).unwrap_or(expected);
    let (mut read, mut commits) = (0, 0);
    while archive.next()?.is_some() {
        read += 1;
        if read % 100 == 0 {
            archive.commit()?;
            commits += 1;
        }
    }
    archive.commit()?;
    if read == 0 {
        return Ok("archive    everything was committed by an earlier run".to_owned());
    }
    Ok(format!(
        "archive    read on behind {} committed events: {} more in {} durable commits",
        thousands(before),
        thousands(read),
        commits + 1
    ))
}

/// A follower on a thread of its own.
pub struct Follower {
    thread: JoinHandle<Result<Duration, tidelog::Error>>,
    stopper: tidelog::Stopper,
    seen: Arc<AtomicUsize>,
    expected: usize,
}

/// Follows the topic from its beginning.
pub fn follow(stage: &Stage, expected: usize) -> Result<Follower, Failure> {
    let mut tail = stage.topic.follow(Start::Earliest)?;
    let stopper = tail.stopper();
    let seen = Arc::new(AtomicUsize::new(0));
    let thread = thread::spawn({
        let seen = Arc::clone(&seen);
        move || {
            let start = Instant::now();
            while seen.load(Ordering::Relaxed) < expected && tail.next()?.is_some() {
                seen.fetch_add(1, Ordering::Relaxed);
            }
            Ok(start.elapsed())
        }
    });
    Ok(Follower {
        thread,
        stopper,
        seen,
        expected,
    })
}

impl Follower {
    /// Waits until it has seen everything.
    pub fn join(self) -> Result<String, Failure> {
        let patience = Instant::now() + Duration::from_secs(60);
        while !self.thread.is_finished() && Instant::now() < patience {
            thread::sleep(Duration::from_millis(1));
        }
        self.stopper.stop();
        let lost = || Failure::Check("the follower panicked".to_owned());
        let took = self.thread.join().map_err(|_| lost())??;
        let seen = self.seen.load(Ordering::Relaxed);
        if seen != self.expected {
            let expected = self.expected;
            return Err(Failure::Check(format!(
                "the follower saw {seen} of {expected} events"
            )));
        }
        Ok(format!(
            "follow     a second thread saw all {} as they became durable, in {:.2} s",
            thousands(seen),
            took.as_secs_f64()
        ))
    }
}

/// Looks up the middle of the week by time, and checks it against the events themselves.
pub fn look_up(stage: &Stage, quakes: &[Quake]) -> Result<String, Failure> {
    let middle = quakes[quakes.len() / 2].time;
    let start = Instant::now();
    let mut found = 0;
    for number in 0..stage.topic.partitions() {
        let partition = stage.topic.partition(number)?;
        found += partition.end()? - partition.find(middle)?;
    }
    let took = start.elapsed();
    let expected = quakes.iter().filter(|quake| quake.time >= middle).count();
    if found != expected as u64 {
        return Err(Failure::Check(format!(
            "the look-up found {found}, not {expected}"
        )));
    }
    Ok(format!(
        "look up    {} events at or after {}, found by time in {} us",
        thousands(expected),
        time(middle),
        took.as_micros()
    ))
}

/// Checks that every event is there once, in order for each network, as it was appended.
pub fn check(stage: &Stage, quakes: &[Quake]) -> Result<String, Failure> {
    let mut found: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    let mut count = 0;
    for number in 0..stage.topic.partitions() {
        let mut cursor = stage.topic.partition(number)?.cursor(Start::Earliest)?;
        while let Some(record) = cursor.next()? {
            let network = record.key().unwrap_or_default().to_vec();
            found
                .entry(network)
                .or_default()
                .push(record.payload().to_vec());
            count += 1;
        }
    }
    let mut expected: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for quake in quakes {
        let network = quake.net.as_bytes().to_vec();
        expected.entry(network).or_default().push(quake.line.into());
    }
    if found != expected {
        let (expected, found) = (thousands(quakes.len()), thousands(count));
        let text = format!("of {expected} events {found} came back, or not in order");
        return Err(Failure::Check(text));
    }
    Ok(format!(
        "check      closed, opened again: all {} events are there, none twice, in order for each \
         of {} networks",
        thousands(count),
        found.len()
    ))
}
