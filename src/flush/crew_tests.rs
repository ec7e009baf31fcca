use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;
use std::time::{Duration, Instant};

/// A log whose duty is a closure.
struct Scripted {
    id: u64,
    runs: AtomicUsize,
    abandoned: StdMutex<Option<String>>,
    duty: Box<dyn Fn(usize) -> Next + Send + Sync>,
}

impl Scripted {
    fn new(id: u64, duty: impl Fn(usize) -> Next + Send + Sync + 'static) -> Arc<Scripted> {
        Arc::new(Scripted {
            id,
            runs: AtomicUsize::new(0),
            abandoned: StdMutex::new(None),
            duty: Box::new(duty),
        })
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl DirtyLog for Scripted {
    fn id(&self) -> u64 {
        self.id
    }
    fn round(&self) -> Next {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        (self.duty)(run)
    }
    fn abandon(&self, _: &'static str, reason: String) {
        *self.abandoned.lock().unwrap() = Some(reason);
    }
}

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "hung: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ten requests arrive while a round is under way: they share the one that follows it.
#[test]
fn requests_during_a_round_share_the_next_one() {
    let (entered, in_round) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = StdMutex::new(released);
    let entered = StdMutex::new(entered);
    let log = Scripted::new(7, move |run| {
        if run == 0 {
            entered.lock().unwrap().send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
        Next::Rest
    });
    let crew = Crew::start("test", 3, |log| log.round()).unwrap();
    crew.request(log.clone());
    in_round.recv().unwrap();
    for _ in 0..10 {
        crew.request(log.clone());
    }
    assert_eq!(log.runs(), 1, "the claim keeps the other two threads away");
    release.send(()).unwrap();
    until("the second round", || log.runs() == 2);
    crew.stop();
    assert_eq!(log.runs(), 2);
}

/// A round panics: the log is told, and the crew goes on with other logs.
#[test]
fn a_panicking_round_abandons_its_log_and_no_other() {
    let bad = Scripted::new(1, |_| panic!("the disk caught fire"));
    let good = Scripted::new(2, |_| Next::Rest);
    let crew = Crew::start("test", 1, |log| log.round()).unwrap();
    crew.request(bad.clone());
    crew.request(good.clone());
    until("the good log's round", || good.runs() == 1);
    let told = bad.abandoned.lock().unwrap().clone();
    assert_eq!(told.as_deref(), Some("the disk caught fire"));
    crew.stop();
}

/// A log that went quiet asks to be looked at once more, later; stopping does not wait for it.
#[test]
fn a_resting_log_is_served_again_and_stopping_forgets_it() {
    let log = Scripted::new(1, |run| match run {
        0 => Next::After(Duration::from_millis(5)),
        _ => Next::After(Duration::from_secs(3600)),
    });
    let crew = Crew::start("test", 1, |log| log.round()).unwrap();
    crew.request(log.clone());
    until("the second look", || log.runs() == 2);
    crew.stop();
    assert_eq!(log.runs(), 2);
    assert_eq!(
        Arc::strong_count(&log),
        1,
        "the crew holds no log after it stopped"
    );
}

/// Whoever assists does the duty, and the log wants to be looked at again, later: a thread of the
/// crew, which slept meanwhile without an end, does that.
#[test]
fn a_log_that_rests_after_an_assistant_is_served_again() {
    let log = Scripted::new(1, |run| match run {
        0 => Next::After(Duration::from_millis(5)),
        _ => Next::Rest,
    });
    let crew = Crew::start("test", 1, |log| log.round()).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    crew.assist(log.clone());
    until("the second look", || log.runs() == 2);
    crew.stop();
}

/// A log that is to be looked at in an hour is asked for, and then wants to be looked at soon: it is.
#[test]
fn a_sooner_look_is_not_lost_behind_a_later_one() {
    let log = Scripted::new(1, |run| match run {
        1 => Next::After(Duration::from_millis(5)),
        _ => Next::After(Duration::from_secs(3600)),
    });
    let crew = Crew::start("test", 1, |log| log.round()).unwrap();
    crew.request(log.clone());
    until("the first look", || log.runs() == 1);
    crew.request(log.clone());
    until("the third look", || log.runs() == 3);
    crew.stop();
}

/// Without threads nothing happens until somebody takes a turn. A turn takes a look at one of the
/// logs that rest, at the one that has rested longest, without waiting for it.
#[test]
fn an_inline_crew_works_only_in_turns() {
    let rests = |run| match run {
        0..3 => Next::After(Duration::from_secs(3600)),
        _ => Next::Rest,
    };
    let [one, two] = [1, 2].map(|id| Scripted::new(id, rests));
    let crew = Crew::start("test", 0, |log| log.round()).unwrap();
    crew.request(one.clone());
    crew.request(two.clone());
    assert_eq!((one.runs(), two.runs()), (0, 0));
    let runs = [
        (1, 1),
        (2, 1),
        (2, 2),
        (3, 2),
        (3, 3),
        (4, 3),
        (4, 4),
        (4, 4),
    ];
    for expected in runs {
        crew.turn();
        assert_eq!((one.runs(), two.runs()), expected);
    }
    crew.stop();
}

/// Without threads, a log that rests is looked at while another one is served.
#[test]
fn who_assists_an_inline_crew_looks_at_a_log_that_rests() {
    let quiet = Scripted::new(1, |_| Next::After(Duration::from_secs(3600)));
    let busy = Scripted::new(2, |_| Next::Rest);
    let crew = Crew::start("test", 0, |log| log.round()).unwrap();
    crew.request(quiet.clone());
    crew.turn();
    crew.assist(busy.clone());
    assert_eq!((quiet.runs(), busy.runs()), (2, 1));
    crew.stop();
}

/// A lone caller finds the log free and does the duty himself; a second one, while it runs, is
/// served by the crew when it has ended.
#[test]
fn who_finds_a_log_free_does_its_duty_himself() {
    let (entered, in_round) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = StdMutex::new(released);
    let log = Scripted::new(7, move |run| {
        entered.send((run, std::thread::current().id())).unwrap();
        if run == 0 {
            released.lock().unwrap().recv().unwrap();
        }
        Next::Rest
    });
    let crew = Crew::start("test", 1, |log| log.round()).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| crew.assist(log.clone()));
        assert_eq!(in_round.recv().unwrap(), (0, first.thread().id()));
        crew.assist(log.clone());
        assert_eq!(
            log.runs(),
            1,
            "rounds of one log are strictly one after another"
        );
        release.send(()).unwrap();
        let (run, thread) = in_round.recv().unwrap();
        assert_eq!(run, 1);
        assert_ne!(thread, first.thread().id());
        assert_ne!(thread, std::thread::current().id());
    });
    crew.stop();
}

