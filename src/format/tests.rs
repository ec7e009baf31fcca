//! `docs/format.md` against the code: every row of its tables, and its worked example.

use std::mem::offset_of;

use super::identity::MAX_PARTITIONS;
use super::layout::MAX_CAPACITY;
use super::name::MAX_NAME;
use super::record::{self, Head, ProducerTail};
use super::record::{MAX_FRAME, Producer};
use super::{ALIGN, Entry, Frame, Header};
use super::{PAGE, Parts, SECTOR, Sector, Seed, Stamp, VERSION, padded};
use super::{headers, identity, layout, redo_file, slot};

const PAGE_TEXT: &str = include_str!("../../docs/format.md");

/// A table of the page: the heading it stands under, and its rows cut into cells.
struct Table {
    heading: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<&'static str>>,
}

/// The tables above the heading "Journal", where the ones of another floor begin.
fn tables() -> Vec<Table> {
    let ours = PAGE_TEXT.split("\n## Journal").next().unwrap();
    let mut heading = "";
    let mut tables: Vec<Table> = Vec::new();
    let mut inside = false;
    for line in ours.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        }
        let Some(cells) = line
            .strip_prefix('|')
            .and_then(|line| line.strip_suffix('|'))
        else {
            inside = false;
            continue;
        };
        let cells: Vec<&str> = cells
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'))
            .collect();
        if inside {
            let table = tables.last_mut().unwrap();
            assert_eq!(cells.len(), table.columns.len(), "{line}");
            if !cells
                .iter()
                .all(|cell| cell.chars().all(|char| char == '-'))
            {
                table.rows.push(cells);
            }
        } else {
            tables.push(Table {
                heading,
                columns: cells,
                rows: Vec::new(),
            });
        }
        inside = true;
    }
    tables
}

/// The first `N` cells of the rows of the one table under this heading with these columns.
fn rows<const N: usize>(heading: &str, columns: [&str; N]) -> Vec<[String; N]> {
    let mut found = tables().into_iter().filter(|table| {
        table.heading == heading && table.columns.get(..N) == Some(columns.as_slice())
    });
    let table = found
        .next()
        .unwrap_or_else(|| panic!("no table {columns:?} under {heading:?}"));
    assert!(
        found.next().is_none(),
        "two tables {columns:?} under {heading:?}"
    );
    let rows = table.rows.iter();
    rows.map(|row| std::array::from_fn(|cell| row[cell].to_owned()))
        .collect()
}

const FIELDS: [&str; 3] = ["offset", "size", "field"];
const FLAGS: [&str; 2] = ["value", "flag"];
const CONSTANTS: [&str; 2] = ["constant", "value"];

