//! The middle of the demo: a writer for each partition, an archive that commits as it goes, and
//! a follower in a process of its own, all at the same time.

use std::io::{BufRead as _, BufReader};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tidelog::{Store, Subscription, Topic};

use super::events::Event;
use super::screen::Screen;
use crate::failure::{Failure, Result};

/// The archive commits behind so many records.
const COMMIT_EVERY: u64 = 64;

/// What was done, and how long it took.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    pub(super) appended: u64,
    pub(super) took: Duration,
    /// How long each append took, shortest first.
    pub(super) latencies: Vec<Duration>,
    /// Syncs of files meanwhile, those of the archive's commits among them.
    pub(super) syncs: u64,
    pub(super) archived: Archived,
    pub(super) followed: u64,
}

impl Streamed {
    /// The time within which so many percent of the appends were durable.
    pub(super) fn latency(&self, percent: usize) -> Option<Duration> {
        let rank = (self.latencies.len() * percent).div_ceil(100);
        self.latencies.get(rank.checked_sub(1)?).copied()
    }
}

/// What the archive did.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Archived {
    /// How many records it had committed in an earlier run.
    pub(super) before: u64,
    pub(super) records: u64,
    pub(super) commits: u64,
}

/// Appends what is missing of each partition's share, `present` being there already.
pub(super) fn run(
    store: &Store,
    topic: &Topic,
    shares: &[Vec<Event<'static>>],
    present: &[usize],
    screen: &Screen,
) -> Result<Streamed> {
    let mut archive = topic.subscribe("archive")?;
    let mut follower = Follower::start(&store.path(), shares.iter().map(Vec::len).sum())?;
    let total: usize = shares.iter().map(Vec::len).sum();
    let bar = screen.bar((total - present.iter().sum::<usize>()) as u64);
    let syncs = store.io().syncs.get();
    let began = Instant::now();
    thread::scope(|scope| {
        let (acknowledge, acknowledged) = channel();
        let mut writers = Vec::new();
        for (share, present) in shares.iter().zip(present) {
            let (missing, acknowledge) = (&share[*present..], acknowledge.clone());
            writers.push(scope.spawn(move || write(topic, missing, &acknowledge)));
        }
        drop(acknowledge);
        let archived = keep(&mut archive, &acknowledged, &bar);
        drop(acknowledged);
        let written: Result<Vec<Written>> = writers.into_iter().map(join).collect();
        if written.is_err() || archived.is_err() {
            // What it waits for will not come.
            follower.stop();
        }
        let followed = follower.count();
        bar.finish_and_clear();
        let (written, archived, followed) = (written?, archived?, followed?);
        let ended = written.iter().filter_map(|written| written.ended).max();
        let mut latencies: Vec<_> = written.into_iter().flat_map(|one| one.latencies).collect();
        latencies.sort_unstable();
        Ok(Streamed {
            appended: latencies.len() as u64,
            took: ended.map_or(Duration::ZERO, |ended| ended - began),
            latencies,
            syncs: store.io().syncs.get() - syncs,
            archived,
            followed,
        })
    })
}

fn join<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// What one writer did.
#[derive(Debug, Default)]
struct Written {
    latencies: Vec<Duration>,
    /// When its last event was durable.
    ended: Option<Instant>,
}

/// Appends events one after the other, each durable before the next, and says so of each.
fn write(topic: &Topic, events: &[Event<'_>], acknowledge: &Sender<()>) -> Result<Written> {
    let mut written = Written::default();
    for event in events {
        let began = Instant::now();
        topic.append(event.record())?;
        let ended = Instant::now();
        written.latencies.push(ended - began);
        written.ended = Some(ended);
        if acknowledge.send(()).is_err() {
            // The archive has failed, and says why.
            break;
        }
    }
    Ok(written)
}

/// The archive: takes a record for each append that is acknowledged, and commits as it goes.
fn keep(
    archive: &mut Subscription,
    acknowledged: &Receiver<()>,
    bar: &ProgressBar,
) -> Result<Archived> {
    let mut archived = Archived::default();
    for number in 0..archive.topic().partitions() {
        archived.before += archive.committed(number)?;
    }
    loop {
        let more = acknowledged.recv().is_ok();
        bar.inc(u64::from(more));
        if archive.next()?.is_some() {
            archived.records += 1;
        } else if !more {
            break;
        }
        if archived.records.is_multiple_of(COMMIT_EVERY) && archived.records > 0 {
            archive.commit()?;
            archived.commits += 1;
        }
    }
    if !archived.records.is_multiple_of(COMMIT_EVERY) {
        archive.commit()?;
        archived.commits += 1;
    }
    Ok(archived)
}

/// The follower: `tidelog tail` in a process of its own, which sees each record as it becomes durable, up
/// to the last one there will be.
struct Follower(Child);

impl Follower {
    fn start(store: &Path, records: usize) -> Result<Follower> {
        let program = std::env::current_exe().map_err(cannot)?;
        let mut tail = Command::new(program);
        tail.args(["tail", super::TOPIC, "--from", "earliest", "--limit"]);
        tail.arg(records.to_string()).arg("--store").arg(store);
        let child = tail.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        child.map(Follower).map_err(cannot)
    }

    fn stop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
    }

    /// How many records it has seen when it ends.
    fn count(&mut self) -> Result<u64> {
        let mut seen = 0;
        let mut out = self.0.stdout.take().map(BufReader::new);
        while let Some(line) = out.as_mut().and_then(|out| out.lines().next()) {
            line.map_err(cannot)?;
            seen += 1;
        }
        self.0.wait().map_err(cannot)?;
        Ok(seen)
    }
}

fn cannot(source: std::io::Error) -> Failure {
    let name = "tidelog tail".to_owned();
    Failure::Input { name, source }
}
