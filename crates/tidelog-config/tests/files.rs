//! Configurations as people write them, and as they get them wrong.

use std::fs;

use tidelog::{Durability, Filter, OnExpiry, Retention, Sampling, Store, TopicOptions};
use tidelog_config::{Config, Error, Format};

const TOML: &str = r#"
path = "log"

[topics."agent.output"]
partitions = 4
content_type = "application/json"
durability = "50ms"
max_record = "1MiB"
retention = { age = "7d", bytes = "20GB", keep_required = "50GiB" }

[topics.quakes]

[[subscriptions]]
name = "archive"
topic = "agent.output"
required = true

[[subscriptions]]
name = "live"
topic = "quakes"
start = "latest"
"#;

const YAML: &str = r"
path: log
topics:
  agent.output:
    partitions: 4
    content_type: application/json
    durability: 50ms
    max_record: 1MiB
    retention: {age: 7d, bytes: 20GB, keep_required: 50GiB}
  quakes: {}
subscriptions:
  - {name: archive, topic: agent.output, required: true}
  - {name: live, topic: quakes, start: latest}
";

const JSON: &str = r#"{
  "path": "log",
  "topics": {
    "agent.output": {
      "partitions": 4,
      "content_type": "application/json",
      "durability": "50ms",
      "max_record": 1048576,
      "retention": {"age": "168h", "bytes": 20000000000, "keep_required": "50GiB"}
    },
    "quakes": {}
  },
  "subscriptions": [
    {"name": "archive", "topic": "agent.output", "required": true},
    {"name": "live", "topic": "quakes", "start": "latest"}
  ]
}"#;

/// The same configuration in three formats is the same.
#[test]
fn three_formats_say_the_same() {
    let toml = Config::parse(TOML, Format::Toml).unwrap();
    assert_eq!(Config::parse(YAML, Format::Yaml).unwrap(), toml);
    assert_eq!(Config::parse(JSON, Format::Json).unwrap(), toml);
    let told = serde_json::to_string(&toml).unwrap();
    assert_eq!(Config::parse(&told, Format::Json).unwrap(), toml);
    let told = toml.to_toml().unwrap();
    assert_eq!(Config::parse(&told, Format::Toml).unwrap(), toml, "{told}");
    for (text, format) in [
        ("", Format::Toml),
        ("# not yet\n", Format::Yaml),
        ("{}", Format::Json),
    ] {
        assert!(Config::parse(text, format).unwrap().topics.is_empty());
    }
}

/// A file is opened twice: the first time it makes the store, the second time it finds everything there,
/// with the checkpoint where it was. The store lies beside the file.
#[test]
fn a_file_makes_its_store_and_finds_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tidelog.toml");
    fs::write(&file, TOML).unwrap();
    let store = Config::read(&file).unwrap().open().unwrap();
    let output = store.existing_topic("agent.output").unwrap();
    let week = Retention::days(7).or_bytes(20_000_000_000);
    assert_eq!(output.retention(), week.keep_required(50 << 30));
    assert_eq!(
        (output.partitions(), output.max_record_bytes()),
        (4, 1 << 20)
    );
    output.append("one").unwrap();
    let mut archive = output.subscribe("archive").unwrap();
    while archive.next().unwrap().is_some() {}
    archive.commit().unwrap();
    let held = Config::read(&file).unwrap().apply(&store).unwrap_err();
    assert!(held.to_string().starts_with("subscriptions[0]: "), "{held}");
    drop((output, archive));
    store.close().unwrap();

    let store = Config::read(&file).unwrap().open().unwrap();
    assert_eq!(store.path(), dir.path().join("log"));
    let told = store
        .existing_topic("agent.output")
        .unwrap()
        .subscriptions()
        .unwrap();
    assert_eq!((told[0].name.as_str(), told[0].lag.records), ("archive", 0));
    store.close().unwrap();
}

/// A topic and a subscription are there already, made by a program. A file that names them changes what it
/// says, and leaves the rest as it was.
#[test]
fn what_a_file_does_not_say_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let made = TopicOptions::new()
        .partitions(3)
        .durability(Durability::Manual)
        .max_total_bytes(1 << 30)
        .retention(Retention::days(1));
    let topic = store.create_topic("t", made.clone()).unwrap();
    drop(topic.subscribe("s").unwrap());
    let text = "topics: {t: {max_record: 1MiB}}
