//! A log whose own files failed: what it needs of the journal has a file of its own from then on, and
//! the journal lets go of its segments.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::kit::{damaged, one, scan, segments_of};
use crate::machine::{Machine, ROOT};
use tidelog::sys::sim::{Call, Crash, Fault, Keep, SimClock, When};
use tidelog::sys::{Backend, Storage};
use tidelog::{Ack, Error, Record, Store, Topic};

const JOURNAL: &str = "/store/journal";

impl Machine {
    fn journal(&self, suffix: &str) -> Vec<PathBuf> {
        let entries = self.sim.list(Path::new(JOURNAL)).unwrap();
        let names = entries.into_iter().map(|entry| entry.name);
        let names = names.filter(|name| name.ends_with(suffix));
        names.map(|name| Path::new(JOURNAL).join(name)).collect()
    }

    fn redo_files(&self) -> Vec<PathBuf> {
        self.journal(".redo")
    }

    /// Two topics have two records each of which the second rode; then the first one's own sync
    /// fails, for good.
    fn failed_topic(&self, store: &Store) {
        self.riding(store);
        self.fail(store);
    }

    fn riding(&self, store: &Store) {
        let all = ["bad", "good"].map(|name| store.topic(name).unwrap());
        for topic in &all {
            topic.append("first").unwrap();
        }
        let acks = send(&all, "second");
        store.flush().unwrap();
        assert!(acks.iter().all(Ack::is_durable));
    }

    fn fail(&self, store: &Store) {
        let broken = Fault::new(Call::Sync, When::From(0), 5).on("/bad/");
        self.sim.fail(broken);
        self.clock.advance(Duration::from_secs(2));
        // The next rounds look at what rests.
        let [bad, good] = ["bad", "good"].map(|name| store.topic(name).unwrap());
        for _ in 0..4 {
            good.append("more").unwrap();
        }
        let refused = bad.append("third");
        assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
        // And one of the journal.
        let other = store.topic("other").unwrap();
        send(&[good, other], "more");
        store.flush().unwrap();
    }
}

fn send(topics: &[Topic], payload: &str) -> Vec<Ack> {
    let send = |topic: &Topic| topic.append_nowait(Record::new(payload.to_owned()));
    topics.iter().map(|topic| send(topic).unwrap()).collect()
}

/// So many MiB of redo go through the journal.
fn traffic(store: &Store, clock: &SimClock, mebibytes: usize) {
    let all = ["a", "b"].map(|name| store.topic(name).unwrap());
    let payload = "x".repeat(100 << 10);
    for _ in 0..mebibytes * 5 {
        send(&all, &payload);
        store.flush().unwrap();
        clock.advance(Duration::from_millis(10));
    }
}

fn payloads(store: &Store, topic: &str) -> Vec<String> {
    let partition = store.existing_topic(topic).unwrap().partition(0).unwrap();
    let records = partition.read(0..u64::MAX).unwrap();
    let text =
        |record: tidelog::Result<tidelog::OwnedRecord>| record.unwrap().text().unwrap().to_owned();
    records.map(text).collect()
}

/// Why a topic cannot be read.
fn cause(store: &Store, topic: &str) -> Error {
    let partition = store.existing_topic(topic).unwrap().partition(0).unwrap();
    match partition.end() {
        Err(Error::Failed { cause, .. }) => Error::clone(&cause),
        other => panic!("{other:?}"),
    }
}

