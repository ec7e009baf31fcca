//! What a store must hold: plain lists in memory.

use std::collections::BTreeMap;

use crate::tally::Kinds;
use tidelog::{Durability, OwnedRecord, Record, StoredRecord, Timestamp, TopicOptions};

/// What a check says: nothing, or what is wrong.
pub type Check<T = ()> = Result<T, String>;

/// A record as it was appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub key: Option<String>,
    pub payload: Vec<u8>,
    pub source: Option<String>,
    /// Its own time, or the clock's at its append.
    pub time: i64,
    /// Whether the time is its own.
    pub stamped: bool,
    pub tombstone: bool,
}

impl Kept {
    pub fn record(&self) -> Record<'_> {
        let mut record = match (&self.key, self.tombstone) {
            (Some(key), true) => Record::tombstone(key),
            (Some(key), false) => Record::new(&self.payload).key(key),
            (None, _) => Record::new(&self.payload),
        };
        if let Some(source) = &self.source {
            record = record.header("source", source);
        }
        if self.stamped {
            record = record.at(Timestamp::from_nanos(self.time));
        }
        record
    }

    fn found(
        key: Option<&[u8]>,
        payload: &[u8],
        source: Option<&[u8]>,
        (time, tombstone): (i64, bool),
        like: &Kept,
    ) -> bool {
        key == like.key.as_deref().map(str::as_bytes)
            && payload == like.payload
            && source == like.source.as_deref().map(str::as_bytes)
            && time == like.time
            && tombstone == like.tombstone
    }

    pub fn is(&self, found: &OwnedRecord) -> bool {
        let mut headers = found.headers();
        let source = headers.find(|(name, _)| *name == "source");
        Kept::found(
            found.key(),
            found.payload(),
            source.map(|(_, value)| value),
            (found.timestamp().as_nanos(), found.is_tombstone()),
            self,
        )
    }

    pub fn is_lent(&self, found: &StoredRecord<'_>) -> bool {
        Kept::found(
            found.key(),
            found.payload(),
            found.header("source"),
            (found.timestamp().as_nanos(), found.is_tombstone()),
            self,
        )
    }
}

/// One partition.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// What must be there, from `first` on.
    pub sure: Vec<Kept>,
    /// What lies below was removed.
    pub first: u64,
    /// What lies below may have been removed.
    pub may_begin: Option<u64>,
    /// The batches that were written behind it and are not known to be durable, one of which a
    /// crash may be the end: those behind it are gone then.
    pub pending: Vec<Vec<Kept>>,
    /// The batches of which the writing of the last word failed: one may be there, whole, behind so
    /// many of the pending ones.
    pub doubts: Vec<(usize, Vec<Kept>)>,
    /// A flush has been asked for of everything below.
    pub asked: u64,
}

impl Part {
    /// Holds what a reopened partition has against what it must have; what was in doubt is
    /// settled by it.
    /// `whole`: nothing that was written can have been lost.
    pub fn settle(&mut self, found: &[OwnedRecord], whole: bool) -> Check {
        self.asked = 0;
        let doubts = std::mem::take(&mut self.doubts);
        let pending = std::mem::take(&mut self.pending);
        let mut first = None;
        for count in 0..=pending.len() {
            if count > 0 {
                self.sure.extend_from_slice(&pending[count - 1]);
            }
            let sure = self.sure.len();
            let here = doubts.iter().filter(|(at, _)| *at == count);
            for doubt in std::iter::once(&[][..]).chain(here.map(|(_, doubt)| &doubt[..])) {
                self.sure.extend_from_slice(doubt);
                match self.compare(found) {
                    Ok(()) if whole && count < pending.len() => {
                        return Err(format!("{count} of {} batches", pending.len()));
                    }
                    Ok(()) => return Ok(()),
                    Err(wrong) => first = first.or(Some(wrong)),
                }
                self.sure.truncate(sure);
            }
        }
        let (wrong, waiting) = (first.unwrap_or_default(), pending.len());
        let doubts = doubts.len();
        Err(format!(
            "{wrong}; {waiting} batches pending, {doubts} in doubt"
        ))
    }

    /// The offset behind everything that was written.
    pub fn end(&self) -> u64 {
        self.sure.len() as u64 + self.pending.iter().map(|it| it.len() as u64).sum::<u64>()
    }

    /// Everything below an offset is durable, and so is the rest of its batch.
    pub fn secure(&mut self, end: u64) -> Check {
        while (self.sure.len() as u64) < end {
            if self.pending.is_empty() {
                return Err(format!("durable up to {end}, beyond what was written"));
            }
            self.sure.extend(self.pending.remove(0));
            // Its offsets are taken.
            self.doubts.retain(|(at, _)| *at > 0);
            self.doubts.iter_mut().for_each(|(at, _)| *at -= 1);
        }
        Ok(())
    }

    /// Every record is the one that was appended in its place, and none is missing.
    pub fn compare(&self, found: &[OwnedRecord]) -> Check {
        let first = self.first as usize;
        let there = self.sure.iter().enumerate().skip(first);
        for ((n, kept), found) in there.zip(found) {
            if found.offset() != n as u64 {
                return Err(format!("offset {} in place {n}", found.offset()));
            }
            if !kept.is(found) {
                return Err(format!("record {n} is not what was appended"));
            }
        }
        match first + found.len() {
            end if end == self.sure.len() => Ok(()),
            end => Err(format!("{first}..{end} is there, not {}", self.sure.len())),
        }
    }

