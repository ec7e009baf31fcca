//! What the view shows: looks at a store, and what two of them tell together.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use tidelog::{Error, Store, SubscriptionStatus};

use crate::failure::Result;

/// So many looks are remembered for the little charts.
pub(super) const TREND: usize = 24;

/// A store at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    pub(super) path: String,
    pub(super) owner: Option<u32>,
    topics: Vec<TopicSeen>,
    subscriptions: Vec<SubscriptionSeen>,
}

#[derive(Debug, Clone)]
struct TopicSeen {
    name: String,
    partitions: u32,
    /// Records that are there, and the sum of the partitions' ends.
    records: u64,
    ends: u64,
    note: &'static str,
}

#[derive(Debug, Clone)]
struct SubscriptionSeen {
    topic: String,
    name: String,
    status: Status,
    committed: Vec<u64>,
    records: u64,
    bytes: u64,
    age: Option<Duration>,
    failed: Option<String>,
}

/// How a subscription stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    Expired,
    Failed,
    Paused,
    Lagging,
    CaughtUp,
}

impl Status {
    pub(super) fn text(self) -> &'static str {
        match self {
            Status::Expired => "offset expired",
            Status::Failed => "failed",
            Status::Paused => "paused",
            Status::Lagging => "lagging",
            Status::CaughtUp => "caught up",
        }
    }
}

impl Look {
    /// Looks at a store, or at one topic of it.
    pub(super) fn of(store: &Store, only: Option<&str>) -> Result<Look> {
        let mut look = Look {
            path: store.path().display().to_string(),
            owner: store.health().owner,
            ..Look::default()
        };
        if let Some(name) = only {
            store.existing_topic(name)?;
        }
        for info in store.topics() {
            if only.is_some_and(|name| name != info.name) {
                continue;
            }
            match look.add(store, &info) {
                // It has gone meanwhile.
                Err(Error::TopicUnknown { .. } | Error::TopicDeleted { .. }) => {}
                added => added?,
            }
        }
        Ok(look)
    }

    fn add(&mut self, store: &Store, info: &tidelog::TopicInfo) -> Result<(), Error> {
        let topic = store.existing_topic(&info.name)?;
        let mut seen = TopicSeen {
            name: info.name.clone(),
            partitions: info.partitions,
            records: 0,
            ends: 0,
            note: if info.finished { "finished" } else { "" },
        };
        for number in 0..info.partitions {
            let partition = topic.partition(number)?;
            let places = partition
                .end()
                .and_then(|end| Ok((partition.first()?, end)));
            match places {
                Ok((first, end)) => {
                    seen.records += end.saturating_sub(first);
                    seen.ends += end;
                }
                Err(error @ (Error::TopicDeleted { .. } | Error::Closed)) => return Err(error),
                Err(_) => seen.note = "failed",
            }
        }
        self.topics.push(seen);
        for it in topic.subscriptions()? {
            let status = match it.status {
                _ if it.failed.is_some() => Status::Failed,
                SubscriptionStatus::Paused => Status::Paused,
                SubscriptionStatus::OffsetExpired => Status::Expired,
                _ if it.lag.records > 0 => Status::Lagging,
                _ => Status::CaughtUp,
            };
            self.subscriptions.push(SubscriptionSeen {
                topic: info.name.clone(),
                name: it.name,
                status,
                committed: it.committed,
                records: it.lag.records,
                bytes: it.lag.bytes,
                age: it.lag.age,
                failed: it.failed,
            });
        }
        Ok(())
    }
}

/// What the view knows: the last look, and how things have moved.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) path: String,
    pub(super) owner: Option<u32>,
    pub(super) topics: Vec<TopicLine>,
    pub(super) subscriptions: Vec<SubscriptionLine>,
    /// Records a second, of all topics.
    pub(super) rate: f64,
    before: Option<Instant>,
    moves: BTreeMap<(String, String), Moves>,
}

/// A topic, as a line.
#[derive(Debug, Clone)]
pub(super) struct TopicLine {
    pub(super) name: String,
    pub(super) partitions: u32,
    pub(super) records: u64,
    pub(super) note: &'static str,
    /// Records appended a second.
    pub(super) rate: f64,
    pub(super) trend: Vec<u64>,
}

/// A subscription, as a line.
#[derive(Debug, Clone)]
pub(super) struct SubscriptionLine {
    pub(super) topic: String,
    pub(super) name: String,
    pub(super) status: Status,
    pub(super) committed: Vec<u64>,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) age: Option<Duration>,
    /// What cannot be looked at, and why.
    pub(super) failed: Option<String>,
    /// Records committed a second.
    pub(super) rate: f64,
    /// Its lag, over the last looks.
    pub(super) trend: Vec<u64>,
}

/// How a figure that only grows has moved, and what a chart shows of it.
#[derive(Debug, Default)]
struct Moves {
    last: Option<u64>,
    /// A second, smoothed.
    rate: f64,
    trend: VecDeque<u64>,
}