fn size_of_field<T, F>(_: impl FnOnce(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Offset, size and name of each field; does not compile if one is missing.
macro_rules! fields {
    ($type:path: $($field:ident)+) => {{
        use $type as Type;
        let _all = |Type { $($field: _),+ }: &Type| {};
        vec![$([
            offset_of!(Type, $field).to_string(),
            size_of_field(|value: &Type| &value.$field).to_string(),
            stringify!($field).to_owned(),
        ]),+]
    }};
}

macro_rules! flags {
    ($module:ident: $($flag:ident)+) => {
        vec![$([$module::$flag.to_string(), stringify!($flag).to_owned()]),+]
    };
}

#[test]
fn every_field_is_where_the_page_says() {
    let identity = fields!(identity::Raw: magic version flags checksum store log nonce base
        predecessor_place predecessor_next covers_to capacity records_at index_at interval number
        epoch partition topic_len topic reserved);
    assert_eq!(rows("Identity", FIELDS), identity);
    let slot = fields!(slot::Raw: magic checksum flags epoch generation place next records
        greatest last_append index_entries index_checksum reserved);
    assert_eq!(rows("Slot and seal", FIELDS), slot);
    let entry = fields!(Entry: greatest delta place8);
    assert_eq!(rows("Index entry", FIELDS), entry);
    let head = fields!(Head: length checksum delta lag timestamp epoch key flags headers);
    assert_eq!(rows("Record", FIELDS), head);
    let producer = fields!(ProducerTail: epoch sequence);
    assert_eq!(rows("Producer", FIELDS), producer);
    let header = fields!(headers::HeaderHead: name value);
    assert_eq!(rows("Header", FIELDS), header);
    let redo =
        fields!(redo_file::RedoFileHead: magic version flags checksum store log nonce length);
    assert_eq!(rows("Redo file", FIELDS), redo);
}

#[test]
fn every_flag_is_what_the_page_says() {
    let identity = flags!(identity: GAPS_ALLOWED HAS_PREDECESSOR HAS_COVERS_TO);
    assert_eq!(rows("Identity", FLAGS), identity);
    let slot = flags!(slot: FINAL HAS_GREATEST HAS_LAST_APPEND);
    assert_eq!(rows("Slot and seal", FLAGS), slot);
    let record = flags!(record: MORE KEY TOMBSTONE EVENT_ID PRODUCER);
    assert_eq!(rows("Record", FLAGS), record);
}

#[test]
fn every_constant_is_what_the_page_says() {
    let constants = [
        ("VERSION", u64::from(VERSION)),
        ("SECTOR", SECTOR as u64),
        ("PAGE", PAGE),
        ("ALIGN", ALIGN as u64),
        ("HEAD", super::HEAD as u64),
        ("MAX_FRAME", u64::from(MAX_FRAME)),
        ("MAX_CAPACITY", MAX_CAPACITY),
        ("MAX_NAME", MAX_NAME as u64),
        ("MAX_PARTITIONS", u64::from(MAX_PARTITIONS)),
        ("MAX_OFFSET", identity::MAX_OFFSET),
        ("MIN_INTERVAL", u64::from(*layout::INTERVALS.start())),
        ("MAX_INTERVAL", u64::from(*layout::INTERVALS.end())),
    ];
    let constants = constants.map(|(name, value)| [name.to_owned(), value.to_string()]);
    assert_eq!(rows("Constants", CONSTANTS), constants);
    let magics = [
        ("identity", identity::MAGIC.as_slice()),
        ("slot", &slot::MAGIC),
        ("redo file", &redo_file::MAGIC),
    ];
    let magics = magics.map(|(name, bytes)| [name.to_owned(), hex(bytes)]);
    assert_eq!(rows("Constants", ["magic", "bytes"]), magics);
}

#[test]
fn every_part_of_a_segment_is_where_the_page_says() {
    let places = [
        ("identity", 0),
        ("slot A", Sector::A.place()),
        ("slot B", Sector::B.place()),
        ("seal", Sector::Seal.place()),
        (
            "index",
            super::Layout::new(1 << 20, 4096).unwrap().index_at.into(),
        ),
    ];
    let places = places.map(|(name, place): (_, u64)| [place.to_string(), name.to_owned()]);
    assert_eq!(rows("Segment", ["place", "part"]), places);
}

/// A table nobody checks is a table that will be wrong one day.
#[test]
fn the_page_has_no_table_that_is_not_checked() {
    let shapes = [
        FIELDS.as_slice(),
        &FLAGS,
        &CONSTANTS,
        &["magic", "bytes"],
        &["place", "part"],
    ];
    let found: Vec<&str> = tables()
        .iter()
        .map(|table| {
            assert!(
                shapes.iter().any(|shape| table.columns.starts_with(shape)),
                "{:?} under {:?}",
                table.columns,
                table.heading
            );
            table.heading
        })
        .collect();
    let known = [
        "Constants",
        "Constants",
        "Segment",
        "Identity",
        "Identity",
        "Slot and seal",
        "Slot and seal",
        "Index entry",
        "Record",
        "Record",
        "Producer",
        "Header",
        "Redo file",
    ];
    assert_eq!(found, known);
}

#[test]
fn the_worked_example_is_a_frame() {
    let seed = Seed::new(&[0x11; 16], 17, 2, 0xfeed);
    let headers = [Header::new("status", b"ok".as_slice())];
    let parts = Parts {
        key: Some(b"hv"),
        tombstone: false,
        event_id: Some(b"us7000"),
        producer: Some(Producer {
            id: b"feed",
            epoch: 2,
            sequence: 40,
        }),
        headers: &headers,
        payload: b"M 4.6",
    };
    let stamp = Stamp {
        delta: 7,
        lag: 3,
        timestamp: 1_700_000_000_000_000_000,
        epoch: 12,
        more: true,
    };
    let mut frame = vec![0; padded(parts.frame_len().unwrap())];
    let length = parts.encode(stamp, seed, &mut frame).unwrap();
    frame[..4].copy_from_slice(&length.to_le_bytes());
    assert_eq!(Frame::decode(&frame, seed).unwrap().stamp(), stamp);

    let (_, example) = PAGE_TEXT.split_once("### Worked example").unwrap();
    let drawn = example.split("```").nth(1).unwrap();
    let drawn: String = drawn
        .lines()
        .map(|line| line.split("  ").next().unwrap().trim())
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(drawn, hex(&frame));
}

fn hex(bytes: &[u8]) -> String {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.join(" ")
}
