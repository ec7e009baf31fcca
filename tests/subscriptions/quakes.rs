//! A week of earthquakes, read by an archive, by an alarm and by a sampler.

use std::collections::BTreeMap;

use serde_json::Value;
use tidelog::{Filter, Record, Sampling, SubscriptionBuilder, Timestamp, Topic};

use crate::kit::small;
use crate::machine::Machine;

const EVENTS: &str = include_str!("../../crates/tidelog-cli/data/earthquakes.ndjson");

fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap()
}

/// Who reads, and how.
fn readers(topic: &Topic) -> [SubscriptionBuilder; 3] {
    let sampling = Sampling::per_minute(1).source("net");
    [
        topic.subscription("archive"),
        topic
            .subscription("alarm")
            .filter(Filter::header("strength").equals("4")),
        topic.subscription("sampler").sampling(sampling),
    ]
}

/// The archive gets all 1,707 events, the alarm the 128 of magnitude 4 or more, and the sampler one a
/// minute of each network; what it keeps and what it drops add up. All of them are stopped every so many
/// records, with what they have committed, and nothing of it changes.
#[test]
fn a_week_of_earthquakes_is_the_same_however_often_it_is_read_in_parts() {
    let machine = Machine::new(1);
    let (mut store, mut topic) = machine.topic(small().max_segment_bytes(1 << 20));
    let (mut sampled, mut minutes) = (0, BTreeMap::new());
    let events: Vec<Value> = EVENTS
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let records = events.iter().zip(EVENTS.lines()).map(|(event, line)| {
        let millis = event["time"].as_i64().unwrap();
        let first = minutes.insert((millis.div_euclid(60_000), text(event, "net")), ());
        sampled += u64::from(first.is_none());
        let strong = event["mag"].as_f64().is_some_and(|mag| mag >= 4.0);
        Record::new(line)
            .key(text(event, "net"))
            .header("net", text(event, "net"))
            .header("strength", if strong { "4" } else { "0" })
            .at(Timestamp::from_millis(millis))
    });
    topic.append_batch(records.collect::<Vec<_>>()).unwrap();
    assert!((1000..1707).contains(&sampled), "{sampled}");
    for parts in [u64::MAX, 400, 97] {
        let mut got = [0, 0, 0];
        let mut dropped = [0, 0, 0];
        loop {
            let mut more = false;
            for (number, reader) in readers(&topic).into_iter().enumerate() {
                let mut reader = reader.open().unwrap();
                let mut some = 0;
                while some < parts && reader.next().unwrap().is_some() {
                    some += 1;
                }
                reader.commit().unwrap();
                got[number] += some;
                let counts = reader.counts();
                dropped[number] += counts.filtered + counts.surplus + counts.duplicates;
                more |= some == parts;
            }
            if !more {
                break;
            }
            (store, topic) = machine.again((store, topic));
        }
        assert_eq!(got, [1707, 128, sampled], "in parts of {parts}");
        assert_eq!(dropped, [0, 1707 - 128, 1707 - sampled]);
        for name in ["archive", "alarm", "sampler"] {
            topic.delete_subscription(name).unwrap();
        }
    }
    drop(topic);
    store.close().unwrap();
}
