//! Opening a log: the plan is made true, and the log goes on from there.

use std::io;
use std::sync::{Arc, Mutex};

use super::appender::{Active, Appender, Last};
use super::bells::Call;
use super::due::Demand;
use super::early::Alarm;
use super::gate::Gate;
use super::ledger::Ledger;
use super::limits::Live;
use super::list::{Link, Segments};
use super::log::{Log, Setting};
use super::making::ensure_dir;
use super::plan::{Aside, Plan, Promises};
use super::planner::plan;
use super::reuse;
use super::riding::Progress;
use super::rounds::Slots;
use super::site::{Damage, Site};
use super::spare::Shelf;
use super::waiting::Waits;
use super::walked::Walked;
use super::window::Window;
use crate::error::{Error, Flaw, Result};
use crate::format::{Entry, Layout, Sector, Slot};
use crate::segment::{Header, Segment, file_name};
use crate::sync::tally::Tally;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Watermark};
use crate::sys::{Access, File};

/// The most that is copied of what is cut.
const MOST_KEPT: u64 = 16 << 20;
/// How much of it at once.
const WINDOW: u64 = 256 << 10;

impl Log {
    /// Opens a log: recovers it, makes what was recovered durable, and is ready for appends.
    pub(crate) fn open(site: Site, setting: Setting, promises: &Promises) -> Result<Arc<Log>> {
        let _span =
            tracing::info_span!("recover", log = site.log, dir = %site.dir.display()).entered();
        let mut plan = plan(&site, promises)?;
        for (damage, flaw) in &plan.damage {
            tracing::error!(log = site.log, ?damage, %flaw, "damaged records");
        }
        let stale = plan.seen >= setting.epoch;
        let (epoch, number) = follows(&site, &plan, setting.epoch)?;
        let (first, header) = first(&site, &plan, promises)?;
        let recovery = Recovery {
            site: &site,
            setting: &setting,
            epoch,
        };
        recovery.open_for_writing(&mut plan)?;
        let spare = recovery.set_aside(&mut plan, number)?;
        let sealed = recovery.make_true(&mut plan, stale)?;
        let used = setting.limits.ahead.then(|| reuse::find(&site)).flatten();
        let (appender, slots) = recovery.appender(&mut plan, sealed)?;
        let active = appender.active.as_ref().map(|active| &active.segment);
        let mut links: Vec<Arc<Link>> = plan
            .last
            .map(|last| (plan.first..=last).map(Link::named).collect())
            .unwrap_or_default();
        if let (Some(header), Some(first)) = (header, links.first_mut()) {
            *first = Link::known(header);
        }
        if let (Some(segment), Some(last)) = (active, links.last_mut()) {
            *last = Link::held(segment);
        }
        let segments = Segments::new(links);
        let capacity = appender.last.map(|last| last.capacity);
        let mut log = Log::begin(
            site,
            setting,
            Beginning {
                epoch,
                segments,
                first,
                next: plan.next,
                shelf: Shelf::new(number, capacity, spare, used),
                active: active.cloned(),
                appender,
                slots,
                changed: !plan.is_untouched(),
                damage: std::mem::take(&mut plan.damage),
            },
        );
        log.enter_board();
        log.limit_spares();
        log.count(&log.lock());
        Ok(Arc::new(log))
    }

    /// A log as it begins in this process.
    pub(super) fn begin(site: Site, setting: Setting, from: Beginning) -> Log {
        let appender = from.appender;
        let last = appender.last.map(|last| (last.number, appender.mark.place));
        Log {
            limits: Live::new(setting.limits),
            gate: Gate::new(setting.finished, Arc::clone(&setting.parentage)),
            window: Window::default(),
            demand: Demand::new(setting.clock.monotonic()),
            epoch: from.epoch,
            segments: from.segments,
            written: Watermark::new(from.next),
            durable: Watermark::new(from.next),
            settled_bytes: Watermark::new(0),
            first: AtomicU64::new(from.first),
            begins: AtomicU64::new(0),
            shelf: from.shelf,
            ledger: Ledger::new(appender.mark, from.active),
            appender: Mutex::new(appender),
            slots: Mutex::new(from.slots),
            progress: Mutex::new(Progress::new(from.next, last)),
            durable_bytes: AtomicU64::new(0),
            kept_since: AtomicU64::new(u64::MAX),
            hurry: AtomicBool::new(false),
            damage: from.damage,
            bytes_before: AtomicU64::new(0),
            freed: Call::new(),
            filled: Alarm::new(),
            changed: AtomicBool::new(from.changed),
            used: AtomicBool::new(true),
            append_times: Tally::default(),
            waits: Waits::default(),
            held: AtomicBool::new(false),
            released: Call::new(),
            wanted: AtomicU32::new(0),
            entry: None,
            following: None,
            site,
            setting,
        }
    }
}

