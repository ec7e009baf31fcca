//! Records that the function fails with.

use std::time::{Duration, Instant};

use tidelog::{Error, OnError, Record, Retry, Store, Timestamp};

use crate::kit::{committed, records, soon, texts, topic};

const SOON: Duration = Duration::from_millis(1);

/// Five records, of which the third one is poison.
const FIVE: [&str; 5] = ["1", "2", "poison", "4", "5"];

/// Copies numbers; panics with what ends in an exclamation mark.
fn copy(
    record: tidelog::StoredRecord<'_>,
    out: &mut tidelog::Output<'_>,
) -> Result<(), tidelog::Failure> {
    let text = record.text()?;
    // Before it fails: that must not show.
    out.append(text)?;
    assert!(!text.ends_with('!'), "cannot bear {text}");
    text.parse::<u64>()?;
    Ok(())
}

/// The function fails with the third of five records. The processor ends and says with which; the two
/// before it are committed, their output is there, and nothing of the failing one. When it runs again
/// that record comes first, once more.
#[test]
fn a_processor_stops_at_a_record_that_fails_and_begins_there_again() {
    for transactional in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("data")).unwrap();
        topic(&store, "in", &FIVE);
        let processor = || {
            let it = store.processor("copy").input("in").output("out");
            if transactional {
                it.transactional()
            } else {
                it
            }
        };
        for attempts in [1, 3] {
            let retry = Retry::attempts(attempts).pauses(SOON, SOON);
            match processor().retry(retry).run(copy) {
                Err(Error::ProcessorFailed {
                    processor,
                    topic,
                    partition: 0,
                    offset: 2,
                    attempts: tried,
                    reason,
                }) => {
                    assert_eq!((processor.as_str(), topic.as_str()), ("copy", "in"));
                    assert_eq!(
                        (tried, reason.as_str()),
                        (attempts, "invalid digit found in string")
                    );
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(texts(&store, "out"), ["1", "2"], "{transactional}");
            assert_eq!(committed(&store, "in"), 2);
        }
        let counts = processor().on_error(OnError::Skip).run_once(copy).unwrap();
        assert_eq!(texts(&store, "out"), ["1", "2", "4", "5"]);
        assert_eq!((counts.records_in, counts.records_out), (3, 2));
        assert_eq!((counts.failures, counts.skipped, counts.retries), (1, 1, 0));
        assert_eq!(committed(&store, "in"), 5);
        store.close().unwrap();
    }
}

/// A record fails, and goes to the dead-letter topic with all that it had, and with why, whence and how
/// often tried. A panic is such a failure; the processor goes on behind it.
#[test]
fn a_record_that_fails_for_good_becomes_a_dead_letter() {
    for transactional in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("data")).unwrap();
        let input = topic(&store, "in", &["1"]);
        let poison = Record::new("poison")
            .key("k")
            .header("source", "usgs")
            .header("source", "again")
            .event_id("e-7")
            .at(Timestamp::from_millis(86_400_000));
        input.append(poison).unwrap();
        input.append("boom!").unwrap();
        input.append("4").unwrap();
        let processor = store.processor("copy").input("in").output("out");
        let processor = processor
            .on_error(OnError::dead_letter("dead"))
            .retry(Retry::attempts(3).pauses(SOON, SOON));
        let processor = match transactional {
            true => processor.transactional(),
            false => processor,
        };
        let counts = processor.run_once(copy).unwrap();
        assert_eq!(texts(&store, "out"), ["1", "4"]);
        assert_eq!((counts.records_in, counts.records_out), (4, 2));
        assert_eq!((counts.dead_lettered, counts.skipped), (2, 0));
        assert_eq!((counts.failures, counts.retries), (6, 4));
        let letters = records(&store, "dead");
        let [first, second] = &letters[..] else {
            panic!("{letters:?}")
        };
        assert_eq!(
            (first.text().unwrap(), first.key()),
            ("poison", Some(&b"k"[..]))
        );
        assert_eq!(first.timestamp(), Timestamp::from_millis(86_400_000));
        assert_eq!(first.event_id(), b"e-7");
        let headers: Vec<_> = first
            .headers()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
            .collect();
        let expected = [
            "source=usgs",
            "source=again",
            "tidelog.dead.reason=invalid digit found in string",
            "tidelog.dead.origin=in/0@1",
            "tidelog.dead.attempts=3",
            "tidelog.dead.processor=copy",
        ];
        assert_eq!(headers, expected);
        let reason = second.header("tidelog.dead.reason").unwrap();
        assert_eq!(reason, b"it panicked: cannot bear boom!");
        store.close().unwrap();
    }
}

