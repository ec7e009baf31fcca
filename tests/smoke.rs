//! The README's story, once through.

use tidelog::{Record, Start, Store, TopicOptions};

#[test]
fn records_survive_a_close_and_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let store = Store::open(&path).unwrap();
    let topic = store
        .create_topic("quakes", TopicOptions::new().partitions(4))
        .unwrap();
    for n in 0..5000_u32 {
        topic
            .append(Record::new(format!("payload {n}")).key(format!("k{}", n % 7)))
            .unwrap();
    }
    let mut archive = topic.subscribe("archive").unwrap();
    let mut seen = 0;
    while let Some(record) = archive.next().unwrap() {
        assert!(record.text().unwrap().starts_with("payload"));
        seen += 1;
    }
    archive.commit().unwrap();
    assert_eq!(seen, 5000);
    drop(archive);
    store.close().unwrap();

    let before = std::time::Instant::now();
    let store = Store::open(&path).unwrap();
    assert!(store.health().was_closed);
    let topic = store.existing_topic("quakes").unwrap();
    let ends: u64 = (0..4)
        .map(|n| topic.partition(n).unwrap().end().unwrap())
        .sum();
    assert_eq!(ends, 5000);
    println!("{:?} {}", before.elapsed(), store.io().bytes_read.get());
    let mut archive = topic.subscribe("archive").unwrap();
    assert!(archive.next().unwrap().is_none());
    drop(archive);
    topic.append(Record::new("last").key("k1")).unwrap();
    let count = (0..4)
        .map(|n| topic.partition(n).unwrap().read(0..9999).unwrap().count())
        .sum::<usize>();
    assert_eq!(count, 5001);
    let mut tail = topic.follow(Start::Earliest).unwrap();
    let mut n = 0;
    while let Some(_r) = tail.try_next().unwrap() {
        n += 1;
    }
    assert_eq!(n, 5001);
    drop(tail);
    store.close().unwrap();
    let report = tidelog::verify(&path, &tidelog::StoreOptions::new()).unwrap();
    assert!(report.is_sound(), "{report:?}");
}
