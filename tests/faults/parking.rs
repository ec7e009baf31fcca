//! Logs whose files the store has let go of, to stay within its budget.

use std::sync::Arc;
use std::time::Duration;

use tidelog::sys::Backend;
use tidelog::{Ack, Durability, Error, OwnedRecord, Record, Start, Store, TopicOptions};

use crate::faulty::{Call, Faulty};
use crate::kit::{BACKENDS, Place, one, options, payloads, segments_of};
use crate::life;

/// The smallest budget there is.
const FILES: usize = 16;

fn name(number: usize) -> String {
    format!("t{number}")
}

fn open(place: &Place, backend: Backend) -> Store {
    Store::open_with(&place.root, options(backend).max_open_files(FILES)).unwrap()
}

/// Uses so many other topics that whatever was not used meanwhile has been parked, unless somebody
/// was just at it.
fn crowd(store: &Store) {
    for number in 0..6 * FILES {
        let topic = store.topic(&format!("crowd{}", number % (2 * FILES)));
        topic.unwrap().append("one of many").unwrap();
    }
}

/// Uses other topics until that one is parked.
fn crowd_out(store: &Store, topic: &str) {
    life::until(|| {
        crowd(store);
        descriptors(topic) == 0
    });
}

/// How many descriptors this process has on segment files of that topic.
fn descriptors(topic: &str) -> usize {
    let part = format!("/topics/{topic}/");
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|it| std::fs::read_link(it.unwrap().path()).ok());
    links
        .filter(|path| path.to_string_lossy().contains(&part))
        .count()
}

/// A log is parked and used again, over and over, through rolls: each record is there once, by
/// offset and by time, for the same owner and for the next one.
#[test]
fn a_parked_log_takes_appends_and_is_read_and_goes_on_as_though_nothing_had_been() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = open(&place, backend);
        let topic = store
            .create_topic("parked.roundly", segments_of(16 << 10))
            .unwrap();
        let mut expected = Vec::new();
        for round in 0..40_u64 {
            for n in 0..3 {
                let payload = format!("{round} {n} {}", "x".repeat(500)).into_bytes();
                let offset = topic.append(Record::new(payload.clone())).unwrap().offset();
                assert_eq!(offset, expected.len() as u64);
                expected.push(payload);
            }
            if round % 4 == 0 {
                crowd_out(&store, "parked.roundly");
                if round % 8 == 0 {
                    assert_eq!(payloads(&one(&store, "parked.roundly")), expected);
                }
            }
        }
        store.close().unwrap();
        let store = open(&place, backend);
        assert_eq!(payloads(&one(&store, "parked.roundly")), expected);
        store.close().unwrap();
        assert!(
            tidelog::verify(&place.root, &options(backend))
                .unwrap()
                .is_sound()
        );
    }
}

