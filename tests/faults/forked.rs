//! D38: a process forks while it has a store open, and the child uses what it inherited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidelog::{
    Ack, Cursor, Durability, Error, Follow, Position, Record, Start, Store, Subscription, Topic,
};
use tidelog::{TopicOptions, verify};

use crate::kit::{BACKENDS, Place, fingerprint, one, options, payloads};
use crate::life;

/// Runs `act` in a forked child, which has twenty seconds; what it returned, or the signal that ended it.
fn in_child(act: impl FnOnce() -> u8) -> Result<u8, i32> {
    match fork() {
        0 => {
            alarm(20);
            exit(act());
        }
        child => wait(child),
    }
}

#[expect(unsafe_code, reason = "nothing safe forks")]
fn fork() -> i32 {
    // SAFETY: the process is this test's own; the child calls the library that is tested, and exits.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    child
}

#[expect(unsafe_code, reason = "nothing safe sets an alarm")]
fn alarm(seconds: u32) {
    // SAFETY: it changes no memory.
    unsafe { libc::alarm(seconds) };
}

#[expect(unsafe_code, reason = "nothing safe exits without running handlers")]
fn exit(code: u8) -> ! {
    // SAFETY: it ends the child.
    unsafe { libc::_exit(i32::from(code)) }
}

#[expect(unsafe_code, reason = "nothing safe waits for a forked child")]
fn wait(child: i32) -> Result<u8, i32> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    match libc::WIFEXITED(status) {
        true => Ok(u8::try_from(libc::WEXITSTATUS(status)).unwrap()),
        false => Err(libc::WTERMSIG(status)),
    }
}

fn is_forked<T>(answer: tidelog::Result<T>) -> bool {
    matches!(answer, Err(Error::Forked))
}

/// What the parent has in its hands when it forks.
struct Handles {
    store: Store,
    topic: Topic,
    first: Position,
    by_hand: Topic,
    ack: Ack,
    cursor: Cursor,
    tail: Follow,
    archive: Subscription,
}

fn handles(place: &Place, backend: tidelog::sys::Backend) -> Handles {
    let store = place.open(backend);
    let topic = store.topic("a").unwrap();
    let first = topic.append("one").unwrap();
    let options = TopicOptions::new().durability(Durability::Manual);
    let by_hand = store.create_topic("b", options).unwrap();
    Handles {
        ack: by_hand.append_nowait("pending").unwrap(),
        cursor: one(&store, "a").cursor(Start::Earliest).unwrap(),
        tail: topic.follow(Start::Latest).unwrap(),
        archive: topic.subscribe("archive").unwrap(),
        by_hand,
        first,
        topic,
        store,
    }
}

/// Uses every handle, and drops them; the number of the first that did not say that it is the parent's.
fn misuse(mut handles: Handles) -> u8 {
    let answers = [
        is_forked(handles.topic.append("two")),
        is_forked(handles.topic.append_nowait("two")),
        is_forked(
            handles
                .topic
                .append_batch(["two", "three"].map(Record::new)),
        ),
        is_forked(handles.by_hand.flush()),
        is_forked(handles.ack.wait()),
        is_forked(handles.cursor.next().map(|_| ())),
        is_forked(handles.tail.next().map(|_| ())),
        is_forked(handles.archive.next().map(|_| ())),
        is_forked(handles.archive.commit_to(&handles.first)),
        is_forked(handles.topic.finish()),
        is_forked(handles.store.create_topic("c", TopicOptions::new())),
        is_forked(handles.store.topic("a")),
        is_forked(handles.store.delete_topic("a")),
        is_forked(handles.store.flush()),
        handles.store.topics().is_empty(),
        !handles.store.health().failed.is_empty(),
        is_forked(handles.store.clone().close()),
    ];
    drop(handles);
    match answers.iter().position(|right| !right) {
        None => 0,
        Some(at) => u8::try_from(at + 1).unwrap(),
    }
}

