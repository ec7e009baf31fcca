//! Making topics and listing them; and what the help says.

use std::fs;

use serde_json::json;

use crate::Place;

/// A topic is made, and made again: that is one topic. With other partitions it is refused, and
/// stays as it was.
#[test]
fn making_a_topic_again_is_no_error_unless_it_would_be_another() {
    let place = Place::new();
    let args = [
        "create",
        "t",
        "--partitions",
        "4",
        "--content-type",
        "application/json",
    ];
    assert_eq!(
        place.ok(&args).text(),
        "t: 4 partitions of application/json\n"
    );
    place.ok(&args);
    let done = place.run(&["create", "t", "--partitions", "5"]);
    assert_eq!(done.code, Some(7));
    assert!(done.err.contains("has partitions 4, not 5"), "{}", done.err);
    let made = json!({"topic": "t", "partitions": 4, "content_type": "application/json"});
    assert_eq!(place.ok(&[&args[..], &["--json"]].concat()).json(), [made]);
}

/// A name or a limit that no topic can have is a matter of usage.
#[test]
fn what_no_topic_can_have_is_a_matter_of_usage() {
    let place = Place::new();
    for args in [
        &["create", "Quakes"][..],
        &["create", "../up"],
        &["create", "t", "--partitions", "0"],
        &["create", "t", "--max-record", "1B"],
        &["create", "t", "--max-record", "much"],
        &["create"],
        &["append", "t", "--header", "novalue"],
        &["unknown"],
        &[],
    ] {
        assert_eq!(place.run(args).code, Some(2), "{args:?}");
    }
}

/// Topics are listed by name with what they hold.
#[test]
fn topics_are_listed_with_what_they_hold() {
    let place = Place::new();
    place.ok(&["create", "b", "--partitions", "2"]);
    place.feed(&["append", "a"], b"one\ntwo\n");
    let text = place.ok(&["topics"]).text().to_owned();
    let names: Vec<_> = text
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(names, ["topic", "a", "b"]);
    let a = json!({
        "topic": "a",
        "content_type": "application/octet-stream",
        "finished": false,
        "records": 2,
        "partitions": [{"partition": 0, "first": 0, "end": 2}],
    });
    let listed = place.ok(&["topics", "--json"]).json();
    assert_eq!(listed[0], a);
    assert_eq!(listed[1]["partitions"].as_array().unwrap().len(), 2);
}

/// Who asks for help gets an example of every command, and the exit codes.
#[test]
fn help_teaches_with_examples_and_tells_the_exit_codes() {
    let place = Place::new();
    let help = place.ok(&["--help"]).text().to_owned();
    for code in 0..=9 {
        assert!(help.contains(&format!("\n  {code}  ")), "{code}");
    }
    for command in [
        "demo", "create", "append", "read", "tail", "topics", "verify",
    ] {
        let help = place.ok(&[command, "--help"]).text().to_owned();
        assert!(help.contains(&format!("Examples:\n  tidelog {command}")) || command == "append");
        assert!(help.contains("Examples:"), "{command}");
        assert!(
            help.contains("--store <DIR>") && help.contains("--json"),
            "{command}"
        );
    }
}

/// One topic is broken: it is listed with the reason, the others as ever, and a script can tell.
#[test]
fn a_topic_that_failed_is_listed_with_the_reason_beside_the_others() {
    let place = Place::new();
    for topic in ["a", "b", "c"] {
        place.feed(&["append", topic], b"one\n");
    }
    let broken = place.store().join("topics/b");
    fs::remove_dir_all(&broken).unwrap();
    fs::write(&broken, "not a folder").unwrap();
    let done = place.run(&["topics"]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    let lines: Vec<_> = done.text().lines().collect();
    assert_eq!(lines.len(), 5);
    assert!(
        lines[3].trim_start().starts_with("failed: b/0"),
        "{lines:?}"
    );
    assert!(lines[3].contains("must be a folder"), "{lines:?}");
    let done = place.run(&["topics", "--json"]);
    let listed = done.json();
    assert_eq!(listed[2]["records"], 1);
    assert_eq!(listed[1]["partitions"], json!([]));
    let reason = listed[1]["failed"][0].as_str().unwrap();
    assert!(reason.contains("must be a folder"), "{reason}");
}
