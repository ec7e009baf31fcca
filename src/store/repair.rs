//! Making partitions open, and be read through, again.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::inner::Inner;
use super::inspect::Place;
use super::log_cell::{promises, refuse_links, site, stated, unread};
use super::open::{existing_id, open, refuse_foreign};
use super::store::Store;
use crate::error::{Error, Flaw, Result};
use crate::format::Frame;
use crate::journal::{Event, Fold, Pending};
use crate::options::StoreOptions;
use crate::partition::{Damage, Mending, Promises, Site, Step, Visitor, gather, mend, mending};
use crate::sys::{Kind, Storage};

/// What [`repair`] has done, or would do ([`repair_plan`]).
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # Store::open(&path)?.close()?;
/// let report = tidelog::repair_plan(&path, &StoreOptions::new())?;
/// assert!(report.logs.is_empty(), "every partition can be opened");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RepairReport {
    /// The partitions that cannot be opened or read through as they are, in the order of topics' names.
    pub logs: Vec<RepairedLog>,
}

impl RepairReport {
    /// Whether every partition can be opened now, or could after the repair.
    pub fn is_complete(&self) -> bool {
        self.logs.iter().all(|log| log.refused.is_none())
    }
}

/// What becomes of one partition that cannot be opened.
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # Store::open(&path)?.close()?;
/// for log in tidelog::repair_plan(&path, &StoreOptions::new())?.logs {
///     println!("{}/{}: {}; lost: {:?}", log.topic, log.partition, log.why, log.lost);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RepairedLog {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// Why it cannot be opened, or not be read through.
    pub why: Error,
    /// What is done about it, in this order.
    pub steps: Vec<RepairStep>,
    /// The records that cannot be read, by their offsets. They stay given: a reader is told of them, and
    /// new records come behind.
    pub lost: Vec<Error>,
    /// Why nothing can be done, or why it was not enough.
    pub refused: Option<Error>,
}

/// One step of a repair.
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # Store::open(&path)?.close()?;
/// for log in tidelog::repair_plan(&path, &StoreOptions::new())?.logs {
///     for step in log.steps {
///         println!("{}: {}", step.file.display(), step.action);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairStep {
    /// The segment file.
    pub file: PathBuf,
    /// What is done to it.
    pub action: RepairAction,
}

/// What a repair does to a segment file.
///
/// # Examples
///
/// ```
/// use tidelog::RepairAction;
/// let action = RepairAction::Replaced { offsets: 7..9 };
/// assert_eq!(action.to_string(), "set aside, and an empty segment stands for offsets 7..9");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairAction {
    /// It was cut short, and gets its length back.
    Lengthened {
        /// The length, in bytes.
        bytes: u64,
    },
    /// Parts of it cannot be read: a copy of the others takes its place.
    Reread,
    /// Its header is written anew; the damaged one is kept in the quarantine.
    HeaderMadeAgain,
    /// It is missing, and is made for what the journal holds of it.
    MadeAgain,
    /// It lies behind the end, and nothing can be read from it: it is moved to the quarantine.
    SetAside,
    /// It is missing, or nothing can be read from it: a segment without records stands for its offsets.
    /// What was there is moved to the quarantine.
    Replaced {
        /// The offsets.
        offsets: Range<u64>,
    },
}

impl std::fmt::Display for RepairAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RepairAction::Lengthened { bytes } => write!(f, "lengthened to {bytes} bytes again"),
            RepairAction::Reread => f.write_str("replaced by a copy of what can be read"),
            RepairAction::HeaderMadeAgain => f.write_str("its header is written anew"),
            RepairAction::MadeAgain => f.write_str("made again for what the journal holds of it"),
            RepairAction::SetAside => f.write_str("set aside"),
            RepairAction::Replaced { offsets } => {
                let Range { start, end } = offsets;
                write!(
                    f,
                    "set aside, and an empty segment stands for offsets {start}..{end}"
                )
            }
        }
    }
}

/// A partition that cannot be opened, and what is planned for it.
struct Planned {
    log: u64,
    site: Site,
    promises: Promises,
    mending: Option<Mending>,
    /// A file of redo cannot be read, and is given up.
    unread: bool,
    report: RepairedLog,
}

