//! Figures of a store: as structs, and through the `metrics` facade to recorders of all moods.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tidelog::{Record, Retention, Store, StoreOptions, Timestamp, TopicOptions};

/// What a recorder does with a gauge: takes it, panics, or does not come back while that lasts.
const TAKES: u32 = 0;
const PANICS: u32 = 1;
const HANGS: u32 = 2;

static MOOD: AtomicU32 = AtomicU32::new(TAKES);

/// The one recorder of this process.
struct Moody(DebuggingRecorder);

impl Recorder for Moody {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.0.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        assert_ne!(MOOD.load(Ordering::Acquire), PANICS, "it is in no mood");
        while MOOD.load(Ordering::Acquire) == HANGS {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.0.register_histogram(key, metadata)
    }
}

/// One test at a time has the recorder.
fn recorder() -> (MutexGuard<'static, ()>, &'static Snapshotter) {
    static ONE: Mutex<()> = Mutex::new(());
    static SEEN: OnceLock<Snapshotter> = OnceLock::new();
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = SEEN.get_or_init(|| {
        let recorder = DebuggingRecorder::new();
        let seen = recorder.snapshotter();
        metrics::set_global_recorder(Moody(recorder))
            .map_err(|_| "set before")
            .unwrap();
        seen
    });
    (one, seen)
}

