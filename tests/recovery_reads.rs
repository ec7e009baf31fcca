//! Opening costs the same for a short log and a long one: what recovery reads is counted.

use std::path::Path;
use std::process::{Command, Stdio};

use tidelog::{Record, Start, Store};

/// Records in one commit of the child.
const BATCH: u64 = 1000;
/// The promise: the unsettled bound, a slot distance, and what headers and the journal take.
const LIMIT: u64 = 20 << 20;
const PAYLOAD: [u8; 100] = [b'x'; 100];

/// Not a test by itself: the child that appends until it is killed, or that closes.
#[test]
#[ignore = "the child process of the other tests; does nothing by itself"]
fn child() {
    let Ok(dir) = std::env::var("TIDELOG_CHILD_DIR") else {
        return;
    };
    let records: u64 = std::env::var("TIDELOG_CHILD_RECORDS")
        .unwrap()
        .parse()
        .unwrap();
    let store = Store::open(Path::new(&dir)).unwrap();
    let topic = store.topic("load").unwrap();
    for _ in 0..records / BATCH {
        topic
            .append_batch((0..BATCH).map(|_| Record::new(&PAYLOAD)))
            .unwrap();
    }
    if std::env::var("TIDELOG_CHILD_CLOSES").is_ok() {
        store.close().unwrap();
        return;
    }
    // Nobody closes anything: what follows is a kill under load.
    let pid = std::process::id().to_string();
    let killed = Command::new("kill").args(["-9", &pid]).status();
    unreachable!("survived its own kill: {killed:?}");
}

/// Runs the child on a fresh store and returns how many bytes its reopening reads: the journal
/// when the store is opened, and then the log, up to its first append.
fn reads_after(records: u64, closes: bool) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "child", "--ignored"])
        .env("TIDELOG_CHILD_DIR", dir.path())
        .env("TIDELOG_CHILD_RECORDS", records.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if closes {
        child.env("TIDELOG_CHILD_CLOSES", "1");
    }
    assert_eq!(child.status().unwrap().success(), closes);

    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.health().was_closed, closes);
    let journal = store.io().bytes_read.get();
    let partition = store.existing_topic("load").unwrap().partition(0).unwrap();
    let at = partition.append(Record::new("after")).unwrap();
    assert_eq!(at.offset(), records, "everything acknowledged is there");
    let log = store.io().bytes_read.get() - journal;
    let mut cursor = partition.cursor(Start::Earliest).unwrap();
    for offset in 0..records {
        let record = cursor.next().unwrap().unwrap();
        assert_eq!((record.offset(), record.payload()), (offset, &PAYLOAD[..]));
    }
    drop(cursor);
    store.close().unwrap();
    (journal, log)
}

fn killed_logs_read_alike(short: u64, long: u64) {
    let (short, long) = (reads_after(short, false), reads_after(long, false));
    println!("read after a kill: journal and log, short {short:?}, long {long:?} bytes");
    for (journal, log) in [short, long] {
        assert!(journal + log <= LIMIT, "{journal} + {log} bytes");
    }
    assert!(
        short.0.max(long.0) <= 256 << 10,
        "the journal says the same few facts"
    );
    // The rest differs by where the last slot and the end of the last segment happen to lie.
}

/// A log of three hundred thousand records and one of a million, each killed under load: reopening
/// reads the unsettled bound at most, of either.
#[test]
fn reopening_after_a_kill_reads_no_more_of_a_long_log() {
    killed_logs_read_alike(300_000, 1_000_000);
}

/// The same at full size: one million and ten million.
#[test]
#[ignore = "writes 1.5 GB; run by .ci/run with --ignored"]
fn reopening_ten_million_records_after_a_kill_reads_twenty_mebibytes_at_most() {
    killed_logs_read_alike(1_000_000, 10_000_000);
}

/// After a clean close no record is read: headers and the journal only, and the same few bytes
/// for either size.
#[test]
fn reopening_after_a_clean_close_reads_no_record() {
    let (short, long) = (reads_after(10_000, true), reads_after(500_000, true));
    println!("read after a close: journal and log, short {short:?}, long {long:?} bytes");
    // Two header pages: the first segment's and the last one's, of four sectors each, and the
    // last one's again for writing.
    for (_, log) in [short, long] {
        assert!(log <= 3 * 2048, "{log} bytes are more than headers");
    }
    assert_eq!(short.1, long.1);
}
