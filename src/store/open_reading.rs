//! Opening a store for reading only, beside its owner or without one. Nothing is written below its
//! folder, no lock is taken, and no thread is started.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use super::backup::Copying;
use super::budget::Budget;
use super::inner::{Ids, Inner, TopicInner};
use super::inspect::Place;
use super::open::{board_place, existing_id, lived_in, refuse_foreign, setting, topics};
use super::reading::Reading;
use crate::board::Lookout;
use crate::error::{Error, Result};
use crate::journal::{self, Journal, Pending};
use crate::options::StoreOptions;

/// Opens a store that is there for reading only.
pub(super) fn open_reading(root: &Path, options: StoreOptions) -> Result<Arc<Inner>> {
    let _span = tracing::info_span!("open", root = %root.display(), reading = true).entered();
    options.check()?;
    let storage = Arc::clone(&options.storage);
    refuse_foreign(storage.as_ref(), root)?;
    let id = existing_id(&storage, root)?;
    let board = board_place(&options, root);
    let lookout = Lookout::new(Arc::clone(&storage), root.join("LOCK"), board, id);
    lookout.look();
    let place = Place {
        storage: &storage,
        root,
        id,
    };
    let reading = Reading::new(Arc::new(lookout), &place)?;
    let backend = storage.backend(root);
    let backend = backend.map_err(|error| Error::io("inspect", root, error))?;
    let setting = setting(&options, backend, [0, 0])?;
    let read = reading.first();
    let files = Budget::new(Arc::clone(&storage), options.open_files());
    let site = journal::site(&storage, root, id);
    Ok(Arc::new_cyclic(|me| Inner {
        root: root.to_owned(),
        id,
        lock: None,
        journal: Journal::looked_at(site, &setting, read.fold.clone()),
        clean: read.fold.closed() || !lived_in(&read.fold, storage.boot()),
        journal_damaged: read.damaged_records(),
        reading: Some(reading.of(me)),
        files,
        volume: None,
        setting,
        topics: Mutex::new(topics(&read.fold)),
        catalog: Mutex::new(Ids {
            topic: 0,
            log: 0,
            subscription: 0,
        }),
        whole: RwLock::default(),
        copying: Copying::default(),
        closed: AtomicBool::new(false),
        ended: OnceLock::new(),
        pending: Mutex::new(Pending::default()),
        recovering: Mutex::new(None),
        exporting: Mutex::new(None),
        processors: Mutex::default(),
        keeping: Mutex::new(None),
        options,
    }))
}

/// Lets go of a store that was only read: whoever reads or waits in this process is told.
pub(super) fn close_reading(store: &Inner, reading: &Reading) {
    if store.closed.swap(true, Ordering::AcqRel) {
        return;
    }
    let topics: Vec<Arc<TopicInner>> = store.topics().values().cloned().collect();
    for topic in &topics {
        topic.all_open_logs().for_each(|log| log.refuse());
        reading.ring(topic.all_open_logs());
    }
}
