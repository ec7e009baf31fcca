//! Transactions: records of several topics, commits of subscriptions, ends of topics.
//!
//! While one is filled other things happen to its topics, they are deleted or finished, too. What one of
//! its calls refuses is left out of it, or all of it is given up; then nothing has changed.

use tidelog::sys::sim::{Call, Fault, When};
use tidelog::{Error, Result, Subscription, Topic, Transaction};

use crate::joint::Together;
use crate::model::{Check, Kept, There};
use crate::run::Run;
use crate::subs::NAMES;

/// Too much behind another record of a topic that is like the others.
const LARGE: usize = 3 << 20;
/// Too much in two topics.
const FLOOD: usize = 9 << 20;

/// One call that fills it.
#[derive(Debug, Clone)]
enum Put {
    Record(usize, u32, Kept),
    /// The next one of the subscriptions.
    Commit,
    End(usize),
    /// A record that does not fit behind others of its topic.
    Large(usize),
    /// Records that do not fit into any transaction.
    Flood,
}

/// A subscription that has read.
#[derive(Debug)]
struct Reader {
    name: String,
    sub: &'static str,
    opened: Subscription,
    /// What it has committed before.
    before: Vec<u64>,
    /// Where it stands.
    at: Vec<u64>,
}

/// What came of filling it.
#[derive(Debug, Default)]
struct Filling {
    all: Together,
    given_up: bool,
    /// The journal had failed before it was committed.
    failed: bool,
    /// What the engine should not have done.
    wrong: Option<String>,
}

