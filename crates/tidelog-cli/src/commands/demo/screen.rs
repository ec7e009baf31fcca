//! What the demo says: one screen, or one JSON object.

use std::path::Path;
use std::time::Duration;

use console::style;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::json;
use tidelog::{Position, Store, Topic};

use super::check::Found;
use super::events::Event;
use super::stream::Streamed;
use crate::failure::Result;
use crate::out::{Out, count, thousands};

/// Where the demo tells its story. Every step is handed over at once: whoever watches, or kills,
/// knows where it stands.
pub(super) struct Screen {
    out: Out,
    quiet: bool,
}

impl Screen {
    pub(super) fn new(quiet: bool) -> Screen {
        Screen {
            out: Out::new(),
            quiet,
        }
    }

    /// A step with its name, or, without one, more of the step before.
    fn step(&mut self, name: &str, text: &str) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        self.out.line(format!(
            "  {}  {text}",
            style(format!("{name:<9}")).cyan().bold()
        ))?;
        self.out.flush()
    }

    pub(super) fn title(&mut self, events: u64, networks: u64) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        let title = format!("A week of earthquakes: {} events", thousands(events));
        let text = format!("of {networks} seismic networks, 31 January to 7 February 2018 (USGS)");
        self.out.line(format!("{} {text}\n", style(title).bold()))?;
        self.out.flush()
    }

    pub(super) fn opened(&mut self, name: &str, store: &Store, took: Duration) -> Result<()> {
        let health = store.health();
        let how = match (health.epoch, health.was_closed) {
            (0 | 1, _) => "a new store",
            (_, true) => "a store that was closed in good order",
            (_, false) => "a store whose last owner was killed",
        };
        self.step(
            name,
            &format!("{}: {how} ({})", store.path().display(), short(took)),
        )
    }

    pub(super) fn topic(&mut self, topic: &Topic) -> Result<()> {
        let text = format!(
            "{} partitions, keyed by seismic network",
            topic.partitions()
        );
        self.step("topic", &format!("{}: {text}", topic.name()))
    }

    pub(super) fn resume(&mut self, present: &[usize], total: usize) -> Result<()> {
        let there = present.iter().sum::<usize>() as u64;
        let places: Vec<String> = (0..)
            .zip(present)
            .map(|(number, count): (u32, _)| format!("{number}@{count}"))
            .collect();
        let text = match there {
            0 => "nothing is there yet: begins with the first event".to_owned(),
            all if all == total as u64 => {
                format!(
                    "all {} events are there already: nothing to append",
                    thousands(all)
                )
            }
            some => format!(
                "{} are there already: goes on at {}",
                count(some, "event", "events"),
                places.join(", ")
            ),
        };
        self.step("resume", &text)
    }

    /// Progress, where somebody watches.
    pub(super) fn bar(&self, missing: u64) -> ProgressBar {
        if self.quiet || missing == 0 {
            return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        }
        crate::progress::records(missing)
    }

    pub(super) fn streamed(&mut self, streamed: &Streamed) -> Result<()> {
        if let (Some(median), Some(p99)) = (streamed.latency(50), streamed.latency(99)) {
            let seconds = streamed.took.as_secs_f64();
            let appended = count(streamed.appended, "event", "events");
            let text = "each durable before the next of its partition";
            self.step("append", &format!("{appended} in {seconds:.2} s, {text}"))?;
            let text = format!(
                "durable append {} at the median, {} p99",
                short(median),
                short(p99)
            );
            self.step("", &format!("{text}, {} syncs", thousands(streamed.syncs)))?;
        }
        let archived = &streamed.archived;
        let commits = count(archived.commits, "commit", "commits");
        let before = match archived.before {
            0 => String::new(),
            before => format!(", {} committed before", thousands(before)),
        };
        let text = format!(
            "subscription: {} events in {commits}",
            thousands(archived.records)
        );
        self.step("archive", &format!("{text}{before}"))?;
        let seen = thousands(streamed.followed);
        let text = match streamed.appended {
            0 => format!("a second thread read all {seen} events from the beginning"),
            _ => format!("a second thread saw all {seen} events, new ones as they became durable"),
        };
        self.step("follow", &text)
    }

    pub(super) fn looked_up(
        &mut self,
        time: &str,
        position: &Position,
        event: &Event<'_>,
        took: Duration,
    ) -> Result<()> {
        let text = format!(
            "first from {time} on: {position}, M {}, {}",
            event.mag, event.place
        );
        self.step("look up", &format!("{text} ({})", short(took)))
    }

    pub(super) fn closed(&mut self, took: Duration) -> Result<()> {
        self.step(
            "close",
            &format!("everything is in its place ({})", short(took)),
        )
    }

    pub(super) fn checked(&mut self, found: &Found) -> Result<()> {
        let text = format!("{} events, none twice", thousands(found.events));
        let networks = format!("in order in each of {} networks", found.networks);
        self.step(
            "check",
            &format!("{text}, {networks} ({})", short(found.took)),
        )
    }

    pub(super) fn end(&mut self, store: &Path, streamed: &Streamed, found: &Found) -> Result<()> {
        if self.quiet {
            let micros = |percent| streamed.latency(percent).map(|it| it.as_micros() as u64);
            self.out.json(&json!({
                "events": found.events,
                "networks": found.networks,
                "appended": streamed.appended,
                "append_seconds": streamed.took.as_secs_f64(),
                "append_median_us": micros(50),
                "append_p99_us": micros(99),
                "syncs": streamed.syncs,
                "archived": streamed.archived.records,
                "archive_commits": streamed.archived.commits,
                "followed": streamed.followed,
            }))?;
            return self.out.flush();
        }
        let text = format!(
            "\nAll {} events came back. Now kill it in the middle (kill -9) and run it again, or:\n  \
             tidelog read quakes --store {} --from 2018-02-04 --limit 5",
            thousands(found.events),
            store.display()
        );
        self.out.line(text)?;
        self.out.flush()
    }
}

/// A duration in the unit that suits it.
fn short(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    match time.as_micros() {
        0..1_000 => format!("{} µs", time.as_micros()),
        1_000..10_000 => format!("{millis:.1} ms"),
        10_000..10_000_000 => format!("{millis:.0} ms"),
        _ => format!("{:.1} s", millis / 1e3),
    }
}
