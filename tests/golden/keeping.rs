//! The case `keeping`: what topics keep, and what subscriptions are given, with every fact that was
//! added to the journal after the others: retention and its room, the start of a log that was trimmed,
//! subscriptions that are required, filtered, sampled, passed by, or gone.

use std::time::Duration;

use tidelog::sys::sim::Keep;
use tidelog::{
    Filter, OnExpiry, Record, Retention, Sampling, Store, SubscriptionStatus, Timestamp,
    TopicOptions,
};

use crate::cases::{CASES, Machine, hollow, small};
use crate::pack::write;
use crate::unpack::unpack;

/// On the topic `t`; those with records to be read in them.
pub const SUBSCRIPTIONS: &[(&str, &str)] = &[
    ("t", "any"),
    ("t", "behind"),
    ("t", "must"),
    ("t", "not"),
    ("t", "sampled"),
];

/// Two centuries: whenever it is opened, nothing of it is that old.
const LONG: Duration = Duration::from_secs(200 * 365 * 24 * 3600);

/// The topics, and what they were last made with.
fn topics() -> [(&'static str, TopicOptions); 4] {
    let all = Retention::age(LONG)
        .or_bytes(1 << 30)
        .keep_required(1 << 31);
    let full = small().partitions(2).max_total_bytes(1 << 20);
    let full = full.wait_when_full(Duration::from_millis(250));
    [
        ("aged", small().retention(Retention::age(LONG))),
        ("forever", small().retention(Retention::forever())),
        ("sized", small().retention(Retention::bytes(1 << 31))),
        ("t", full.retention(all)),
    ]
}

fn any() -> Filter {
    let status = Filter::header("status").is_in(["automatic", "deleted"]);
    status.or(Filter::key().starts_with("k1"))
}

fn not() -> Filter {
    let marked = Filter::header("mark").exists();
    marked.and(!Filter::header("mark").equals([0xff, 2]))
}

fn sampling() -> Sampling {
    Sampling::per_minute(3).source("status").unique("mark")
}

/// Ten records in each partition, of two minutes; in the first one they need several segments.
fn append(store: &Store) {
    let topic = store.existing_topic("t").unwrap();
    for number in 0..20_u8 {
        let payload = match number % 2 {
            0 => hollow(5000),
            _ => format!("record {number}").into_bytes(),
        };
        let status = ["automatic", "reviewed", "reviewed"][usize::from(number / 2 % 3)];
        let mut record = Record::new(payload)
            .key(format!("k{}", number / 2))
            .partition(u32::from(number % 2))
            .header("status", status)
            .at(Timestamp::from_nanos(i64::from(number) * 5_000_000_000));
        if number % 4 > 1 {
            record = record.header("mark", vec![0xff, number % 4]);
        }
        topic.append(record).unwrap();
    }
}

/// An owner who leaves in good order, and one who loses the power.
pub fn make(machine: &Machine) {
    let store = machine.open();
    for (name, options) in topics() {
        // What is changed later is in the journal twice.
        let before = options.retention(Retention::age(LONG * 2).keep_required(0));
        store.create_topic(name, before).unwrap();
    }
    append(&store);
    let topic = store.existing_topic("t").unwrap();
    let of = |name: &str| topic.subscription(name);
    drop(of("any").filter(any()).on_expiry(OnExpiry::Latest).open());
    drop(of("behind").on_expiry(OnExpiry::Earliest).open().unwrap());
    drop(of("gone").required().open().unwrap());
    drop(of("not").filter(not()).open().unwrap());
    drop(of("sampled").filter(any()).open().unwrap());
    let mut must = of("must").required().open().unwrap();
    for _ in 0..8 {
        must.next().unwrap().unwrap();
    }
    must.commit().unwrap();
    drop((must, topic));
    machine.close(store);

    let store = machine.open();
    for (name, options) in topics() {
        store.create_topic(name, options).unwrap();
    }
    let topic = store.existing_topic("t").unwrap();
    topic.delete_subscription("gone").unwrap();
    for name in ["any", "not", "sampled"] {
        let mut passed = topic.subscription(name).open().unwrap();
        passed
            .reset_partition(0, tidelog::Start::Offset(4))
            .unwrap();
    }
    let sampled = topic.subscription("sampled").filter(None);
    drop(sampled.sampling(sampling()).open().unwrap());
    assert!(topic.partition(0).unwrap().truncate_before(4).unwrap() > 1);
    drop(topic);
    machine.cut(store, Keep::Nothing);
}

/// A topic keeps what it was told to keep, and a subscription has the options that it was last given,
/// when the store is read by whatever version comes later.
#[test]
fn what_is_kept_and_given_is_what_was_stored() {
    let case = CASES.iter().find(|case| case.name == "keeping").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    write(&unpack(case.name), &root);
    let store = Store::open(&root).unwrap();
    for (name, options) in topics() {
        assert_eq!(store.existing_topic(name).unwrap().options(), options);
    }
    let all = store.subscriptions().unwrap();
    let found: Vec<_> = all
        .iter()
        .map(|it| (&*it.topic, &*it.name, it.required, it.on_expiry, it.status))
        .collect();
    let (active, expired) = (
        SubscriptionStatus::Active,
        SubscriptionStatus::OffsetExpired,
    );
    let expected = [
        ("t", "any", false, OnExpiry::Latest, active),
        ("t", "behind", false, OnExpiry::Earliest, expired),
        ("t", "must", true, OnExpiry::Fail, active),
        ("t", "not", false, OnExpiry::Fail, active),
        ("t", "sampled", false, OnExpiry::Fail, active),
    ];
    assert_eq!(found, expected);
    let filters: Vec<_> = all.iter().map(|it| it.filter.clone()).collect();
    assert_eq!(filters, [Some(any()), None, None, Some(not()), None]);
    let samplings: Vec<_> = all.iter().map(|it| it.sampling.clone()).collect();
    assert_eq!(samplings, [None, None, None, None, Some(sampling())]);
    store.close().unwrap();
}