/// A topic's own sync fails for good while the journal has a record of it. Others go on with many
/// MiB: the journal lets go of its segments behind them. The power fails, and the acknowledged record
/// is there; the topic takes appends again, its file of redo goes, and nothing is lost by the next cut.
#[test]
fn a_failed_topic_does_not_pin_the_journal_and_loses_nothing() {
    let machine = Machine::new(1);
    let store = machine.open();
    machine.failed_topic(&store);
    traffic(&store, &machine.clock, 36);
    assert_eq!(machine.redo_files().len(), 1);
    let segments = machine.journal(".seg");
    assert!(segments.len() < 6, "{segments:?}");
    assert!(!segments[0].ends_with("00000000.seg"), "{segments:?}");
    let store = machine.cut(store, Keep::Nothing);
    let verified = tidelog::verify("/store", &machine.options()).unwrap();
    assert!(verified.is_sound(), "{verified:?}");
    assert_eq!(machine.redo_files().len(), 1);
    assert_eq!(payloads(&store, "bad"), ["first", "second"]);
    let none: [PathBuf; 0] = [];
    assert_eq!(machine.redo_files(), none);
    store.topic("bad").unwrap().append("third").unwrap();
    let store = machine.cut(store, Keep::Nothing);
    assert_eq!(payloads(&store, "bad"), ["first", "second", "third"]);
    assert!(store.health().damage.is_empty());
    store.close().unwrap();
}

/// The same in a store with threads, in which nobody calls for what was copied out. Whether a topic rides
/// when its sync fails, and so needs anything, is up to the threads: it is tried until one does.
#[test]
fn a_thread_of_the_store_copies_out_what_a_failed_topic_needs() {
    let machine = Machine::new(1);
    let store = Store::open_with("/store", machine.options()).unwrap();
    let good = store.topic("good").unwrap();
    let start = Instant::now();
    let mut safe = Vec::new();
    while machine.redo_files().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "hung");
        let name = format!("bad-{}", safe.len());
        let bad = store.topic(&name).unwrap();
        let broken = Fault::new(Call::Sync, When::From(0), 5).on(&format!("/{name}/"));
        let mut acks = Vec::new();
        while let Ok(ack) = bad.append_nowait("both") {
            acks.push(ack);
            good.append_nowait("both").unwrap();
            drop(store.flush());
            if acks.len() == 10 {
                machine.sim.fail(broken.clone());
            }
            if acks.len() >= 10 {
                machine.clock.advance(Duration::from_secs(2));
            }
        }
        for _ in 0..50 {
            good.append("one").unwrap();
            machine.clock.advance(Duration::from_secs(2));
        }
        safe.push(acks.iter().filter(|ack| ack.is_durable()).count());
    }
    drop(good);
    let store = machine.cut(store, Keep::Nothing);
    for (number, safe) in safe.into_iter().enumerate() {
        assert!(payloads(&store, &format!("bad-{number}")).len() >= safe);
    }
    store.close().unwrap();
}

/// The journal does not take the event that names the file, and later there is no room for a file: it
/// goes on keeping what the topic needs. When there is room, what it needs is copied out.
#[test]
fn until_the_event_is_durable_the_journal_keeps_what_a_failed_topic_needs() {
    let machine = Machine::new(1);
    machine.sim.set_backend(Backend::Pwrite);
    let store = machine.open();
    store.topic("other").unwrap().append("first").unwrap();
    machine.riding(&store);
    let event = Fault::new(Call::Write, When::From(0), 28).on("journal/0");
    machine.sim.fail(event);
    machine.fail(&store);
    let none: [PathBuf; 0] = [];
    assert_eq!(machine.redo_files(), none, "nothing names it");
    machine.sim.heal();
    let room = Fault::new(Call::Create, When::From(0), 28).on(".redo");
    machine.sim.fail(room);
    traffic(&store, &machine.clock, 36);
    let segments = machine.journal(".seg");
    assert!(segments[0].ends_with("00000000.seg"), "{segments:?}");
    machine.sim.heal();
    traffic(&store, &machine.clock, 2);
    assert_eq!(machine.redo_files().len(), 1);
    let store = machine.cut(store, Keep::Nothing);
    assert_eq!(payloads(&store, "bad"), ["first", "second"]);
    store.close().unwrap();
}

