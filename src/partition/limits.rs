//! The limits of a log.

use std::time::Duration;

use crate::options::Durability;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// The limits of a log; they may change while it is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) first_segment: u64,
    pub(crate) max_segment: u64,
    pub(crate) unsettled: u64,
    /// Bytes that the partition may hold.
    pub(crate) total: Option<u64>,
    /// When what is written is synced.
    pub(crate) durability: Durability,
    /// How long an append waits for room, where it does.
    pub(crate) full_wait: Option<Duration>,
    /// Segments go when they are old, or when there are many.
    pub(crate) retained: bool,
    /// The next segment is made as soon as the last one has taken over, and shorter where there is no
    /// room: so that a full disk finds it made.
    pub(crate) ahead: bool,
}

/// The limits as they are now. Each append looks at them, so looking costs loads only; whoever looks
/// while they change may see some of the old ones.
#[derive(Debug)]
pub(super) struct Live {
    first_segment: AtomicU64,
    max_segment: AtomicU64,
    unsettled: AtomicU64,
    /// `NONE` for no limit.
    total: AtomicU64,
    /// [`Durability::word`].
    durability: AtomicU64,
    /// In nanoseconds; `NONE` for not at all.
    full_wait: AtomicU64,
    retained: AtomicBool,
    ahead: AtomicBool,
}

const NONE: u64 = u64::MAX;

impl Live {
    pub(super) fn new(limits: Limits) -> Live {
        let live = Live {
            first_segment: AtomicU64::new(0),
            max_segment: AtomicU64::new(0),
            unsettled: AtomicU64::new(0),
            total: AtomicU64::new(0),
            durability: AtomicU64::new(0),
            full_wait: AtomicU64::new(NONE),
            retained: AtomicBool::new(false),
            ahead: AtomicBool::new(false),
        };
        live.store(limits);
        live
    }

    pub(super) fn store(&self, limits: Limits) {
        let set = |limit: &AtomicU64, to| limit.store(to, Ordering::Release);
        set(&self.first_segment, limits.first_segment);
        set(&self.max_segment, limits.max_segment);
        set(&self.unsettled, limits.unsettled);
        set(&self.total, limits.total.unwrap_or(NONE));
        set(&self.durability, limits.durability.word());
        let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap_or(NONE - 1);
        set(&self.full_wait, limits.full_wait.map_or(NONE, nanos));
        self.retained.store(limits.retained, Ordering::Release);
        self.ahead.store(limits.ahead, Ordering::Release);
    }

    pub(super) fn load(&self) -> Limits {
        let get = |limit: &AtomicU64| limit.load(Ordering::Acquire);
        Limits {
            first_segment: get(&self.first_segment),
            max_segment: get(&self.max_segment),
            unsettled: get(&self.unsettled),
            total: Some(get(&self.total)).filter(|total| *total != NONE),
            durability: Durability::from_word(get(&self.durability)),
            full_wait: Some(get(&self.full_wait))
                .filter(|wait| *wait != NONE)
                .map(Duration::from_nanos),
            retained: self.retained.load(Ordering::Acquire),
            ahead: self.ahead.load(Ordering::Acquire),
        }
    }
}
