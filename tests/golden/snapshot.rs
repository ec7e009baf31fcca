//! The case `snapshot`: a journal whose first segment is gone, since a snapshot makes up for it.
//!
//! An owner writes one behind a mebibyte of events, which is too much to keep here. So this one is
//! written by `docs/journal.md`, behind fewer events, and owners have to believe it.

use std::path::Path;

use tidelog::sys::Storage;
use tidelog::sys::sim::Keep;
use tidelog::{Record, Start};

use crate::cases::{Machine, ROOT, small};
use crate::patch::Segment;

/// A topic with a subscription that commits until the journal has a second segment.
pub fn make(machine: &Machine) {
    let store = machine.open();
    let topic = store.create_topic("t", small().partitions(2)).unwrap();
    for number in 0..6 {
        topic
            .append(Record::new(format!("record {number}")))
            .unwrap();
    }
    let mut archive = topic.subscribe("archive").unwrap();
    let journal = Path::new(ROOT).join("journal");
    let [first, second] = ["00000000.seg", "00000001.seg"].map(|name| journal.join(name));
    let is_used = || {
        let bytes = machine.sim.bytes(&second);
        bytes.is_ok_and(|mut bytes| Segment(&mut bytes).is_assigned())
    };
    for turn in [Start::Earliest, Start::Latest].into_iter().cycle() {
        archive.reset(turn).unwrap();
        if is_used() {
            break;
        }
    }
    archive.reset(Start::Earliest).unwrap();
    archive.next().unwrap().unwrap();
    archive.commit().unwrap();
    drop((topic, archive));
    machine.cut(store, Keep::Everything);

    let [mut one, mut two] = [&first, &second].map(|path| machine.sim.bytes(path).unwrap());
    let all = [&mut one, &mut two].map(|bytes| events(&Segment(bytes)));
    write(&mut Segment(&mut two), &lasting(&all.concat()));
    machine.sim.overwrite(&second, 0, &two).unwrap();
    machine.sim.remove_file(&first).unwrap();
    machine.sim.sync_dir(&journal).unwrap();

    let store = machine.open();
    let topic = store.existing_topic("t").unwrap();
    topic.append("behind the snapshot").unwrap();
    drop(topic);
    machine.close(store);
}

/// The documents of all events in a segment.
fn events(segment: &Segment<'_>) -> Vec<String> {
    let payloads = segment
        .frames()
        .into_iter()
        .map(|place| segment.payload(place).to_vec());
    let events = payloads.filter(|payload| payload[0] == 1);
    events
        .map(|payload| String::from_utf8(payload[1..].to_vec()).unwrap())
        .collect()
}

/// Those that still hold: of the checkpoints, the last of each partition.
fn lasting(events: &[String]) -> Vec<String> {
    let about = |event: &str| event.split(",\"next\"").next().unwrap().to_owned();
    let is_last = |at: usize| {
        !events[at + 1..]
            .iter()
            .any(|later| about(later) == about(&events[at]))
    };
    let holds = |at: &usize| !events[*at].contains("\"checkpoint\"") || is_last(*at);
    let kept = (0..events.len()).filter(holds);
    kept.map(|at| events[at].clone()).collect()
}

/// Writes the snapshot, in two parts.
fn write(segment: &mut Segment<'_>, events: &[String]) {
    let folds_to = segment.offset(*segment.frames().last().unwrap()) + 1;
    let (one, two) = events.split_at(events.len() / 2);
    let last = r#"{"next_topic":2,"next_subscription":2,"next_log":3,"lost":false}"#;
    for (part, events, last) in [(0, one, "null"), (1, two, last)] {
        let events = events.join(",");
        let json =
            format!(r#"{{"snapshot":{folds_to},"part":{part},"events":[{events}],"last":{last}}}"#);
        segment.append(&[&[4], json.as_bytes()].concat());
    }
}
