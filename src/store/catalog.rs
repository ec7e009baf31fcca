//! Making, changing, finishing and deleting topics: one at a time, each a durable fact before it
//! shows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::inner::{Inner, TopicInner};
use super::log_cell::{LogCell, folder_name, refuse_links_only, site};
use super::open::{discard, empty_trash};
use super::transaction::{Part, commit};
use crate::error::{Error, Result};
use crate::journal::{Event, RetentionSettings, TopicSettings, TopicState};
use crate::options::{Retention, TopicOptions};
use crate::partition::Patience;
use crate::segment::Writable;
use crate::sys::Storage;

/// Makes a topic, or opens the one that is there.
pub(super) fn create(store: &Inner, name: &str, options: &TopicOptions) -> Result<Arc<TopicInner>> {
    super::name::check(name)?;
    options.check()?;
    let mut ids = store.catalog()?;
    store.check_open()?;
    let found = store.topics().get(name).cloned();
    if let Some(topic) = found {
        agree(&topic, options)?;
        change(store, &topic, options)?;
        return Ok(topic);
    }
    let first = ids.log;
    let next = first + u64::from(options.partitions);
    let state = TopicState {
        id: ids.topic,
        name: name.to_owned(),
        content_type: options.content_type.clone(),
        logs: (first..next).collect(),
        settings: settings(options, 0),
        finished: false,
        created: store.options.clock.now(),
    };
    let topic = TopicInner::new(&state);
    // Ids are used up even if the commit fails: it may be there after all.
    ids.topic += 1;
    ids.log = next;
    store.journal.commit(&[Event::Topic(state)])?;
    store.topics().insert(name.to_owned(), Arc::clone(&topic));
    Ok(topic)
}

/// What can never change must be as it is asked for.
fn agree(topic: &TopicInner, options: &TopicOptions) -> Result<()> {
    let mismatch = |setting, existing: String, requested: String| Error::TopicMismatch {
        topic: topic.name.to_string(),
        setting,
        existing,
        requested,
    };
    if topic.partitions() != options.partitions {
        let (existing, requested) = (topic.partitions(), options.partitions);
        return Err(mismatch(
            "partitions",
            existing.to_string(),
            requested.to_string(),
        ));
    }
    if topic.content_type != options.content_type {
        let (existing, requested) = (topic.content_type.clone(), options.content_type.clone());
        return Err(mismatch("content type", existing, requested));
    }
    Ok(())
}

/// What may change is as it is asked for from now on; it is durable before it counts.
fn change(store: &Inner, topic: &TopicInner, options: &TopicOptions) -> Result<()> {
    let settings = settings(options, topic.settings().reach_bytes);
    if settings == topic.settings() {
        return Ok(());
    }
    let state = TopicState {
        settings: settings.clone(),
        ..topic.state()
    };
    store.journal.commit(&[Event::Topic(state)])?;
    topic.set_settings(settings);
    for log in topic.all_open_logs() {
        log.set_limits(topic.limits());
    }
    store.setting.retain.make();
    Ok(())
}

