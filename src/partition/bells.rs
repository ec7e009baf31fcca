//! What rings for those who wait at several logs at once: the followers of a topic.

use crate::options::Visibility;
use crate::sync::{AtomicU64, Ordering, Watermark};

/// The bells of a topic. Nobody looks at their position: who waits at one looks at the logs.
#[derive(Debug)]
pub(crate) struct Bells {
    /// Rings when a log has more written records.
    pub(crate) written: Watermark,
    /// Rings when a log has more durable records.
    pub(crate) durable: Watermark,
}

impl Bells {
    pub(crate) fn new() -> Bells {
        Bells {
            written: Watermark::new(0),
            durable: Watermark::new(0),
        }
    }

    /// The bell for who reads these records.
    pub(crate) fn of(&self, visibility: Visibility) -> &Watermark {
        match visibility {
            Visibility::Written => &self.written,
            Visibility::Durable => &self.durable,
        }
    }

    /// Rings for everybody: something has ended, or failed.
    pub(crate) fn ring(&self) {
        self.written.wake();
        self.durable.wake();
    }
}

/// A call that somebody may be waiting for: that something has happened, whatever it was.
#[derive(Debug)]
pub(crate) struct Call {
    made: AtomicU64,
    heard: Watermark,
}

impl Call {
    pub(crate) fn new() -> Call {
        Call {
            made: AtomicU64::new(0),
            heard: Watermark::new(0),
        }
    }

    /// It has happened, once more.
    pub(crate) fn make(&self) {
        self.heard
            .advance(self.made.fetch_add(1, Ordering::AcqRel) + 1);
    }

    /// What to wait at for calls, and how many there were before.
    pub(crate) fn heard(&self) -> (&Watermark, u64) {
        (&self.heard, self.heard.get())
    }
}
