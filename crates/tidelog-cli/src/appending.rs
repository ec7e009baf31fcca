//! Appending what lines hold: batch by batch, and what is told of it.

use std::io::{self, IsTerminal as _, Write as _};

use indicatif::ProgressBar;
use serde::Serialize;
use tidelog::{Error, Positions, Record, Store, Topic};

use crate::exit::Exit;
use crate::failure::Result;
use crate::input::Input;
use crate::out::{Out, count};
use crate::progress;

/// The topic of that name; made with one partition where there is none.
pub(crate) fn found_or_made(store: &Store, name: &str) -> Result<Topic> {
    let found = store.existing_topic(name);
    if !matches!(found, Err(Error::TopicUnknown { .. })) {
        return Ok(found?);
    }
    let topic = store.topic(name)?;
    if io::stderr().is_terminal() {
        writeln!(io::stderr(), "topic {name} made, with one partition").ok();
    }
    Ok(topic)
}

/// Appends the records of lines as one batch. Where that is too large for the topic it is appended in
/// halves, so that only a line that is too large by itself is refused, and all before it are durable.
pub(crate) fn append_batch<'l, T>(
    topic: &Topic,
    input: &mut Input,
    lines: &'l [T],
    record: &impl Fn(&'l T) -> Record<'l>,
    acks: &mut Acks,
) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let positions = match topic.append_batch(lines.iter().map(record)) {
        Ok(positions) => positions,
        Err(Error::TooLarge { .. }) if lines.len() > 1 => {
            let (first, second) = lines.split_at(lines.len() / 2);
            append_batch(topic, input, first, record, acks)?;
            return append_batch(topic, input, second, record, acks);
        }
        Err(error) => return Err(input.failed(error)),
    };
    input.note_appended(lines.len() as u64);
    acks.print(&positions)
}

/// Where it is told what has become durable, if it is.
pub(crate) struct Acks(Option<Out>);

#[derive(Debug, Serialize)]
struct AckJson<'a> {
    topic: &'a str,
    partition: u32,
    offset: u64,
}

impl Acks {
    pub(crate) fn new(told: bool) -> Acks {
        Acks(told.then(Out::new))
    }

    /// Tells of a batch. A reader that has seen enough is no reason to append less: it is told no
    /// more, and the rest is appended.
    fn print(&mut self, positions: &Positions) -> Result<()> {
        let Some(out) = &mut self.0 else {
            return Ok(());
        };
        match print(out, positions) {
            Err(failure) if failure.exit() == Exit::Success => {
                self.0 = None;
                Ok(())
            }
            printed => printed,
        }
    }
}

fn print(out: &mut Out, positions: &Positions) -> Result<()> {
    for position in positions.iter() {
        out.json(&AckJson {
            topic: position.topic(),
            partition: position.partition(),
            offset: position.offset(),
        })?;
    }
    out.flush()
}

/// Appends what stands in all inputs, by `take`, one after the other, and says on a terminal how many
/// records were `done`: those before what went wrong, too.
pub(crate) fn append_all(
    inputs: Vec<Input>,
    json: bool,
    (topic, done): (&Topic, &str),
    mut take: impl FnMut(&mut Input, &mut Acks, &ProgressBar) -> Result<()>,
) -> Result<Exit> {
    let mut acks = Acks::new(json);
    let bar = progress::bytes(Input::total(&inputs));
    let mut records = 0;
    let mut taken = Ok(());
    for mut input in inputs {
        taken = take(&mut input, &mut acks, &bar);
        records += input.appended();
        if taken.is_err() {
            break;
        }
    }
    let shown = !bar.is_hidden();
    bar.finish_and_clear();
    if shown {
        let records = count(records, "record", "records");
        writeln!(io::stderr(), "{records} {done} to {}", topic.name()).ok();
    }
    taken.map(|()| Exit::Success)
}
