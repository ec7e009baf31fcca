//! What the system refuses: descriptors, and reserved space. In processes of their own.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Resource, Rlimit, setrlimit};
use tidelog::sys::Backend;
use tidelog::{Error, Record, Store, TopicOptions};

use crate::kit::{BACKENDS, Place, fill, one, options, payload, payloads, segments_of};
use crate::life;

const TOPICS: u64 = 400;

fn name(number: u64) -> String {
    format!("topic.{number:04}")
}

/// D28. Thousands of topics ran out of descriptors, and the process panicked. So have the program
/// take every descriptor that the store could still have, again before each call: it lets go of its
/// own, and when none is left a call is refused as what it is. What was acknowledged is readable by
/// the same owner as soon as there are some, and is all there for the next one.
#[test]
fn a_process_without_descriptors_is_refused_and_loses_nothing() {
    let test = "limits::a_process_without_descriptors_is_refused_and_loses_nothing";
    life::alone(test, || {
        for backend in BACKENDS {
            let place = Place::new();
            let enough = rustix::process::getrlimit(Resource::Nofile);
            set_descriptors(Some(256), enough.maximum);
            let acknowledged = until_refused(&place, backend);
            set_descriptors(enough.current, enough.maximum);
            assert!(acknowledged.len() > 50, "{}", acknowledged.len());

            let store = place.open(backend);
            for number in acknowledged {
                let found = payloads(&one(&store, &name(number)));
                assert_eq!(found, [payload(number, 100)]);
            }
            store.close().unwrap();
        }
    });
}

fn set_descriptors(current: Option<u64>, maximum: Option<u64>) {
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

/// Makes topics and appends a record to each; those that were acknowledged.
fn until_refused(place: &Place, backend: Backend) -> Vec<u64> {
    let store = place.open(backend);
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    let mut taken = Vec::new();
    for number in 0..TOPICS {
        if number >= 60 {
            taken.extend(std::iter::from_fn(|| fs::File::open("/dev/null").ok()));
        }
        let options = TopicOptions::new().first_segment_bytes(16 << 10);
        let made = store.create_topic(&name(number), options);
        match made.and_then(|topic| topic.append(Record::new(payload(number, 100)))) {
            Ok(_) => acknowledged.push(number),
            Err(Error::Io { source, .. }) => {
                assert_eq!(source.raw_os_error(), Some(libc::EMFILE), "{source}");
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(
        refused > 0,
        "there was always a descriptor for {TOPICS} topics"
    );
    drop(taken);
    for number in &acknowledged {
        assert_eq!(
            payloads(&one(&store, &name(*number))),
            [payload(*number, 100)]
        );
    }
    // Whether it can be closed for good without descriptors or not: it is an answer.
    if let Err(error) = store.close() {
        assert!(
            matches!(error, Error::Io { .. } | Error::Failed { .. }),
            "{error:?}"
        );
    }
    acknowledged
}

/// D28. What is open is let go of when the store is closed.
#[test]
fn a_closed_store_leaves_no_descriptor_mapping_or_thread_behind() {
    let test = "limits::a_closed_store_leaves_no_descriptor_mapping_or_thread_behind";
    life::alone(test, || {
        for backend in BACKENDS {
            let place = Place::new();
            // What the first store of a process sets up once stays.
            place.open(backend).close().unwrap();
            let count = |what| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
            let mapped = || {
                fs::read_to_string("/proc/self/maps")
                    .unwrap()
                    .matches(".seg")
                    .count()
            };
            let before = (count("fd"), count("task"));
            let store = place.open(backend);
            for number in 0..50 {
                store.topic(&name(number)).unwrap().append("one").unwrap();
            }
            assert!(mapped() > 0);
            store.close().unwrap();
            drop(place);
            life::until(|| (count("fd"), count("task")) == before && mapped() == 0);
        }
    });
}

/// D09. Reserving space is not supported everywhere. Then real zeroes are written, so that blocks
/// are there all the same; the store goes on as ever. A refusal for another reason is told as that:
/// a full disk as a full one.
#[test]
fn where_space_cannot_be_reserved_it_is_written() {
    life::alone(
        "limits::where_space_cannot_be_reserved_it_is_written",
        || {
            // A filter is for a thread and those that it starts, and for good.
            for errno in [libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL] {
                in_thread(errno, || {
                    for backend in BACKENDS {
                        without_reserving(backend);
                    }
                });
            }
            for errno in [libc::ENOSPC, libc::EDQUOT, libc::EIO] {
                let place = Place::new();
                let store = Store::open(&place.root).unwrap();
                store.topic("t").unwrap().append("one").unwrap();
                store.close().unwrap();
                in_thread(errno, || {
                    let refused = Store::open(&place.root).map(drop);
                    match (errno, refused) {
                        (libc::EIO, Err(Error::Io { .. })) => {}
                        (libc::ENOSPC | libc::EDQUOT, Err(Error::StorageFull { .. })) => {}
                        // Nothing had to be made.
                        (_, Ok(())) => {}
                        (errno, other) => panic!("{errno}: {other:?}"),
                    }
                    let store = Store::open(&place.root);
                    let made = store.and_then(|store| {
                        let made = store.topic("u")?.append("one").map(drop);
                        assert_eq!(payloads(&one(&store, "t")), [b"one"]);
                        made
                    });
                    match (errno, made) {
                        (libc::EIO, Err(Error::Io { .. })) => {}
                        (_, Err(Error::StorageFull { .. })) => {}
                        (errno, other) => panic!("{errno}: {other:?}"),
                    }
                });
                let store = Store::open(&place.root).unwrap();
                store.topic("u").unwrap().append("one").unwrap();
                assert_eq!(payloads(&one(&store, "t")), [b"one"]);
                store.close().unwrap();
            }
        },
    );
}

fn in_thread(errno: i32, act: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            refuse_to_reserve(errno);
            act();
        });
        thread.join().unwrap();
    });
}

fn without_reserving(backend: Backend) {
    let place = Place::new();
    let store = place.open(backend);
    store.create_topic("t", segments_of(64 << 10)).unwrap();
    fill(&one(&store, "t"), 0..2000, 100);
    let image = place.killed();
    for number in 0..place.segments("t").len() as u32 {
        let meta = fs::metadata(place.segment("t", number)).unwrap();
        assert!(
            meta.blocks() * 512 >= meta.len(),
            "blocks of segment {number}"
        );
    }
    store.close().unwrap();
    for place in [place, image] {
        let store = place.open(backend);
        let expected: Vec<_> = (0..2000).map(|number| payload(number, 100)).collect();
        assert_eq!(payloads(&one(&store, "t")), expected);
        store.close().unwrap();
        assert!(
            tidelog::verify(&place.root, &options(backend))
                .unwrap()
                .is_sound()
        );
    }
}

/// Lets every `fallocate` of this thread, and of those it starts, fail.
#[expect(unsafe_code, reason = "nothing safe filters system calls")]
fn refuse_to_reserve(errno: i32) {
    let step = |code: u32, k: u32, jt, jf| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let number = libc::SYS_fallocate as u32;
    let mut steps = [
        // The number of the call is the first word of what a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 0, 1),
        step(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | errno as u32,
            0,
            0,
        ),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the call takes numbers only.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(done, 0);
    let program = std::ptr::from_ref(&program);
    // SAFETY: the program and its steps outlive the call.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, program) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}
