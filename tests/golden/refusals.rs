//! What a later version may write one day, in a golden store and under checksums that agree: it is
//! named, and not a byte is changed.

use std::ops::Range;
use std::path::Path;

use tidelog::{Error, Partition, Store, StoreOptions, verify};

use crate::cases::CASES;
use crate::pack::{but_for_the_lock, read, write};
use crate::patch::{HEAD, SLOTS, Segment};
use crate::unpack::{Files, unpack};

/// A golden store with something in it that this version does not know.
struct Newer {
    what: String,
    /// What the error must say of it.
    said: String,
    files: Files,
    /// The file it is in, and where.
    path: String,
    at: Range<usize>,
}

/// The golden store, with what `patch` puts into a file of it, at the place that it returns.
fn newer(
    files: &Files,
    path: &str,
    (what, said): (String, String),
    patch: impl FnOnce(&mut Segment<'_>) -> Range<usize>,
) -> Newer {
    let mut files = files.clone();
    let bytes = files.get_mut(path).and_then(Option::as_mut).unwrap();
    let at = patch(&mut Segment(bytes));
    Newer {
        what: format!("{what} of {path}"),
        said,
        files,
        path: path.to_owned(),
        at,
    }
}

/// The segment files that somebody has taken over.
fn segments(files: &Files) -> Vec<String> {
    let taken = |bytes: &Option<Vec<u8>>| {
        let bytes = bytes.clone();
        bytes.is_some_and(|mut bytes| Segment(&mut bytes).is_assigned())
    };
    let found = files.iter().filter(|(_, bytes)| taken(bytes));
    // Of the deleted topic there are only files.
    let found = found.filter(|(path, _)| !path.starts_with("topics/gone"));
    found.map(|(path, _)| path.clone()).collect()
}

impl Newer {
    /// Whether an error, or its cause, says what is too new, where, and what is known.
    fn is_named(&self, error: &Error) -> bool {
        match error {
            Error::UnsupportedVersion {
                found, known, path, ..
            } => found.contains(&self.said) && !known.is_empty() && path.ends_with(&self.path),
            Error::Failed { cause, .. } => self.is_named(cause),
            _ => false,
        }
    }
}

/// Nobody opens this store, and nobody changes it.
fn store_is_refused(newer: &Newer) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    write(&newer.files, &root);
    let what = &newer.what;
    match verify(&root, &StoreOptions::new()) {
        Err(error) => assert!(newer.is_named(&error), "{what}: {error}"),
        Ok(report) => panic!("{what}: {report:?}"),
    }
    assert!(read(&root) == newer.files, "{what}: verify changed it");
    for options in [StoreOptions::new(), StoreOptions::new().existing()] {
        match Store::open_with(&root, options) {
            Err(error) => assert!(newer.is_named(&error), "{what}: {error}"),
            Ok(_) => panic!("{what}: opened"),
        }
        let [now, before] = [read(&root), newer.files.clone()].map(but_for_the_lock);
        assert!(now == before, "{what}: opening changed it");
    }
}

/// The files of the log that a file is of.
fn of_log(files: &Files, path: &str) -> Files {
    let below = &path[..=path.rfind('/').unwrap()];
    let found = files.iter().filter(|(path, _)| path.starts_with(below));
    found
        .map(|(path, bytes)| (path.clone(), bytes.clone()))
        .collect()
}

/// Whoever needs the bytes is told, and they stay; a log that cannot be opened without them is
/// failed, and none of its files changes. Other topics work.
fn log_is_refused(newer: &Newer) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    write(&newer.files, &root);
    let what = &newer.what;
    let parts: Vec<&str> = newer.path.split('/').collect();
    let (topic, number) = (parts[1], parts[2][..6].parse().unwrap());
    let report = verify(&root, &StoreOptions::new()).unwrap();
    let logs = report.logs.iter().filter(|log| log.topic == topic);
    let mut damage = logs
        .filter(|log| log.partition == number)
        .flat_map(|log| &log.damage);
    assert!(
        damage.any(|error| newer.is_named(error)),
        "{what}: {report:?}"
    );
    assert!(read(&root) == newer.files, "{what}: verify changed it");

    let store = Store::open(&root).unwrap();
    store.topic("healthy").unwrap().append("fine").unwrap();
    let partition = store
        .existing_topic(topic)
        .unwrap()
        .partition(number)
        .unwrap();
    assert!(
        errors(&partition).iter().any(|error| newer.is_named(error)),
        "{what}: read"
    );
    let failed = match partition.append_nowait("more") {
        Ok(_) | Err(Error::Finished { .. }) => false,
        Err(error) if newer.is_named(&error) => true,
        Err(error) => panic!("{what}: {error}"),
    };
    store.close().unwrap();
    let now = read(&root);
    if failed {
        let [now, before] = [&now, &newer.files].map(|files| of_log(files, &newer.path));
        assert!(now == before, "{what}: it was changed");
    }
    let bytes = |files: &Files| files[&newer.path].as_ref().unwrap()[newer.at.clone()].to_vec();
    assert!(bytes(&now) == bytes(&newer.files), "{what}: they are gone");
    failed
}

