//! `tidelog tail`: what is in a topic, and then what comes.

use clap::Args;
use tidelog::{Follow, Start, Store};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::place;
use crate::records::Records;
use crate::store::reading;

/// Follow a topic: print what comes, one payload a line
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Tail {
    /// The topic
    topic: String,

    #[arg(
        long,
        value_name = "PLACE",
        default_value = "latest",
        value_parser = place::parse,
        help = place::SUMMARY,
        long_help = place::HELP,
    )]
    from: Start,

    /// Only this partition
    #[arg(long, value_name = "N")]
    partition: Option<u32>,

    /// End after so many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Follow a topic: print what comes, one payload a line

It ends when the topic is finished and everything has been printed, after --limit records, or with \
Ctrl-C. Each record is printed as soon as it is durable, in the same form as by `tidelog read`. No \
subscription is moved.

It takes no lock and writes nothing: it runs beside the process that owns the store, and goes on when \
that one ends and another one comes.";

const EXAMPLES: &str = "\
Examples:
  tidelog tail quakes
  tidelog tail quakes --from earliest --limit 100
  tidelog tail quakes --from 1517745600s --json | jq -r .payload";

impl Tail {
    pub(crate) fn run(&self) -> Result<Exit> {
        reading(&self.common.store, |store| self.print(store))
    }

    fn print(&self, store: &Store) -> Result<Exit> {
        let topic = store.existing_topic(&self.topic)?;
        let mut follow = match self.partition {
            Some(number) => topic.partition(number)?.follow(self.from)?,
            None => topic.follow(self.from)?,
        };
        let mut records = Records::new(self.limit, self.common.json);
        while !records.is_full() && step(&mut follow, &mut records)? {}
        records.finish()
    }
}

/// Prints the next record; waits for it, all earlier ones handed over. False at the end.
fn step(follow: &mut Follow, records: &mut Records) -> Result<bool> {
    let ready = follow.try_next();
    if !matches!(ready, Ok(None)) {
        records.print(ready)?;
        return Ok(true);
    }
    records.flush()?;
    let found = follow.next();
    let more = !matches!(found, Ok(None));
    records.print(found)?;
    Ok(more)
}