/// What a log begins with.
pub(super) struct Beginning {
    pub(super) epoch: u32,
    pub(super) segments: Segments,
    /// The first offset that is still there, and the one that follows the last record.
    pub(super) first: u64,
    pub(super) next: u64,
    pub(super) shelf: Shelf,
    pub(super) active: Option<Arc<Segment>>,
    pub(super) appender: Appender,
    pub(super) slots: Slots,
    pub(super) changed: bool,
    pub(super) damage: Vec<(Damage, Flaw)>,
}

/// The epoch and the number of the segment that comes next. What was seen of an epoch that is not
/// below the owner's was written by an owner whose journal is gone: what comes must be told from it.
fn follows(site: &Site, plan: &Plan, owner: u32) -> Result<(u32, u32)> {
    let epoch = match plan.seen >= owner {
        true => plan.seen.checked_add(1),
        false => Some(owner),
    };
    let number = match plan.last {
        Some(last) => last.checked_add(1),
        None => Some(plan.first),
    };
    epoch.zip(number).ok_or_else(|| {
        let (seen, last) = (plan.seen, plan.last);
        let reason = format!("no epoch follows {seen}, or no segment {last:?}");
        site.mismatch(&site.dir, reason)
    })
}

/// The first offset that is still there, and the header that says it if it had to be read. It may be
/// none that can be read, and then no file of the log has been changed yet.
pub(super) fn first(
    site: &Site,
    plan: &Plan,
    promises: &Promises,
) -> Result<(u64, Option<Header>)> {
    if plan.last.is_none() {
        return Ok((0, None));
    }
    let walked = plan.walked.first().map(|walked| walked.header.identity);
    match walked.filter(|identity| identity.number == plan.first) {
        Some(identity) => Ok((identity.base, None)),
        None => {
            let (_, header) = site.header_with(plan.first, &promises.redo)?;
            Ok((header.identity.base, Some(header)))
        }
    }
}

struct Recovery<'a> {
    site: &'a Site,
    setting: &'a Setting,
    epoch: u32,
}