/// The errors met by whoever reads a partition.
fn errors(partition: &Partition) -> Vec<Error> {
    // What retention has removed is no damage.
    let first = partition.first().unwrap_or(0);
    match partition.read(first..u64::MAX) {
        Ok(records) => records.take(1000).filter_map(Result::err).collect(),
        Err(error) => vec![error],
    }
}

/// A later version, or a flag, in the identity of each segment; a flag in each slot and seal.
fn headers(files: &Files, path: &str) -> Vec<Newer> {
    let mut all = Vec::new();
    let values = [
        ("version", "2", 8, 2),
        ("version", "257", 9, 1),
        ("flag", "0x80", 11, 0x80),
    ];
    for (what, said, at, value) in values {
        let what = (what.to_owned(), said.to_owned());
        all.push(newer(files, path, what, |segment| {
            segment.0[at] = value;
            segment.fix_identity();
            0..512
        }));
    }
    let bytes = files[path].as_ref().unwrap();
    for at in SLOTS.into_iter().filter(|at| bytes[*at] != 0) {
        let what = (format!("slot at {at}"), "0x8000000".to_owned());
        all.push(newer(files, path, what, |segment| {
            segment.0[at + 11] |= 0x80;
            segment.fix_slot(at);
            at..at + 512
        }));
    }
    all
}

/// A flag in the first frame of a segment, one in the middle, and the last.
fn frames(files: &Files, path: &str) -> Vec<Newer> {
    let mut bytes = files[path].clone().unwrap();
    let places = Segment(&mut bytes).frames();
    let mut chosen: Vec<usize> = match places.len() {
        0 => Vec::new(),
        count => vec![places[0], places[count / 2], places[count - 1]],
    };
    chosen.dedup();
    let frame = |place: usize| {
        let what = (format!("frame at {place}"), format!("at byte {place}"));
        newer(files, path, what, |segment| {
            segment.0[place + 30] |= 0x80;
            segment.fix_frame(place);
            place..place + segment.length(place)
        })
    };
    chosen.into_iter().map(frame).collect()
}

/// Versions and flags of every segment and of frames in it: the journal's are refused with the
/// store, a topic's with the topic.
#[test]
fn an_unknown_version_or_flag_is_named_and_nothing_is_changed() {
    let (mut stores, mut failed, mut read) = (0, 0, 0);
    // What a journal holds is laid over the files, so there a flag in the file alone is never seen.
    for case in CASES.iter().filter(|case| case.name != "side") {
        let files = unpack(case.name);
        for path in segments(&files) {
            let all = headers(&files, &path)
                .into_iter()
                .chain(frames(&files, &path));
            for newer in all {
                if path.starts_with("journal/") {
                    store_is_refused(&newer);
                    stores += 1;
                } else if log_is_refused(&newer) {
                    failed += 1;
                } else {
                    read += 1;
                }
            }
        }
    }
    assert!(
        stores > 20 && failed > 40 && read > 20,
        "{stores} {failed} {read}"
    );
}

/// The journal of a case, and what is patched in it.
fn journal(files: &Files) -> String {
    let of_journal = |path: &String| path.starts_with("journal/");
    segments(files).into_iter().rfind(of_journal).unwrap()
}

/// Every record of every journal becomes one of a kind that nobody knows.
#[test]
fn an_unknown_kind_of_journal_record_is_named_and_nothing_is_changed() {
    for case in CASES {
        let files = unpack(case.name);
        let path = journal(&files);
        let places = Segment(&mut files[&path].clone().unwrap()).frames();
        for place in places {
            let what = (format!("kind at {place}"), "record kind 200".to_owned());
            store_is_refused(&newer(&files, &path, what, |segment| {
                segment.0[place + HEAD] = 200;
                segment.fix_frame(place);
                place..place + segment.length(place)
            }));
        }
    }
}