/// One reader stands in the middle of the last segment when its log is parked, one follows at the
/// end, and one has begun only then. The log goes on and is parked again: each sees every record
/// once, and those at the end held nothing meanwhile.
#[test]
fn readers_and_followers_see_every_record_once_across_parking() {
    for backend in BACKENDS {
        let place = Place::new();
        let store = open(&place, backend);
        let topic = store
            .create_topic("seen.once", segments_of(64 << 10))
            .unwrap();
        let mut count = 0;
        let mut append = |records: u64| {
            for _ in 0..records {
                topic.append(Record::new(count.to_string())).unwrap();
                count += 1;
            }
        };
        append(10);
        let mut tail = topic.follow(Start::Earliest).unwrap();
        let mut middle = topic.partition(0).unwrap().cursor(Start::Earliest).unwrap();
        let (mut followed, mut read) = (Vec::new(), Vec::new());
        let soon = Duration::from_millis(1);
        for _ in 0..6 {
            while let Some(record) = tail.next_timeout(soon).unwrap() {
                followed.push(record.to_owned());
            }
            for _ in 0..5 {
                read.push(middle.next().unwrap().unwrap().to_owned());
            }
            // The one in the middle holds the view of the appender, and nobody holds another.
            let before = store.io().opens.get();
            life::until(|| {
                crowd(&store);
                descriptors("seen.once") <= 1 && store.io().opens.get() > before
            });
            let mut late = topic
                .partition(0)
                .unwrap()
                .cursor(Start::Offset(3))
                .unwrap();
            assert_eq!(late.next().unwrap().unwrap().payload(), b"3");
            append(10);
            for offset in 4..10 {
                assert_eq!(late.next().unwrap().unwrap().offset(), offset);
            }
        }
        followed.extend(std::iter::from_fn(|| {
            tail.next_timeout(soon).unwrap().map(|it| it.to_owned())
        }));
        read.extend(std::iter::from_fn(|| {
            middle.next().unwrap().map(|it| it.to_owned())
        }));
        let text = |records: &[OwnedRecord]| -> Vec<String> {
            let text = |it: &OwnedRecord| String::from_utf8(it.payload().to_vec()).unwrap();
            records.iter().map(text).collect()
        };
        let expected: Vec<String> = (0..70).map(|n: u64| n.to_string()).collect();
        assert_eq!(text(&followed), expected);
        assert_eq!(text(&read), expected);
        drop((tail, middle));
        store.close().unwrap();
    }
}

/// Five hundred followers sleep at the ends of as many topics: they hold no descriptor, and each
/// gets the one record that comes.
#[test]
fn five_hundred_idle_followers_hold_no_descriptors() {
    let test = "parking::five_hundred_idle_followers_hold_no_descriptors";
    life::alone(test, || {
        let place = Place::new();
        let store = open(&place, Backend::Mapped);
        let topics: Vec<_> = (0..100)
            .map(|number| {
                let topic = store.topic(&name(number)).unwrap();
                topic.append("before").unwrap();
                topic
            })
            .collect();
        let mut followers = Vec::new();
        for topic in topics.iter().cycle().take(500) {
            let mut tail = topic.follow(Start::Earliest).unwrap();
            assert_eq!(tail.next().unwrap().unwrap().payload(), b"before");
            assert!(tail.next_timeout(Duration::ZERO).unwrap().is_none());
            followers.push(tail);
        }
        let held = || -> usize { (0..100).map(|number| descriptors(&name(number))).sum() };
        life::until(|| {
            crowd(&store);
            held() <= FILES
        });
        for topic in &topics {
            topic.append("after").unwrap();
        }
        for mut tail in followers {
            assert_eq!(tail.next().unwrap().unwrap().payload(), b"after");
        }
        store.close().unwrap();
    });
}

/// A log has a sync under way when the store needs descriptors: it keeps its file, and whoever waits
/// for it is answered by that sync.
#[test]
fn a_log_whose_round_is_under_way_keeps_its_files() {
    let place = Place::new();
    let disk = Faulty::new(Backend::Mapped);
    let options = options(Backend::Mapped)
        .storage(Arc::new(disk.clone()))
        .max_open_files(FILES);
    let store = Store::open_with(&place.root, options).unwrap();
    let topic = store.topic("under.way").unwrap();
    topic.append("first").unwrap();
    disk.hold(Call::Sync, "topics/under.way/", &[None]);
    let held: Ack = topic.append_nowait("second").unwrap();
    life::until(|| disk.waiting() == 1);
    crowd(&store);
    assert_eq!(descriptors("under.way"), 1);
    assert!(!held.is_durable());
    disk.release();
    held.wait().unwrap();
    crowd_out(&store, "under.way");
    assert_eq!(
        payloads(&one(&store, "under.way")),
        [b"first".to_vec(), b"second".to_vec()]
    );
    store.close().unwrap();
}