impl Recovery<'_> {
    /// The plan was made by reading; from here on the files that it walked are written to.
    fn open_for_writing(&self, plan: &mut Plan) -> Result<()> {
        for walked in &mut plan.walked {
            let path = self.site.segment(walked.header.identity.number);
            let file = self.site.storage.open(&path, Access::Write);
            walked.file = file.map_err(|error| Error::opening("open", &path, error))?;
        }
        Ok(())
    }

    /// Brings the files to what the plan says, durably. Whether the last segment has ended.
    fn make_true(&self, plan: &mut Plan, stale: bool) -> Result<bool> {
        if plan.is_untouched() && !stale {
            return Ok(plan.sealed);
        }
        let cut = std::mem::take(&mut plan.cut);
        let seal_the_cut = self.setting.same_boot && !cut.is_empty();
        let sealed = plan.sealed || seal_the_cut || stale;
        // A seal is of the epoch that goes on behind it: nothing behind may be older than it.
        let later = plan.walked.iter().skip(1);
        let later = later.map(|walked| Some(walked.header.identity.epoch));
        let later: Vec<Option<u32>> = later.chain([None]).collect();
        for (walked, successor) in plan.walked.iter_mut().zip(later) {
            let last = successor.is_none();
            self.write_back(walked)?;
            if last && !sealed {
                if plan.cut_is_sound {
                    self.keep(walked, &cut);
                }
                self.zero(walked, &cut)?;
            }
            self.sync(walked)?;
            if (!last || sealed) && walked.seal() != Some(walked.at) {
                let seal = walked.mark().seal(successor.unwrap_or(self.epoch));
                self.put(walked, Sector::Seal, &seal)?;
                self.sync(walked)?;
            }
        }
        if plan.last.is_some() {
            self.site.sync_dir(&self.site.dir)?;
            self.site
                .sync_dir(self.site.dir.parent().unwrap_or(&self.site.dir))?;
        }
        Ok(sealed)
    }

    /// Moves away what is not in the chain, so that no later recovery can take it for a part. Where
    /// the next segment is to be there ahead, and is, it stays: its layout. The highest goes first,
    /// durably before the next one: a hole in the numbers is for ever a sign of loss.
    fn set_aside(&self, plan: &mut Plan, next: u32) -> Result<Option<Layout>> {
        let mut spare = None;
        if plan.later.is_empty() {
            return Ok(spare);
        }
        let storage = &self.site.storage;
        for (number, aside) in plan.later.drain(..).rev() {
            let path = self.site.segment(number);
            if self.setting.limits.ahead && number == next && aside == Aside::Remove {
                spare = reuse::adopt(self.site, number);
                if spare.is_some() {
                    continue;
                }
            }
            let done = match aside {
                // It lies below the log's start, where it is only space.
                Aside::Remove if number < plan.first => {
                    if let Err(error) = self.site.remove(number) {
                        tracing::warn!(log = self.site.log, number, %error, "cannot be removed yet");
                    }
                    continue;
                }
                Aside::Remove => storage.remove_file(&path),
                Aside::Keep => match self.quarantine(number, &path) {
                    // There is no room for another folder: under a name that no segment has it is as
                    // little a part of the log.
                    Err(Error::StorageFull { .. }) => {
                        let name = format!("{}-{}.aside", file_name(number), self.epoch);
                        storage.rename(&path, &self.site.dir.join(name))
                    }
                    done => {
                        done?;
                        self.site.sync_dir(&self.site.quarantine)?;
                        Ok(())
                    }
                },
            };
            done.map_err(|error| Error::io("set aside", &path, error))?;
            if aside == Aside::Keep {
                self.site.sync_dir(&self.site.dir)?;
            }
        }
        self.site.sync_dir(&self.site.dir)?;
        Ok(spare)
    }

    fn quarantine(&self, number: u32, path: &std::path::Path) -> Result<()> {
        ensure_dir(self.site, &self.site.quarantine)?;
        let aside = self
            .site
            .aside(self.site.log, self.epoch, file_name(number));
        tracing::warn!(file = %path.display(), aside = %aside.display(), "set aside");
        let renamed = self.site.storage.rename(path, &aside);
        renamed.map_err(|error| Error::io("set aside", path, error))
    }

    /// Writes what was adopted back through the file, the very bytes that were checked: a sync
    /// after a failed one proves nothing about pages that the kernel has marked clean.
    fn write_back(&self, walked: &mut Walked) -> Result<()> {
        let number = walked.header.identity.number;
        let fail = |error| self.site.io("write", number, error);
        let whole = walked.index_is_whole();
        if !whole.map_err(|error| self.site.io("read", number, error))? {
            walked.restart_index();
        }
        walked
            .file
            .write_at(&walked.header.bytes, 0)
            .map_err(fail)?;
        for (place, bytes) in &walked.adopted {
            walked.file.write_at(bytes, *place).map_err(fail)?;
        }
        if !walked.entries.is_empty() {
            let index_at = u64::from(walked.header.identity.layout.index_at);
            let behind = u64::from(walked.from.index_entries) * Entry::SIZE as u64;
            let bytes = bytemuck::cast_slice(&walked.entries);
            walked
                .file
                .write_at(bytes, index_at + behind)
                .map_err(fail)?;
        }
        if !walked.adopted.is_empty() {
            let now = self.setting.clock.now();
            walked.from.last_append = walked.from.last_append.max(Some(now));
        }
        Ok(())
    }

    /// Copies what is cut, from its beginning on, to the quarantine: sound frames are in it that
    /// nobody was promised. That is a courtesy, and no reason for the log not to open.
    fn keep(&self, walked: &Walked, cut: &[std::ops::Range<u64>]) {
        let (Some(first), Some(last)) = (cut.first(), cut.last()) else {
            return;
        };
        let number = walked.header.identity.number;
        let name = format!("{}-{}.cut", file_name(number), first.start);
        let path = self.site.aside(self.site.log, self.epoch, name);
        let range = first.start..last.end.min(first.start.saturating_add(MOST_KEPT));
        let length = range.end - range.start;
        let file = match ensure_dir(self.site, &self.site.quarantine)
            .map(|()| self.site.storage.create(&path, length))
        {
            // An earlier attempt of this owner has kept it, and may have zeroed some of it since.
            Ok(Err(error)) if error.kind() == io::ErrorKind::AlreadyExists => return,
            made => made.and_then(|made| made.map_err(|error| Error::io("create", &path, error))),
        };
        let made = file.is_ok();
        let kept = file.and_then(|file| self.copy(walked, range, (&path, file.as_ref())));
        if let Err(error) = kept {
            tracing::warn!(path = %path.display(), %error, "what is cut is not kept");
            if made {
                // Half a copy is only space.
                let _gone = self.site.storage.remove_file(&path);
            }
        }
    }

    fn copy(
        &self,
        walked: &Walked,
        range: std::ops::Range<u64>,
        (path, file): (&std::path::Path, &dyn File),
    ) -> Result<()> {
        let fail = |error| Error::io("copy to", path, error);
        let length = range.end - range.start;
        let mut bytes = vec![0; usize::try_from(length.min(WINDOW)).unwrap_or(0)];
        let mut at = range.start;
        while at < range.end {
            let read = walked.file.read_at(&mut bytes, at).map_err(fail)?;
            let read = read.min(usize::try_from(range.end - at).unwrap_or(read));
            if read == 0 {
                break;
            }
            let written = file.write_at(&bytes[..read], at - range.start);
            written.map_err(fail)?;
            at += read as u64;
        }
        file.sync().map_err(fail)?;
        self.site.sync_dir(&self.site.quarantine)
    }

    /// Zeroes what is cut: no later recovery shall find it.
    fn zero(&self, walked: &Walked, cut: &[std::ops::Range<u64>]) -> Result<()> {
        let number = walked.header.identity.number;
        for range in cut {
            tracing::warn!(
                log = self.site.log,
                number,
                ?range,
                "cut what was never acknowledged"
            );
            let zeroes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
            let written = walked.file.write_at(&zeroes, range.start);
            written.map_err(|error| self.site.io("write", number, error))?;
        }
        Ok(())
    }

    fn sync(&self, walked: &Walked) -> Result<()> {
        let number = walked.header.identity.number;
        walked
            .file
            .sync()
            .map_err(|error| self.site.io("sync", number, error))
    }

    fn put(&self, walked: &Walked, sector: Sector, slot: &Slot) -> Result<()> {
        let number = walked.header.identity.number;
        let bytes = slot.encode(walked.header.seed());
        let bytes =
            bytes.map_err(|flaw| self.site.io("encode", number, std::io::Error::other(flaw)))?;
        let written = walked.file.write_at(&bytes, sector.place());
        written.map_err(|error| self.site.io("write", number, error))
    }

    /// The writing end behind what was recovered.
    fn appender(&self, plan: &mut Plan, sealed: bool) -> Result<(Appender, Slots)> {
        let mut slots = Slots::none();
        let Some(last) = plan.walked.pop() else {
            return Ok((Appender::nothing(plan.next), slots));
        };
        let identity = last.header.identity;
        let mut appender = Appender {
            active: None,
            bytes: 0,
            mark: last.mark(),
            last: Some(Last {
                number: identity.number,
                nonce: identity.nonce,
                capacity: identity.layout.capacity,
            }),
            began: None,
            parked: None,
        };
        if sealed {
            return Ok((appender, slots));
        }
        slots.segment = Some(identity.number);
        slots.sector = last.header.slots.write_next;
        if let Some(slot) = last.header.slots.slot {
            slots.place = slot.place;
            slots.generation = slot.generation;
        } else {
            slots.place = identity.layout.records_at;
        }
        let mark = appender.mark;
        let backend = self.setting.backend;
        let active = Active::resume(self.site, last.file, identity, backend, mark)?;
        appender.active = Some(active);
        Ok((appender, slots))
    }
}
