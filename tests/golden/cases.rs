//! How the golden stores were made. Each case is a life, or some, on a simulated machine with a
//! clock that stands still and chance from a seed: made again it is the same, but for the owner's
//! process id, which the journal states.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidelog::sys::sim::{Call, Crash, Fault, Keep, Sim, SimClock, When};
use tidelog::sys::{Clock, Storage};
use tidelog::{
    Ack, Durability, Record, Start, Store, StoreOptions, Timestamp, Topic, TopicOptions,
};

/// Where the stores lie on their machines.
pub const ROOT: &str = "/store";

pub const QUAKES: &str = include_str!("../../crates/tidelog-cli/data/earthquakes.ndjson");

/// A golden store.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    /// Leaves the store on its machine.
    pub make: fn(&Machine),
    /// Topic and name.
    pub subscriptions: &'static [(&'static str, &'static str)],
}

pub const CASES: &[Case] = &[
    Case {
        name: "clean",
        make: clean,
        subscriptions: &[
            ("quakes", "archive"),
            ("quakes", "alarms"),
            ("odd", "again"),
        ],
    },
    Case {
        name: "crashed",
        make: crashed,
        subscriptions: &[("t", "archive")],
    },
    Case {
        name: "redo",
        make: redo,
        subscriptions: &[("b", "archive")],
    },
    Case {
        name: "gap",
        make: gap,
        subscriptions: &[("t", "archive")],
    },
    Case {
        name: "transaction",
        make: transaction,
        subscriptions: &[],
    },
    Case {
        name: "side",
        make: side,
        subscriptions: &[],
    },
    Case {
        name: "snapshot",
        make: crate::snapshot::make,
        subscriptions: &[("t", "archive")],
    },
    Case {
        name: "keeping",
        make: crate::keeping::make,
        subscriptions: crate::keeping::SUBSCRIPTIONS,
    },
];

/// A machine of its own. Rounds run on the thread that waits, so that nothing is left to chance.
#[derive(Debug)]
pub struct Machine {
    pub sim: Sim,
    clock: Arc<SimClock>,
}

impl Machine {
    pub fn new(seed: u64) -> Machine {
        Machine {
            sim: Sim::new(seed),
            clock: Arc::new(SimClock::new(seed, 1_700_000_000_000_000_000)),
        }
    }

    pub fn open(&self) -> Store {
        let options = StoreOptions::new()
            .storage(Arc::new(self.sim.clone()))
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .inline();
        self.wait(3);
        Store::open_with(ROOT, options).unwrap()
    }

    fn wait(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    /// The power fails.
    pub fn cut(&self, store: Store, keep: Keep) {
        self.sim.crash_after(0);
        self.sim.free(Path::new("/")).unwrap_err();
        drop(store);
        self.sim.crash(Crash::Cut(keep)).unwrap();
    }

    /// Whatever is said to be durable has to be, or it is not in the golden store.
    pub fn close(&self, store: Store) {
        store.close().unwrap();
        self.sim.crash(Crash::Cut(Keep::Nothing)).unwrap();
    }
}

pub fn small() -> TopicOptions {
    let size = 16 << 10;
    TopicOptions::new()
        .first_segment_bytes(size)
        .max_segment_bytes(size)
}

/// What stands in a line of the earthquakes under a name, without quotes.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let at = line.find(&format!("\"{name}\":")).unwrap() + name.len() + 3;
    line[at..]
        .split([',', '}'])
        .next()
        .unwrap()
        .trim_matches('"')
}

fn append_quakes(topic: &Topic, lines: std::ops::Range<usize>) {
    for line in QUAKES.lines().skip(lines.start).take(lines.len()) {
        let millis: i64 = field(line, "time").parse().unwrap();
        let record = Record::new(line)
            .key(field(line, "net"))
            .event_id(field(line, "id"))
            .header("status", field(line, "status"))
            .at(Timestamp::from_nanos(millis * 1_000_000));
        topic.append(record).unwrap();
    }
}

/// A long payload, most of which is zero and so not packed.
pub fn hollow(length: usize) -> Vec<u8> {
    let mut payload = vec![0; length];
    payload[0] = b'<';
    *payload.last_mut().unwrap() = b'>';
    payload
}

