//! Figures told to the recorder that the program has installed, now and then, by a thread of their own.
//!
//! A recorder is other people's code. It is called by this thread only, while nothing of the store is
//! held: one that panics is tried again, one that is slow is late, and one that never comes back is left
//! behind when the store is closed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};

use super::latency::Latency;
use super::{Metrics, ProcessorMetrics, TopicMetrics};
use crate::store::inner::Inner;
use crate::store::store::Store;
use crate::sync::{Waited, Watermark};

/// How long closing a store waits for a recorder.
const PATIENCE: Duration = Duration::from_secs(1);

/// The thread, and what ends it.
#[derive(Debug)]
pub(crate) struct Exporter {
    thread: JoinHandle<()>,
    ended: Arc<Watermark>,
    done: Arc<Watermark>,
}

/// Starts it, if the store's options ask for it.
pub(crate) fn start(store: &Arc<Inner>) {
    let Some(interval) = store.options.metrics_interval else {
        return;
    };
    if store.options.inline || store.reading.is_some() {
        return;
    }
    let (ended, done) = (Arc::new(Watermark::new(0)), Arc::new(Watermark::new(0)));
    let inner = Arc::downgrade(store);
    let theirs = (Arc::clone(&ended), Arc::clone(&done));
    let spawned = std::thread::Builder::new()
        .name("tidelog-metrics".to_owned())
        .spawn(move || {
            let mut told = Told::default();
            loop {
                // What panics here is other people's code: a recorder, or who listens to `tracing`.
                let pass = || told.pass(&Store::inside(inner.upgrade()?).metrics().ok()?);
                match catch_unwind(AssertUnwindSafe(pass)) {
                    Ok(Some(())) | Err(_) => {}
                    Ok(None) => break,
                }
                let deadline = Instant::now().checked_add(interval);
                if theirs.0.wait_past(0, deadline, || false) != Waited::TimedOut {
                    break;
                }
            }
            theirs.1.advance(1);
        });
    match spawned {
        Ok(thread) => {
            let exporter = Exporter {
                thread,
                ended,
                done,
            };
            *slot(store) = Some(exporter);
        }
        Err(error) => tracing::warn!(%error, "no figures are told"),
    }
}

/// Ends it, and waits for it unless a recorder keeps it.
pub(crate) fn stop(store: &Inner) {
    let Some(exporter) = slot(store).take() else {
        return;
    };
    exporter.ended.advance(1);
    let deadline = Instant::now().checked_add(PATIENCE);
    exporter.done.wait_past(0, deadline, || false);
    if exporter.done.get() == 0 {
        tracing::warn!("the recorder of metrics does not come back, and is left behind");
        return;
    }
    if exporter.thread.join().is_err() {
        tracing::error!("telling figures panicked");
    }
}

fn slot(store: &Inner) -> std::sync::MutexGuard<'_, Option<Exporter>> {
    store
        .exporting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// What the recorder has been told.
#[derive(Default)]
struct Told {
    latencies: BTreeMap<(String, u32), Latency>,
    gauges: Gauges,
}