impl Run<'_> {
    pub fn transaction_step(&mut self) -> Check {
        if self.topics.len() < 3 && self.dice.percent(40) {
            return self.create();
        }
        let names = self.some_topics();
        if names.is_empty() {
            return Ok(());
        }
        let store = self.open_store()?;
        let mut readers = self.some_readers()?;
        let topics = names.iter().map(|name| store.existing_topic(name));
        let topics = match topics.collect::<Result<Vec<Topic>>>() {
            Ok(topics) => topics,
            Err(error) => return self.error("topic", &error),
        };
        let puts = self.some_puts(&topics, readers.len());
        let mut filling = Filling {
            failed: self.journal_failed(),
            ..Filling::default()
        };
        self.say(format!("a transaction over {names:?}"));
        let went = store.transaction(|tx| {
            let filled = self.fill(tx, &puts, &topics, &mut readers, &mut filling);
            filled.unwrap_or_else(|wrong| {
                filling.wrong = Some(wrong);
                Err(Error::aborted("it has gone wrong"))
            })
        });
        if let Some(wrong) = filling.wrong {
            return Err(wrong);
        }
        let none = Together::default();
        self.see_handles(&readers, went.as_ref().map_or(&none, |_| &filling.all))?;
        drop(readers);
        let names: Vec<String> = self.topics.keys().cloned().collect();
        match went {
            Ok(_) if filling.given_up => return Err("it was given up".to_owned()),
            Ok(went) => self.together_accepted(filling.all, went)?,
            Err(_) if filling.given_up => self.tally.refused += 1,
            Err(error) => self.together_refused(&filling.all, filling.failed, &error)?,
        }
        for name in names {
            self.see_ends(&name)?;
        }
        Ok(())
    }

    /// One to three topics, that have not ended mostly.
    fn some_topics(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..self.dice.within(1, 4) {
            let open = self.dice.percent(85);
            let name = self.some_topic().filter(|name| !names.contains(name));
            names.extend(name.filter(|name| !open || !self.topics[name].finished));
        }
        names
    }

    /// Up to two subscriptions that have read something, or nothing.
    fn some_readers(&mut self) -> Check<Vec<Reader>> {
        let mut readers: Vec<Reader> = Vec::new();
        for _ in 0..self.dice.below(3) {
            let sub = self.dice.pick(&NAMES);
            let Some(name) = self.some_topic() else {
                break;
            };
            if readers.iter().any(|it| (&it.name, it.sub) == (&name, sub)) {
                continue;
            }
            self.learn(&name)?;
            let Some(mut opened) = self.subscribe(&name, sub)? else {
                continue;
            };
            let before = self.topics[&name].subs[sub].committed.clone();
            let at = match opened.is_paused() {
                true => before.clone(),
                false => match self.read_some(&name, sub, &mut opened)? {
                    Ok(at) => at,
                    Err(error) => {
                        self.error("read", &error)?;
                        continue;
                    }
                },
            };
            readers.push(Reader {
                name,
                sub,
                opened,
                before,
                at,
            });
        }
        Ok(readers)
    }

    /// The calls that fill it, in their order.
    fn some_puts(&mut self, topics: &[Topic], readers: usize) -> Vec<Put> {
        let count = match self.dice.percent(15) {
            true => 0,
            false => self.dice.within(1, 9),
        };
        let mut puts = Vec::new();
        for _ in 0..count {
            let topic = self.dice.below(topics.len() as u64) as usize;
            let number = self.dice.below(u64::from(topics[topic].partitions())) as u32;
            puts.push(Put::Record(topic, number, self.some_record(None, false)));
        }
        puts.extend((0..readers).map(|_| Put::Commit));
        let more = match self.dice.below(100) {
            0..10 => Put::End(self.dice.below(topics.len() as u64) as usize),
            10..14 => Put::Large(self.dice.below(topics.len() as u64) as usize),
            14..16 => Put::Flood,
            _ => return puts,
        };
        let place = match self.dice.percent(70) {
            true => puts.len(),
            false => self.dice.below(puts.len() as u64 + 1) as usize,
        };
        puts.insert(place, more);
        puts
    }

    /// Fills it; what the closure returns.
    fn fill<'a>(
        &mut self,
        tx: &mut Transaction<'a>,
        puts: &[Put],
        topics: &[Topic],
        readers: &'a mut [Reader],
        filling: &mut Filling,
    ) -> Check<Result<()>> {
        let mut readers = readers.iter_mut();
        for put in puts {
            if matches!(put, Put::Large(topic) if !filling.all.has_records(&topics[*topic])) {
                continue;
            }
            let done = match put {
                Put::Record(topic, number, kept) => {
                    let record = kept.record().partition(*number);
                    tx.append(&topics[*topic], record)
                }
                Put::Commit => {
                    let reader = readers.next().ok_or("no such reader")?;
                    let moved = reader.at != reader.before;
                    let done = tx.commit_subscription(&mut reader.opened);
                    if done.is_ok() && moved {
                        let of = (reader.name.clone(), reader.sub.to_owned());
                        filling.all.commits.insert(of, reader.at.clone());
                    }
                    done
                }
                Put::End(topic) => tx.finish(&topics[*topic]),
                Put::Large(topic) => tx.append(&topics[*topic], vec![0; LARGE]),
                Put::Flood => flood(tx, topics),
            };
            let Err(error) = done else {
                filling.all.put(put, topics)?;
                continue;
            };
            self.say(format!("    not put in: {error}"));
            if !self.may_refuse(put, topics, &filling.all, &error) {
                self.error("put in", &error)?;
            }
            if matches!(put, Put::Flood) || self.dice.percent(50) {
                filling.given_up = true;
                return Ok(Err(error));
            }
        }
        self.meanwhile()?;
        filling.failed = self.journal_failed();
        let now = self.now();
        let fresh = filling.all.records.iter_mut();
        let fresh = fresh.map(|(.., kept)| kept).filter(|kept| !kept.stamped);
        fresh.for_each(|kept| kept.time = now);
        filling.given_up = self.dice.percent(4);
        Ok(match filling.given_up {
            true => Err(Error::aborted("it is not wanted any more")),
            false => Ok(()),
        })
    }

    /// Whether that is what the call must say.
    fn may_refuse(&self, put: &Put, topics: &[Topic], all: &Together, error: &Error) -> bool {
        let ended = |topic: &usize| {
            let name = topics[*topic].name();
            let finished = self.topics.get(name).is_some_and(|it| it.finished);
            finished || all.ends.iter().any(|it| it == name)
        };
        match (put, error) {
            (Put::Record(topic, ..) | Put::Large(topic), Error::Finished { .. }) => ended(topic),
            (Put::Flood, Error::Finished { .. }) => (0..topics.len()).any(|it| ended(&it)),
            (Put::Large(_) | Put::Flood, Error::TooLarge { .. }) => true,
            (Put::Flood, Error::TransactionTooLarge { .. }) => topics.len() > 1,
            _ => false,
        }
    }

    /// Somebody else does something, to a topic of the transaction maybe, before it is committed; or the
    /// disk is about to fail it.
    fn meanwhile(&mut self) -> Check {
        match self.dice.below(100) {
            0..55 => Ok(()),
            55..63 => self.append(false, self.relaxed),
            63..67 => self.append(true, false),
            67..71 => self.delete(),
            71..75 => self.finish(),
            75..79 if self.retained => self.retain(),
            79..82 => self.pass_time(),
            82..85 => self.order_fault(),
            85..98 => self.disturb_commit(),
            _ => self.look(),
        }
    }

    /// The next sync fails, or the machine stops before it or in it.
    fn disturb_commit(&mut self) -> Check {
        match self.dice.below(6) {
            0 | 1 => {
                self.troubled = true;
                let errno = self.some_errno();
                self.sim.fail(Fault::new(Call::Sync, When::Nth(0), errno));
                self.say(format!("the next sync fails with {errno}"));
            }
            calls => {
                self.sim.crash_after(calls - 2);
                self.say(format!("the machine will stop after {} calls", calls - 2));
            }
        }
        Ok(())
    }

    /// The handles have heard of it if it is acknowledged, and else not.
    fn see_handles(&self, readers: &[Reader], acknowledged: &Together) -> Check {
        for reader in readers {
            let committed = (0..).zip(&reader.at);
            let committed = committed.map(|(number, _)| reader.opened.committed(number));
            let committed = committed.collect::<Result<Vec<u64>>>();
            let of = (reader.name.clone(), reader.sub.to_owned());
            let expected = acknowledged.commits.get(&of).unwrap_or(&reader.before);
            if committed.as_ref().ok() != Some(expected) {
                let Reader { name, sub, .. } = reader;
                return Err(format!("{sub} of {name}: {committed:?}, not {expected:?}"));
            }
        }
        Ok(())
    }

    /// What is durable shows, and no more than was written; and so does a topic's end.
    fn see_ends(&mut self, name: &str) -> Check {
        let model = self.topics.get_mut(name).ok_or("no such topic")?;
        if model.there != There::Yes || model.stuck || self.sim.has_stopped() {
            return Ok(());
        }
        let topic = self.store.as_ref().ok_or("no store")?.existing_topic(name);
        let topic = topic.map_err(|error| error.to_string())?;
        if topic.is_finished() != model.finished {
            return Err(format!("{name}: finished is {}", topic.is_finished()));
        }
        for (number, part) in (0..).zip(&mut model.parts) {
            let end = match topic.partition(number).and_then(|it| it.end()) {
                Ok(end) => end,
                Err(error) => return self.error("end", &error),
            };
            part.secure(end)?;
            let sure = part.sure.len() as u64;
            if end < sure && !self.troubled {
                return Err(format!("{name}/{number}: {end} of {sure} show as durable"));
            }
        }
        Ok(())
    }
}

impl Together {
    fn has_records(&self, topic: &Topic) -> bool {
        self.records.iter().any(|(name, ..)| name == topic.name())
    }

    /// What a call has put in.
    fn put(&mut self, put: &Put, topics: &[Topic]) -> Check {
        match put {
            Put::Record(topic, number, kept) => {
                let name = topics[*topic].name().to_owned();
                if self.ends.contains(&name) {
                    return Err(format!("a record behind the end of {name}"));
                }
                self.records.push((name, *number, kept.clone()));
            }
            Put::End(topic) => self.ends.push(topics[*topic].name().to_owned()),
            Put::Commit => {}
            Put::Large(_) | Put::Flood => return Err(format!("{put:?} was not refused")),
        }
        Ok(())
    }
}

/// Records that do not fit, in two topics if there are two.
fn flood(tx: &mut Transaction<'_>, topics: &[Topic]) -> Result<()> {
    for topic in [&topics[0], &topics[topics.len() - 1]] {
        tx.append(topic, vec![0; FLOOD])?;
    }
    Ok(())
}
