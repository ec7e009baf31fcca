//! `tidelog stats`: how much there is, and how old.

use std::fs;
use std::path::Path;

use clap::Args;
use serde::Serialize;
use tidelog::{Error, Start, Store, StoredRecord, Topic};

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::Result;
use crate::json::rfc3339;
use crate::out::{Out, thousands};
use crate::store::reading;

/// Tell how much a store holds: records, bytes, segments, the oldest and the newest record
#[derive(Debug, Args)]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Stats {
    /// Only these topics
    topics: Vec<String>,

    #[command(flatten)]
    common: Common,
}

const LONG: &str = "\
Tell how much a store holds: records, bytes, segments, the oldest and the newest record

Bytes are those of the segment files, of which the last one is made ahead of need: more than the records \
take. Oldest and newest are the times of the first record and of the last one. Nothing is changed and no \
lock is taken: it also works beside a live owner.

With --json a line is printed for each partition: topic, partition, first, end, records, segments, bytes, \
oldest and newest; and failed, where it cannot be opened. The exit code is then 1.";

const EXAMPLES: &str = "\
Examples:
  tidelog stats
  tidelog stats quakes --json | jq .bytes";

#[derive(Debug, Default, Serialize)]
struct PartitionJson {
    topic: String,
    partition: u32,
    first: u64,
    end: u64,
    records: u64,
    segments: u64,
    bytes: u64,
    oldest: Option<String>,
    newest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Stats {
    pub(crate) fn run(&self) -> Result<Exit> {
        reading(&self.common.store, |store| self.print(store))
    }

    fn print(&self, store: &Store) -> Result<Exit> {
        let names = match self.topics.is_empty() {
            true => store.topics().into_iter().map(|info| info.name).collect(),
            false => self.topics.clone(),
        };
        let mut all = Vec::new();
        for name in names {
            let topic = store.existing_topic(&name)?;
            for number in 0..topic.partitions() {
                all.push(look(store, &topic, number));
            }
        }
        let mut out = Out::new();
        if self.common.json {
            all.iter().try_for_each(|found| out.json(found))?;
        } else {
            table(&all, &mut out)?;
        }
        out.flush()?;
        Ok(match all.iter().any(|found| found.failed.is_some()) {
            true => Exit::Failure,
            false => Exit::Success,
        })
    }
}

fn look(store: &Store, topic: &Topic, number: u32) -> PartitionJson {
    let folder = store.path().join("topics").join(topic.name());
    let (segments, bytes) = files(&folder, number);
    let mut found = PartitionJson {
        topic: topic.name().to_owned(),
        partition: number,
        segments,
        bytes,
        ..PartitionJson::default()
    };
    if let Err(error) = ask(topic, number, &mut found) {
        found.failed = Some(error.to_string());
    }
    found
}

fn ask(topic: &Topic, number: u32, found: &mut PartitionJson) -> tidelog::Result<()> {
    let partition = topic.partition(number)?;
    (found.first, found.end) = (partition.first()?, partition.end()?);
    found.records = found.end.saturating_sub(found.first);
    if found.records > 0 {
        let time = |start| match partition.cursor(start)?.next() {
            Ok(record) => Ok(record.map(|it: StoredRecord<'_>| rfc3339(it.timestamp()))),
            // Damage, or a record that has just expired, has no time.
            Err(Error::Corrupt { .. } | Error::Unreadable { .. } | Error::OffsetExpired { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error),
        };
        found.oldest = time(Start::Earliest)?;
        found.newest = time(Start::Offset(found.end - 1))?;
    }
    Ok(())
}

/// How many segment files a partition has, and their bytes.
fn files(topic: &Path, number: u32) -> (u64, u64) {
    let prefix = format!("{number:06}-");
    let of = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let logs = of(topic).filter(|log| log.file_name().to_string_lossy().starts_with(&prefix));
    let files = logs.flat_map(|log| of(&log.path()).collect::<Vec<_>>());
    let segments = files.filter(|file| file.path().extension().is_some_and(|it| it == "seg"));
    let lengths = segments.map(|file| file.metadata().map_or(0, |metadata| metadata.len()));
    lengths.fold((0, 0), |(files, bytes), length| (files + 1, bytes + length))
}

fn table(all: &[PartitionJson], out: &mut Out) -> Result<()> {
    let name = |found: &PartitionJson| format!("{}/{}", found.topic, found.partition);
    let width = all.iter().map(|found| name(found).len()).max();
    let width = width.unwrap_or(0).max("partition".len());
    let line = |name: &str, cells: [String; 3], times: [&str; 2]| {
        let [records, segments, bytes] = cells;
        let [oldest, newest] = times;
        let line = format!("{name:width$}  {records:>12}  {segments:>8}  {bytes:>15}");
        format!("{line}  {oldest:30}  {newest}")
            .trim_end()
            .to_owned()
    };
    let titles = ["records", "segments", "bytes"].map(str::to_owned);
    out.line(line("partition", titles, ["oldest", "newest"]))?;
    for found in all {
        let cells = [found.records, found.segments, found.bytes].map(thousands);
        let time = |time: &'_ Option<String>| time.clone().unwrap_or_default();
        let (oldest, newest) = (time(&found.oldest), time(&found.newest));
        out.line(line(&name(found), cells, [&oldest, &newest]))?;
        if let Some(failed) = &found.failed {
            out.line(format!("{:width$}  failed: {failed}", ""))?;
        }
    }
    let sum = |of: fn(&PartitionJson) -> u64| all.iter().map(of).sum::<u64>();
    let sums = [
        sum(|found| found.records),
        sum(|found| found.segments),
        sum(|found| found.bytes),
    ];
    out.line(line("all", sums.map(thousands), ["", ""]))
}
