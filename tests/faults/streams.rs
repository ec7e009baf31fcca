//! Many streams: ten thousand topics of one record each in one store.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidelog::sys::{Backend, Disk, Mode, Storage};
use tidelog::{Durability, Record, Start, Store, TopicOptions};

use crate::faulty::Faulty;
use crate::kit::{Place, options};
use crate::life;

/// Descriptors of a store beside those of its topics: lock, volume, journal, and a folder that is
/// being listed or synced.
const BESIDE: usize = 12;

fn name(number: usize) -> String {
    format!("stream.{number:05}")
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.matches(".seg").count()
}

/// Bytes that a folder takes on the disk, with all that is in it.
fn disk_bytes(path: &Path) -> u64 {
    let meta = fs::symlink_metadata(path).unwrap();
    let own = meta.blocks() * 512;
    if !meta.is_dir() {
        return own;
    }
    let below = fs::read_dir(path).unwrap();
    own + below.map(|it| disk_bytes(&it.unwrap().path())).sum::<u64>()
}

/// Watches that the store stays within its budget.
struct Watched {
    baseline: usize,
    files: usize,
    most: usize,
}

impl Watched {
    fn look(&mut self) {
        let (held, mapped) = (descriptors() - self.baseline, mappings());
        assert!(held <= self.files + BESIDE, "{held} descriptors");
        assert!(mapped <= self.files + BESIDE, "{mapped} mappings");
        self.most = self.most.max(held);
    }
}

/// Makes so many topics with a record each, closes, opens and reads them. They are synced by hand.
fn live_with(place: &Place, count: usize, files: usize) {
    let mut watched = Watched {
        baseline: descriptors(),
        files,
        most: 0,
    };
    let disk = Faulty::new(Backend::Mapped);
    let open = || {
        let storage = Arc::new(disk.clone());
        let options = options(Backend::Mapped).storage(storage);
        Store::open_with(&place.root, options.max_open_files(files)).unwrap()
    };
    let begin = Instant::now();
    let store = open();
    let manual = TopicOptions::new().durability(Durability::Manual);
    for number in 0..count {
        let topic = store.create_topic(&name(number), manual.clone()).unwrap();
        topic.append_nowait(Record::new(name(number))).unwrap();
        topic.flush().unwrap();
        if number % 100 == 0 {
            watched.look();
        }
    }
    watched.look();
    let made = begin.elapsed();
    let begin = Instant::now();
    store.close().unwrap();
    let closed = begin.elapsed();
    let bytes = disk_bytes(&place.root);
    assert!(bytes < 1 << 30, "{bytes} bytes");

    let opened_before = disk.opened_of_topics();
    let begin = Instant::now();
    let store = open();
    let opened = begin.elapsed();
    assert!(store.health().was_closed);
    assert_eq!(store.topics().len(), count);
    let touched = disk.opened_of_topics() - opened_before;
    assert_eq!(touched, 0, "files of topics were opened");
    let journal = store.io().bytes_read.get();
    for number in 0..count {
        let topic = store.existing_topic(&name(number)).unwrap();
        let mut cursor = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
        let record = cursor.next().unwrap().unwrap();
        assert_eq!(record.payload(), name(number).as_bytes());
        if number % 100 == 0 {
            watched.look();
        }
    }
    let read = (store.io().bytes_read.get() - journal) / count as u64;
    assert!(
        read <= 3 * 2048,
        "{read} bytes of each are more than headers"
    );
    store.close().unwrap();
    println!(
        "{count} topics: made in {made:.2?}, closed in {closed:.2?}, opened in {opened:.2?}; at most \
         {} descriptors, {} MiB on disk, {read} bytes read of each when it is used",
        watched.most,
        bytes >> 20
    );
}

/// Writes a record to each of so many logs, all of them open, and times one sync of the file system;
/// does that again, and times the closing of the store. The best of each, of three turns.
fn one_sync_and_close(place: &Place, count: usize) -> [Duration; 2] {
    let disk = Disk::new(Mode::Private);
    let volume = disk.volume(&place.root).unwrap();
    let mut best = [Duration::MAX; 2];
    for _ in 0..3 {
        let options = options(Backend::Mapped).max_open_files(count + 100);
        let store = Store::open_with(&place.root, options).unwrap();
        let write = || {
            for number in 0..count {
                let topic = store.existing_topic(&name(number)).unwrap();
                topic.append_nowait(Record::new(name(number))).unwrap();
            }
        };
        write();
        let begin = Instant::now();
        volume.sync().unwrap();
        let synced = begin.elapsed();
        write();
        let syncs = store.io().syncs.get();
        let begin = Instant::now();
        store.clone().close().unwrap();
        let closed = begin.elapsed();
        let syncs = store.io().syncs.get() - syncs;
        println!("{count} logs: one syncfs {synced:.2?}; closed in {closed:.2?}, {syncs} syncs");
        assert!(syncs < 100, "{syncs} syncs");
        best = [best[0].min(synced), best[1].min(closed)];
    }
    best
}

/// D28. Thousands of topics ended in a panic for want of descriptors, or of mappings. So make some
/// hundreds with a budget of a few files: it is kept, and the next owner opens none of them until
/// they are used, and reads no record to do so.
#[test]
fn hundreds_of_topics_stay_within_a_budget_of_few_files() {
    let test = "streams::hundreds_of_topics_stay_within_a_budget_of_few_files";
    life::alone(test, || live_with(&Place::new(), 300, 32));
}

/// The same at full size, with the budget that a store has by itself. Then all logs are open at the
/// same time, each with a record that is in no file yet: they are closed in about the time of one
/// sync of those files, not in that of ten thousand.
#[test]
#[ignore = "makes ten thousand topics; run by .ci/run with --ignored"]
fn ten_thousand_topics_stay_within_the_budget_and_are_closed_by_one_sync() {
    const COUNT: usize = 10_000;
    let test = "streams::ten_thousand_topics_stay_within_the_budget_and_are_closed_by_one_sync";
    life::alone(test, || {
        raise_the_limit(2048);
        let place = Place::new();
        live_with(&place, COUNT, 1024);
        if !raise_the_limit(COUNT as u64 + 1000) {
            println!("the process may not open so many files: closing them is not shown");
            return;
        }
        let [synced, closed] = one_sync_and_close(&place, COUNT);
        let limit = 2 * synced + Duration::from_secs(1);
        assert!(closed <= limit, "closed in {closed:?}, one sync {synced:?}");
    });
}

fn raise_the_limit(least: u64) -> bool {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(least);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).is_ok()
}
