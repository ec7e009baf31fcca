//! How much lies between a reader and the end.

use super::log::Log;
use crate::error::Result;

/// What lies between an offset and the durable end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Records that are there.
    pub(crate) records: u64,
    /// Bytes of their frames.
    pub(crate) bytes: u64,
    /// The first one's own time, if it can be read.
    pub(crate) since: Option<i64>,
}

impl Log {
    /// What lies between an offset and the durable end.
    pub(crate) fn behind(&self, next: u64) -> Result<Behind> {
        self.settled(|| self.behind_now(next))
    }

    fn behind_now(&self, next: u64) -> Result<Behind> {
        self.gate().reads(self.site())?;
        let (from, end) = (next.max(self.first()), self.durable());
        if from >= end {
            return Ok(Behind::default());
        }
        let start = self.spot(from)?;
        let stop = self.spot(end)?;
        let frame = start.segment.frame_at(start.place);
        let since = frame.ok().flatten().map(|frame| frame.timestamp());
        let (low, high) = (start.segment.number(), stop.segment.number());
        let bytes = if low == high {
            stop.place.saturating_sub(start.place)
        } else {
            let links = self.segments.now();
            let pairs = links.iter().zip(links.iter().skip(1));
            let pairs = pairs.filter(|(link, _)| (low..high).contains(&link.number));
            let whole = pairs.map(|(link, next)| Ok(link.sums(self.site(), next)?.0));
            let whole = whole.sum::<Result<u64>>()?;
            let before = start.place - start.segment.start();
            let here = stop.place - stop.segment.start();
            (whole + here).saturating_sub(before)
        };
        Ok(Behind {
            records: end - from,
            bytes,
            since,
        })
    }
}
