//! One property for arbitrary bytes, for the tests and for a fuzz target.

use super::event::{Event, LogEnd, LogStart, Owner, RedoFiles, SegmentEnd, SubscriptionState};
use super::event::{RetentionSettings, TopicSettings, TopicState};
use super::fold::Fold;
use super::record::Record;
use super::replay::Replay;
use super::snapshot::Snapshot;
use crate::format::{Redo, SECTOR, Stretch};

/// Bytes as the payload of a journal record: whatever they are, nothing panics, what can be read
/// writes to a payload that reads as the same, and the fold it leads to survives a snapshot.
pub(crate) fn fuzz_event(bytes: &[u8]) {
    let mut replay = Replay::default();
    for (payload, offset) in fuzz_seeds().iter().zip(0..) {
        replay.record(offset, payload).expect("seeds are known");
    }
    let next = u64::try_from(fuzz_seeds().len()).expect("a few seeds");
    let taken = replay.record(next, bytes).is_ok();
    if let Ok(record) = Record::decode(bytes) {
        assert!(taken);
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }
    let fold = replay.into_fold();
    let mut again = Replay::default();
    for (part, offset) in Snapshot::of(&fold, next + 1).iter().zip(next + 1..) {
        again.record(offset, part).expect("own snapshots are known");
    }
    assert_eq!(again.needed_from(), next + 1);
    assert_eq!(again.into_fold(), fold);
}

/// Payloads to start from: one of each event, and a snapshot of what they add up to.
pub(crate) fn fuzz_seeds() -> Vec<Vec<u8>> {
    let settings = TopicSettings {
        max_record_bytes: 16 << 20,
        max_batch_bytes: 16 << 20,
        max_total_bytes: Some(1 << 30),
        first_segment_bytes: 64 << 10,
        max_segment_bytes: 128 << 20,
        unsettled_bytes: 16 << 20,
        reach_bytes: 16 << 20,
        sync_after_nanos: Some(20_000_000),
        retention: None,
        full_wait_nanos: None,
    };
    let kept = TopicState {
        id: 1,
        name: "quakes".into(),
        content_type: "application/octet-stream".into(),
        logs: vec![1, 2],
        settings: TopicSettings {
            retention: Some(RetentionSettings {
                age_nanos: Some(604_800_000_000_000),
                bytes: None,
                required_bytes: Some(1 << 30),
            }),
            full_wait_nanos: Some(1_000_000_000),
            ..settings.clone()
        },
        finished: false,
        created: 1_700_000_000_000_000_000,
    };
    let sifted = SubscriptionState {
        id: 1,
        topic: 1,
        name: "archive".into(),
        paused: true,
        required: true,
        filter: Some(r#"{"key":{"prefix":"hv"}}"#.into()),
        sampling: Some(r#"{"per_minute":10}"#.into()),
        on_expiry: Some("earliest".into()),
        start: vec![0, 17],
    };
    let end = SegmentEnd {
        segment: 3,
        nonce: u64::MAX,
        place: 5_184,
        next: 512,
        greatest: Some(-1),
        index_entries: 2,
        index_crc: 0xdead_beef,
        records: 12,
        epoch: 1,
        last_append: None,
    };
    let events = [
        Event::Epoch(Owner {
            epoch: 1,
            boot: Some(*b"\x00boot of machine"),
            pid: 4_711,
        }),
        Event::Topic(TopicState {
            id: 1,
            name: "quakes".into(),
            content_type: "application/octet-stream".into(),
            logs: vec![1, 2],
            settings,
            finished: false,
            created: 1_700_000_000_000_000_000,
        }),
        Event::TopicDeleted { id: 9 },
        Event::Subscription(SubscriptionState {
            id: 1,
            topic: 1,
            name: "archive".into(),
            paused: true,
            required: false,
            filter: None,
            sampling: None,
            on_expiry: None,
            start: vec![0, 17],
        }),
        Event::SubscriptionDeleted { id: 9 },
        Event::Checkpoint {
            subscription: 1,
            partition: 1,
            next: 40,
        },
        Event::Ends {
            ends: vec![
                LogEnd {
                    log: 1,
                    end: Some(end),
                    exact: true,
                },
                LogEnd {
                    log: 2,
                    end: None,
                    exact: false,
                },
            ],
        },
        Event::Settled { log: 1 },
        Event::RedoFiles(RedoFiles {
            log: 1,
            nonces: vec![u64::MAX, 7],
            next: 512,
        }),
        Event::Start(LogStart {
            log: 1,
            segment: 2,
            offset: 500,
        }),
        Event::Closed { epoch: 1 },
        Event::Topic(kept),
        Event::Subscription(sifted),
    ];
    let mut fold = Fold::default();
    for (event, offset) in events.iter().zip(0..) {
        fold.apply(offset, event).expect("the seeds fit together");
    }
    let mut seeds: Vec<_> = events.iter().map(Event::encode).collect();
    seeds.extend(Snapshot::of(&fold, 10));
    let redo = Redo {
        of: Stretch {
            log: 1,
            number: 3,
            nonce: u64::MAX,
            first: 512,
            next: 514,
            place: 5_184,
        },
        identity: Some(Box::new([7; SECTOR])),
        frames: vec![9; 48],
    };
    seeds.push(Record::Redo(vec![redo]).encode());
    seeds
}