/// Which gauges have been told of things that may go, and in which pass last.
#[derive(Default)]
struct Gauges {
    told: BTreeMap<(&'static str, Vec<Label>), u64>,
    pass: u64,
}

type Label = (&'static str, String);

impl Gauges {
    fn set(&mut self, name: &'static str, labels: &[Label], value: f64) {
        self.told.insert((name, labels.to_vec()), self.pass);
        gauge!(name, labels).set(value);
    }

    /// What has not been told again in this pass is not there any more: it is told as 0, once.
    fn sweep(&mut self) {
        let is_gone = |((_, _), pass): (&_, &u64)| *pass != self.pass;
        let gone = self.told.iter().filter(|it| is_gone(*it));
        gone.for_each(|((name, labels), _)| gauge!(*name, labels).set(0.0));
        let pass = self.pass;
        self.told.retain(|_, told| *told == pass);
    }
}

impl Told {
    /// Nothing of the store is held: `metrics` is all that is known of it.
    fn pass(&mut self, metrics: &Metrics) -> Option<()> {
        if catch_unwind(AssertUnwindSafe(|| self.tell(metrics))).is_err() {
            tracing::error!("the recorder of metrics panicked");
        }
        let there = |name: &str| metrics.topics.iter().any(|topic| topic.topic == name);
        self.latencies.retain(|(topic, _), _| there(topic));
        Some(())
    }

    fn tell(&mut self, metrics: &Metrics) {
        self.gauges.pass += 1;
        if let Some(free) = metrics.free_bytes {
            gauge!("tidelog_store_free_bytes").set(free as f64);
        }
        gauge!("tidelog_store_unsettled_bytes").set(metrics.unsettled_bytes as f64);
        gauge!("tidelog_store_redo_bytes").set(metrics.redo_bytes as f64);
        gauge!("tidelog_store_in_doubt_records").set(metrics.in_doubt_records as f64);
        gauge!("tidelog_store_failed_partitions").set(metrics.failed_partitions as f64);
        gauge!("tidelog_store_unopened_redo").set(metrics.unopened_redo as f64);
        for topic in &metrics.topics {
            self.tell_topic(topic);
            self.tell_partitions(topic);
            self.tell_subscriptions(topic);
        }
        for it in &metrics.processors {
            self.tell_processor(it);
        }
        self.gauges.sweep();
    }

    fn tell_topic(&mut self, topic: &TopicMetrics) {
        if topic.partitions.is_empty() {
            // Nothing is known of it.
            return;
        }
        let labels = [("topic", topic.topic.clone())];
        counter!("tidelog_topic_records_total", &labels).absolute(topic.records_total);
        let mut set = |name, value| self.gauges.set(name, &labels, value);
        set("tidelog_topic_bytes", topic.bytes as f64);
        set("tidelog_topic_segments", topic.segments as f64);
        set("tidelog_topic_newest_offset", topic.newest_offset as f64);
        let age = topic.oldest_record_age.unwrap_or_default().as_secs_f64();
        set("tidelog_topic_oldest_record_age_seconds", age);
        if let Some(fullness) = topic.fullness {
            set("tidelog_topic_fullness_ratio", fullness);
        }
    }

    fn tell_partitions(&mut self, topic: &TopicMetrics) {
        for it in &topic.partitions {
            let labels = [
                ("topic", topic.topic.clone()),
                ("partition", it.partition.to_string()),
            ];
            let mut set = |name, value| self.gauges.set(name, &labels, value);
            set("tidelog_partition_offset", it.offset as f64);
            set("tidelog_partition_segment_count", it.segment_count as f64);
            counter!("tidelog_partition_retention_deletes_total", &labels)
                .absolute(it.retention_deletes_total);
            for it in &it.append_waits {
                let wait = [("wait", it.wait.to_string())];
                let labels: Vec<_> = labels.iter().chain(&wait).cloned().collect();
                counter!("tidelog_partition_append_waits_total", &labels).absolute(it.times);
                let seconds = it.time.as_secs_f64();
                let name = "tidelog_partition_append_wait_seconds";
                self.gauges.set(name, &labels, seconds);
            }
            let key = (topic.topic.clone(), it.partition);
            let before = self.latencies.insert(key, it.append_latency);
            let fresh = match before {
                Some(before) => it.append_latency.since(&before),
                None => it.append_latency,
            };
            let times = histogram!("tidelog_partition_append_latency_seconds", &labels);
            for (time, count) in fresh.steps().filter(|(_, count)| *count > 0) {
                times.record_many(time, usize::try_from(count).unwrap_or(usize::MAX));
            }
        }
    }

    fn tell_processor(&mut self, it: &ProcessorMetrics) {
        let labels = [("processor", it.name.clone())];
        let counts = &it.counts;
        counter!("tidelog_processor_records_in_total", &labels).absolute(counts.records_in);
        counter!("tidelog_processor_records_out_total", &labels).absolute(counts.records_out);
        counter!("tidelog_processor_failures_total", &labels).absolute(counts.failures);
        let lag = it.checkpoint_lag.unwrap_or_default().as_secs_f64();
        let name = "tidelog_processor_checkpoint_lag_seconds";
        self.gauges.set(name, &labels, lag);
    }

    fn tell_subscriptions(&mut self, topic: &TopicMetrics) {
        for counted in &topic.subscriptions {
            let it = &counted.info;
            let labels = [
                ("topic", topic.topic.clone()),
                ("subscription", it.name.clone()),
            ];
            for (partition, next) in it.committed.iter().enumerate() {
                let partition = ("partition", partition.to_string());
                let labels = [labels[0].clone(), labels[1].clone(), partition];
                let name = "tidelog_subscription_committed_offset";
                self.gauges.set(name, &labels, *next as f64);
            }
            counter!("tidelog_subscription_reads_total", &labels).absolute(counted.reads_total);
            counter!("tidelog_subscription_commits_total", &labels).absolute(counted.commits_total);
            counter!("tidelog_subscription_offset_expired_total", &labels)
                .absolute(counted.offset_expired_total);
            if it.failed.is_some() {
                // How far it is behind is not known.
                continue;
            }
            let mut set = |name, value| self.gauges.set(name, &labels, value);
            set("tidelog_subscription_lag_records", it.lag.records as f64);
            set("tidelog_subscription_lag_bytes", it.lag.bytes as f64);
            let age = it.lag.age.unwrap_or_default().as_secs_f64();
            set("tidelog_subscription_oldest_uncommitted_age_seconds", age);
        }
    }
}