/// Every figure told by now, by its name with its labels.
fn told(seen: &Snapshotter) -> BTreeMap<String, DebugValue> {
    let all = seen.snapshot().into_vec().into_iter();
    all.map(|(key, _, _, value)| {
        let key = key.key().clone();
        let labels: Vec<_> = key
            .labels()
            .map(|it| format!("{}={}", it.key(), it.value()))
            .collect();
        (format!("{}{{{}}}", key.name(), labels.join(",")), value)
    })
    .collect()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let hang = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < hang, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A program installs a recorder and opens a store that is to tell its figures: they come, by the names
/// that are promised, and each durable append counts once in the distribution of their times.
#[test]
fn figures_come_by_their_promised_names() {
    let (_one, seen) = recorder();
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions::new().metrics_interval(Duration::from_millis(5));
    let store = Store::open_with(dir.path().join("data"), options).unwrap();
    let topic = TopicOptions::new()
        .max_total_bytes(1 << 20)
        .retention(Retention::days(1));
    let quakes = store.create_topic("figures", topic).unwrap();
    for _ in 0..3 {
        quakes.append("M 4.6").unwrap();
    }
    let mut archive = quakes.subscribe("archive").unwrap();
    assert!(archive.next().unwrap().is_some());
    archive.commit().unwrap();
    drop(archive);
    let quiet = store.processor("quiet").input("figures");
    quiet.run_once(|_, _| Ok(())).unwrap();
    let numbers = [
        ("tidelog_topic_records_total{topic=figures}", 3.0),
        ("tidelog_topic_segments{topic=figures}", 1.0),
        ("tidelog_topic_newest_offset{topic=figures}", 3.0),
        ("tidelog_partition_offset{topic=figures,partition=0}", 3.0),
        (
            "tidelog_partition_segment_count{topic=figures,partition=0}",
            1.0,
        ),
        (
            "tidelog_partition_retention_deletes_total{topic=figures,partition=0}",
            0.0,
        ),
        (
            "tidelog_subscription_committed_offset{topic=figures,subscription=archive,partition=0}",
            1.0,
        ),
        (
            "tidelog_subscription_lag_records{topic=figures,subscription=archive}",
            2.0,
        ),
        (
            "tidelog_subscription_lag_bytes{topic=figures,subscription=archive}",
            80.0,
        ),
        (
            "tidelog_subscription_reads_total{topic=figures,subscription=archive}",
            1.0,
        ),
        (
            "tidelog_subscription_commits_total{topic=figures,subscription=archive}",
            1.0,
        ),
        (
            "tidelog_subscription_offset_expired_total{topic=figures,subscription=archive}",
            0.0,
        ),
        ("tidelog_processor_records_in_total{processor=quiet}", 3.0),
        ("tidelog_processor_records_out_total{processor=quiet}", 0.0),
        ("tidelog_processor_failures_total{processor=quiet}", 0.0),
        (
            "tidelog_processor_checkpoint_lag_seconds{processor=quiet}",
            0.0,
        ),
        ("tidelog_store_failed_partitions{}", 0.0),
    ];
    let more_than_nothing = [
        "tidelog_topic_bytes{topic=figures}",
        "tidelog_subscription_oldest_uncommitted_age_seconds{topic=figures,subscription=archive}",
        "tidelog_topic_oldest_record_age_seconds{topic=figures}",
        "tidelog_store_free_bytes{}",
    ];
    let mut times = 0;
    let mut all = BTreeMap::new();
    // Each is told again and again, with what is so by then.
    let mut wrong = Vec::new();
    wait_for("all figures are told", || {
        for (name, value) in told(seen) {
            match value {
                DebugValue::Histogram(values) if name.contains("topic=figures") => {
                    times += values.len();
                }
                DebugValue::Histogram(_) => {}
                DebugValue::Counter(count) => drop(all.insert(name, count as f64)),
                DebugValue::Gauge(value) => drop(all.insert(name, value.0)),
            }
        }
        let differs = |(name, figure): &&(&str, f64)| all.get(*name) != Some(figure);
        wrong = numbers.iter().filter(differs).copied().collect();
        // One look may fall between two figures of one telling.
        let told = |name: &&str| all.get(*name).is_some_and(|figure| *figure > 0.0);
        times == 3 && wrong.is_empty() && more_than_nothing.iter().all(told)
    });
    assert_eq!(wrong, []);
    drop(quakes);
    store.close().unwrap();
}

/// A recorder panics again and again, and later does not come back at all. Appends go on, the store closes
/// in a bounded time, and when the recorder takes figures again they come.
#[test]
fn a_recorder_that_panics_or_hangs_harms_nobody() {
    let (_one, seen) = recorder();
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions::new().metrics_interval(Duration::from_millis(1));
    let store = Store::open_with(dir.path().join("data"), options).unwrap();
    let moody = store.topic("moody").unwrap();
    let name = "tidelog_topic_records_total{topic=moody}";
    for mood in [PANICS, TAKES, HANGS] {
        MOOD.store(mood, Ordering::Release);
        for _ in 0..10 {
            moody.append("M 4.6").unwrap();
        }
        if mood == TAKES {
            let mut most = 0;
            wait_for("it takes figures again", || {
                if let Some(DebugValue::Counter(records)) = told(seen).get(name) {
                    most = most.max(*records);
                }
                most == 20
            });
        }
    }
    drop(moody);
    let begun = Instant::now();
    store.close().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "it waits for a second"
    );
    MOOD.store(TAKES, Ordering::Release);
}

/// Structs tell of a topic that retention has trimmed: what was ever appended, what is there, and how old
/// the oldest record is by its own time.
#[test]
fn structs_tell_what_is_there_and_what_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let small = TopicOptions::new()
        .first_segment_bytes(16 << 10)
        .max_segment_bytes(16 << 10)
        .max_total_bytes(1 << 20);
    let topic = store.create_topic("t", small).unwrap();
    let payload = [b'x'; 1000];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let minute_ago = now - Duration::from_secs(60);
    let minute_ago = Timestamp::from_millis(i64::try_from(minute_ago.as_millis()).unwrap());
    for _ in 0..40 {
        let record = Record::new(&payload).at(minute_ago);
        topic.append(record).unwrap();
    }
    let first = topic.partition(0).unwrap().truncate_before(30).unwrap();
    assert!(first > 0);
    let metrics = store.metrics().unwrap();
    let told = &metrics.topics[0];
    let partition = &told.partitions[0];
    assert_eq!(
        (told.records_total, partition.first_offset, partition.offset),
        (40, first, 40)
    );
    let frames = (40 - first) * 1040;
    assert!(
        (frames - 40 * 16..=frames).contains(&told.bytes),
        "{} bytes",
        told.bytes
    );
    assert!(partition.retention_deletes_total > 0);
    assert_eq!(told.segments, partition.segment_count);
    assert!(told.oldest_record_age.unwrap() >= Duration::from_secs(60));
    let full = told.fullness.unwrap();
    assert!((0.005..0.1).contains(&full), "{full}");
    assert_eq!(partition.append_latency.count(), 40);
    assert!(partition.append_latency.quantile(1.0).is_some());
    drop(topic);
    store.close().unwrap();
}

