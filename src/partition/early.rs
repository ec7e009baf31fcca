//! The next segment is made ahead of time, and what will be lacking is warned of: little space on the file
//! system, or little room in a log that may hold so many bytes.

use super::appender::Appender;
use super::log::Log;
use crate::sync::{AtomicBool, Ordering};

/// A file system with less left than this is warned of.
const LITTLE_SPACE: u64 = 1 << 30;

/// Whether something is so; it is told once, until it is not.
#[derive(Debug)]
pub(crate) struct Alarm(AtomicBool);

impl Alarm {
    pub(crate) fn new() -> Alarm {
        Alarm(AtomicBool::new(false))
    }

    /// Whether it is so now, and was not when that was last said.
    fn is_news(&self, now: bool) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        before != now && now & !self.0.swap(now, Ordering::Relaxed)
    }
}

/// How full a log is, which somebody shall be told.
#[derive(Debug)]
pub(super) struct NearlyFull {
    used: u64,
    limit: u64,
}

impl Log {
    /// The preparer's duty. Behind who closes the log, or deletes it, nothing is made any more: the
    /// folder may have another owner by then.
    pub(super) fn prepare_spare(&self) {
        if self.gate.is_over() {
            return;
        }
        let ahead = self.limits.load().ahead;
        self.shelf.prepare(&self.site, self.next_capacity(), ahead);
        if let Ok(free) = self.site.storage.free(&self.site.dir)
            && self.setting.space.is_news(free < LITTLE_SPACE)
        {
            let path = self.site.dir.display();
            tracing::warn!(free, %path, "little space is left");
        }
    }

    /// How full the log is, if it holds nine tenths of its limit, and did not before: looked at while
    /// the partition is locked, and [told](Log::warn) when it is not any more.
    pub(super) fn nearly_full(&self, appender: &Appender, limit: u64) -> Option<NearlyFull> {
        let used = self.used(appender);
        let nearly = used >= limit - limit / 10;
        let news = self.filled.is_news(nearly);
        news.then_some(NearlyFull { used, limit })
    }

    pub(super) fn warn(&self, &NearlyFull { used, limit }: &NearlyFull) {
        let (topic, partition) = (self.site.topic(), self.site.partition);
        tracing::warn!(topic, partition, used, limit, "nearly full");
    }
}