/// The file is gone, damaged, or written by a later version: the topic fails, everything is kept, and
/// other topics do not notice. With the file back all is well.
#[test]
fn a_file_of_redo_that_cannot_be_read_fails_its_topic() {
    let machine = Machine::new(1);
    let store = machine.open();
    machine.failed_topic(&store);
    let store = machine.cut(store, Keep::Nothing);
    let [file] = &machine.redo_files()[..] else {
        panic!("{:?}", machine.redo_files());
    };
    let kept = Path::new("/kept");
    machine.sim.rename(file, kept).unwrap();
    store.close().unwrap();
    let store = machine.open();
    assert!(matches!(cause(&store, "bad"), Error::Mismatch { path, .. } if path == *file));
    assert_eq!(payloads(&store, "good").len(), 7);
    let verified = tidelog::verify("/store", &machine.options()).unwrap();
    assert!(!verified.is_sound());
    store.close().unwrap();
    machine.sim.rename(kept, file).unwrap();
    let sound = machine.sim.bytes(file).unwrap();
    machine.sim.flip(file, sound.len() - 20, 4).unwrap();
    let store = machine.open();
    assert!(matches!(cause(&store, "bad"), Error::Mismatch { path, .. } if path == *file));
    store.close().unwrap();
    machine.sim.overwrite(file, 0, &later(&sound)).unwrap();
    let store = machine.open();
    let unknown = cause(&store, "bad");
    let meant = matches!(&unknown, Error::UnsupportedVersion { path, .. } if path == file);
    assert!(meant, "{unknown}");
    store.close().unwrap();
    machine.sim.overwrite(file, 0, &sound).unwrap();
    let store = machine.open();
    assert_eq!(payloads(&store, "bad"), ["first", "second"]);
    store.close().unwrap();
}

/// The file is damaged, or gone, and nobody can bring it back. A repair says so and gives it up; the
/// damaged file is in the quarantine. What the journal itself still holds is there; what the file alone
/// held is lost at its offsets. One of a later version, or
/// one that cannot be opened now, is not given up.
#[test]
fn a_repair_goes_on_without_redo_that_cannot_be_read() {
    for (gone, alone) in [(false, false), (true, false), (false, true)] {
        let machine = Machine::new(1);
        let store = machine.open();
        machine.failed_topic(&store);
        if alone {
            traffic(&store, &machine.clock, 36);
        }
        machine.stop(store, Crash::Cut(Keep::Nothing));
        let [file] = &machine.redo_files()[..] else {
            panic!("{:?}", machine.redo_files());
        };
        // A sync that failed may have written anything.
        let topic = Path::new(ROOT).join("topics/bad");
        let log = topic.join(&machine.sim.list(&topic).unwrap()[0].name);
        let segment = log.join("00000000.seg");
        let bytes = machine.sim.bytes(&segment).unwrap();
        if let Some(at) = bytes.windows(6).position(|it| it == b"second") {
            machine.sim.overwrite(&segment, at, &[0; 6]).unwrap();
        }
        let options = machine.options().inline();
        let sound = machine.sim.bytes(file).unwrap();
        machine.sim.overwrite(file, 0, &later(&sound)).unwrap();
        let refused = tidelog::repair(ROOT, &options).unwrap();
        assert!(!refused.is_complete(), "{refused:?}");
        machine.sim.overwrite(file, 0, &sound).unwrap();
        let shut = Fault::new(Call::Open, When::From(0), libc::EMFILE);
        machine.sim.fail(shut.on(".redo"));
        let refused = tidelog::repair(ROOT, &options).unwrap();
        assert!(!refused.is_complete(), "{refused:?}");
        machine.sim.heal();
        match gone {
            true => machine.sim.remove_file(file).unwrap(),
            false => machine.sim.flip(file, sound.len() - 20, 4).unwrap(),
        }
        let planned = tidelog::repair_plan(ROOT, &options).unwrap();
        let why = &planned.logs[0].why;
        assert!(
            matches!(why, Error::Mismatch { path, .. } if path == file),
            "{why}"
        );
        let done = tidelog::repair(ROOT, &options).unwrap();
        assert!(done.is_complete(), "{done:?}");
        let none: [PathBuf; 0] = [];
        assert_eq!(machine.redo_files(), none);
        let kept = machine.sim.list(&Path::new(ROOT).join("quarantine"));
        assert_eq!(kept.unwrap().len(), usize::from(!gone));
        let store = machine.open();
        let records = scan(&one(&store, "bad"));
        let lost: Vec<_> = alone.then_some((1, 2)).into_iter().collect();
        assert_eq!(damaged(&records), lost);
        assert_eq!(one(&store, "bad").append("third").unwrap().offset(), 2);
        store.close().unwrap();
        assert!(tidelog::repair(ROOT, &options).unwrap().logs.is_empty());
    }
}

