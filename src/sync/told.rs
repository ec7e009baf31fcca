//! Whether somebody has been told that there is something to do.
//!
//! Who has something to be done *shows* it, passes a sequentially consistent fence, and then looks whether
//! the other one knows. Who does it forgets that he was told, passes such a fence, and then *looks* what
//! there is. One of the two sees the other, so nothing shown is left undone, and telling costs a load
//! while there is something to do anyway.

use super::{AtomicBool, Ordering, fence};

/// What two sides have of it.
#[derive(Debug)]
pub(crate) struct Told(AtomicBool);

impl Told {
    pub(crate) fn new() -> Told {
        Told(AtomicBool::new(false))
    }

    /// Whether the other one is to be told: true once until he looks again. The caller has passed a
    /// sequentially consistent fence since he showed what there is to do.
    pub(crate) fn ask(&self) -> bool {
        !self.0.load(Ordering::Acquire) && !self.0.swap(true, Ordering::AcqRel)
    }

    /// Look *afterwards* what there is to do: who shows something from here on tells of it anew.
    pub(crate) fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
        // Between forgetting and looking; the other fence is that of who shows something.
        fence(Ordering::SeqCst);
    }

    /// He will look again by himself, and need not be told.
    pub(crate) fn know(&self) {
        self.0.store(true, Ordering::Release);
    }
}