/// Records with everything that a record can have, and with as little as it can.
fn append_odd(topic: &Topic) {
    topic.append(Record::new("")).unwrap();
    topic.append(Record::new("").key("")).unwrap();
    let batch = [
        Record::new("first of a batch").key("k"),
        Record::new([0, 0xff, b'\n', 0x80].as_slice())
            .header("twice", "one")
            .header("twice", [0xfe, 0].as_slice())
            .header("", "")
            .at(Timestamp::from_nanos(-1)),
        Record::tombstone("k").header("why", "gone"),
        Record::new("last of a batch").event_id([7; 255].as_slice()),
    ];
    topic.append_batch(batch).unwrap();
    topic
        .append(Record::new("far").at(Timestamp::from_nanos(i64::MAX)))
        .unwrap();
    topic
        .append(Record::new("past").at(Timestamp::from_nanos(i64::MIN)))
        .unwrap();
    // Larger than a segment, which then gets its size.
    topic.append(Record::new(hollow(30_000))).unwrap();
    topic.append("behind the large one").unwrap();
}

/// Two owners, each of whom closed the store.
fn clean(machine: &Machine) {
    let store = machine.open();
    let options = small().partitions(3).content_type("application/json");
    let quakes = store.create_topic("quakes", options).unwrap();
    append_quakes(&quakes, 0..60);
    let odd = store.create_topic("odd", small()).unwrap();
    append_odd(&odd);
    let done = store.create_topic("done", small()).unwrap();
    (0..5).for_each(|n| drop(done.append(format!("step {n}")).unwrap()));
    done.finish().unwrap();
    store.topic("gone").unwrap().append("deleted").unwrap();
    store.topic("empty").unwrap();
    let mut archive = quakes.subscribe("archive").unwrap();
    for _ in 0..20 {
        archive.next().unwrap().unwrap();
    }
    archive.commit().unwrap();
    let mut alarms = quakes
        .subscription("alarms")
        .start(Start::Latest)
        .open()
        .unwrap();
    alarms.pause().unwrap();
    let mut again = odd.subscribe("again").unwrap();
    while again.next().unwrap().is_some() {}
    again.commit().unwrap();
    again.reset(Start::Offset(2)).unwrap();
    store.delete_topic("gone").unwrap();
    drop((quakes, odd, done, archive, alarms, again));
    machine.close(store);
    machine.wait(60_000);

    let store = machine.open();
    append_quakes(&store.existing_topic("quakes").unwrap(), 60..75);
    // Settings that are not the default ones.
    let options = small().durability(Durability::Interval(Duration::from_millis(20)));
    let odd = store
        .create_topic("odd", options.max_record_bytes(1 << 20))
        .unwrap();
    odd.append_nowait("when the interval has passed").unwrap();
    odd.flush().unwrap();
    drop(odd);
    machine.close(store);
}

/// The power fails under an owner who has written more than was synced: some sectors of that, and
/// not others, are there. The owner before was killed.
fn crashed(machine: &Machine) {
    let store = machine.open();
    let topic = store.create_topic("t", small()).unwrap();
    append_quakes(&topic, 100..130);
    let mut archive = topic.subscribe("archive").unwrap();
    for _ in 0..10 {
        archive.next().unwrap().unwrap();
    }
    archive.commit().unwrap();
    drop((topic, archive));
    machine.cut(store, Keep::Everything);

    let store = machine.open();
    let topic = store.existing_topic("t").unwrap();
    append_quakes(&topic, 130..140);
    let manual = TopicOptions::new().durability(Durability::Manual);
    let topic = store.create_topic("t", manual).unwrap();
    for batch in QUAKES
        .lines()
        .skip(140)
        .take(20)
        .collect::<Vec<_>>()
        .chunks(4)
    {
        topic
            .append_batch_nowait(batch.iter().copied().map(Record::new))
            .unwrap();
    }
    drop(topic);
    machine.cut(store, Keep::Most);
}

fn send(topics: &[Topic], payload: &[u8]) -> Vec<Ack> {
    let send = |topic: &Topic| topic.append_nowait(Record::new(payload).key("k"));
    topics.iter().map(|topic| send(topic).unwrap()).collect()
}

