//! The week of earthquakes through a pipeline.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidelog::{Failure, OnError, Output, Processor, Stopper};
use tidelog::{Record, Store, StoredRecord, Timestamp, TopicOptions};

use crate::kit::{records, texts};

const LINES: &str = include_str!("../../crates/tidelog-cli/data/earthquakes.ndjson");

fn magnitude(record: StoredRecord<'_>) -> Result<f64, Failure> {
    let event: Value = serde_json::from_slice(record.payload())?;
    let magnitude = event["mag"].as_f64();
    Ok(magnitude.ok_or("an earthquake without a magnitude")?)
}

/// Keeps strong earthquakes, and stops itself after so many records.
#[derive(Debug)]
struct Alerts {
    left: u64,
    stopper: Arc<Mutex<Option<Stopper>>>,
}

impl Processor for Alerts {
    fn process(&mut self, record: StoredRecord<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
        self.left -= 1;
        if self.left == 0 {
            self.stopper.lock().unwrap().iter().for_each(Stopper::stop);
        }
        if magnitude(record)? >= 4.0 {
            out.append(record.to_record())?;
        }
        Ok(())
    }
}

/// 1,707 earthquakes go into a topic, and with them a line that is none. One processor keeps those of
/// magnitude 4 or more, which are 128; it is stopped at several points and goes on. One archives all.
#[test]
fn of_1707_earthquakes_128_are_alerts_wherever_the_processor_was_stopped() {
    for transactional in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("data")).unwrap();
        let four = TopicOptions::new().partitions(4);
        let quakes = store.create_topic("quakes", four).unwrap();
        let record = |line: &'static str| {
            let event: Value = serde_json::from_str(line).unwrap();
            Record::new(line)
                .key(event["net"].as_str().unwrap().to_owned())
                .at(Timestamp::from_millis(event["time"].as_i64().unwrap()))
        };
        quakes.append_batch(LINES.lines().map(record)).unwrap();
        quakes.append(Record::new("static").key("us")).unwrap();
        quakes.finish().unwrap();
        let archive = store.processor("archive").input("quakes").output("archive");
        let archive = archive.spawn(|record, out| Ok(out.append(record.to_record())?));
        let archive = archive.unwrap();
        let mut counts = (0, 0, 0);
        for stop_after in [1, 300, 700, u64::MAX] {
            let alerts = store
                .processor("alerts")
                .input("quakes")
                .output("quakes.alerts")
                .on_error(OnError::dead_letter("quakes.dead"));
            let alerts = match transactional {
                true => alerts.transactional(),
                false => alerts,
            };
            let stopper = Arc::default();
            let handler = Alerts {
                left: stop_after,
                stopper: Arc::clone(&stopper),
            };
            let mut alerts = alerts.open(handler).unwrap();
            *stopper.lock().unwrap() = Some(alerts.stopper());
            let done = alerts.run().unwrap();
            counts.0 += done.records_in;
            counts.1 += done.records_out;
            counts.2 += done.dead_lettered;
        }
        assert_eq!(counts, (1708, 128, 1));
        assert_eq!(archive.join().unwrap().records_out, 1708);
        let alerts = records(&store, "quakes.alerts");
        assert_eq!(alerts.len(), 128);
        let mut expected: Vec<_> = LINES
            .lines()
            .filter(|it| {
                let event: Value = serde_json::from_str(it).unwrap();
                event["mag"].as_f64().unwrap() >= 4.0
            })
            .collect();
        let mut found = texts(&store, "quakes.alerts");
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
        store.close().unwrap();
    }
}
