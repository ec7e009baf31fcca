//! What goes by age, by bytes, and by either.

use tidelog::{Error, Reason, Record, Retention, Start, Timestamp};

use crate::kit::{HOUR, SECOND, apply, fill, fill_at, offsets, one, range, small};
use crate::machine::Machine;

/// Old segments go whole, and nothing that is younger than the age does.
#[test]
fn segments_go_when_their_last_record_is_too_old() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::age(HOUR)));
    fill(&topic, 20);
    machine.pass(HOUR / 2);
    fill(&topic, 20);
    assert!(apply(&topic).removals.is_empty());
    machine.pass(HOUR / 2);
    let done = apply(&topic);
    let (first, end) = range(&topic);
    assert!((10..=20).contains(&first), "{first}");
    assert_eq!(end, 40);
    assert_eq!(done.records(), first);
    assert!(done.removals.iter().all(|it| it.reason == Reason::Age));
    assert_eq!(offsets(&topic), (first..40).collect::<Vec<_>>());
    assert!(matches!(
        one(&topic).read(0..40),
        Err(Error::OffsetExpired { asked: 0, first: now, .. }) if now == first
    ));
    store.close().unwrap();
    let store = machine.open();
    let topic = store.existing_topic("t").unwrap();
    assert_eq!(range(&topic), (first, 40));
    store.close().unwrap();
}

/// The newest bytes stay, as many as were asked for, and not much more than that.
#[test]
fn segments_go_when_enough_bytes_are_behind_them() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::bytes(50_000)));
    fill(&topic, 49);
    assert!(apply(&topic).removals.is_empty());
    for _ in 0..20 {
        fill(&topic, 13);
        let done = apply(&topic);
        assert!(done.removals.iter().all(|it| it.reason == Reason::Bytes));
        let (first, end) = range(&topic);
        let kept = (end - first) * 984;
        assert!((50_000..70_000).contains(&kept), "{kept}");
    }
    assert!(machine.segments("t").len() <= 10);
    store.close().unwrap();
}

/// With both limits either of them is enough.
#[test]
fn either_limit_is_enough() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::age(HOUR).or_bytes(20_000)));
    fill(&topic, 60);
    let done = apply(&topic);
    assert!(done.removals.iter().all(|it| it.reason == Reason::Bytes));
    assert!(done.records() > 20);
    machine.pass(HOUR);
    let done = apply(&topic);
    assert!(done.removals.iter().all(|it| it.reason == Reason::Age));
    assert_eq!(range(&topic), (60, 60));
    store.close().unwrap();
}

/// D13: a record from the far future keeps nothing from expiring, and one from the far past lets
/// nothing expire at once. Looking up by time still finds what is there.
#[test]
fn the_times_of_records_do_not_count() {
    for shift in [10, -10] {
        let years = shift * 365 * 24 * 3600 * 1_000_000_000_i64;
        let machine = Machine::new(1);
        let (store, topic) = machine.topic(small(Retention::age(SECOND)));
        fill_at(&topic, 1, machine.now() + years);
        fill(&topic, 20);
        fill_at(&topic, 1, machine.now() + years);
        assert!(apply(&topic).removals.is_empty());
        machine.pass(5 * SECOND);
        let now = machine.now();
        fill(&topic, 1);
        let found = one(&topic).find(Timestamp::from_nanos(now)).unwrap();
        assert_eq!(found, if years > 0 { 0 } else { 22 });
        machine.pass(SECOND / 2);
        apply(&topic);
        assert!(range(&topic).0 > 7, "{shift}");
        machine.pass(SECOND / 2);
        apply(&topic);
        assert_eq!(range(&topic), (23, 23), "{shift}");
        fill(&topic, 1);
        let found = one(&topic).find(Timestamp::from_nanos(machine.now()));
        assert_eq!(found.unwrap(), 23);
        store.close().unwrap();
    }
}

/// D15: a topic that nobody writes to any more loses its last record, too, also one that nobody has
/// used since the store was opened, and one that is finished.
#[test]
fn an_idle_topic_expires_to_its_last_record() {
    for finished in [false, true] {
        for reopened in [false, true] {
            let machine = Machine::new(1);
            let (mut store, mut topic) = machine.topic(small(Retention::age(HOUR)));
            fill(&topic, 17);
            if finished {
                topic.finish().unwrap();
            }
            if reopened {
                drop(topic);
                store.close().unwrap();
                store = machine.open();
                topic = store.existing_topic("t").unwrap();
            }
            machine.pass(HOUR);
            let done = store.apply_retention().unwrap();
            assert!(done.partitions[0].rolls);
            assert_eq!(range(&topic), (17, 17));
            assert_eq!(machine.segments("t").len(), 1);
            // There is nothing left to do.
            assert_eq!(apply(&topic).due, None);
            machine.pass(HOUR);
            assert!(!apply(&topic).rolls);
            if !finished {
                assert_eq!(topic.append("next").unwrap().offset(), 17);
            }
            drop(topic);
            store.close().unwrap();
            let store = machine.open();
            let topic = store.existing_topic("t").unwrap();
            assert_eq!(range(&topic).0, 17);
            store.close().unwrap();
        }
    }
}

