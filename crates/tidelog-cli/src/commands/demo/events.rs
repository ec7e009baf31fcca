//! The week of earthquakes: what the US Geological Survey listed from 31 January to 7 February
//! 2018, one JSON object a line, in the order of their times.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidelog::{Record, Timestamp};

const LINES: &str = include_str!("../../../data/earthquakes.ndjson");

/// An earthquake, and the line that says so.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(super) struct Event<'a> {
    pub(super) id: &'a str,
    /// Milliseconds since 1970.
    pub(super) time: i64,
    /// The seismic network that reported it.
    pub(super) net: &'a str,
    pub(super) mag: f64,
    #[serde(borrow)]
    pub(super) place: &'a str,
    #[serde(skip)]
    pub(super) line: &'a str,
}

impl<'a> Event<'a> {
    pub(super) fn parse(line: &'a str) -> serde_json::Result<Event<'a>> {
        let event: Event<'a> = serde_json::from_str(line)?;
        Ok(Event { line, ..event })
    }

    pub(super) fn record(&self) -> Record<'a> {
        Record::new(self.line)
            .key(self.net)
            .event_id(self.id)
            .at(Timestamp::from_millis(self.time))
    }
}

/// All events, in the order of their times.
pub(super) fn all() -> serde_json::Result<Vec<Event<'static>>> {
    LINES.lines().map(Event::parse).collect()
}

/// How many networks reported them.
pub(super) fn networks(events: &[Event<'_>]) -> u64 {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts.entry(event.net).or_insert(0_u64) += 1;
    }
    counts.len() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The demo's words and its check rest on this.
    #[test]
    fn the_week_has_1707_events_with_distinct_ids_in_the_order_of_their_times() {
        let events = all().unwrap();
        assert_eq!((events.len(), networks(&events)), (1707, 12));
        assert!(events.is_sorted_by_key(|event| event.time));
        let ids: BTreeSet<_> = events.iter().map(|event| event.id).collect();
        assert_eq!(ids.len(), events.len());
    }
}