subscriptions:
- {name: s, topic: t, required: true, on_expiry: latest, sampling: {per_minute: 10, source: station},
   filter: {header: {name: status, is: {one_of: [failed]}}}}";
    let config: Config = Config::parse(text, Format::Yaml).unwrap();
    config.apply(&store).unwrap();
    assert_eq!(topic.options(), made.max_record_bytes(1 << 20));
    let told = &topic.subscriptions().unwrap()[0];
    assert!(told.required);
    assert_eq!(told.on_expiry, OnExpiry::Latest);
    assert_eq!(
        told.sampling,
        Some(Sampling::per_minute(10).source("station"))
    );
    assert_eq!(told.filter, Some(Filter::header("status").equals("failed")));
    let silent = Config::parse(
        "topics: {t: {}}\nsubscriptions: [{name: s, topic: t}]",
        Format::Yaml,
    );
    silent.unwrap().apply(&store).unwrap();
    assert!(topic.subscriptions().unwrap()[0].required);
    drop(topic);
    store.close().unwrap();
}

fn wrong(text: &str, format: Format) -> (String, String) {
    match Config::parse(text, format) {
        Err(Error::Invalid { key, reason }) => (key, reason),
        other => panic!("{text}: {other:?}"),
    }
}

/// Each mistake is told with its key, and with its line where the format knows it.
#[test]
fn mistakes_are_told_with_key_and_line() {
    let cases = [
        (
            "[topics.t]\npartition = 4\n",
            "topics.t.partition",
            "line 2",
        ),
        (
            "[topics.t]\nretention = { age = \"7 moons\" }\n",
            "topics.t.retention.age",
            "line 2",
        ),
        (
            "[topics.t]\nmax_record = \"20 gigs\"\n",
            "topics.t.max_record",
            "expected a size",
        ),
        (
            "[topics.t]\nmax_record = -1\n",
            "topics.t.max_record",
            "not negative",
        ),
        (
            "[topics.t]\ndurability = \"always\"\n",
            "topics.t.durability",
            "\"manual\"",
        ),
        ("[topics.t]\n[topics.t]\n", ".", "line 2"),
        (
            "[topics.t]\nwait_when_full = \"1s\"\n",
            "topics.t.wait_when_full",
            "no effect",
        ),
        (
            "[topics.t]\nretention = { keep_required = \"1GB\" }\n",
            "topics.t.retention.keep_required",
            "no effect",
        ),
        ("storage = \"data\"\n", "storage", "unknown field"),
        (
            "[[subscriptions]]\nname = \"s\"\ntopic = \"t\"\n",
            "subscriptions[0].topic",
            "no topic",
        ),
        (
            "[topics.t]\n[[subscriptions]]\nname = \"s\"\ntopic = \"t\"\nstart = \"first\"\n",
            "subscriptions[0].start",
            "earliest",
        ),
    ];
    for (text, key, reason) in cases {
        let told = wrong(text, Format::Toml);
        assert!(told.0 == key && told.1.contains(reason), "{text}: {told:?}");
    }
    let (key, reason) = wrong("topics:\n  t:\n    partitions: many\n", Format::Yaml);
    assert!(
        key == "topics.t.partitions" && reason.contains("line 3"),
        "{key}: {reason}"
    );
    let (key, reason) = wrong("{\n\"topics\": {\"t\": {}, \"t\": {}}}", Format::Json);
    assert!(
        key == "topics" && reason.contains("twice"),
        "{key}: {reason}"
    );
    let (_, reason) = wrong("{} x", Format::Json);
    assert!(reason.contains("line 1"), "{reason}");
    let twice = "topics: {t: {}}\nsubscriptions: [{name: s, topic: t}, {name: s, topic: t}]";
    assert_eq!(wrong(twice, Format::Yaml).0, "subscriptions[1].name");
}

/// What only the store can refuse is told with its key, and the store is closed again.
#[test]
fn what_the_store_refuses_is_told_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::parse("topics: {Quakes: {}}", Format::Yaml).unwrap();
    config.path = dir.path().join("data");
    let error = config.open().unwrap_err();
    assert!(error.to_string().starts_with("topics.Quakes: "), "{error}");
    Store::open(&config.path).unwrap().close().unwrap();

    let missing = Config::read(dir.path().join("none.toml")).unwrap_err();
    assert!(matches!(missing, Error::Read { .. }));
    let other = Config::read(dir.path().join("none.ini")).unwrap_err();
    assert!(matches!(other, Error::UnknownFormat { .. }));
}
