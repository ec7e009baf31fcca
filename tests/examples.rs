//! The examples, run as the reader would run them: each tells its story to the end.

use std::process::Command;

/// Runs an example, and finds these in what it prints, in this order; all that it printed.
fn tells(name: &str, parts: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    let done = cargo
        .args(["run", "--quiet", "--example", name])
        .output()
        .unwrap();
    let told = String::from_utf8(done.stdout).unwrap();
    let failed = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{name}: {told}\n{failed}");
    let mut rest = told.as_str();
    for part in parts {
        let at = rest.find(part);
        let at = at.unwrap_or_else(|| panic!("{name} does not say {part:?} there:\n{told}"));
        rest = &rest[at + part.len()..];
    }
    told
}

/// The number behind some words.
fn number(told: &str, words: &str) -> u64 {
    let (_, rest) = told.split_once(words).unwrap();
    let digits = rest.chars().take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().unwrap()
}

/// A screen follows a sensor, from what is there to the end.
#[test]
fn a_screen_follows_to_the_end() {
    tells("tailing", &["readings/0@0", "21.5", "has shown 6 readings"]);
}

/// A worker dies at 60 % of its jobs: those that it had committed are not done again.
#[test]
fn a_job_queue_survives_its_worker() {
    tells(
        "job_queue",
        &["died at 60 %", "began with job 28, and did the other 22"],
    );
}

/// Balances are what replaying adds up to, now and as they stood.
#[test]
fn a_ledger_is_what_replaying_adds_up_to() {
    let now = r#"now:                {"alice": 70, "bob": 0}"#;
    let before = r#"before the 3rd day: {"alice": 70, "bob": 50}"#;
    tells("ledger", &[now, before]);
}

/// Forty writers share their syncs.
#[test]
fn forty_writers_share_their_syncs() {
    let told = tells(
        "writers",
        &["2000 records", "records each", "records a second"],
    );
    assert!(number(&told, "went on\n") < 2000, "{told}");
}

/// A thousand appends cost a thousand syncs; a batch one, beside those that run in the background.
#[test]
fn a_batch_costs_one_sync() {
    let told = tells("batches", &["one by one", "as a batch", "without waiting"]);
    assert!(
        number(&told, "one by one: 1000 records, ") >= 1000,
        "{told}"
    );
    assert!(number(&told, "as a batch: 1000 records, ") < 50, "{told}");
    assert!(
        number(&told, "without waiting: 1000 records, ") < 500,
        "{told}"
    );
}

/// A log grows over five starts, and each finds all of it.
#[test]
fn a_log_grows_over_restarts() {
    tells(
        "restarts",
        &["round 1: 0 records", "round 5: 80000 records"],
    );
}

/// A pipeline is stopped in the middle: the archive has everything, each strong earthquake is found once,
/// and what the sampler kept and dropped adds up.
#[test]
fn a_pipeline_goes_on_where_it_was_stopped() {
    let told = tells(
        "pipeline",
        &[
            "archived 1707",
            "of magnitude 4 or more: 128",
            "1707 together",
        ],
    );
    assert!(number(&told, "dropped ") > 0, "{told}");
}

/// An answer breaks off, and goes on where it did.
#[test]
fn an_answer_is_resumed() {
    tells("tokens", &["broken after", "to go on at 4", "complete"]);
}
