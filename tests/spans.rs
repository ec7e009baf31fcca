//! What a store tells through `tracing`: an operator who looks for lost time, or for damage, finds where it was.

#[path = "common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidelog::sys::sim::Sim;
use tidelog::{Retention, Store, StoreOptions, TopicOptions};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// Everything that was told, a line each: spans with the names of those around them and their fields,
/// and events likewise.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn told() -> MutexGuard<'static, Vec<String>> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Listener;

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a string takes everything");
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Listener {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        told().push(format!("{}:{}", path(context.span_scope(id)), fields.0));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let place = path(context.event_scope(event));
        told().push(format!("{place}! {}{}", event.metadata().level(), fields.0));
    }
}

/// The names of spans from the outermost one.
fn path<'a, S: LookupSpan<'a>>(
    scope: Option<tracing_subscriber::registry::Scope<'a, S>>,
) -> String {
    let names = scope.into_iter().flat_map(|scope| scope.from_root());
    names.map(|span| span.name()).collect::<Vec<_>>().join("/")
}

/// One test at a time has the one subscriber of this process, which also hears the store's threads.
fn listen() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    static SET: OnceLock<()> = OnceLock::new();
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    SET.get_or_init(|| {
        let all = tracing_subscriber::registry().with(Listener);
        tracing::subscriber::set_global_default(all).expect("nobody set another");
    });
    told().clear();
    one
}

/// Turns around a byte in the one segment that has these bytes.
fn spoil(folder: &Path, needle: &[u8]) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            spoil(&path, needle);
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        let found = bytes
            .windows(needle.len())
            .position(|bytes| bytes == needle);
        if let Some(at) = found {
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
}

/// A store is opened, fills segments, flushes, expires, is copied, looked through and mended: each of
/// these is a span that names its store or its log, so that a trace shows what an append waited for.
#[test]
fn what_takes_time_is_a_span_that_says_where() {
    let _one = listen();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    let store = Store::open(&root).unwrap();
    let small = TopicOptions::new()
        .max_segment_bytes(64 << 10)
        .retention(Retention::bytes(64 << 10));
    let topic = store.create_topic("quakes", small).unwrap();
    for _ in 0..64 {
        topic.append(vec![7; 4 << 10]).unwrap();
    }
    topic.apply_retention().unwrap();
    store.backup(dir.path().join("copy")).unwrap();
    store.close().unwrap();
    let options = StoreOptions::new();
    tidelog::verify(&root, &options).unwrap();
    tidelog::repair(&root, &options).unwrap();
    tidelog::salvage(&root, dir.path().join("new"), &options).unwrap();
    drop(Store::open_read_only(&root).unwrap());

    let told = told().clone();
    let spans = told.iter().filter_map(|line| line.split_once(':'));
    let spans = spans.map(|(place, fields)| (place.rsplit('/').next().unwrap_or(place), fields));
    let mut seen = BTreeSet::new();
    for (name, fields) in spans {
        let place = match name {
            "recover" | "roll" => fields.contains(" log="),
            "flush" => fields.contains(" log=") || fields.contains(" logs="),
            "retain" => fields.contains(" topic=\"quakes\"") && fields.contains(" partition=0"),
            _ => fields.contains(" root="),
        };
        assert!(place, "a span without a place: {name}{fields}");
        seen.insert(name);
    }
    let all = [
        "backup", "flush", "open", "recover", "repair", "retain", "roll", "salvage", "verify",
    ];
    assert_eq!(seen, BTreeSet::from(all));
    let opened = |line: &&String| line.starts_with("open!") && line.contains("opened");
    assert!(told.iter().find(opened).is_some(), "{told:?}");
}

/// A bit turns around below a store that was killed. Recovery tells of it once, within its span, and
/// who reads there tells of it with its place.
#[test]
fn damage_is_told_where_it_is_met() {
    let _one = listen();
    let dir = tempfile::tempdir().unwrap();
    let (root, killed) = (dir.path().join("data"), dir.path().join("killed"));
    let store = Store::open(&root).unwrap();
    let topic = store.topic("quakes").unwrap();
    for number in 0..20 {
        topic.append(format!("quake number {number:03}")).unwrap();
    }
    common::copy(&root, &killed).unwrap();
    store.close().unwrap();
    spoil(&killed.join("topics"), b"quake number 007");
    told().clear();

    let store = Store::open(&killed).unwrap();
    let partition = store
        .existing_topic("quakes")
        .unwrap()
        .partition(0)
        .unwrap();
    let read: Vec<_> = partition.read(0..u64::MAX).unwrap().collect();
    let bad = read.iter().filter(|record| record.is_err());
    assert_eq!(bad.count(), 1, "{read:?}");
    store.close().unwrap();

    let told = told().clone();
    let errors: Vec<_> = told
        .iter()
        .filter(|line| line.contains("! ERROR"))
        .collect();
    let at = |line: &&&String| line.contains("offset: 7, next: 8");
    let found = errors.iter().filter(|line| line.starts_with("recover!"));
    assert_eq!(found.filter(at).count(), 1, "{told:?}");
    let met = errors
        .iter()
        .filter(|line| line.contains("met while reading"));
    assert_eq!(met.filter(at).count(), 1, "{told:?}");
}

/// How often that has been told.
fn times(what: &str) -> usize {
    told().iter().filter(|line| line.contains(what)).count()
}

/// A topic fills up, and so does the disk, and nobody has asked for figures: each is warned of once, before
/// an append is refused, and again when it has been well in between.
#[test]
fn what_will_be_full_is_warned_of_before_it_is() {
    let _one = listen();
    let sim = Sim::new(1);
    let options = || StoreOptions::new().storage(Arc::new(sim.clone())).inline();
    let store = Store::open_with("/store", options()).unwrap();
    let small = TopicOptions::new()
        .first_segment_bytes(64 << 10)
        .max_segment_bytes(64 << 10)
        .max_total_bytes(1 << 20);
    let topic = store.create_topic("quakes", small).unwrap();
    let until_full = || {
        let kib = [7; 1 << 10];
        let mut warned = None;
        let taken = (0..).take_while(|_| topic.append(kib.as_slice()).is_ok());
        for number in taken {
            let before = warned.is_none() && times("nearly full") > 0;
            warned = warned.or(before.then_some(number));
        }
        warned
    };
    let warned = until_full().unwrap();
    assert!((850..950).contains(&warned), "at {warned} KiB of 1024");
    assert_eq!(times("nearly full"), 1);
    assert_eq!(times("topic=\"quakes\" partition=0"), 1);
    topic.partition(0).unwrap().truncate_before(500).unwrap();
    topic.append("room").unwrap();
    until_full();
    assert_eq!(times("nearly full"), 2);

    assert_eq!(times("little space is left"), 0);
    for (free, told) in [(512, 1), (512, 1), (4096, 1), (512, 2)] {
        sim.set_capacity(Some(free << 20));
        let name = format!("other{}", store.topics().len());
        store.topic(&name).unwrap().append("M 4.6").unwrap();
        assert_eq!(times("little space is left"), told, "{free} MiB");
    }
    drop(topic);
    store.close().unwrap();
}