    /// It begins there: where it did, or where it may.
    pub fn begin(&mut self, first: u64) -> Check {
        let may = self.may_begin.take().unwrap_or(self.first);
        if first < self.first || first > may.max(self.first) {
            return Err(format!("it begins at {first}, not {}..={may}", self.first));
        }
        self.first = first;
        Ok(())
    }

    /// The first record at or after a time.
    pub fn find(&self, time: i64) -> u64 {
        let mut there = self.sure.iter().enumerate().skip(self.first as usize);
        let at = there.find(|(_, kept)| kept.time >= time);
        at.map_or(self.sure.len(), |(at, _)| at) as u64
    }
}

/// What was to happen as one and is in doubt, a transaction or a batch over partitions: all of it is
/// there, or nothing.
#[derive(Debug, Clone, Default)]
pub struct Joint {
    /// Where it ends, by topic and partition.
    pub ends: BTreeMap<(String, u32), u64>,
    /// The topics that end with it.
    pub finishes: Vec<String>,
    /// The checkpoints that it moves, by topic and subscription.
    pub commits: BTreeMap<(String, String), Vec<u64>>,
    /// Whether the part of it that was looked at first is there.
    pub seen: Option<bool>,
    /// What it is counted as.
    pub kinds: Kinds,
}

impl Joint {
    /// A part of it is there, or not: as any other.
    fn see(&mut self, what: &str, there: bool) -> Check {
        if *self.seen.get_or_insert(there) != there {
            return Err(format!("half a transaction: {what}, {there}"));
        }
        Ok(())
    }

    /// The partition of that number holds so many records.
    pub fn see_part(&mut self, name: &str, number: u32, records: u64) -> Check {
        match self.ends.get(&(name.to_owned(), number)) {
            Some(end) => self.see(&format!("{name}/{number}"), records >= *end),
            None => Ok(()),
        }
    }

    /// The topic has ended, or not.
    pub fn see_end(&mut self, name: &str, finished: bool) -> Check {
        match self.finishes.iter().any(|it| it == name) {
            true => self.see(&format!("the end of {name}"), finished),
            false => Ok(()),
        }
    }

    /// The subscription stands there.
    pub fn see_commit(&mut self, name: &str, sub: &str, committed: &[u64]) -> Check {
        match self.commits.get(&(name.to_owned(), sub.to_owned())) {
            Some(moved) => self.see(&format!("{sub} of {name}"), moved == committed),
            None => Ok(()),
        }
    }
}

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum There {
    /// It is.
    Yes,
    /// Its making, or its removal, is in doubt.
    Perhaps,
}

/// A subscription.
#[derive(Debug, Clone)]
pub struct Sub {
    pub there: There,
    pub committed: Vec<u64>,
    /// The checkpoints whose commit is in doubt.
    pub doubt: Option<Vec<u64>>,
    pub paused: bool,
    pub paused_doubt: Option<bool>,
}

impl Sub {
    /// Holds a reopened subscription against the model.
    pub fn settle(&mut self, committed: &[u64], paused: bool) -> Check {
        let doubted = self.doubt.take().is_some_and(|doubt| doubt == committed);
        if self.there == There::Perhaps {
            self.there = There::Yes;
        } else if committed != self.committed && !doubted {
            let kept = &self.committed;
            return Err(format!("checkpoints {committed:?}, not {kept:?}"));
        }
        self.committed = committed.to_vec();
        let doubted = self.paused_doubt.take() == Some(paused);
        if paused != self.paused && !doubted {
            return Err(format!("paused is {paused}"));
        }
        self.paused = paused;
        Ok(())
    }
}

/// A topic.
#[derive(Debug, Clone)]
pub struct Topic {
    pub there: There,
    pub finished: bool,
    /// Its finishing is in doubt.
    pub finishing: bool,
    /// A delete, a finish or a transaction is in doubt: until the reopen anything is refused.
    pub stuck: bool,
    pub parts: Vec<Part>,
    pub subs: BTreeMap<String, Sub>,
    /// Where the records of a key go.
    pub homes: BTreeMap<String, u32>,
    pub options: TopicOptions,
    pub durability: Durability,
    /// The durability whose statement is in doubt.
    pub durability_doubt: Option<Durability>,
}

impl Topic {
    pub fn new(
        partitions: u32,
        there: There,
        (options, durability): (TopicOptions, Durability),
    ) -> Topic {
        Topic {
            there,
            finished: false,
            finishing: false,
            stuck: false,
            parts: vec![Part::default(); partitions as usize],
            subs: BTreeMap::new(),
            homes: BTreeMap::new(),
            options,
            durability,
            durability_doubt: None,
        }
    }
    /// Holds how a reopened topic is synced against the model.
    pub fn opened(&mut self, durability: Durability) -> Check {
        let doubted = self.durability_doubt.take() == Some(durability);
        if durability != self.durability && !doubted {
            return Err(format!("synced by {durability:?}"));
        }
        self.durability = durability;
        Ok(())
    }
}