/// One record in a while would never fill a segment: it ends by age, and so what is kept stays bounded,
/// however often the store is opened meanwhile. Its segments do not grow, either.
#[test]
fn a_slow_topic_keeps_no_more_than_it_is_told_to() {
    for reopens in [false, true] {
        let machine = Machine::new(1);
        let options = small(Retention::age(24 * HOUR)).max_segment_bytes(1 << 20);
        let (mut store, mut topic) = machine.topic(options);
        for record in 0..24 * 30 {
            topic.append(Record::new(vec![1; 10])).unwrap();
            machine.pass(HOUR);
            if reopens && record % 7 == 3 {
                drop(topic);
                store.close().unwrap();
                store = machine.open();
                topic = store.existing_topic("t").unwrap();
            }
            apply(&topic);
            let (first, end) = range(&topic);
            let kept = end - first;
            assert!(kept >= 23.min(end), "{first}..{end}");
            assert!(kept <= 32, "{first}..{end}");
            assert!(machine.segments("t").len() <= 7);
        }
        let io = store.io().creates.get();
        assert!(reopens || io < 140, "{io} files");
        drop(topic);
        store.close().unwrap();
    }
}

/// D15: another limit counts for the segments that are there, and for those to come.
#[test]
fn new_limits_count_for_what_is_there() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::forever()));
    fill(&topic, 100);
    assert!(topic.audit().unwrap().partitions.is_empty());
    let narrow = small(Retention::bytes(30_000));
    let topic = store.create_topic("t", narrow.clone()).unwrap();
    apply(&topic);
    let (first, _) = range(&topic);
    assert!((50..70).contains(&first), "{first}");
    drop(topic);
    store.close().unwrap();
    let store = machine.open();
    let topic = store.existing_topic("t").unwrap();
    assert_eq!(topic.retention(), Retention::bytes(30_000));
    machine.pass(HOUR);
    fill(&topic, 20);
    let aged = small(Retention::age(HOUR / 2));
    let topic = store.create_topic("t", aged).unwrap();
    apply(&topic);
    assert!((90..=100).contains(&range(&topic).0));
    store.close().unwrap();
}

/// D15: a limit is set that is far below what the last segment holds, and the next one lies there, as long.
/// The last one ends, the next ones are short, and so the topic comes to hold what it may.
#[test]
fn a_new_limit_counts_for_the_segment_that_is_written_to() {
    let machine = Machine::new(1);
    let long = |retention| {
        small(retention)
            .max_segment_bytes(1 << 20)
            .first_segment_bytes(1 << 20)
    };
    let (store, topic) = machine.topic(long(Retention::forever()));
    fill(&topic, 700);
    let topic = store
        .create_topic("t", long(Retention::bytes(64 << 10)))
        .unwrap();
    apply(&topic);
    assert_eq!(
        range(&topic),
        (0, 700),
        "nothing that is newer is there yet"
    );
    for _ in 0..8 {
        fill(&topic, 20);
        let would = topic.audit().unwrap();
        assert_eq!(topic.apply_retention().unwrap(), would);
    }
    let (first, end) = range(&topic);
    let kept = (end - first) * 984;
    assert!((64 << 10..90_000).contains(&kept), "{first}..{end}");
    store.close().unwrap();
}

/// New segments of a topic that keeps few bytes are no longer than makes sense.
#[test]
fn segments_are_no_longer_than_a_part_of_what_is_kept() {
    let machine = Machine::new(1);
    let options = small(Retention::bytes(200_000)).max_segment_bytes(128 << 20);
    let (store, topic) = machine.topic(options);
    for _ in 0..60 {
        fill(&topic, 20);
        apply(&topic);
    }
    let (first, end) = range(&topic);
    let kept = (end - first) * 984;
    assert!((200_000..260_000).contains(&kept), "{kept}");
    store.close().unwrap();
}

/// D14: who stands in a segment that goes reads it to its end, is told where he can go on, and does.
#[test]
fn a_reader_in_what_goes_reads_on_to_its_end() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small(Retention::bytes(20_000)));
    fill(&topic, 100);
    let mut cursor = one(&topic).cursor(Start::Earliest).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().offset(), 0);
    apply(&topic);
    let first = range(&topic).0;
    let mut next = 1;
    let told = loop {
        match cursor.next() {
            Ok(Some(record)) => assert_eq!(record.offset(), next),
            Ok(None) => panic!("it ends"),
            Err(error) => break error,
        }
        next += 1;
    };
    assert!((7..20).contains(&next), "{next}");
    assert!(
        matches!(&told, Error::OffsetExpired { asked, first: now, .. } if (*asked, *now) == (next, first)),
        "{told}"
    );
    cursor.seek(Start::Earliest).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().offset(), first);
    drop(cursor);
    store.close().unwrap();
}
