//! What journals say, and what follows from it.

mod folds;
mod golden;
mod page;
mod properties;
mod records;
mod snapshots;

use super::event::*;
use super::flaw::FoldFlaw;
use super::fold::*;
use super::fuzz::{fuzz_event, fuzz_seeds};
use super::record::*;
use super::replay::Replay;
use super::snapshot::*;

fn settings() -> TopicSettings {
    TopicSettings {
        max_record_bytes: 1_000,
        max_batch_bytes: 2_000,
        max_total_bytes: None,
        first_segment_bytes: 65_536,
        max_segment_bytes: 1 << 20,
        unsettled_bytes: 1 << 24,
        reach_bytes: 1 << 24,
        sync_after_nanos: None,
        retention: None,
        full_wait_nanos: None,
    }
}

fn owner(epoch: u32) -> Event {
    Event::Epoch(Owner {
        epoch,
        boot: None,
        pid: 7,
    })
}

fn topic(id: u64, name: &str, logs: &[u64]) -> Event {
    Event::Topic(TopicState {
        id,
        name: name.into(),
        content_type: "text/plain".into(),
        logs: logs.to_vec(),
        settings: settings(),
        finished: false,
        created: -5,
    })
}

fn subscription(id: u64, topic: u64, name: &str, start: &[u64]) -> Event {
    Event::Subscription(SubscriptionState {
        id,
        topic,
        name: name.into(),
        paused: false,
        required: false,
        filter: None,
        sampling: None,
        on_expiry: None,
        start: start.to_vec(),
    })
}

fn checkpoint(subscription: u64, partition: u32, next: u64) -> Event {
    Event::Checkpoint {
        subscription,
        partition,
        next,
    }
}

fn end(log: u64, next: u64) -> LogEnd {
    let end = SegmentEnd {
        segment: 1,
        nonce: 99,
        place: 4_096,
        next,
        greatest: None,
        index_entries: 1,
        index_crc: 5,
        records: next,
        epoch: 1,
        last_append: Some(3),
    };
    LogEnd {
        log,
        end: Some(end),
        exact: true,
    }
}

fn ends(log: u64, next: u64) -> Event {
    Event::Ends {
        ends: vec![end(log, next)],
    }
}

fn start(log: u64, offset: u64) -> Event {
    Event::Start(LogStart {
        log,
        segment: 2,
        offset,
    })
}

/// The fold of events none of which is refused.
fn fold(events: &[Event]) -> Fold {
    let mut fold = Fold::default();
    for (event, offset) in events.iter().zip(0..) {
        fold.apply(offset, event).expect("the events fit together");
    }
    fold
}

/// Replays payloads from an offset on.
fn replay(from: u64, payloads: &[Vec<u8>]) -> Replay {
    let mut replay = Replay::default();
    for (payload, offset) in payloads.iter().zip(from..) {
        replay.record(offset, payload).expect("known records");
    }
    replay
}
