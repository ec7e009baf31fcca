//! Loads, cuts, images, and what they came to.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::TEST;
use crate::dice::Dice;
use crate::disk::{Cut, Disk, Said, Trouble};
use crate::image::{Left, empty, image, nodes, write};
use crate::load::claims::CUT;
use crate::load::parts;
use crate::mount::{Mounted, Watch, clean};
use crate::owners::{Work, own};

/// Cuts of one load.
const CUTS: usize = 8;
/// Images of one cut.
const IMAGES: u64 = 10;
/// So many images out of a hundred are recovered on the file system, and the power goes again.
const SECOND: u64 = 12;
/// So long a load goes on at the most, in milliseconds.
const MILLIS: u64 = 2500;

/// What the campaign has seen.
#[derive(Debug, Default)]
pub struct Tally {
    pub loads: u64,
    pub cuts: u64,
    kills: u64,
    pub images: u64,
    sectors: u64,
    names: u64,
    rolls: u64,
    redo: u64,
    second: u64,
    failed_sync: u64,
    records: u64,
    mapped: u64,
    pub failures: Vec<String>,
}

impl Tally {
    /// So much has gone wrong that more of it would tell nothing.
    fn is_lost(&self) -> bool {
        self.failures.len() > 3
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |count: u64| count * 100 / self.images.max(1);
        write!(
            f,
            "{} loads, {} owners killed, {} cuts, {} images ({} records looked at): {} failures; with unsynced sectors {}%, unsynced names {}%, rolls {}%, pending redo {}%, a second cut {}%, a failed sync or write {}%, mapped {}%",
            self.loads,
            self.kills,
            self.cuts,
            self.images,
            self.records,
            self.failures.len(),
            share(self.sectors),
            share(self.names),
            share(self.rolls),
            share(self.redo),
            share(self.second),
            share(self.failed_sync),
            share(self.mapped),
        )
    }
}

/// One image to be looked at.
struct Task {
    name: String,
    cut: Arc<Cut>,
    claims: Arc<str>,
    backend: &'static str,
    seed: u64,
    /// The power has gone twice.
    second: bool,
}

pub struct Campaign {
    first: u64,
    base: PathBuf,
    tally: Mutex<Tally>,
}

impl Campaign {
    pub fn new(first: u64) -> Campaign {
        clean().unwrap();
        Campaign {
            first,
            base: parts::in_memory("tidelog-powercut").unwrap(),
            tally: Mutex::default(),
        }
    }

    /// Loads, until there were so many images.
    pub fn run(self, images: u64) -> Tally {
        for seed in self.first.. {
            let tally = self.tally.lock().unwrap();
            if tally.images >= images || tally.is_lost() {
                break;
            }
            drop(tally);
            self.load(seed);
        }
        drop(fs::remove_dir_all(&self.base));
        self.tally.into_inner().unwrap()
    }

    fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.tally.lock().unwrap());
    }

    /// One load, its cuts, and their images.
    fn load(&self, seed: u64) {
        let mut dice = Dice::new(seed);
        let backend = dice.pick(&["mapped", "pwrite"]);
        let trouble = trouble(&mut dice);
        let (cuts, said) = self.cuts(seed, backend, &empty(), trouble, 1, MILLIS);
        self.count(|tally| {
            tally.loads += 1;
            tally.cuts += cuts.len() as u64;
        });
        let mut tasks = Vec::new();
        for (n, cut) in cuts.into_iter().enumerate() {
            let claims: Arc<str> = claims(&said, cut.said).into();
            let cut = Arc::new(cut);
            tasks.extend((0..IMAGES).map(|m| Task {
                name: format!("{n}-{m}"),
                cut: Arc::clone(&cut),
                claims: Arc::clone(&claims),
                backend,
                seed: dice.next(),
                second: false,
            }));
        }
        self.look(seed, tasks);
    }

    /// Runs a load on a disk until the power is gone; the cuts, and what was said.
    fn cuts(
        &self,
        seed: u64,
        backend: &str,
        on: &Left,
        trouble: Trouble,
        life: u64,
        millis: u64,
    ) -> (Vec<Cut>, Vec<String>) {
        let said: Said = Arc::default();
        let disk = Disk::new(nodes(on), seed, trouble, Arc::clone(&said));
        let disk = Arc::new(Mutex::new(disk));
        let path = self.base.join(format!("mount-{seed:x}"));
        let watch = Watch::over(format!("seed {seed}"), path.clone());
        let mounted = Mounted::new(&disk, seed.is_multiple_of(2), &path).unwrap();
        let store = path.join("s");
        let work = Work {
            store: &store,
            backend,
            seed,
            life,
            millis,
        };
        let killed = own(&work, &disk, &said);
        drop(mounted);
        drop(fs::remove_dir(&path));
        drop(watch);
        self.count(|tally| tally.kills += killed);
        let cuts = std::mem::take(&mut disk.lock().unwrap().cuts);
        let said = std::mem::take(&mut *said.lock().unwrap());
        (cuts, said)
    }

    /// Looks at images, two at a time.
    fn look(&self, load: u64, tasks: Vec<Task>) {
        let tasks = Mutex::new(tasks.into_iter());
        let lost = || self.tally.lock().unwrap().is_lost();
        let next = || tasks.lock().unwrap().next().filter(|_| !lost());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some(task) = next() {
                        self.look_at(load, &task);
                    }
                });
            }
        });
    }

    fn look_at(&self, load: u64, task: &Task) {
        let mut dice = Dice::new(task.seed);
        let (left, lost) = image(&task.cut, &mut dice);
        self.count(|tally| {
            tally.images += 1;
            tally.second += u64::from(task.second);
            tally.sectors += u64::from(lost.sectors > 0);
            tally.names += u64::from(lost.names > 0);
            tally.failed_sync += u64::from(task.cut.failed);
            tally.mapped += u64::from(task.backend == "mapped");
        });
        match self.judge(task, &left) {
            Err(wrong) => self.report(load, task, &left, &wrong),
            Ok(()) if !task.second && dice.percent(SECOND) => {
                self.second(load, task, &left, &mut dice);
            }
            Ok(()) => {}
        }
    }

    /// An image is recovered on the file system, and the power goes in the middle of that.
    fn second(&self, load: u64, task: &Task, left: &Left, dice: &mut Dice) {
        let mut trouble = trouble(dice);
        trouble.first_cut = dice.within(0, 120);
        trouble.cuts = 1;
        trouble.capacity = 1 << 30;
        let (cuts, said) = self.cuts(task.seed, task.backend, left, trouble, 100, 400);
        self.count(|tally| tally.cuts += cuts.len() as u64);
        for cut in cuts {
            let claims = format!("{}{CUT}\n{}", task.claims, claims(&said, cut.said));
            let (cut, claims): (Arc<Cut>, Arc<str>) = (Arc::new(cut), claims.into());
            for n in 0..2 {
                let then = Task {
                    name: format!("{}-{n}", task.name),
                    cut: Arc::clone(&cut),
                    claims: Arc::clone(&claims),
                    backend: task.backend,
                    seed: dice.next(),
                    second: true,
                };
                self.look_at(load, &then);
            }
        }
    }

    /// A fresh process opens an image and holds it against what was claimed.
    fn judge(&self, task: &Task, left: &Left) -> Result<(), String> {
        let folder = self.base.join(&task.name);
        fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let file = self.base.join(format!("{}.claims", task.name));
        write(left, &folder).map_err(|error| error.to_string())?;
        fs::write(&file, task.claims.as_bytes()).map_err(|error| error.to_string())?;
        let store = folder.join("s");
        let mut words = parts::words(&["check", text(&store), task.backend], &[task.seed]);
        words.push(text(&file).to_owned());
        let verdict = parts::judge(TEST, &words);
        drop(fs::remove_dir_all(&folder));
        drop(fs::remove_file(&file));
        let fine = verdict?;
        let told: Vec<&str> = fine.split(' ').collect();
        self.count(|tally| {
            tally.records += told[1].parse().unwrap_or(0);
            tally.redo += u64::from(told[2] == "true");
            tally.rolls += u64::from(told[3] == "true");
        });
        Ok(())
    }

    /// Keeps an image that was found wanting, since its load cannot be repeated to the letter.
    fn report(&self, load: u64, task: &Task, left: &Left, wrong: &str) {
        let kept = std::env::temp_dir().join(format!("tidelog-cut-{load}-{}", task.name));
        drop(fs::remove_dir_all(&kept));
        let keep = || {
            fs::create_dir(&kept)?;
            write(left, &kept)?;
            fs::write(kept.join("claims"), task.claims.as_bytes())
        };
        let kept = match keep() {
            Ok(()) => kept.display().to_string(),
            Err(error) => format!("nowhere: {error}"),
        };
        let images = self.tally.lock().unwrap().images;
        let failure = format!(
            "TIDELOG_CUT_SEED={load} ({}, by image {images}): {wrong}; kept in {kept}",
            task.backend
        );
        println!("{failure}");
        self.count(|tally| tally.failures.push(failure));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What had been said by the time of a cut, and what was said later.
fn claims(said: &[String], by: usize) -> String {
    let (before, after) = said.split_at(by.min(said.len()));
    format!("{}\n{CUT}\n{}\n", before.join("\n"), after.join("\n"))
}

fn trouble(dice: &mut Dice) -> Trouble {
    Trouble {
        failed_sync: dice.percent(40).then(|| dice.within(1, 400)),
        failed_write: dice.percent(15).then(|| dice.within(1, 400)),
        capacity: match dice.percent(20) {
            true => (dice.within(500, 3000) << 10) as usize,
            false => 1 << 30,
        },
        slow: dice.pick(&[0, 0, 5, 30]),
        first_cut: dice.within(1, 2000),
        next_cut: dice.pick(&[40, 300, 1500, 4000]),
        cuts: CUTS,
    }
}