/// The file as a later version would write it.
fn later(sound: &[u8]) -> Vec<u8> {
    let mut file = sound.to_vec();
    file[8..10].copy_from_slice(&2_u16.to_le_bytes());
    let covered = [&file[..12], &file[16..]].concat();
    file[12..16].copy_from_slice(&crc32c::crc32c(&covered).to_le_bytes());
    file
}

/// The failed topic is deleted: its file goes with it. So does, at the next opening, a file that
/// nothing names, as a killed owner may leave it; but not one of a log that the journal has never
/// heard of.
#[test]
fn a_file_of_redo_that_nothing_names_goes() {
    let machine = Machine::new(1);
    let store = machine.open();
    machine.failed_topic(&store);
    let [file] = &machine.redo_files()[..] else {
        panic!("{:?}", machine.redo_files());
    };
    store.delete_topic("bad").unwrap();
    let none: [PathBuf; 0] = [];
    assert_eq!(machine.redo_files(), none);
    let store = machine.cut(store, Keep::Nothing);
    store.close().unwrap();
    let foreign = Path::new(JOURNAL).join("900-0000000000000001.redo");
    for path in [file, &foreign] {
        machine.sim.create(path, 512).unwrap();
    }
    let store = machine.open();
    assert_eq!(machine.redo_files(), [foreign]);
    assert_eq!(payloads(&store, "good").len(), 7);
    store.close().unwrap();
}

/// A topic cannot be opened after a crash, since a file of it is lost, and the journal has records of
/// it. What it has is copied out, too, so that the journal need not grow for as long as nobody mends
/// that; when the file is back, all is well.
#[test]
fn a_topic_that_cannot_be_opened_does_not_pin_the_journal() {
    let machine = Machine::new(1);
    let store = machine.open();
    let bad = store.create_topic("bad", segments_of(16 << 10)).unwrap();
    let good = store.topic("good").unwrap();
    let large = "x".repeat(5000);
    bad.append(&*large).unwrap();
    send(&[bad.clone(), good.clone()], &large);
    store.flush().unwrap();
    drop((bad, good));
    let store = machine.cut(store, Keep::Nothing);
    let lost = Path::new("/store/topics/bad/000000-1/00000001.seg");
    let kept = Path::new("/kept");
    machine.sim.rename(lost, kept).unwrap();
    assert!(matches!(cause(&store, "bad"), Error::Mismatch { .. }));
    assert_eq!(payloads(&store, "good").len(), 1);
    traffic(&store, &machine.clock, 36);
    assert_eq!(machine.redo_files().len(), 1);
    let segments = machine.journal(".seg");
    assert!(!segments[0].ends_with("00000000.seg"), "{segments:?}");
    for folder in [kept, lost].map(|path| path.parent().unwrap()) {
        machine.sim.sync_dir(folder).unwrap();
    }
    let store = machine.cut(store, Keep::Nothing);
    assert!(matches!(cause(&store, "bad"), Error::Mismatch { .. }));
    machine.sim.rename(kept, lost).unwrap();
    assert_eq!(payloads(&store, "bad").len(), 2);
    let none: [PathBuf; 0] = [];
    assert_eq!(machine.redo_files(), none);
    store.close().unwrap();
}
