//! What is salvaged where records are of all sizes, folders cannot be read, or are not the store's.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tidelog::sys::sim::{Call, Fault, When};
use tidelog::sys::{Backend, Storage};
use tidelog::{Error, Record, Retention, SalvageReport, Store, StoreOptions, TopicOptions};

use crate::kit::{End, Place, end, fill, one, options, payload, payloads, segments_of};
use crate::machine::{Machine, ROOT};

/// A batch of salvaged records went beyond what the topic takes: after a record of half a megabyte came
/// one of nearly 16, or a topic took no more than 256 KiB at once. All of them are salvaged.
#[test]
fn records_of_all_sizes_are_salvaged_within_the_limits_of_their_topic() {
    let small = TopicOptions::new()
        .max_record_bytes(256 << 10)
        .max_batch_bytes(256 << 10)
        .unsettled_bytes(64 << 10);
    let lengths: [(_, &[usize]); 2] = [
        (TopicOptions::new(), &[500 << 10, (158 << 20) / 10, 1]),
        (small, &[200 << 10; 9]),
    ];
    for (options, lengths) in lengths {
        let place = Place::new();
        let store = place.open(Backend::Mapped);
        let topic = store.create_topic("t", options).unwrap();
        for length in lengths {
            topic.append(vec![7; *length]).unwrap();
        }
        store.close().unwrap();
        let target = place.root.with_file_name("new");
        let report = tidelog::salvage(&place.root, &target, &StoreOptions::new()).unwrap();
        assert!(report.is_whole(), "{report:?}");
        assert_eq!(report.logs[0].records, lengths.len() as u64);
        let new = Store::open(&target).unwrap();
        let found: Vec<_> = payloads(&one(&new, "t")).iter().map(Vec::len).collect();
        assert_eq!(found, lengths);
        new.close().unwrap();
    }
}

fn three(machine: &Machine) {
    let store = machine.open();
    for name in ["a", "b", "c"] {
        store.create_topic(name, segments_of(16 << 10)).unwrap();
        fill(&one(&store, name), 0..50, 700);
    }
    store.close().unwrap();
}

fn forget_journal(machine: &Machine) {
    let journal = Path::new(ROOT).join("journal");
    for entry in machine.sim.list(&journal).unwrap() {
        machine.sim.remove_file(&journal.join(entry.name)).unwrap();
    }
    machine.sim.remove_dir(&journal).unwrap();
}

fn records(report: &SalvageReport, topic: &str) -> u64 {
    let logs = report.logs.iter().filter(|log| log.topic == topic);
    logs.map(|log| log.records).sum()
}

/// The folder of one topic, or of its partition, cannot be listed: that is told, and the other topics are
/// salvaged, with the journal and without it. Where the new store has no room, that is an error.
#[test]
fn a_folder_that_cannot_be_read_does_not_keep_the_other_topics() {
    for (journal, part) in [(true, "/b/000000"), (false, "/b/000000"), (false, "/b")] {
        let machine = Machine::new(1);
        three(&machine);
        let options = machine.options().inline();
        if !journal {
            forget_journal(&machine);
        }
        let part = format!("{ROOT}/topics{part}");
        let unreadable = Fault::new(Call::List, When::From(0), libc::EIO).on(&part);
        machine.sim.fail(unreadable);
        let report = tidelog::salvage(ROOT, "/rescued", &options).unwrap();
        assert!(!report.is_whole());
        assert_eq!(["a", "b", "c"].map(|it| records(&report, it)), [50, 0, 50]);
        let lost = report.logs.iter().flat_map(|log| &log.lost);
        let lost: Vec<_> = lost.chain(&report.folders).collect();
        let [error] = lost[..] else {
            panic!("{report:?}")
        };
        assert!(error.to_string().contains("/topics/b"), "{error}");
        machine.sim.heal();
        let new = Store::open_with("/rescued", options).unwrap();
        let expected: Vec<_> = (0..50).map(|number| payload(number, 700)).collect();
        assert_eq!(payloads(&one(&new, "c")), expected);
        new.close().unwrap();
    }
    let machine = Machine::new(1);
    three(&machine);
    let full = Fault::new(Call::Create, When::From(0), libc::ENOSPC).on("/rescued/topics/b");
    machine.sim.fail(full);
    let failed = tidelog::salvage(ROOT, "/rescued", &machine.options().inline());
    assert!(
        matches!(failed, Err(Error::StorageFull { .. })),
        "{failed:?}"
    );
}

/// A topic keeps less than it holds, since its owner has not come to it, and its appends wait for room.
/// All of it is salvaged, and the new topic is like the old one in everything.
#[test]
fn a_salvaged_topic_has_all_its_settings_and_nothing_expires_meanwhile() {
    let quiet = || options(Backend::Mapped).background_retention(false);
    let place = Place::new();
    let store = Store::open_with(&place.root, quiet()).unwrap();
    let kept = Retention::days(7).or_bytes(64 << 10).keep_required(1 << 20);
    let made = segments_of(16 << 10)
        .retention(kept)
        .max_total_bytes(10 << 20)
        .wait_when_full(Duration::from_secs(3));
    let settings = store.create_topic("t", made).unwrap().options();
    fill(&one(&store, "t"), 0..1000, 200);
    assert!(store.audit().unwrap().partitions[0].records() > 0);
    store.close().unwrap();
    let target = place.root.with_file_name("new");
    let report = tidelog::salvage(&place.root, &target, &options(Backend::Mapped)).unwrap();
    assert!(report.is_whole() && report.logs[0].records == 1000);
    let new = Store::open_with(&target, quiet()).unwrap();
    assert_eq!(new.topic("t").unwrap().options(), settings);
    let expected: Vec<_> = (0..1000).map(|number| payload(number, 200)).collect();
    assert_eq!(payloads(&one(&new, "t")), expected);
    new.close().unwrap();
}

/// The journal is gone, and among the folders of a topic's partitions are some that cannot be one's: of
/// a partition that no topic can have. They count for nothing.
#[test]
fn a_folder_that_no_partition_can_have_counts_for_nothing() {
    let place = Place::new();
    let store = place.open(Backend::Mapped);
    store
        .topic("t")
        .unwrap()
        .append(Record::new("one"))
        .unwrap();
    let place = end(place, store, End::Close);
    fs::remove_dir_all(place.root.join("journal")).unwrap();
    let topic = place.root.join("topics/t");
    for name in [
        "4294967295-1",
        "070000-9",
        "065535-9",
        "7-9",
        "x-y",
        "lost+found",
    ] {
        fs::create_dir(topic.join(name)).unwrap();
    }
    let target = place.root.with_file_name("new");
    let report = tidelog::salvage(&place.root, &target, &options(Backend::Mapped)).unwrap();
    assert_eq!(report.logs.len(), 1);
    let new = Store::open_with(&target, options(Backend::Mapped)).unwrap();
    assert_eq!(new.topics()[0].partitions, 1);
    assert_eq!(payloads(&one(&new, "t")), [b"one"]);
    new.close().unwrap();
}
