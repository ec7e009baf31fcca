//! Segments, index and recovery as one ordered stream: the log of a partition.

mod appender;
mod apply;
mod awaiting;
mod bells;
mod close;
mod cursor;
mod due;
mod gate;
mod held;
mod inspect;
mod ledger;
mod leftover;
mod list;
mod log;
mod mark;
mod overlay;
mod park;
mod plan;
mod planner;
mod riding;
mod rounds;
mod seek;
mod site;
mod spare;
mod walked;

pub(crate) use bells::Bells;
pub(crate) use cursor::{Cursor, Lent};
pub(crate) use held::{Held, Lacks};
pub(crate) use inspect::{Inspected, Visitor, inspect, visit};
pub(crate) use log::{Limits, Log, Setting};
pub(crate) use mark::{Mark, RecordedEnd};
pub(crate) use plan::Promises;
pub(crate) use planner::{plan, unsupported};
pub(crate) use site::{Damage, Site};
