//! Row D31: handles come and go, and old data is read again. Elsewhere replaying through mappings
//! pushed memory up until the process was killed, and readers leaked by the hundred thousand.

use std::fs;
use std::future::{Future, IntoFuture};
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tidelog::{Durability, Start, Store, TopicOptions};

use crate::kit::{Place, number, one, small_segments};
use crate::process::{alone, anonymous, descriptors, mappings, until};

const MANY: usize = 100_000;
const CURSORS: usize = 13;
const MOST_MEMORY: u64 = 64 << 20;

/// What a process holds of a store.
fn held(place: &Place) -> (usize, usize) {
    (descriptors(&place.root).len(), mappings(&place.root).len())
}

/// The same once the store has come to rest: segments that were written to are settled and let go of a
/// second after the last append, and the next one is made when it is time.
fn held_at_rest(place: &Place) -> (usize, usize) {
    let (mut last, mut since) = (held(place), Instant::now());
    until("rest", || {
        let now = held(place);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(1500)
    });
    last
}

/// A hundred thousand cursors, followers and acks are made and dropped: what is held afterwards is
/// what was held before, and memory does not grow.
#[test]
fn a_hundred_thousand_handles_that_come_and_go_leave_nothing_behind() {
    alone(
        "growth::a_hundred_thousand_handles_that_come_and_go_leave_nothing_behind",
        || {
            let place = Place::quick();
            let store = Store::open(&place.root).unwrap();
            let manual = small_segments().durability(Durability::Manual);
            let topic = store.create_topic("t", manual).unwrap();
            let partition = one(&topic);
            for _ in 0..200 {
                drop(partition.append_nowait(vec![b'x'; 1000]).unwrap());
            }
            topic.flush().unwrap();
            let follower = |handle: usize| {
                let from = Start::Offset(handle as u64 % 200);
                let mut tail = partition.follow(from).unwrap();
                assert!(tail.try_next().unwrap().is_some());
                let mut cursor = partition.cursor(from).unwrap();
                assert!(cursor.next().unwrap().is_some());
            };
            (0..1000).for_each(follower);
            let before = (held_at_rest(&place), anonymous());
            (0..MANY / 2).for_each(follower);
            // Those that are never waited for, and those that are and give up.
            let ack = topic.append_nowait("not flushed").unwrap();
            for handle in 0..MANY {
                let ack = ack.clone();
                assert!(!ack.is_durable());
                if handle % 100 == 0 {
                    ack.wait_timeout(std::time::Duration::ZERO).unwrap_err();
                    let mut tail = topic.follow(Start::Latest).unwrap();
                    assert!(
                        tail.next_timeout(std::time::Duration::ZERO)
                            .unwrap()
                            .is_none()
                    );
                }
            }
            assert_eq!(held_at_rest(&place), before.0);
            let grown = anonymous().saturating_sub(before.1);
            assert!(grown < 2 << 20, "{grown} bytes more");
            store.flush().unwrap();
            ack.wait().unwrap();
            drop((ack, partition, topic));
            store.close().unwrap();
            assert_eq!(held(&place), (0, 0));
        },
    );
}

/// Somebody who could be woken. Whoever waits for something keeps hold of it.
#[derive(Debug)]
struct Sleeper;

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {}
}

/// Looks at a future once, and drops it; whether it would have waited. On a machine that stands still for a second a
/// log may be settled in between, and then it would not.
fn given_up(future: impl Future, waker: &Waker) -> bool {
    let mut future = pin!(future);
    let looked = future.as_mut().poll(&mut Context::from_waker(waker));
    looked.is_pending()
}

/// Tasks wait for acks, for the next record and for their own appends to be durable, a hundred thousand times, and
/// all of them are given up before anything comes. Nobody is kept as one who waits; what is held, and memory, is as
/// before; and what was appended is there.
#[test]
fn a_hundred_thousand_futures_that_are_given_up_leave_nothing_behind() {
    alone(
        "growth::a_hundred_thousand_futures_that_are_given_up_leave_nothing_behind",
        || {
            let place = Place::quick();
            let store = Store::open(&place.root).unwrap();
            // All goes into one segment, and in an interval of a day nothing is synced but by a flush.
            let slow = TopicOptions::new().first_segment_bytes(4 << 20);
            let slow = slow.durability(Durability::Interval(Duration::from_secs(86_400)));
            let topic = store.create_topic("t", slow).unwrap();
            let still = store.create_topic("still", small_segments()).unwrap();
            let mut tail = still.follow(Start::Earliest).unwrap();
            let sleeper = Arc::new(Sleeper);
            let waker = Waker::from(Arc::clone(&sleeper));
            let mut waited = 0;
            let mut round = |handles: usize| {
                let ack = topic.append_nowait("not flushed").unwrap();
                for handle in 0..handles {
                    waited += usize::from(match handle % 10 {
                        0 => given_up(topic.append_async("nor this"), &waker),
                        1..=5 => given_up((&ack).into_future(), &waker),
                        _ => given_up(tail.next_async(), &waker),
                    });
                }
                topic.flush().unwrap();
                ack.wait().unwrap();
            };
            round(1000);
            let before = (held_at_rest(&place), anonymous());
            (0..MANY / 1000).for_each(|_| round(1000));
            assert!(waited >= MANY, "only {waited} had to wait");
            drop(waker);
            assert_eq!(Arc::strong_count(&sleeper), 1, "somebody still waits");
            assert_eq!(held_at_rest(&place), before.0);
            let grown = anonymous().saturating_sub(before.1);
            assert!(grown < 2 << 20, "{grown} bytes more");
            let rounds = 1 + MANY as u64 / 1000;
            assert_eq!(one(&topic).end().unwrap(), rounds * 101);
            drop((tail, still, topic));
            store.close().unwrap();
            assert_eq!(held(&place), (0, 0));
        },
    );
}

