//! The week of earthquakes: USGS, public domain.

use std::collections::BTreeSet;

use serde_json::Value;
use tidelog::Timestamp;

use crate::exit::Failure;

/// One event a line, in the order of time.
const WEEK: &str = include_str!("../../../data/earthquakes.ndjson");

/// An event, and the line it stands in.
pub struct Quake {
    /// The event's own id.
    pub id: String,
    /// The seismic network that saw it: the key.
    pub net: String,
    /// When it happened.
    pub time: Timestamp,
    /// The line, which is the payload.
    pub line: &'static str,
}

/// All events of the week.
pub fn week() -> Result<Vec<Quake>, Failure> {
    WEEK.lines().map(parse).collect()
}

/// How many networks saw them.
pub fn networks(quakes: &[Quake]) -> usize {
    let networks: BTreeSet<&str> = quakes.iter().map(|quake| quake.net.as_str()).collect();
    networks.len()
}

fn parse(line: &'static str) -> Result<Quake, Failure> {
    let read = || {
        let event: Value = serde_json::from_str(line).ok()?;
        Some(Quake {
            id: event.get("id")?.as_str()?.to_owned(),
            net: event.get("net")?.as_str()?.to_owned(),
            time: Timestamp::from_millis(event.get("time")?.as_i64()?),
            line,
        })
    };
    read().ok_or_else(|| Failure::Check(format!("not an earthquake: {line}")))
}
