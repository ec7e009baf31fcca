use serde_json::Value;

use super::super::record::REDO;
use super::*;

fn event(json: &str) -> Result<Record, EventFlaw> {
    Record::decode(&[b"\x01", json.as_bytes()].concat())
}

fn unknown(found: Result<Record, EventFlaw>) -> String {
    match found {
        Err(EventFlaw::Unknown { found, .. }) => found,
        other => panic!("not refused as unknown: {other:?}"),
    }
}

fn malformed(found: Result<Record, EventFlaw>) -> String {
    match found {
        Err(EventFlaw::Malformed { reason }) => reason,
        other => panic!("not malformed: {other:?}"),
    }
}

#[test]
fn an_event_is_written_as_the_page_says() {
    let payload = checkpoint(3, 1, 512).encode();
    let json = br#"{"event":"checkpoint","subscription":3,"partition":1,"next":512}"#;
    assert_eq!(payload, [b"\x01", &json[..]].concat());

    let boot = Event::Epoch(Owner {
        epoch: 2,
        boot: Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]),
        pid: 40,
    });
    let json = br#"{"event":"epoch","epoch":2,"boot":"000102030405060708090a0b0c0d0eff","pid":40}"#;
    assert_eq!(boot.encode(), [b"\x01", &json[..]].concat());
}

#[test]
fn a_kind_of_a_later_version_is_unknown_and_not_damage() {
    for kind in [0, 5, 6, 255] {
        let found = unknown(Record::decode(&[kind, b'{', b'}']));
        assert_eq!(found, format!("record kind {kind}"));
    }
}

#[test]
fn an_event_of_a_later_version_is_unknown_and_not_damage() {
    let found = event(r#"{"event":"producer","id":4}"#);
    assert_eq!(unknown(found), r#"event "producer""#);
}

#[test]
fn a_field_of_a_later_version_is_unknown_wherever_it_stands() {
    let outer = r#"{"event":"settled","log":4,"by":1}"#;
    assert_eq!(unknown(event(outer)), r#"field "by""#);
    let owner = r#"{"event":"epoch","epoch":4,"boot":null,"pid":1,"host":"a"}"#;
    assert_eq!(unknown(event(owner)), r#"field "host""#);
    let nested = r#"{"event":"ends","ends":[{"log":4,"end":null,"why":2}]}"#;
    assert_eq!(unknown(event(nested)), r#"field "why""#);
    let in_part = br#"{"snapshot":0,"part":0,"events":[{"event":"new"}],"last":null}"#;
    let found = Record::decode(&[b"\x04", &in_part[..]].concat());
    assert_eq!(unknown(found), r#"event "new""#);
}

#[test]
fn an_unknown_names_what_would_have_been_known() {
    let flaw = event(r#"{"event":"settled","log":4,"by":1}"#).unwrap_err();
    assert_eq!(flaw.to_string(), r#"field "by" is unknown; known are log"#);
}

#[test]
fn what_cannot_be_read_under_a_known_kind_is_damage() {
    for json in [
        "",
        "{",
        "7",
        "[]",
        "{}",
        r#"{"event":7}"#,
        r#"{"event":"settled"}"#,
        r#"{"event":"settled","log":-1}"#,
        r#"{"event":"settled","log":1.5}"#,
        r#"{"event":"settled","log":99999999999999999999}"#,
        r#"{"event":"settled","log":4} "#.trim_end_matches("} "),
        r#"{"event":"settled","log":4}{}"#,
        r#"{"event":"closed","epoch":4294967296}"#,
        r#"{"event":"epoch","epoch":1,"boot":"00","pid":1}"#,
        r#"{"event":"epoch","epoch":1,"boot":"+0000000000000000000000000000000","pid":1}"#,
    ] {
        assert!(!malformed(event(json)).is_empty(), "{json}");
    }
    assert_eq!(Record::decode(&[]), Err(EventFlaw::Empty));
}

#[test]
fn an_optional_field_that_got_lost_is_damage_and_not_none() {
    let found = event(r#"{"event":"ends","ends":[{"log":4}]}"#);
    assert!(malformed(found).contains("end"));
    let found = event(r#"{"event":"epoch","epoch":1,"pid":1}"#);
    assert!(malformed(found).contains("boot"));
    let part = br#"{"snapshot":0,"part":0,"events":[]}"#;
    let found = Record::decode(&[b"\x04", &part[..]].concat());
    assert!(malformed(found).contains("last"));
}

#[test]
fn the_greatest_and_least_numbers_survive() {
    let Event::Topic(mut state) = topic(u64::MAX, "t", &[0, u64::MAX]) else {
        unreachable!()
    };
    state.created = i64::MIN;
    state.settings.max_total_bytes = Some(u64::MAX);
    let stated = Event::Topic(state);
    assert_eq!(Record::decode(&stated.encode()), Ok(Record::Event(stated)));
}

/// Takes every field out of a document, wherever it stands, one at a time.
fn without_each_field(document: &Value, whole: &mut dyn FnMut(Value)) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                let mut fewer = fields.clone();
                fewer.remove(name);
                whole(Value::Object(fewer));
                without_each_field(value, &mut |value| {
                    let mut changed = fields.clone();
                    changed.insert(name.clone(), value);
                    whole(Value::Object(changed));
                });
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                without_each_field(item, &mut |item| {
                    let mut changed = items.clone();
                    changed[at] = item;
                    whole(Value::Array(changed));
                });
            }
        }
        _ => {}
    }
}

#[test]
fn a_document_that_lost_any_of_its_fields_is_damage() {
    let (mut tried, mut left_out) = (0, 0);
    let documents = |seed: &Vec<u8>| seed.first() != Some(&REDO);
    for seed in fuzz_seeds().into_iter().filter(documents) {
        let document = serde_json::from_slice(&seed[1..]).unwrap();
        without_each_field(&document, &mut |fewer| {
            let payload = [&seed[..1], fewer.to_string().as_bytes()].concat();
            tried += 1;
            match Record::decode(&payload) {
                // One that was added later, and says nothing where it is not there.
                Ok(record) => {
                    let again: Value = serde_json::from_slice(&record.encode()[1..]).unwrap();
                    assert_eq!(fewer, again);
                    left_out += 1;
                }
                other => assert!(!malformed(other).is_empty(), "{fewer}"),
            }
        });
    }
    assert!(tried > 50);
    // Two of a topic, four of a subscription; and both stand in a snapshot, too.
    assert_eq!(left_out, 12);
}