/// Thirteen readers read a long log again, from its beginning, each at its own pace: each holds the
/// one segment in which it stands.
#[test]
fn thirteen_readers_of_old_segments_hold_one_each_and_no_memory() {
    alone(
        "growth::thirteen_readers_of_old_segments_hold_one_each_and_no_memory",
        || replay(128 << 10, 64 << 20),
    );
}

/// The same with two gibibytes, and no more than 256 MiB of memory for all of it. Who is not root may not
/// arrange that, and is told so.
#[test]
#[ignore = "writes 2 GiB; run by .ci/run with --ignored"]
fn thirteen_readers_of_two_gibibytes_hold_one_segment_each_and_no_memory() {
    alone(
        "growth::thirteen_readers_of_two_gibibytes_hold_one_segment_each_and_no_memory",
        || {
            let cage = Cage::of(256 << 20);
            replay(4 << 20, 2 << 30);
            drop(cage);
        },
    );
}

/// A control group that this process is in, with a limit on its memory, the page cache included: what
/// takes more is killed. Only root may make one, and root must.
#[derive(Debug)]
struct Cage {
    above: PathBuf,
    dir: PathBuf,
}

impl Cage {
    fn of(bytes: u64) -> Option<Cage> {
        let kinds = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        let cage = kinds.into_iter().find_map(|(above, limit)| {
            let above = PathBuf::from(above);
            let dir = above.join(format!("tidelog-{}", std::process::id()));
            fs::create_dir(&dir).ok()?;
            let cage = Cage { above, dir };
            say(&cage.dir.join(limit), bytes)?;
            say(&cage.dir.join("cgroup.procs"), std::process::id().into())?;
            Some(cage)
        });
        if cage.is_none() {
            let root = fs::metadata("/proc/self").unwrap().uid() == 0;
            assert!(
                !root,
                "no control group can be made here, although this is root"
            );
            println!("no control group can be made here: only what is held is counted");
        }
        cage
    }
}

/// Writes a number to a file that is there.
fn say(path: &Path, number: u64) -> Option<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path).ok()?;
    write!(file, "{number}").ok()
}

impl Drop for Cage {
    fn drop(&mut self) {
        say(&self.above.join("cgroup.procs"), std::process::id().into());
        fs::remove_dir(&self.dir).ok();
    }
}

fn replay(segment: u64, bytes: u64) {
    const LENGTH: usize = 8000;
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    let options = TopicOptions::new().max_segment_bytes(segment);
    let options = options.first_segment_bytes(segment);
    let partition = one(&store.create_topic("t", options).unwrap());
    let records = bytes / LENGTH as u64;
    number(&partition, records, LENGTH);
    let before = held_at_rest(&place);
    thread::scope(|scope| {
        let reader = |_| {
            scope.spawn(|| {
                let mut cursor = partition.cursor(Start::Earliest).unwrap();
                for offset in 0..records {
                    let record = cursor.next().unwrap().unwrap();
                    let said: u64 = record.text().unwrap().parse().unwrap();
                    assert_eq!((record.offset(), said), (offset, offset));
                    if offset % 97 == 0 {
                        // One that goes on holds two for a moment.
                        let now = mappings(&place.root).len();
                        assert!(now <= before.1 + 2 * CURSORS, "{now} mappings");
                    }
                }
                assert!(cursor.next().unwrap().is_none());
            })
        };
        let readers: Vec<_> = (0..CURSORS).map(reader).collect();
        for reader in readers {
            reader.join().unwrap();
        }
    });
    let memory = anonymous();
    assert!(memory < MOST_MEMORY, "{memory} bytes");
    assert_eq!(held_at_rest(&place), before);
    drop(partition);
    store.close().unwrap();
}
