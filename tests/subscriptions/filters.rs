//! Filters on key and headers.

use tidelog::{Error, Filter, Record, Topic};

use crate::kit::{offsets, small};
use crate::machine::Machine;

/// Records of which each matches something else.
fn records(topic: &Topic) {
    let all = [
        Record::new("0").key("hv-1").header("status", "no_parser"),
        Record::new("1").key("hv-2").header("status", "fine"),
        Record::new("2")
            .header("status", "fine")
            .header("status", "parse_failed"),
        Record::new("3").key("ci"),
        Record::new("4"),
        Record::new("5").key(vec![0xff_u8, 0]).header("empty", ""),
    ];
    for record in all {
        topic.append(record).unwrap();
    }
}

/// Each kind of test gives those records that pass it, and no other; after it, a restart goes on behind
/// the last one, returned or not.
#[test]
fn a_filter_gives_what_passes_it_and_the_rest_counts_as_read() {
    let cases: [(Filter, &[u64]); 11] = [
        (
            Filter::header("status").is_in(["no_parser", "parse_failed"]),
            &[0, 2],
        ),
        (Filter::header("status").equals("fine"), &[1, 2]),
        (Filter::header("status").exists(), &[0, 1, 2]),
        (Filter::header("empty").exists(), &[5]),
        (Filter::header("empty").starts_with(""), &[5]),
        (Filter::key().starts_with("hv"), &[0, 1]),
        (Filter::key().equals([0xff, 0]), &[5]),
        (!Filter::key().exists(), &[2, 4]),
        (
            Filter::key()
                .starts_with("hv")
                .and(Filter::header("status").equals("fine")),
            &[1],
        ),
        (
            Filter::key()
                .equals("ci")
                .or(Filter::header("status").equals("no_parser")),
            &[0, 3],
        ),
        (Filter::key().is_in::<&str>([]), &[]),
    ];
    for (number, (filter, passes)) in cases.into_iter().enumerate() {
        let machine = Machine::new(1);
        let (store, topic) = machine.topic(small());
        records(&topic);
        let name = format!("s{number}");
        let opened = topic.subscription(&name).filter(filter.clone()).open();
        let mut subscription = opened.unwrap();
        assert_eq!(offsets(&mut subscription), passes, "{filter:?}");
        let counts = subscription.counts();
        assert_eq!(counts.kept, passes.len() as u64);
        assert_eq!(counts.kept + counts.filtered, 6);
        subscription.commit().unwrap();
        assert_eq!(subscription.committed(0).unwrap(), 6);
        drop(subscription);
        let (store, topic) = machine.again((store, topic));
        records(&topic);
        // It is stored with the subscription.
        let mut subscription = topic.subscribe(&name).unwrap();
        let again: Vec<u64> = passes.iter().map(|offset| offset + 6).collect();
        assert_eq!(offsets(&mut subscription), again, "{filter:?}");
        assert_eq!(topic.subscriptions().unwrap()[0].filter, Some(filter));
        drop((subscription, topic));
        store.close().unwrap();
    }
}

/// A filter is written in a file as it is in code, and comes back as it was.
#[test]
fn a_filter_is_the_same_when_it_was_written_down() {
    let filter = Filter::header("a")
        .equals("x")
        .and(!Filter::key().starts_with([0xfe_u8, 7]));
    let filter = filter.or(Filter::header("b").exists());
    let text = serde_json::to_string(&filter).unwrap();
    assert!(text.contains(r#"{"hex":"fe07"}"#), "{text}");
    assert_eq!(serde_json::from_str::<Filter>(&text).unwrap(), filter);
    for wrong in [
        r#"{"key":{"suffix":"x"}}"#,
        r#"{"header":{"name":"a","is":"there","more":1}}"#,
        r#"{"key":{"prefix":{"hex":"f"}}}"#,
        r#"{"key":{"prefix":{"hex":"+1"}}}"#,
        r#"{"xor":[]}"#,
    ] {
        assert!(serde_json::from_str::<Filter>(wrong).is_err(), "{wrong}");
    }
}

/// What is said when it is opened holds from then on, `None` takes it back, and what is not said stays.
#[test]
fn a_filter_can_be_changed_and_taken_back() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    records(&topic);
    let keyed = Filter::key().exists();
    drop(
        topic
            .subscription("s")
            .filter(keyed.clone())
            .open()
            .unwrap(),
    );
    let told = |topic: &Topic| topic.subscriptions().unwrap()[0].filter.clone();
    drop(topic.subscription("s").required().open().unwrap());
    assert_eq!(told(&topic), Some(keyed));
    drop(topic.subscription("s").filter(None).open().unwrap());
    assert_eq!(told(&topic), None);
    let mut all = topic.subscribe("s").unwrap();
    assert!(all.is_required());
    assert_eq!(offsets(&mut all).len(), 6);
    drop((all, topic));
    store.close().unwrap();
}

/// A filter that is too long, or too deep to be read again, is refused before anything is stored.
#[test]
fn a_filter_that_cannot_be_stored_is_refused() {
    let machine = Machine::new(1);
    let (store, topic) = machine.topic(small());
    let long = Filter::key().equals(vec![b'x'; 70_000]);
    let deep = (0..200).fold(Filter::key().exists(), |filter, _| !filter);
    for filter in [long, deep] {
        let refused = topic.subscription("s").filter(filter).open().unwrap_err();
        assert!(
            matches!(
                refused,
                Error::InvalidOption {
                    option: "filter",
                    ..
                }
            ),
            "{refused}"
        );
    }
    assert!(topic.subscriptions().unwrap().is_empty());
    drop(topic);
    store.close().unwrap();
}
