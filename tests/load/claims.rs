//! What a store must hold, and what it may: read from the lines of those who wrote to it.

use std::collections::{BTreeMap, HashMap};

use super::SLOTS;

/// Between what had been said by the time of the cut and what came after.
pub const CUT: &str = "---";

/// What is in a topic's place: which one of its name, and whether it is finished.
pub type There = Option<(u32, bool)>;
/// A partition: its topic's place, which one of its name, and its number.
pub type Place = (usize, u32, u32);

/// One step of the catalog, and whether it was promised.
#[derive(Debug, Clone, Copy)]
struct Step {
    then: There,
    sure: bool,
}

/// A subscription's checkpoints, by partition.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    pub least: Vec<u64>,
    pub most: Vec<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct Claims {
    steps: [Vec<Step>; SLOTS],
    /// By offset, the record that must be there.
    pub safe: HashMap<Place, BTreeMap<u64, u64>>,
    /// What was written: where later ones of its writer are there, it must be.
    pub wrote: HashMap<Place, Vec<(u64, u64)>>,
    pub marks: HashMap<(usize, u32, String), Marks>,
    /// The limits of the bulky topic, and whether they were promised.
    limits: Vec<(u64, bool)>,
    pub wrong: Vec<String>,
}

impl Claims {
    /// `whole`: the page cache has survived, so that what was written must be there.
    pub fn read(text: &str, whole: bool) -> Claims {
        let mut claims = Claims::default();
        // Of several parts each is what was said before a cut, and what came after it.
        let mut before = true;
        for line in text.lines() {
            if line == CUT {
                before = !before;
                continue;
            }
            // The harness's own words may stand in front.
            let Some((_, line)) = line.split_once('@') else {
                continue;
            };
            let words: Vec<&str> = line.split(' ').collect();
            let taken = claims.take(&words, before, whole);
            if taken.is_none() && before && !is_remark(words[0]) {
                claims.wrong.push(line.to_owned());
            }
        }
        claims
    }

    /// Takes a fact; `None` if it is none.
    fn take(&mut self, words: &[&str], before: bool, whole: bool) -> Option<()> {
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let slot = number(1).filter(|slot| *slot < SLOTS as u64);
        let incarnation = || number(2).map(|it| it as u32);
        match words[0] {
            "create" => self.step(slot?, Some((incarnation()?, false)), false),
            "created" => self.step(slot?, Some((incarnation()?, false)), before),
            "finish" => self.step(slot?, Some((incarnation()?, true)), false),
            "finished" => self.step(slot?, Some((incarnation()?, true)), before),
            "delete" => self.step(slot?, None, false),
            "deleted" => self.step(slot?, None, before),
            "safe" | "wrote" => {
                let place = (slot? as usize, incarnation()?, number(3)? as u32);
                let (offset, serial) = (number(4)?, number(5)?);
                if words[0] == "wrote" {
                    self.wrote.entry(place).or_default().push((offset, serial));
                }
                if before && (words[0] == "safe" || whole) {
                    let here = self.safe.entry(place).or_default();
                    let other = here.insert(offset, serial).filter(|it| *it != serial);
                    if let Some(other) = other {
                        let fact = words.join(" ");
                        self.wrong.push(format!("{fact}: that was {other} before"));
                    }
                }
            }
            "limit" | "limited" => {
                let sure = before && words[0] == "limited";
                self.limits.push((number(1)?, sure));
            }
            "commit" | "committed" => {
                let name = (*words.get(3)?).to_owned();
                let marks = self.marks.entry((slot? as usize, incarnation()?, name));
                let offsets: Option<Vec<u64>> = (4..words.len()).map(number).collect();
                let marks = marks.or_default();
                raise(&mut marks.most, offsets.as_deref()?);
                if words[0] == "committed" && before {
                    raise(&mut marks.least, offsets.as_deref()?);
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn step(&mut self, slot: u64, then: There, sure: bool) {
        self.steps[slot as usize].push(Step { then, sure });
    }

    /// Whether this may be in a topic's place: the outcome of the last step that was promised, or
    /// of one that was tried since.
    pub fn allows(&self, slot: usize, found: There) -> bool {
        let steps = &self.steps[slot];
        let sure = steps.iter().rposition(|step| step.sure);
        let since = &steps[sure.unwrap_or(0)..];
        let never = sure.is_none() && found.is_none();
        never || since.iter().any(|step| step.then == found)
    }

    /// Whether this may be the limit of the bulky topic.
    pub fn allows_limit(&self, found: Option<u64>) -> bool {
        let sure = self.limits.iter().rposition(|(_, sure)| *sure);
        let since = &self.limits[sure.unwrap_or(0)..];
        match found {
            Some(found) => since.iter().any(|(limit, _)| *limit == found),
            None => sure.is_none(),
        }
    }

    /// What was promised and tried of a topic's place, for a message.
    pub fn story(&self, slot: usize) -> String {
        let steps = &self.steps[slot];
        let last = &steps[steps.len().saturating_sub(6)..];
        format!("{last:?}")
    }
}

/// Checkpoints only go forward.
fn raise(marks: &mut Vec<u64>, to: &[u64]) {
    marks.resize(to.len().max(marks.len()), 0);
    let pairs = marks.iter_mut().zip(to);
    pairs.for_each(|(mark, to)| *mark = (*mark).max(*to));
}

/// What is said of the course of things, and claims nothing.
fn is_remark(word: &str) -> bool {
    ["life", "closed", "full", "failed", "killed"].contains(&word)
}