/// Somebody asks a crew that has been stopped: the log is let go of, and who then assists does the
/// duty instead of waiting for a thread that is gone.
#[test]
fn a_stopped_crew_keeps_no_log_and_lets_others_assist() {
    for threads in [0, 2] {
        let log = Scripted::new(7, |_| Next::Rest);
        let crew = Crew::start("test", threads, |log| log.round()).unwrap();
        crew.stop();
        crew.request(log.clone());
        assert_eq!(Arc::strong_count(&log), 1);
        crew.assist(log.clone());
        assert_eq!(log.runs(), 1);
    }
}

/// A crew has been stopped while somebody has claimed a log, which is asked for meanwhile. Whoever
/// gives the claim back sees to that: nobody else will, and the log would never be let go of.
#[test]
fn a_stopped_crew_keeps_no_log_that_was_asked_for_under_a_claim() {
    let log = Scripted::new(7, |_| Next::Rest);
    let crew = Crew::start("test", 2, |log| log.round()).unwrap();
    crew.stop();
    let claims = crew.claim(vec![log.clone()]);
    crew.request(log.clone());
    drop(claims);
    assert_eq!(log.runs(), 1);
    let asked = crew.instead(log.clone(), || {
        crew.request(log.clone());
        Next::Rest
    });
    assert!(asked);
    assert_eq!((log.runs(), Arc::strong_count(&log)), (2, 1));
}