/// A function fails twice with a record and then does not: that is no failure in the end, and its
/// output is there once. The pauses were at least as long as they should be.
#[test]
fn a_record_that_is_tried_again_may_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    topic(&store, "in", &["1", "2"]);
    let (mut calls, begin) = (0, Instant::now());
    let first = Duration::from_millis(20);
    let counts = store
        .processor("copy")
        .input("in")
        .output("out")
        .retry(Retry::attempts(3).pauses(first, first * 10))
        .run_once(|record, out| {
            calls += 1;
            out.append(record.to_record())?;
            if record.offset() == 1 && calls < 4 {
                return Err("the line is busy".into());
            }
            Ok(())
        });
    let counts = counts.unwrap();
    assert_eq!(
        (counts.failures, counts.retries, counts.records_out),
        (2, 2, 2)
    );
    assert_eq!(texts(&store, "out"), ["1", "2"]);
    assert!(begin.elapsed() >= first * 3, "{:?}", begin.elapsed());
    store.close().unwrap();
}

/// A record is to be tried again in an hour. What came before it is committed, and its output can be
/// read; and the processor can be stopped, which leaves the record for the next time.
#[test]
fn a_pause_holds_back_nothing_before_it_and_ends_when_the_processor_is_stopped() {
    for transactional in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("data")).unwrap();
        topic(&store, "in", &FIVE);
        let hour = Duration::from_secs(3600);
        let processor = store.processor("copy").input("in").output("out");
        let processor = processor.retry(Retry::attempts(9).pauses(hour, hour));
        let processor = match transactional {
            true => processor.transactional(),
            false => processor,
        };
        let running = processor.spawn(copy).unwrap();
        soon(|| committed(&store, "in") == 2 && texts(&store, "out") == ["1", "2"]);
        assert!(running.is_running());
        let counts = running.stop().unwrap();
        assert_eq!(
            (counts.records_in, counts.failures, counts.retries),
            (2, 1, 0)
        );
        assert_eq!(committed(&store, "in"), 2);
        store.close().unwrap();
    }
}

/// A record of the input is damaged on the disk. By the policy the processor ends, with the damage as its
/// error and what came before committed, or goes on behind it.
#[test]
fn a_record_that_cannot_be_read_is_a_failure_by_the_policy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let store = Store::open(&path).unwrap();
    topic(&store, "in", &["1", "2", "a payload to spoil", "4"]);
    store.close().unwrap();
    let segment = path.join("topics/in/000000-1/00000000.seg");
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes
        .windows(10)
        .position(|it| it == b"to spoil\0\0")
        .unwrap();
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).unwrap();

    let store = Store::open(&path).unwrap();
    let processor = store.processor("copy").input("in").output("out");
    let stopped = processor.clone().run_once(copy);
    match stopped {
        Err(Error::ProcessorFailed {
            offset: 2, reason, ..
        }) => {
            assert!(reason.starts_with("in/0@2 is damaged"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(committed(&store, "in"), 2);
    let letters = processor.on_error(OnError::dead_letter("dead"));
    let counts = letters.run_once(copy).unwrap();
    assert_eq!((counts.records_in, counts.dead_lettered), (2, 1));
    assert_eq!(texts(&store, "out"), ["1", "2", "4"]);
    let letter = &records(&store, "dead")[0];
    assert_eq!(letter.payload(), b"");
    assert_eq!(letter.header("tidelog.dead.origin"), Some(&b"in/0@2"[..]));
    assert_eq!(letter.header("tidelog.dead.attempts"), Some(&b"0"[..]));
    store.close().unwrap();
}

/// A dead letter is refused by its topic. The record is not lost: the processor ends, and it comes again.
#[test]
fn a_dead_letter_that_is_refused_ends_the_processor_before_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    topic(&store, "in", &FIVE);
    store.topic("dead").unwrap().finish().unwrap();
    let processor = store.processor("copy").input("in").output("out");
    let ended = processor.on_error(OnError::dead_letter("dead")).run(copy);
    assert!(matches!(ended, Err(Error::Finished { .. })), "{ended:?}");
    assert_eq!(committed(&store, "in"), 2);
    assert_eq!(texts(&store, "out"), ["1", "2"]);
    store.close().unwrap();
}

/// Dead letters to the input would come back as records that fail, for ever: refused before anything is
/// made. An output may be the input.
#[test]
fn dead_letters_never_go_to_the_input() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    topic(&store, "in", &FIVE);
    let fed = store.processor("fed").input("in").output("out");
    let refused = fed.on_error(OnError::dead_letter("in")).run_once(copy);
    assert!(
        matches!(
            refused,
            Err(Error::InvalidOption {
                option: "on_error",
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(store.topics().len(), 1);
    let input = store.existing_topic("in").unwrap();
    assert!(input.subscriptions().unwrap().is_empty());

    let halves = store.processor("halves").input("in").output("in");
    let halves = halves.on_error(OnError::Skip);
    let counts = halves.run_once(|record, out| {
        let number: u64 = record.text()?.parse()?;
        if number.is_multiple_of(2) {
            out.append((number / 2).to_string())?;
        }
        Ok(())
    });
    let counts = counts.unwrap();
    assert_eq!((counts.records_in, counts.records_out), (5, 2));
    assert_eq!(texts(&store, "in")[5..], ["1", "2"]);
    store.close().unwrap();
}