impl Moves {
    /// The figure has come so far in that time; the chart gets `shown`, or else what was added.
    fn take(&mut self, figure: u64, passed: Option<Duration>, shown: Option<u64>) {
        let added = self.last.map_or(0, |last| figure.saturating_sub(last));
        self.last = Some(figure);
        if let Some(passed) = passed.filter(|passed| !passed.is_zero()) {
            let now = added as f64 / passed.as_secs_f64();
            // Half of what is told is of the last look: it moves, and does not jump.
            self.rate = if self.trend.len() < 2 {
                now
            } else {
                (self.rate + now) / 2.0
            };
        }
        if self.trend.len() == TREND {
            self.trend.pop_front();
        }
        self.trend.push_back(shown.unwrap_or(added));
    }

    fn trend(&self) -> Vec<u64> {
        self.trend.iter().copied().collect()
    }
}

impl Board {
    /// A look was taken at that time.
    pub(super) fn take(&mut self, look: Look, at: Instant) {
        let passed = self
            .before
            .map(|before| at.saturating_duration_since(before));
        self.before = Some(at);
        (self.path, self.owner) = (look.path, look.owner);
        let mut moves = std::mem::take(&mut self.moves);
        let mut kept = BTreeMap::new();
        let mut moved = |key: (String, String), figure, shown| {
            let mut it: Moves = moves.remove(&key).unwrap_or_default();
            it.take(figure, passed, shown);
            let told = (it.rate, it.trend());
            kept.insert(key, it);
            told
        };
        self.topics = Vec::with_capacity(look.topics.len());
        for it in look.topics {
            let (rate, trend) = moved((it.name.clone(), String::new()), it.ends, None);
            self.topics.push(TopicLine {
                name: it.name,
                partitions: it.partitions,
                records: it.records,
                note: it.note,
                rate,
                trend,
            });
        }
        self.subscriptions = Vec::with_capacity(look.subscriptions.len());
        for it in look.subscriptions {
            let key = (it.topic.clone(), it.name.clone());
            let (rate, trend) = moved(key, it.committed.iter().sum(), Some(it.records));
            self.subscriptions.push(SubscriptionLine {
                topic: it.topic,
                name: it.name,
                status: it.status,
                committed: it.committed,
                records: it.records,
                bytes: it.bytes,
                age: it.age,
                failed: it.failed,
                rate,
                trend,
            });
        }
        self.moves = kept;
        self.rate = self.topics.iter().map(|topic| topic.rate).sum();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A store with two topics, as a program would leave it after so many seconds.
    pub(crate) fn look(seconds: u64) -> Look {
        let topic = |name: &str, partitions, each: u64, note| TopicSeen {
            name: name.to_owned(),
            partitions,
            records: 1000 + each * seconds,
            ends: 5000 + each * seconds,
            note,
        };
        let subscription = |name: &str, topic: &str, status, each: u64, records| SubscriptionSeen {
            topic: topic.to_owned(),
            name: name.to_owned(),
            status,
            committed: vec![each * seconds],
            records,
            bytes: records * 136,
            age: (records > 0).then(|| Duration::from_millis(records * 37)),
            failed: None,
        };
        Look {
            path: "/srv/agent/data".to_owned(),
            owner: Some(4711),
            topics: vec![
                topic("agent.output", 4, 1200, ""),
                topic("agent.silver", 4, 300, ""),
                topic("answers.42", 1, 0, "finished"),
            ],
            subscriptions: vec![
                subscription("archive", "agent.output", Status::CaughtUp, 1200, 0),
                subscription(
                    "normaliser",
                    "agent.output",
                    Status::Lagging,
                    900,
                    1200 * seconds,
                ),
                subscription("sampler", "agent.silver", Status::Paused, 0, 4000),
                subscription("audit", "agent.silver", Status::Expired, 0, 9_000_000),
            ],
        }
    }

    /// Two looks a second apart: what was appended and committed in between is told a second, and a
    /// topic that has gone leaves nothing.
    #[test]
    fn two_looks_tell_how_things_move() {
        let mut board = Board::default();
        let at = Instant::now();
        board.take(look(1), at);
        assert_eq!(board.rate, 0.0);
        board.take(look(2), at + Duration::from_secs(1));
        assert_eq!(board.rate, 1500.0);
        assert_eq!(board.subscriptions[1].rate, 900.0);
        assert_eq!(board.subscriptions[1].trend, [1200, 2400]);
        let mut gone = look(3);
        gone.topics.truncate(1);
        gone.subscriptions.clear();
        board.take(gone, at + Duration::from_secs(2));
        assert_eq!((board.topics.len(), board.moves.len()), (1, 1));
        for seconds in 3..100 {
            board.take(look(seconds), at + Duration::from_secs(seconds));
        }
        assert_eq!(board.topics[0].trend.len(), TREND);
    }
}