/// A processor is run over what is there again and again, as a cron job would: each run tells what it has
/// done itself, and the totals of its name grow.
#[test]
fn a_processor_that_runs_again_and_again_counts_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let quakes = store.topic("quakes").unwrap();
    for round in 1..=3 {
        quakes.append("M 4.6").unwrap();
        let copies = store.processor("copies").input("quakes").output("copies");
        let copy = copies.run_once(|record, out| Ok(out.append(record.to_record())?));
        assert_eq!(copy.unwrap().records_in, 1);
        let told = &store.metrics().unwrap().processors[0];
        let counts = (told.counts.records_in, told.counts.records_out);
        assert_eq!(counts, (round, round));
    }
    drop(quakes);
    store.close().unwrap();
}

/// A batch goes to two partitions, then a transaction does, and each is waited for: that counts among the
/// appends of both, as one to a single partition does.
#[test]
fn appends_to_several_partitions_are_among_the_times() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let topic = TopicOptions::new().partitions(3);
    let topic = store.create_topic("t", topic).unwrap();
    let both = || [0, 1].map(|number| Record::new("M 4.6").partition(number));
    topic.append_batch(both()).unwrap();
    let transaction =
        store.transaction(|tx| both().into_iter().try_for_each(|it| tx.append(&topic, it)));
    transaction.unwrap();
    topic.append(Record::new("M 2.1").partition(1)).unwrap();
    let metrics = store.metrics().unwrap();
    let times = metrics.topics[0].partitions.iter();
    let times: Vec<u64> = times.map(|it| it.append_latency.count()).collect();
    assert_eq!(times, [2, 3, 0]);
    drop(topic);
    store.close().unwrap();
}

/// A store is opened again, and nobody uses it: that a consumer stands still is told. When the consumer is
/// deleted, and then the topic, their last figures do not stand for ever.
#[test]
fn what_stands_still_is_told_after_a_restart_and_what_has_gone_as_nothing() {
    let (_one, seen) = recorder();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    let store = Store::open(&root).unwrap();
    let limited = TopicOptions::new().max_total_bytes(1 << 20);
    let topic = store.create_topic("still", limited).unwrap();
    topic.append("M 4.6").unwrap();
    drop(topic.subscribe("archive").unwrap());
    drop(topic);
    store.close().unwrap();

    let options = StoreOptions::new().metrics_interval(Duration::from_millis(5));
    let store = Store::open_with(&root, options).unwrap();
    let of = |name: &str| match told(seen).get(name) {
        Some(DebugValue::Gauge(value)) => Some(value.0),
        _ => None,
    };
    let lag = "tidelog_subscription_lag_records{topic=still,subscription=archive}";
    let age = "tidelog_topic_oldest_record_age_seconds{topic=still}";
    wait_for("it stands still", || of(lag) == Some(1.0));
    wait_for("it has a record", || of(age) > Some(0.0));
    let topic = store.existing_topic("still").unwrap();
    topic.delete_subscription("archive").unwrap();
    wait_for("nobody is behind", || of(lag) == Some(0.0));
    drop(topic);
    store.delete_topic("still").unwrap();
    for name in [
        "bytes",
        "newest_offset",
        "oldest_record_age_seconds",
        "fullness_ratio",
    ] {
        let name = format!("tidelog_topic_{name}{{topic=still}}");
        wait_for(&name, || of(&name) == Some(0.0));
    }
    let offset = "tidelog_partition_offset{topic=still,partition=0}";
    wait_for(offset, || of(offset) == Some(0.0));
    store.close().unwrap();
}