/// What [`repair`] would do, without doing it: nothing is written, and no lock is taken.
///
/// # Errors
///
/// As for [`repair`].
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # Store::open(&path)?.close()?;
/// assert!(tidelog::repair_plan(&path, &StoreOptions::new())?.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repair_plan(path: impl AsRef<Path>, options: &StoreOptions) -> Result<RepairReport> {
    let (root, storage) = (path.as_ref(), &options.storage);
    refuse_foreign(storage.as_ref(), root)?;
    let place = Place {
        storage,
        root,
        id: existing_id(storage, root)?,
    };
    refuse_owned(storage.as_ref(), root)?;
    let read = place.journal()?;
    let epoch = read.epoch.saturating_add(1);
    let draw = &mut || options.clock.random();
    let known = (&read.fold, read.fold.closed(), &read.pending);
    let planned = planned(&place, known, epoch, draw)?;
    let logs = planned.into_iter().map(|planned| planned.report);
    Ok(RepairReport {
        logs: logs.collect(),
    })
}

/// Makes those partitions of a store whole again that cannot be opened, or not be read through, since
/// files are missing, short, or have a damaged header, or parts of them cannot be read. All partitions
/// are read, as [`verify`](crate::verify) does. What can be read stays, at its offsets;
/// what cannot is a damaged stretch from then on, which readers are told of and pass; no offset is
/// given anew. Damaged records that readers can pass need no repair, and stay as they are.
///
/// What is replaced is kept in the folder `quarantine`. Of what has been set aside there before the last
/// time, the oldest files go at the next opening if there are more than 256, or more than 1 GiB.
///
/// # Errors
///
/// [`Error::Locked`] if the store has an owner; [`Error::NoStore`] if there is none; what
/// [`Store::open`] says if its journal cannot be used: then [`salvage`](crate::salvage) reads what there
/// is. A partition that cannot be repaired is no error, but in the report, and is left as it is.
///
/// # Examples
///
/// ```
/// # use tidelog::{Store, StoreOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # Store::open(&path)?.close()?;
/// let report = tidelog::repair(&path, &StoreOptions::new())?;
/// assert!(report.logs.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repair(path: impl AsRef<Path>, options: &StoreOptions) -> Result<RepairReport> {
    let root = path.as_ref();
    let _span = tracing::info_span!("repair", root = %root.display()).entered();
    // Its logs are opened when they are used, and nobody uses them before they are repaired.
    let inner = open(root, options.clone().existing())?;
    let store = Store::owning(Arc::clone(&inner));
    let place = Place {
        storage: &options.storage,
        root,
        id: inner.id,
    };
    let planned = {
        let fold = inner.journal.fold(Fold::clone);
        let pending = inner.pending();
        let draw = &mut || options.clock.random();
        planned(
            &place,
            (&fold, inner.clean, &pending),
            inner.setting.epoch,
            draw,
        )?
    };
    let mut logs = Vec::new();
    for planned in planned {
        let mut report = planned.report.clone();
        if planned.mending.is_some()
            && let Err(error) = mend_one(&inner, &planned)
        {
            report.refused = Some(error);
        }
        logs.push(report);
    }
    store.close()?;
    Ok(RepairReport { logs })
}

fn mend_one(inner: &Inner, planned: &Planned) -> Result<()> {
    let Planned {
        log,
        site,
        promises,
        mending: Some(mending),
        unread,
        report,
    } = planned
    else {
        return Ok(());
    };
    mend(site, promises, mending, inner.setting.epoch)?;
    let redo = inner.journal.redo_files(&[*log]);
    if *unread {
        inner.journal.set_aside(&redo, inner.setting.epoch)?;
        if let Some(pending) = inner.pending().get_mut(log) {
            pending.unread = None;
        }
    }
    if let Some(end) = &mending.end {
        let ends = vec![stated(*log, end)];
        let events = [Event::Ends { ends }, Event::Settled { log: *log }];
        inner.journal.commit(&events)?;
        inner.journal.discard(&redo);
        inner.pending().remove(log);
        inner.setting.pins.release(*log);
    }
    let topic = inner.topics().get(&report.topic).cloned();
    let topic = topic.ok_or_else(|| Error::TopicUnknown {
        topic: report.topic.clone(),
    })?;
    inner.log(&topic, report.partition).map(|_| ())
}

