//! What the crashes of all seeds left behind, in numbers.

/// Counted over lives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub images: u64,
    pub sectors: u64,
    pub names: u64,
    pub rolls: u64,
    pub second: u64,
    pub syncs: u64,
    pub redo: u64,
    /// Images with a redo file of a failed log.
    pub copied: u64,
    /// Images in which something was let go of.
    pub gone: u64,
    /// Images with a file of the journal that is on its way to be used again.
    pub used: u64,
    /// Last lives with a file as it was.
    pub older: u64,
    /// Transactions, and batches over partitions, that were acknowledged.
    pub acked: Kinds,
    /// Those in doubt that turned out whole.
    pub whole: Kinds,
    /// Those in doubt of which there was nothing.
    pub absent: Kinds,
    /// Those that were refused, or given up.
    pub refused: u64,
}

/// How many there were, and how many of them had something.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kinds {
    pub all: u64,
    /// They wrote to several topics.
    pub topics: u64,
    /// They moved a checkpoint.
    pub checkpoints: u64,
    /// They ended a topic.
    pub ends: u64,
}

#[cfg(not(fuzzing))]
impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.images += other.images;
        self.sectors += other.sectors;
        self.names += other.names;
        self.rolls += other.rolls;
        self.second += other.second;
        self.syncs += other.syncs;
        self.redo += other.redo;
        self.copied += other.copied;
        self.used += other.used;
        self.gone += other.gone;
        self.older += other.older;
        self.acked.add(other.acked);
        self.whole.add(other.whole);
        self.absent.add(other.absent);
        self.refused += other.refused;
    }

    /// How many images in a hundred had each of these.
    pub fn shares(&self) -> [(&'static str, u64); 6] {
        let share = |part: u64| part * 100 / self.images.max(1);
        [
            ("unsynced sectors", share(self.sectors)),
            ("rolls", share(self.rolls)),
            ("second crashes", share(self.second)),
            ("failed syncs", share(self.syncs)),
            ("pending redo", share(self.redo)),
            ("unsynced names", share(self.names)),
        ]
    }

    pub fn print(&self) {
        for (what, share) in self.shares() {
            println!("{share:3} % with {what}");
        }
        let together = [
            ("acknowledged", self.acked),
            ("in doubt, and whole", self.whole),
            ("in doubt, and absent", self.absent),
        ];
        for (what, kinds) in together {
            let Kinds { all, topics, .. } = kinds;
            let (checkpoints, ends) = (kinds.checkpoints, kinds.ends);
            println!(
                "{all} transactions (and batches over partitions) {what}: {topics} over topics, {checkpoints} with checkpoints, {ends} with ends"
            );
        }
        println!("{} transactions refused or given up", self.refused);
        let copied = self.copied;
        println!("{copied} with redo of a failed log in a file of its own");
        println!("{} with the beginning of a partition gone", self.gone);
        let used = self.used;
        println!("{used} with a segment of the journal on its way to be used again");
        let older = self.older;
        println!("{older} last lives with a file put back as it was before");
    }

    /// So many seeds have brought about what they are for.
    pub fn is_enough_for(&self, count: u64) {
        let doubted = [self.whole, self.absent];
        let any = |part: fn(&Kinds) -> u64| doubted.iter().all(|it| part(it) > 0);
        assert!(count < 200 || any(|it| it.all), "no transaction in doubt");
        assert!(count < 200 || self.acked.checkpoints > 0 && self.refused > 0);
        assert!(count < 200 || self.gone > 0, "nothing was ever let go of");
        assert!(count < 200 || self.older > 0, "no file was put back");
        assert!(
            count < 1500 || any(|it| it.topics) && any(|it| it.checkpoints) && any(|it| it.ends)
        );
        assert!(
            count < 3000 || self.copied > 0,
            "no log that failed needed redo"
        );
        assert!(count < 3000 || self.used > 0, "no segment was used again");
        for (what, share) in &self.shares()[..5] {
            let enough = count < 200 || *share >= 10;
            assert!(enough, "{share} % of the images have {what}");
        }
    }
}

impl Kinds {
    pub fn add(&mut self, other: Kinds) {
        self.all += other.all;
        self.topics += other.topics;
        self.checkpoints += other.checkpoints;
        self.ends += other.ends;
    }
}