/// Acknowledged records that only the journal has: behind records that are in their own files, in
/// a topic whose first header was not synced either, and in the second segment of another.
fn redo(machine: &Machine) {
    let store = machine.open();
    let make = |name: &str| store.create_topic(name, small()).unwrap();
    let mut all = vec![make("a"), make("b"), make("rolls")];
    let large = hollow(5000);
    for topic in &all {
        topic.append(&large[..]).unwrap();
    }
    all.push(make("fresh"));
    let acks = send(&all, b"rode");
    store.flush().unwrap();
    let more = send(&all, &large);
    store.flush().unwrap();
    assert!(acks.iter().chain(&more).all(Ack::is_durable));
    all[1]
        .subscribe("archive")
        .unwrap()
        .reset(Start::Offset(2))
        .unwrap();
    drop(all);
    machine.cut(store, Keep::Nothing);
}

/// Batches over several partitions, and last ones that end their topic, which only the journal has:
/// with records below them that were not durable before, and in a partition that had no segment.
fn transaction(machine: &Machine) {
    let store = machine.open();
    let manual = small().durability(Durability::Manual).partitions(3);
    let topic = store.create_topic("t", manual).unwrap();
    let to = |number: u32, payload: &'static str| Record::new(payload).partition(number);
    topic.append_nowait(to(0, "in its own file")).unwrap();
    topic.flush().unwrap();
    topic.append_nowait(to(0, "below")).unwrap();
    let batch = [to(1, "one").key("k"), to(0, "two"), to(1, "three")];
    assert!(topic.append_batch_nowait(batch).unwrap().is_durable());
    let ends = store.create_topic("ends", small().partitions(2)).unwrap();
    ends.append(to(0, "first")).unwrap();
    ends.append_and_finish([to(1, "and"), to(0, "last")])
        .unwrap();
    drop((topic, ends));
    machine.cut(store, Keep::Nothing);
}

/// Acknowledged records of a log whose own sync failed: what it needs has a file of its own.
fn side(machine: &Machine) {
    let store = machine.open();
    let all = ["bad", "good", "other"].map(|name| store.create_topic(name, small()).unwrap());
    for topic in &all {
        topic.append("first").unwrap();
    }
    send(&all, b"rode");
    store.flush().unwrap();
    machine
        .sim
        .fail(Fault::new(Call::Sync, When::From(0), 5).on("/bad/"));
    machine.wait(2_000);
    for _ in 0..4 {
        all[1].append("more").unwrap();
    }
    assert_eq!(store.health().failed.len(), 1);
    for _ in 0..2 {
        send(&all[1..], b"more");
        store.flush().unwrap();
    }
    let names = machine.sim.list(Path::new("/store/journal")).unwrap();
    assert!(names.iter().any(|entry| entry.name.ends_with(".redo")));
    drop(all);
    machine.cut(store, Keep::Nothing);
}

/// Damage below what was promised: recovery passed over a bad sector in the middle, sealed the
/// segment where its end was lost, and went on in a new one, behind a gap. Then it was closed.
fn gap(machine: &Machine) {
    let store = machine.open();
    let topic = store.create_topic("t", small()).unwrap();
    append_quakes(&topic, 200..220);
    let mut archive = topic.subscribe("archive").unwrap();
    while archive.next().unwrap().is_some() {}
    archive.commit().unwrap();
    drop((topic, archive));
    machine.cut(store, Keep::Everything);

    let folder = Path::new(ROOT).join("topics/t");
    let log = folder.join(&machine.sim.list(&folder).unwrap()[0].name);
    let path = log.join("00000000.seg");
    let bytes = machine.sim.bytes(&path).unwrap();
    let place = |offset: usize| {
        let id = field(QUAKES.lines().nth(200 + offset).unwrap(), "id").as_bytes();
        bytes
            .windows(id.len())
            .position(|found| found == id)
            .unwrap()
    };
    machine.sim.flip(&path, place(5), 1).unwrap();
    let lost = vec![0; bytes.len() - place(16)];
    machine.sim.overwrite(&path, place(16), &lost).unwrap();

    let store = machine.open();
    append_quakes(&store.existing_topic("t").unwrap(), 220..225);
    assert_eq!(store.health().damage.len(), 2);
    machine.close(store);
}