/// A caller claims a log while a round of it runs, and the log is asked for again meanwhile. The
/// claim comes when the round has ended, and the round that was asked for when the claim is given
/// back: nobody takes up a log that somebody waits to claim.
#[test]
fn a_log_that_is_wanted_is_left_to_who_claims_it() {
    let (entered, in_round) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = StdMutex::new(released);
    let log = Scripted::new(7, move |run| {
        if run == 0 {
            entered.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
        Next::Rest
    });
    let crew = Crew::start("test", 2, |log| log.round()).unwrap();
    crew.request(log.clone());
    in_round.recv().unwrap();
    std::thread::scope(|scope| {
        let claiming = scope.spawn(|| {
            let claims = crew.claim(vec![log.clone()]);
            (log.runs(), claims)
        });
        until("the claim is wanted", || crew.shared.queue().is_wanted());
        crew.request(log.clone());
        assert!(!claiming.is_finished());
        release.send(()).unwrap();
        let (runs, claims) = claiming.join().unwrap();
        assert_eq!(runs, 1);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(log.runs(), 1, "nobody is at a log that is claimed");
        drop(claims);
    });
    until("the round that was asked for", || log.runs() == 2);
    crew.stop();
}

/// Callers claim the same logs, named in different orders, while rounds of them are asked for:
/// nobody waits in a circle, and what one does with a claim no other sees half done.
#[test]
fn callers_that_claim_the_same_logs_do_not_wait_in_a_circle() {
    const TIMES: usize = 300;
    let logs: Vec<_> = (1..5).map(|id| Scripted::new(id, |_| Next::Rest)).collect();
    let crew = Crew::start("test", 2, |log| log.round()).unwrap();
    let counts: Vec<_> = logs.iter().map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for caller in 0..3 {
            let (crew, logs, counts) = (&crew, &logs, &counts);
            scope.spawn(move || {
                for time in 0..TIMES {
                    let mine: Vec<_> = (0..3).map(|n| (caller + time + 2 * n) % 4).collect();
                    let mine: std::collections::BTreeSet<_> = mine.into_iter().collect();
                    let named = mine.iter().rev().map(|at| logs[*at].clone() as _).collect();
                    let claims = crew.claim(named);
                    for at in &mine {
                        let before = counts[*at].load(Ordering::Relaxed);
                        std::thread::yield_now();
                        counts[*at].store(before + 1, Ordering::Relaxed);
                    }
                    drop(claims);
                    crew.request(logs[time % 4].clone());
                }
            });
        }
    });
    let all: usize = counts.iter().map(|it| it.load(Ordering::Relaxed)).sum();
    let each = |caller: usize, time: usize| {
        let mine = (0..3).map(|n| (caller + time + 2 * n) % 4);
        mine.collect::<std::collections::BTreeSet<_>>().len()
    };
    let expected: usize = (0..3)
        .flat_map(|caller| (0..TIMES).map(move |time| each(caller, time)))
        .sum();
    assert_eq!(all, expected, "no count was lost");
    crew.stop();
}

/// A caller panics while it has claimed a log: the log is abandoned, and claimed by nobody.
#[test]
fn a_claim_of_a_caller_that_panics_abandons_the_log() {
    let log = Scripted::new(1, |_| Next::Rest);
    let crew = Crew::start("test", 1, |log| log.round()).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _claims = crew.claim(vec![log.clone()]);
        panic!("in the middle of it");
    }));
    panicked.unwrap_err();
    assert!(log.abandoned.lock().unwrap().is_some());
    assert!(!crew.shared.queue().is_claimed(1));
    crew.stop();
}
