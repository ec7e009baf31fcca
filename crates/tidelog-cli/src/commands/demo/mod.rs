//! `tidelog demo`: the real thing on a week of earthquakes.
//!
//! # The order, and what a kill leaves
//!
//! Each partition has one writer, a thread that appends the events of its networks in the order
//! of the file and waits for each until it is durable. So at any moment a partition holds the
//! first events of its share, and nothing else: after a `kill -9` the demo reads the event ids
//! that are there, compares them with the beginning of each share, and goes on behind them. No
//! event can be there twice, and none can be missing before one that is there.

mod check;
mod events;
mod screen;
mod stream;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use tidelog::{Start, Store, StoreOptions, Timestamp, Topic, TopicOptions};

use self::check::Found;
use self::events::Event;
use self::screen::Screen;
use self::stream::Streamed;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::json::rfc3339;

const TOPIC: &str = "quakes";
const PARTITIONS: u32 = 4;
/// Midnight of 4 February 2018, UTC, in milliseconds.
const SUNDAY: i64 = 1_517_702_400_000;

/// Stream a week of earthquakes through a store, and check every event
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// The store's directory
    #[arg(long, value_name = "DIR", default_value = "tidelog-demo")]
    store: PathBuf,

    /// Print one JSON object with what was measured, instead of the story
    #[arg(long)]
    json: bool,
}

const LONG: &str = "\
Stream a week of earthquakes through a store, and check every event

1,707 events of 12 seismic networks go into a topic of four partitions, each event durable before \
the next of its partition; meanwhile a subscription archives them and another process follows. Then the \
store is closed, opened again, and every event is compared with its original. Run it again, or kill \
it in the middle (kill -9) and run it again: it goes on where it was.";

const EXAMPLES: &str = "\
Examples:
  tidelog demo
  tidelog read quakes --store tidelog-demo --from 2018-02-04 --limit 5
  tidelog verify --store tidelog-demo";

impl Demo {
    pub(crate) fn run(&self) -> Result<Exit> {
        let events = events::all().map_err(|error| Failure::NotTheDemo(error.to_string()))?;
        let mut screen = Screen::new(self.json);
        screen.title(events.len() as u64, events::networks(&events))?;

        let began = Instant::now();
        let store = Store::open(&self.store)?;
        screen.opened("open", &store, began.elapsed())?;
        let outcome = first_life(&store, &events, &mut screen);
        let began = Instant::now();
        let closed = store.close();
        let streamed = outcome?;
        closed?;
        screen.closed(began.elapsed())?;

        let found = second_life(&self.store, &events, &mut screen)?;
        screen.end(&self.store, &streamed, &found)?;
        Ok(Exit::Success)
    }
}

/// Appends what is not there yet, archives, follows, and looks up a time.
fn first_life(store: &Store, events: &[Event<'static>], screen: &mut Screen) -> Result<Streamed> {
    let options = TopicOptions::new()
        .partitions(PARTITIONS)
        .content_type("application/json");
    let topic = store.create_topic(TOPIC, options)?;
    screen.topic(&topic)?;
    let shares = shares(&topic, events);
    let present = check::present(&topic, &shares)?;
    screen.resume(&present, events.len())?;
    let streamed = stream::run(store, &topic, &shares, &present, screen)?;
    screen.streamed(&streamed)?;
    look_up(&topic, events, screen)?;
    Ok(streamed)
}

/// The events of each partition, in the order of the file.
fn shares<'a>(topic: &Topic, events: &[Event<'a>]) -> Vec<Vec<Event<'a>>> {
    let mut shares = vec![Vec::new(); topic.partitions() as usize];
    for event in events {
        shares[topic.partition_of(event.net) as usize].push(*event);
    }
    shares
}

/// Finds the first event at or after a time, in every partition, and prints the earliest.
fn look_up(topic: &Topic, events: &[Event<'_>], screen: &mut Screen) -> Result<()> {
    let sunday = Timestamp::from_millis(SUNDAY);
    let began = Instant::now();
    let mut earliest = None;
    for number in 0..topic.partitions() {
        let mut cursor = topic.partition(number)?.cursor(Start::At(sunday))?;
        if let Some(record) = cursor.next()? {
            let found = (
                record.timestamp(),
                record.position(),
                record.event_id().into_owned(),
            );
            if earliest.as_ref().is_none_or(|earliest| found < *earliest) {
                earliest = Some(found);
            }
        }
    }
    let took = began.elapsed();
    let expected = events.iter().find(|event| event.time >= SUNDAY);
    let (Some((_, position, id)), Some(event)) = (earliest, expected) else {
        return Err(Failure::NotTheDemo(
            "no event on 4 February 2018".to_owned(),
        ));
    };
    if id != event.id.as_bytes() {
        return Err(Failure::NotTheDemo(format!(
            "{position} is not event {}",
            event.id
        )));
    }
    screen.looked_up(&rfc3339(sunday), &position, event, took)
}

/// Opens the store again and compares every event with its original.
fn second_life(path: &Path, events: &[Event<'static>], screen: &mut Screen) -> Result<Found> {
    let began = Instant::now();
    let store = Store::open_with(path, StoreOptions::new().existing())?;
    screen.opened("reopen", &store, began.elapsed())?;
    let topic = store.existing_topic(TOPIC)?;
    let found = check::all(&topic, events);
    let closed = store.close();
    let found = found?;
    closed?;
    screen.checked(&found)?;
    Ok(found)
}
