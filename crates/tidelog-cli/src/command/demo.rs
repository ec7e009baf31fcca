//! `tidelog demo`

mod quakes;
mod steps;

use std::path::Path;
use std::time::Instant;

use clap::Args;
use tidelog::{Store, Topic, TopicOptions};

use crate::exit::{Exit, Failure};
use crate::output::Output;
use quakes::Quake;

/// Run the whole thing on a real week of earthquakes.
///
/// 1,707 events, keyed by seismic network, durably appended to four partitions; a subscription
/// that commits as it goes; a follower on a second thread; a look-up by time; a close, a reopen,
/// and a check that everything is there, once and in order. Run it again, or kill it in the
/// middle and run it again: it says where it resumes and ends with the same 1,707 events.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tidelog demo
  tidelog demo --store /tmp/quakes")]
pub struct Demo {}

/// The demo's topic in its store.
struct Stage {
    store: Store,
    topic: Topic,
}

impl Demo {
    /// Runs every step, and says what it measured.
    pub fn run(&self, path: &Path, mut to: Output) -> Result<Exit, Failure> {
        let started = Instant::now();
        let quakes = quakes::week()?;
        to.line(format!(
            "A week of earthquakes: {} events of {} networks, in {}",
            thousands(quakes.len()),
            quakes::networks(&quakes),
            path.display()
        ))?;
        to.flush()?;
        let stage = Self::open(path)?;
        let present = steps::present(&stage, &quakes)?;
        to.line(match present {
            0 => "open       a new topic `quakes` with four partitions".to_owned(),
            all if all == quakes.len() => {
                format!(
                    "open       all {} events are there from an earlier run",
                    thousands(all)
                )
            }
            some => format!(
                "resume     {} events are there from a run that was cut off; going on behind them",
                thousands(some)
            ),
        })?;
        to.flush()?;
        let follower = steps::follow(&stage, quakes.len())?;
        to.line(steps::append(&stage, &quakes)?)?;
        to.flush()?;
        to.line(steps::archive(&stage, quakes.len())?)?;
        to.line(follower.join()?)?;
        to.line(steps::look_up(&stage, &quakes)?)?;
        stage.store.close()?;
        let stage = Self::open(path)?;
        to.line(steps::check(&stage, &quakes)?)?;
        stage.store.close()?;
        to.line(format!(
            "done       in {:.2} s",
            started.elapsed().as_secs_f64()
        ))?;
        to.flush()?;
        Ok(Exit::Success)
    }

    fn open(path: &Path) -> Result<Stage, Failure> {
        let store = Store::open(path)?;
        let options = TopicOptions::new()
            .partitions(4)
            .content_type("application/json");
        let topic = store.create_topic("quakes", options)?;
        Ok(Stage { store, topic })
    }
}

/// A number as people write it.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn numbers_read_as_people_write_them() {
        let written = [0, 999, 1707, 1_000_000].map(thousands);
        assert_eq!(written, ["0", "999", "1,707", "1,000,000"]);
    }
}