/// A pre-forking server opens the store first: the children's handles say whose they are, at once, and
/// nothing a child does with them, its end included, changes a byte, frees the lock or stops the parent.
#[test]
fn a_forked_child_can_do_nothing_with_its_parents_handles() {
    life::alone(
        "forked::a_forked_child_can_do_nothing_with_its_parents_handles",
        || {
            for backend in BACKENDS {
                let place = Place::new();
                let handles = handles(&place, backend);
                let (store, topic, ack) = (
                    handles.store.clone(),
                    handles.topic.clone(),
                    handles.ack.clone(),
                );
                let before = fingerprint(&place.root);
                assert_eq!(in_child(|| misuse(handles)), Ok(0));
                assert_eq!(fingerprint(&place.root), before);
                let again = Store::open(&place.root);
                assert!(matches!(again, Err(Error::Locked { .. })), "{again:?}");
                topic.append("two").unwrap();
                store.flush().unwrap();
                ack.wait().unwrap();
                assert_eq!(payloads(&one(&store, "a")).len(), 2);
                drop((topic, ack));
                store.close().unwrap();
                assert!(verify(&place.root, &options(backend)).unwrap().is_sound());
            }
        },
    );
}

/// A busy process forks again and again, at any moment of its appends, so that locks may be held in the
/// child for ever: each child gets its answers all the same, and the parent's appends go on.
#[test]
fn a_child_of_a_busy_parent_is_answered_whatever_was_locked() {
    life::alone(
        "forked::a_child_of_a_busy_parent_is_answered_whatever_was_locked",
        || {
            let place = Place::new();
            let store = place.open(BACKENDS[0]);
            let topic = store.topic("a").unwrap();
            let stop = AtomicBool::new(false);
            let appended = thread::scope(|scope| {
                let append = || {
                    let mut count = 0;
                    while !stop.load(Ordering::Relaxed) {
                        topic.append("more").unwrap();
                        count += 1;
                    }
                    count
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(append)).collect();
                for _ in 0..100 {
                    let (topic, store) = (topic.clone(), store.clone());
                    let child = in_child(|| {
                        let answers = [
                            is_forked(topic.append("child")),
                            is_forked(topic.follow(Start::Earliest)),
                            is_forked(store.create_topic("c", TopicOptions::new())),
                            is_forked(store.flush()),
                        ];
                        drop((topic, store));
                        u8::from(answers.contains(&false))
                    });
                    assert_eq!(child, Ok(0));
                }
                stop.store(true, Ordering::Relaxed);
                threads
                    .into_iter()
                    .map(|it| it.join().unwrap())
                    .sum::<usize>()
            });
            assert_eq!(payloads(&one(&store, "a")).len(), appended);
        },
    );
}

/// The parent has ended without closing; its child lives on and opens the store for itself.
#[test]
fn a_child_can_open_the_store_for_itself() {
    life::alone("forked::a_child_can_open_the_store_for_itself", || {
        let place = Place::new();
        let store = place.open(BACKENDS[0]);
        store.topic("a").unwrap().append("one").unwrap();
        let root = place.root.clone();
        store.close().unwrap();
        let child = in_child(move || {
            let Ok(store) = Store::open(&root) else {
                return 1;
            };
            let appended = store.topic("a").and_then(|topic| topic.append("two"));
            match appended.and_then(|_| store.close()) {
                Ok(()) => 0,
                Err(_) => 2,
            }
        });
        assert_eq!(child, Ok(0));
        let store = place.open(BACKENDS[0]);
        assert_eq!(payloads(&one(&store, "a")).len(), 2);
    });
}

/// The parent goes on appending while its child, which can do nothing with what it inherited, opens the
/// store afresh for reading and follows its parent.
#[test]
fn a_child_that_opens_the_store_for_reading_follows_its_parent() {
    let place = Place::new();
    let store = place.open(tidelog::sys::Backend::Mapped);
    let topic = store.topic("a").unwrap();
    topic.append("before").unwrap();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let appends = scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                topic.append("beside").unwrap();
            }
        });
        let child = in_child(|| {
            let reader = Store::open_read_only(&place.root).unwrap();
            let mut tail = reader.topic("a").unwrap().follow(Start::Earliest).unwrap();
            let read = (0..1000).all(|offset| tail.next().unwrap().unwrap().offset() == offset);
            drop(tail);
            u8::from(read && is_forked(topic.append("in the child")) && reader.close().is_ok())
        });
        ended.store(true, Ordering::Release);
        appends.join().unwrap();
        assert_eq!(child, Ok(1));
    });
    drop(topic);
    store.close().unwrap();
    assert!(
        verify(&place.root, &options(tidelog::sys::Backend::Mapped))
            .unwrap()
            .is_sound()
    );
}
