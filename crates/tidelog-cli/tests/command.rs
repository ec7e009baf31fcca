//! The command as people use it: real processes on real directories.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The command on the store in `dir`.
fn tidelog(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelog"));
    command.arg("--store").arg(dir.join("data")).args(args);
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    tidelog(dir, args).stdin(Stdio::null()).output().unwrap()
}

fn ok(dir: &Path, args: &[&str]) -> String {
    let output = run(dir, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

fn append(dir: &Path, args: &[&str], input: &[u8]) {
    let mut child = tidelog(dir, args).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    assert!(child.wait().unwrap().success());
}

fn demo(dir: &Path) -> Command {
    tidelog(dir, &["demo"])
}

/// Lines go in from a pipe and from files, and come out as they were: an empty line, a last line
/// without its newline, bytes that are no text.
#[test]
fn lines_come_out_as_they_went_in() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    ok(dir, &["create", "notes"]);
    append(dir, &["append", "notes"], b"one\n\ntwo");
    let file = dir.join("more");
    fs::write(&file, b"\xff\xfe\nthree\n").unwrap();
    ok(dir, &["append", "notes", file.to_str().unwrap()]);
    let read = run(dir, &["read", "notes"]);
    assert_eq!(read.stdout, b"one\n\ntwo\n\xff\xfe\nthree\n");
    let some = ok(dir, &["read", "notes", "--from", "2", "--limit", "1"]);
    assert_eq!(some, "two\n");
}

/// A program reads `--json`: every part has its name, and bytes that are no text are base64
/// under a name that says so.
#[test]
fn json_tells_everything_about_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    ok(dir, &["create", "notes", "--partitions", "4"]);
    let args = ["append", "notes", "--key", "hv", "--header", "source=usgs"];
    append(dir, &args, b"M 4.6\n\xff\n");
    let lines = ok(dir, &["read", "notes", "--json"]);
    let records: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0]["topic"], "notes");
    assert_eq!(records[0]["offset"], 0);
    assert_eq!(records[0]["key"], "hv");
    assert_eq!(records[0]["headers"][0]["name"], "source");
    assert_eq!(records[0]["headers"][0]["value"], "usgs");
    assert_eq!(records[0]["payload"], "M 4.6");
    assert!(records[0]["timestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(records[0]["partition"], records[1]["partition"]);
    assert_eq!(records[1]["payload_base64"], "/w==");
    let topics: Value = serde_json::from_str(&ok(dir, &["topics", "--json"])).unwrap();
    assert_eq!(
        (&topics["topic"], &topics["records"]),
        (&"notes".into(), &2.into())
    );
}

/// `tidelog read | head -1`: whoever reads has seen enough, and that is a success.
#[test]
fn a_reader_that_goes_away_is_a_success() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    ok(dir, &["create", "notes"]);
    append(dir, &["append", "notes"], "x".repeat(1000).as_bytes());
    let lines = "a line that is long enough to fill the pipe\n".repeat(20_000);
    append(dir, &["append", "notes"], lines.as_bytes());
    let mut child = tidelog(dir, &["read", "notes"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert_eq!(first.trim_end().len(), 1000);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Each way to be refused has a number of its own, and commands that only look make no store.
#[test]
fn every_refusal_has_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for args in [&["read", "x"][..], &["tail", "x"], &["topics"], &["verify"]] {
        assert_eq!(code(&run(dir, args)), 3, "{args:?}");
        assert!(!dir.join("data").exists(), "{args:?} made something");
    }
    ok(dir, &["create", "notes", "--partitions", "2"]);
    assert_eq!(code(&run(dir, &["append", "other"])), 3);
    assert_eq!(code(&run(dir, &["read", "notes", "--partition", "2"])), 3);
    assert_eq!(code(&run(dir, &["read", "notes", "--from", "7"])), 2);
    assert_eq!(code(&run(dir, &["read", "notes", "--from", "soon"])), 2);
    assert_eq!(code(&run(dir, &["create", "../x"])), 2);
    assert_eq!(
        code(&run(dir, &["create", "notes"])),
        7,
        "another number of partitions"
    );
    assert_eq!(code(&run(dir, &["frobnicate"])), 2);
}

/// Somebody follows while another command wants to append: it is told who owns the store.
#[test]
fn a_store_in_use_is_locked() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    ok(dir, &["create", "notes"]);
    append(dir, &["append", "notes"], b"one\n");
    let args = ["tail", "notes", "--from", "earliest"];
    let mut tail = tidelog(dir, &args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(tail.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "one\n", "what is there leaves before it waits");
    let refused = run(dir, &["append", "notes"]);
    assert_eq!(code(&refused), 4);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains(&tail.id().to_string()), "{text}");
    tail.kill().unwrap();
    tail.wait().unwrap();
    ok(dir, &["read", "notes"]);
}

/// A byte of a record rots. `verify` names it and says so by its exit code; `read` reports it
/// and goes on behind it.
#[test]
fn damage_is_named_and_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    ok(dir, &["create", "notes"]);
    append(dir, &["append", "notes"], b"one\nNEEDLE\nthree\n");
    assert!(ok(dir, &["verify"]).contains("3 records sound"));
    let topic = dir.join("data/topics/notes");
    let partition = fs::read_dir(&topic)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let segment = partition.join("00000000.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(6).position(|six| six == b"NEEDLE").unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, &bytes).unwrap();

    let verify = run(dir, &["verify"]);
    assert_eq!(code(&verify), 5);
    let text = String::from_utf8(verify.stdout).unwrap();
    assert!(text.contains("notes/0@1 is damaged"), "{text}");
    let read = run(dir, &["read", "notes"]);
    assert_eq!(code(&read), 5);
    assert_eq!(read.stdout, b"one\nthree\n");
    assert!(
        String::from_utf8(read.stderr)
            .unwrap()
            .contains("notes/0@1")
    );
    assert_eq!(fs::read(&segment).unwrap(), bytes, "nothing was changed");
}

fn assert_week_is_whole(dir: &Path, output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        text.contains("all 1,707 events are there, none twice"),
        "{text}"
    );
    let topics: Value = serde_json::from_str(&ok(dir, &["topics", "--json"])).unwrap();
    assert_eq!(topics["records"], 1707);
}

/// The demo runs, and runs again on the same directory.
#[test]
fn the_demo_can_be_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_week_is_whole(dir, &demo(dir).output().unwrap());
    let again = demo(dir).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing is missing"));
    assert_week_is_whole(dir, &again);
}

/// Starts the demo and waits until it has written something to its topic.
fn half_a_demo(dir: &Path, bytes: u64) -> Child {
    let child = demo(dir).stdout(Stdio::null()).spawn().unwrap();
    let start = std::time::Instant::now();
    while written(&dir.join("data/topics")) < bytes {
        assert!(start.elapsed().as_secs() < 60, "the demo hangs");
        std::thread::yield_now();
    }
    child
}

/// How many segment bytes there are under a folder.
fn written(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => written(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// `kill -9` in the middle, several times at different moments: the next run says where it
/// resumes, and the last one ends with all events, none twice.
#[test]
fn a_demo_that_was_killed_is_completed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for bytes in [1, 64 << 10, 200 << 10] {
        let mut child = half_a_demo(dir, bytes);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = demo(dir).output().unwrap();
    assert_week_is_whole(dir, &last);
}