/// What a later version adds to the journal, behind all that is known, which has been read and
/// believed by then: an event, a field of an event or of what is in it, a part of a snapshot that
/// has one more field or an event that is not known, redo with something in its reserved bytes.
#[test]
fn an_unknown_event_or_field_is_named_and_nothing_is_changed() {
    let mut redo = vec![2];
    redo.extend([0; 52]);
    redo.extend([1, 0, 0, 0]);
    let json = [
        ("replicated", r#"1{"event":"replicated","to":"elsewhere"}"#),
        ("how", r#"1{"event":"settled","log":1,"how":"well"}"#),
        (
            "host",
            r#"1{"event":"epoch","epoch":9,"boot":null,"pid":7,"host":"there"}"#,
        ),
        ("until", r#"1{"event":"topic_deleted","id":99,"until":0}"#),
        (
            "sure",
            r#"1{"event":"ends","ends":[{"log":1,"end":null,"exact":true,"sure":1}]}"#,
        ),
        (
            "packed",
            r#"4{"snapshot":1,"part":7,"events":[],"last":null,"packed":false}"#,
        ),
        (
            "replicated",
            r#"4{"snapshot":1,"part":7,"events":[{"event":"replicated"}],"last":null}"#,
        ),
    ];
    let payload = |(said, text): &(&'static str, &str)| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[0] -= b'0';
        (*said, bytes)
    };
    let payloads: Vec<_> = json.iter().map(payload).chain([("redo", redo)]).collect();
    for case in CASES {
        let files = unpack(case.name);
        let path = journal(&files);
        for (said, payload) in &payloads {
            let what = payload[..payload.len().min(40)].escape_ascii().to_string();
            store_is_refused(&newer(
                &files,
                &path,
                (what, (*said).to_owned()),
                |segment| {
                    let place = segment.append(payload);
                    place..place + segment.length(place)
                },
            ));
        }
    }
}

/// Each name of a field, in each event that the golden journals hold, becomes one that is not known.
#[test]
fn a_renamed_field_or_event_is_named_and_nothing_is_changed() {
    let mut seen = std::collections::BTreeSet::new();
    for case in CASES {
        let files = unpack(case.name);
        let path = journal(&files);
        let mut bytes = files[&path].clone().unwrap();
        let segment = Segment(&mut bytes);
        for place in segment.frames() {
            let payload = segment.payload(place);
            if payload[0] != 1 {
                continue;
            }
            let text = std::str::from_utf8(&payload[1..]).unwrap();
            let event = text.split('"').nth(3).unwrap();
            for (at, name) in names(text) {
                if !seen.insert(format!("{event} {name}")) {
                    continue;
                }
                let said = format!("{}Q\"", &name[..name.len() - 1]);
                let what = (format!("{name} of {event}"), said);
                store_is_refused(&newer(&files, &path, what, |segment| {
                    // The last letter of the name.
                    segment.0[place + HEAD + 1 + at + name.len() - 1] = b'Q';
                    segment.fix_frame(place);
                    place..place + segment.length(place)
                }));
            }
        }
    }
    assert!(seen.len() > 40, "{seen:?}");
}

/// The names of fields in a document, and the event's own, with their places. What the kind of
/// event is called must stay: without it there is no event.
fn names(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    for part in text.split('"') {
        let behind = &text[at + part.len()..];
        // What is quoted within a text is none of the journal's.
        let is_field = behind.starts_with("\":") && part != "event" && !part.ends_with('\\');
        if is_field || text[..at].ends_with("\"event\":\"") {
            found.push((at, part));
        }
        at += part.len() + 1;
    }
    found
}

/// Beside a store, what its lock's file says counts for nothing, and a reader does not need one.
#[test]
fn what_the_locks_file_says_is_no_part_of_the_format() {
    let mut files = unpack(CASES[0].name);
    files.insert("LOCK".to_owned(), Some(b"version 2".to_vec()));
    for there in [true, false] {
        if !there {
            files.remove("LOCK");
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        write(&files, &root);
        assert!(verify(&root, &StoreOptions::new()).unwrap().is_sound());
        Store::open(&root).unwrap().close().unwrap();
        assert!(Path::new(&root).join("LOCK").is_file());
    }
}
