//! `docs/journal.md` against the code.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;

const PAGE: &str = include_str!("../../../docs/journal.md");

type Names = BTreeSet<String>;

/// The first column of the tables of the page, under the heading they stand below.
fn tables() -> BTreeMap<&'static str, Names> {
    let mut heading = "";
    let mut tables: BTreeMap<_, Names> = BTreeMap::new();
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix('#') {
            heading = title.trim_start_matches('#').trim();
        } else if let Some((name, _)) = line.strip_prefix("| ").and_then(|l| l.split_once(" |"))
            && (name.starts_with('`') || name.bytes().all(|b| b.is_ascii_digit()))
        {
            let name = name.trim_matches('`').to_owned();
            tables.entry(heading).or_default().insert(name);
        }
    }
    tables
}

/// The paths of all values in a document that hold no others.
fn leaves(path: &str, value: &Value, into: &mut Names) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(&format!("{path}{dot}{name}"), value, into);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                leaves(&format!("{path}[]"), item, into);
            }
        }
        Value::Array(_) => assert!(into.insert(format!("{path}[]"))),
        _ => {
            into.insert(path.to_owned());
        }
    }
}

/// What would have been known where this payload has something unknown.
fn known(payload: &[u8]) -> Names {
    match Record::decode(payload) {
        Err(EventFlaw::Unknown { known, .. }) => known.iter().map(|&k| k.to_owned()).collect(),
        other => panic!("not unknown: {other:?}"),
    }
}

/// An event of this name that says nothing.
fn naming(name: &str) -> Vec<u8> {
    [b"\x01", format!("{{\"event\":\"{name}\"}}").as_bytes()].concat()
}

fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn every_event_of_the_code_stands_in_the_page_and_no_other() {
    let in_page: Names = tables()
        .into_keys()
        .filter_map(|heading| heading.strip_prefix('`')?.strip_suffix('`'))
        .map(str::to_owned)
        .collect();
    assert_eq!(in_page, known(&naming("")));
}

#[test]
fn every_field_of_an_event_stands_in_its_table_and_no_other() {
    let tables = tables();
    let mut seen: BTreeMap<String, Names> = BTreeMap::new();
    for seed in fuzz_seeds() {
        let Ok(Record::Event(event)) = Record::decode(&seed) else {
            continue;
        };
        let mut fields = Names::new();
        leaves("", &json(&event), &mut fields);
        fields.remove("event");
        let name = json(&event)["event"].as_str().unwrap().to_owned();
        // What may be left out stands in one of its seeds.
        seen.entry(name).or_default().extend(fields);
    }
    for (name, fields) in &seen {
        assert_eq!(tables.get(format!("`{name}`").as_str()), Some(fields));
    }
    let names: Names = seen.into_keys().collect();
    assert_eq!(names, known(&naming("")), "a seed for each event");
}

#[test]
fn every_field_of_a_part_stands_in_its_table_and_no_other() {
    let mut fields = Names::new();
    for last in [None, Some(Fold::default().carried().clone())] {
        let part = Part {
            snapshot: 0,
            part: 0,
            events: Vec::new(),
            last,
        };
        let mut own = Names::new();
        leaves("", &json(&part), &mut own);
        fields.extend(own);
    }
    assert_eq!(tables().get("Snapshots"), Some(&fields));
}

#[test]
fn every_kind_of_the_code_stands_in_the_page() {
    let in_page = tables().remove("Kinds").unwrap();
    let read: Names = (0..=u8::MAX)
        .filter(|&kind| !matches!(Record::decode(&[kind]), Err(EventFlaw::Unknown { .. })))
        .map(|kind| kind.to_string())
        .collect();
    assert_eq!(read, known(&[0]));
    assert_eq!(in_page, read);
}
