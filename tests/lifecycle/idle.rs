//! Row D30: nobody writes, and eight followers and a subscription wait. Elsewhere idle readers took a whole core, or
//! polled every millisecond for ever, or a clean log was synced again and again.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidelog::{Durability, Filter, Retention, Start, Store, TopicOptions};

use crate::child::PART;
use crate::kit::Place;
use crate::process::{alone, part, sleeps, store_threads, until};

const FOLLOWERS: usize = 8;

/// A store with everything on: topics of all modes whose records will expire, records that rode with the journal and have been
/// settled since, and followers and a subscription that wait.
struct Idle {
    store: Store,
    followers: Vec<JoinHandle<()>>,
    said: Receiver<String>,
}

impl Idle {
    fn start(root: &Path) -> Idle {
        let store = Store::open(root).unwrap();
        let modes = [
            Durability::Commit,
            Durability::Interval(Duration::from_millis(5)),
            Durability::Manual,
        ];
        for (number, mode) in modes.into_iter().cycle().take(9).enumerate() {
            let week = Retention::days(7).or_bytes(1 << 30);
            let options = TopicOptions::new().durability(mode).retention(week);
            let topic = store.create_topic(&format!("t{number}"), options).unwrap();
            for _ in 0..20 {
                drop(topic.append_nowait("before").unwrap());
            }
        }
        store.flush().unwrap();
        let (say, said) = channel();
        let mut followers = Vec::new();
        for _ in 0..FOLLOWERS {
            let topic = store.existing_topic("t0").unwrap();
            let mut tail = topic.follow(Start::Latest).unwrap();
            let say = say.clone();
            followers.push(thread::spawn(move || {
                while let Some(record) = tail.next().unwrap() {
                    say.send(record.text().unwrap().to_owned()).unwrap();
                }
            }));
        }
        // And one at a subscription, whose filter keeps what comes.
        let topic = store.existing_topic("t0").unwrap();
        let here = topic.subscription("here").start(Start::Latest);
        let mut here = here.filter(!Filter::key().exists()).open().unwrap();
        followers.push(thread::spawn(move || {
            while let Some(record) = here.next_wait().unwrap() {
                say.send(record.text().unwrap().to_owned()).unwrap();
            }
        }));
        // All that was to be settled is, a second after it was written; and then that is noted.
        let io = store.io();
        let changes = || [&io.writes, &io.syncs, &io.dir_syncs, &io.creates].map(|it| it.get());
        let mut before = changes();
        until("the store comes to rest", || {
            thread::sleep(Duration::from_millis(2200));
            std::mem::replace(&mut before, changes()) == changes()
        });
        Idle {
            store,
            followers,
            said,
        }
    }

    /// One record wakes everybody; then all of it ends.
    fn end(self) {
        let topic = self.store.existing_topic("t0").unwrap();
        topic.append("now").unwrap();
        for _ in 0..self.followers.len() {
            let heard = self.said.recv_timeout(Duration::from_secs(30));
            assert_eq!(heard.unwrap(), "now");
        }
        topic.finish().unwrap();
        for follower in self.followers {
            follower.join().unwrap();
        }
        self.store.close().unwrap();
    }
}

/// Nothing is asked of the disk, and no thread of the store wakes up even once.
#[test]
fn an_idle_store_sleeps_until_a_record_wakes_all_who_follow() {
    let test = "idle::an_idle_store_sleeps_until_a_record_wakes_all_who_follow";
    alone(test, || {
        let place = Place::new();
        let idle = Idle::start(&place.root);
        let io = idle.store.io();
        let asked = || [&io.reads, &io.writes, &io.syncs, &io.dir_syncs].map(|it| it.get());
        let threads = store_threads();
        assert!(threads.len() >= 6, "{threads:?}");
        let before = (asked(), sleeps());
        thread::sleep(Duration::from_secs(3));
        assert_eq!((asked(), sleeps()), before);
        idle.end();
    });
}

/// The same, seen by the kernel: ten seconds in which a whole process with an idle store makes no
/// system call at all, but for those in which it waits.
#[test]
#[ignore = "needs strace; run by .ci/run with --ignored"]
fn the_kernel_hears_nothing_of_an_idle_store_for_ten_seconds() {
    if let Some(root) = part() {
        let idle = Idle::start(&root);
        // Marks for the trace.
        fs::metadata("/idle-begins").unwrap_err();
        thread::sleep(Duration::from_secs(10));
        fs::metadata("/idle-ends").unwrap_err();
        return idle.end();
    }
    let place = Place::new();
    let trace = place.root.with_file_name("trace");
    let done = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["idle::the_kernel_hears_nothing_of_an_idle_store_for_ten_seconds"])
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(PART, &place.root)
        .output()
        .expect("strace is there");
    assert!(done.status.success(), "{done:?}");
    let trace = fs::read_to_string(trace).unwrap();
    let lines = trace
        .lines()
        .skip_while(|line| !line.contains("/idle-begins"));
    let lines = lines.skip(1);
    let calls: Vec<_> = lines
        .take_while(|line| !line.contains("/idle-ends"))
        .filter(|line| !line.contains("clock_nanosleep("))
        .collect();
    assert!(trace.contains("/idle-ends"));
    assert!(
        trace.contains("fdatasync"),
        "the trace follows every thread"
    );
    assert!(calls.is_empty(), "{calls:#?}");
}