/// What is to be done about each log that cannot be opened.
fn planned(
    place: &Place<'_>,
    (fold, closed, pending): (&Fold, bool, &Pending),
    epoch: u32,
    draw: &mut dyn FnMut() -> u64,
) -> Result<Vec<Planned>> {
    let mut topics: Vec<_> = fold.topics().collect();
    topics.sort_by(|one, other| one.name.cmp(&other.name));
    let mut all = Vec::new();
    for topic in topics {
        for (partition, log) in (0..).zip(&topic.logs) {
            let site = site(
                place.storage,
                place.root,
                place.id,
                (&topic.name, partition, *log),
            )?;
            let promises = promises(fold, *log, closed, pending);
            let start = fold.log(*log).and_then(|log| log.start.as_ref());
            let start = start.map_or(0, |start| start.offset);
            let cause = unread(pending, *log);
            let found = given_up(cause.as_deref())
                .and_then(|()| refuse_links(&site))
                .and_then(|()| mending(&site, &promises, (start, epoch), draw))
                .map(|mending| because(mending, cause.as_deref()));
            let (mending, why, refused) = match found {
                Ok(None) => continue,
                Ok(Some(mending)) => {
                    let why = mending.why.clone();
                    (Some(mending), why, None)
                }
                Err(error) => (None, error.clone(), Some(error)),
            };
            let report = RepairedLog {
                topic: topic.name.clone(),
                partition,
                why,
                steps: mending.iter().flat_map(|it| steps(&site, it)).collect(),
                lost: match &mending {
                    Some(_) => lost(&site, &promises)?,
                    None => Vec::new(),
                },
                refused,
            };
            all.push(Planned {
                log: *log,
                site,
                promises,
                mending,
                unread: cause.is_some(),
                report,
            });
        }
    }
    Ok(all)
}

/// Whether a log can do without a file of redo that cannot be read: not where it may be read later.
fn given_up(unread: Option<&Error>) -> Result<()> {
    match unread {
        None | Some(Error::Mismatch { .. } | Error::Io { op: "read", .. }) => Ok(()),
        Some(error) => Err(error.clone()),
    }
}

/// A log of which redo cannot be read is not sound, whatever its own files say.
fn because(mending: Option<Mending>, unread: Option<&Error>) -> Option<Mending> {
    let Some(why) = unread.cloned() else {
        return mending;
    };
    let (steps, end) = mending.map_or((Vec::new(), None), |it| (it.steps, it.end));
    Some(Mending { why, steps, end })
}

fn steps(site: &Site, mending: &Mending) -> Vec<RepairStep> {
    let step = |step: &Step| RepairStep {
        file: site.segment(step.number()),
        action: match step {
            Step::Lengthen { to, .. } => RepairAction::Lengthened { bytes: *to },
            Step::Reread { .. } => RepairAction::Reread,
            Step::Header { .. } => RepairAction::HeaderMadeAgain,
            Step::Make { .. } => RepairAction::MadeAgain,
            Step::Aside { .. } => RepairAction::SetAside,
            Step::StandIn { identity, next } => RepairAction::Replaced {
                offsets: identity.base..*next,
            },
        },
    };
    mending.steps.iter().map(step).collect()
}

/// The records of a log that cannot be read.
fn lost(site: &Site, promises: &Promises) -> Result<Vec<Error>> {
    struct Lost<'a>(&'a Site, Vec<Error>);
    impl Visitor for Lost<'_> {
        fn record(&mut self, _: u32, _: u64, _: &Frame<'_>) -> Result<()> {
            Ok(())
        }

        fn damage(&mut self, damage: Damage, flaw: Flaw) -> Result<()> {
            self.1.push(self.0.corrupt(damage, flaw));
            Ok(())
        }
    }
    let mut lost = Lost(site, Vec::new());
    // Files that nothing can be read from are among the steps.
    gather(site, promises, &mut lost)?;
    Ok(lost.1)
}

/// Refuses a store that somebody owns.
pub(super) fn refuse_owned(storage: &dyn Storage, root: &Path) -> Result<()> {
    let path = root.join("LOCK");
    if !matches!(storage.kind(&path), Ok(Some(Kind::File))) {
        return Ok(());
    }
    let holder = storage.holder(&path);
    match holder.map_err(|error| Error::io("ask about", &path, error))? {
        Some(holder) => Err(Error::Locked {
            path,
            pid: holder.pid,
        }),
        None => Ok(()),
    }
}