/// The settings that options ask for. The reach never shrinks: what was written under a greater
/// bound must be found by a recovery after it was lowered.
fn settings(options: &TopicOptions, reach: u64) -> TopicSettings {
    TopicSettings {
        max_record_bytes: options.max_record_bytes,
        max_batch_bytes: options.max_batch_bytes,
        max_total_bytes: options.max_total_bytes,
        first_segment_bytes: options.first_segment_bytes,
        max_segment_bytes: options.max_segment_bytes,
        unsettled_bytes: options.unsettled_bytes,
        reach_bytes: reach
            .max(options.unsettled_bytes)
            .max(options.max_batch_bytes)
            .max(options.max_record_bytes),
        sync_after_nanos: options.durability.nanos(),
        retention: (options.retention != Retention::forever()).then(|| RetentionSettings {
            age_nanos: options.retention.age.map(nanos),
            bytes: options.retention.bytes,
            required_bytes: options.retention.required,
        }),
        full_wait_nanos: options.full_wait.map(nanos),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Ends a topic for good, behind everything written before and with these last records for its
/// partitions: as one, in one sync. A refusal leaves the topic as it was. The offsets that each
/// partition's records have got.
pub(super) fn finish(
    store: &Inner,
    topic: &TopicInner,
    records: BTreeMap<u32, Vec<Writable<'_>>>,
    now: i64,
) -> Result<Vec<Range<u64>>> {
    let _one = store.catalog()?;
    store.check_open()?;
    topic.check_there()?;
    let part = |(partition, records)| {
        let log = store.log(topic, partition)?;
        let last = true;
        Ok(Part { log, records, last })
    };
    let parts = records.into_iter().map(part).collect::<Result<Vec<_>>>()?;
    commit_ending(store, &[topic], &parts, Vec::new(), now)
}

/// Commits parts and facts, and with them ends topics, all of whose partitions are among the parts.
/// Whoever ends one has the catalog. The offsets of the records of each part.
pub(super) fn commit_ending(
    store: &Inner,
    ending: &[&TopicInner],
    parts: &[Part<'_>],
    mut facts: Vec<Event>,
    now: i64,
) -> Result<Vec<Range<u64>>> {
    facts.extend(ending.iter().map(|topic| {
        Event::Topic(TopicState {
            finished: true,
            ..topic.state()
        })
    }));
    let offsets = commit(store, parts, &facts, now, Patience::default())?;
    for topic in ending {
        topic.finished.store(true, Ordering::Release);
        for cell in &topic.logs {
            let Some(log) = cell.get() else { continue };
            log.wake_all();
            if log.durable() > 0 {
                cell.note_settled(store);
            }
        }
    }
    Ok(offsets)
}

/// Deletes a topic: states it, refuses appends and reads, moves its folders away, and frees their
/// space. Where it cannot be stated the topic goes on.
pub(super) fn delete(store: &Inner, name: &str) -> Result<()> {
    super::name::check(name)?;
    let _one = store.catalog()?;
    store.check_open()?;
    let topic = store.topics().get(name).cloned();
    let topic = topic.ok_or_else(|| Error::TopicUnknown {
        topic: name.to_owned(),
    })?;
    for (partition, cell) in (0..).zip(&topic.logs) {
        let place = (name, partition, cell.id());
        refuse_links_only(&site(&store.options.storage, &store.root, store.id, place)?)?;
    }
    let logs: Vec<u64> = topic.logs.iter().map(LogCell::id).collect();
    let redo = store.journal.redo_files(&logs);
    store
        .journal
        .commit(&[Event::TopicDeleted { id: topic.id }])?;
    store.journal.discard(&redo);
    topic.deleted.store(true, Ordering::Release);
    for log in topic.all_open_logs() {
        log.delete();
    }
    topic.bells.ring();
    for cell in &topic.logs {
        store.pending().remove(&cell.id());
        store.setting.pins.release(cell.id());
    }
    store.topics().remove(name);
    let gone = Gone {
        folder: store.root.join("topics").join(name),
        logs: (0..)
            .zip(&topic.logs)
            .map(|(partition, cell)| folder_name(partition, cell.id()))
            .collect(),
    };
    if let Some(gone) = store.copying.put_off(gone) {
        remove(store, &gone);
    }
    Ok(())
}

/// The files of a topic that was deleted.
#[derive(Debug)]
pub(super) struct Gone {
    folder: PathBuf,
    /// The names of its logs' folders.
    logs: Vec<String>,
}

/// Moves the folders of a deleted topic away, and frees their space. The caller holds the catalog: the
/// topic's own folder stays if there is another one of its name.
pub(super) fn remove(store: &Inner, Gone { folder, logs }: &Gone) {
    let storage: &dyn Storage = store.files.as_ref();
    for name in logs {
        discard(storage, &store.root, &folder.join(name), name);
    }
    let name = folder.file_name().and_then(|name| name.to_str());
    if name.is_none_or(|name| !store.topics().contains_key(name))
        && let Err(error) = storage.remove_dir(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        // Something of somebody else's lies in it, or a log that the journal does not know.
        tracing::warn!(folder = %folder.display(), %error, "the folder stays");
    }
    empty_trash(storage, &store.root);
}