/// The sync that comes before a file is let go of fails. That log has failed, and its ack is in
/// doubt; the others, and the call that needed the descriptor, do not notice.
#[test]
fn a_failed_sync_before_parking_fails_that_log_alone() {
    for backend in BACKENDS {
        let place = Place::new();
        let disk = Faulty::new(backend);
        let options = options(backend)
            .storage(Arc::new(disk.clone()))
            .max_open_files(FILES);
        let store = Store::open_with(&place.root, options).unwrap();
        let manual = TopicOptions::new().durability(Durability::Manual);
        let topic = store.create_topic("fails", manual).unwrap();
        let ack = topic.append_nowait("lost, perhaps").unwrap();
        disk.answer(Call::Sync, "topics/fails/", &[Some(libc::EIO)]);
        life::until(|| {
            crowd(&store);
            !store.health().failed.is_empty()
        });
        assert!(matches!(ack.wait(), Err(Error::InDoubt { .. })));
        assert!(matches!(
            topic.append_nowait("more"),
            Err(Error::Failed { .. })
        ));
        assert_eq!(store.health().failed.len(), 1);
        crowd(&store);
        store.close().unwrap_err();
        let store = place.open(backend);
        assert!(payloads(&one(&store, "fails")).len() <= 1);
        store.topic("fails").unwrap().flush().unwrap();
        store.close().unwrap();
    }
}

/// What is written and not durable when its file is to be let go of is synced first, in any mode:
/// a copy of the store taken after that has it, and so does its owner's ack.
#[test]
fn what_is_not_durable_is_synced_before_its_file_is_let_go_of() {
    let place = Place::new();
    let store = open(&place, Backend::Mapped);
    let manual = TopicOptions::new().durability(Durability::Manual);
    let topic = store.create_topic("by.hand", manual).unwrap();
    let ack = topic.append_nowait("kept").unwrap();
    assert!(!ack.is_durable());
    crowd_out(&store, "by.hand");
    assert!(ack.is_durable());
    let image = place.killed();
    store.close().unwrap();
    let store = image.open(Backend::Mapped);
    assert_eq!(payloads(&one(&store, "by.hand")), [b"kept".to_vec()]);
    store.close().unwrap();
}

/// A sync of the whole file system at close fails: what it was to settle counts as failed, the store
/// is not called closed, and the next owner recovers every log.
#[test]
fn a_failed_sync_of_the_volume_at_close_is_a_failed_sync_of_every_log_it_was_to_settle() {
    let place = Place::new();
    let disk = Faulty::new(Backend::Mapped);
    let storage = Arc::new(disk.clone());
    let store = Store::open_with(&place.root, options(Backend::Mapped).storage(storage)).unwrap();
    let topics: Vec<_> = (0..20).map(|n| store.topic(&name(n)).unwrap()).collect();
    for topic in &topics {
        topic.append("acknowledged").unwrap();
    }
    // They ride with the journal, and their own files lack this.
    for topic in &topics {
        topic.append_nowait("acknowledged, too").unwrap();
    }
    store.flush().unwrap();
    disk.answer(Call::Volume, "", &[Some(libc::EIO)]);
    let error = store.close().unwrap_err();
    assert!(matches!(error, Error::Io { op: "sync", .. }), "{error:?}");
    let store = place.open(Backend::Mapped);
    assert!(!store.health().was_closed);
    for number in 0..20 {
        let expected = [b"acknowledged".to_vec(), b"acknowledged, too".to_vec()];
        assert_eq!(payloads(&one(&store, &name(number))), expected);
    }
    store.close().unwrap();
    let store = place.open(Backend::Mapped);
    assert!(store.health().was_closed);
    store.close().unwrap();
}

/// A budget that a few threads could not work with is refused.
#[test]
fn a_budget_below_the_floor_is_refused() {
    let place = Place::new();
    let few = options(Backend::Mapped).max_open_files(FILES - 1);
    match Store::open_with(&place.root, few) {
        Err(Error::InvalidOption { option, .. }) => assert_eq!(option, "max_open_files"),
        other => panic!("{other:?}"),
    }
    open(&place, Backend::Mapped).close().unwrap();
}
