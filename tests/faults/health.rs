//! What a store tells of itself when something has gone wrong, or somebody has ended it.

use std::path::Path;
use std::sync::Arc;

use tidelog::sys::Backend;
use tidelog::{Error, Record, Store, StoreOptions, TopicOptions};

use crate::faulty::{Call, Faulty};
use crate::kit::{Place, segments_of};
use crate::machine::Machine;

/// The smallest budget there is.
const FILES: usize = 16;

fn open(place: &Place, disk: &Faulty) -> Store {
    let options = StoreOptions::new().storage(Arc::new(disk.clone()));
    Store::open_with(&place.root, options.max_open_files(FILES)).unwrap()
}

/// How many descriptors this process has on files of topics below a folder.
fn descriptors(root: &Path) -> usize {
    let topics = root.join("topics");
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|it| std::fs::read_link(it.unwrap().path()).ok());
    links.filter(|path| path.starts_with(&topics)).count()
}

/// A sync fails below one of two topics. Its operator sees which records are in doubt, that bytes are not
/// settled, and what is left of the disk; and the figures of the topic that failed are still there.
#[test]
fn after_a_failed_sync_health_says_what_is_in_doubt() {
    let place = Place::new();
    let disk = Faulty::new(Backend::Mapped);
    let store = open(&place, &disk);
    let topic = store.create_topic("t", segments_of(64 << 10)).unwrap();
    let other = store.create_topic("other", segments_of(64 << 10)).unwrap();
    for _ in 0..3 {
        topic.append("M 4.6").unwrap();
        other.append("M 2.1").unwrap();
    }
    let health = store.health();
    assert!(health.in_doubt.is_empty(), "{:?}", health.in_doubt);
    assert!(health.free_bytes.is_some_and(|free| free > 0));

    disk.answer(Call::Sync, "topics/t/", &[Some(libc::EIO)]);
    let lost = topic.append_batch(["M 5.0", "M 5.1"].map(Record::new));
    let Err(Error::InDoubt { spans, .. }) = lost else {
        panic!("{lost:?}");
    };
    let health = store.health();
    assert_eq!(health.in_doubt, spans);
    assert_eq!(spans[0].offsets, 3..5);
    assert!(health.unsettled_bytes.is_some_and(|bytes| bytes >= 80));
    let metrics = store.metrics().unwrap();
    assert_eq!(
        (metrics.in_doubt_records, metrics.failed_partitions),
        (2, 1)
    );
    let of_it = metrics.topics.iter().find(|it| it.topic == "t").unwrap();
    assert_eq!((of_it.records_total, of_it.segments), (5, 1));
    drop((topic, other));
    store.close().unwrap_err();
}

/// A batch goes to two partitions and is safe in the journal only: that is the backlog, until they are
/// settled. Where the owner is killed before that, who only reads sees it, too.
#[test]
fn what_the_journal_keeps_for_partitions_is_the_redo_backlog() {
    let batch = || [0, 1].map(|number| Record::new("M 4.6").partition(number));
    let machine = Machine::new(1);
    let store = machine.open();
    let two = || TopicOptions::new().partitions(2);
    let topic = store.create_topic("t", two()).unwrap();
    assert_eq!(store.health().redo_bytes, 0);
    topic.append_batch(batch()).unwrap();
    let redo = store.health().redo_bytes;
    assert!((2 * 40..4096).contains(&redo), "{redo}");
    assert_eq!(store.metrics().unwrap().redo_bytes, redo);
    drop(topic);
    store.close().unwrap();
    let store = machine.open();
    assert_eq!(store.health().redo_bytes, 0);
    store.close().unwrap();

    let place = Place::new();
    let store = place.open(Backend::Mapped);
    store
        .create_topic("t", two())
        .unwrap()
        .append_batch(batch())
        .unwrap();
    let killed = place.killed();
    store.close().unwrap();
    let reader = Store::open_read_only(&killed.root).unwrap();
    let health = reader.health();
    assert!(health.redo_bytes >= 2 * 40, "{}", health.redo_bytes);
    assert_eq!(health.unsettled_bytes, None);
    reader.close().unwrap();
}

/// A store of far more topics than files that it may hold open is opened again, and in each a consumer
/// stands still. Nobody uses any: their figures are there all the same, within the budget. One topic that
/// cannot be opened has none, and is not tried again by each look.
#[test]
fn figures_are_there_after_a_restart_within_the_budget_of_files() {
    let topics = 6 * FILES;
    let name = |number| format!("t{number:03}");
    let place = Place::new();
    let disk = Faulty::new(Backend::Mapped);
    let store = open(&place, &disk);
    let limited = || segments_of(64 << 10).max_total_bytes(1 << 20);
    for number in 0..topics {
        let topic = store.create_topic(&name(number), limited()).unwrap();
        topic
            .append_batch(["M 4.6", "M 2.1"].map(Record::new))
            .unwrap();
        let mut archive = topic.subscribe("archive").unwrap();
        assert!(archive.next().unwrap().is_some());
        archive.commit().unwrap();
    }
    store.close().unwrap();
    std::fs::remove_file(place.segment(&name(7), 0)).unwrap();

    let store = open(&place, &disk);
    let metrics = store.metrics().unwrap();
    assert_eq!(metrics.topics.len(), topics);
    for it in &metrics.topics {
        let [archive] = it.subscriptions.as_slice() else {
            panic!("{it:?}");
        };
        if it.topic == name(7) {
            assert!(it.partitions.is_empty() && it.fullness.is_none(), "{it:?}");
            assert!(archive.info.failed.is_some());
            continue;
        }
        assert_eq!((it.records_total, it.newest_offset, it.segments), (2, 2, 1));
        assert!(it.bytes >= 80 && it.fullness.is_some_and(|full| full > 0.0));
        assert!(it.oldest_record_age.is_some());
        let lag = archive.info.lag;
        assert!(
            (lag.records, lag.bytes) == (1, 40) && lag.age.is_some(),
            "{lag:?}"
        );
    }
    assert_eq!(metrics.failed_partitions, 1);
    let open = descriptors(&place.root);
    assert!(open <= FILES + 4, "{open} files are open");
    let failed = metrics.topics[7].subscriptions[0].info.failed.clone();
    std::fs::remove_dir_all(place.log(&name(7))).unwrap();
    let again = store.metrics().unwrap();
    assert_eq!(again.topics[7].subscriptions[0].info.failed, failed);
    store.close().unwrap();
}
