//! What rings for those who wait at several logs at once: the followers of a topic.

use crate::options::Visibility;
use crate::sync::Watermark;

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
