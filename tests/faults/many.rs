//! More topics than the process may open files.

use rustix::process::{Resource, Rlimit, setrlimit};
use tidelog::{Error, Record};

use crate::kit::{BACKENDS, Place, one, payloads, segments_of};
use crate::life;

/// D28. Thousands of topics ended in a panic for want of descriptors. So use a hundred and fifty with a
/// hundred descriptors: what finds none left is refused by that call alone, and what was
/// acknowledged is there.
#[test]
fn want_of_descriptors_refuses_a_call_and_loses_nothing() {
    life::alone(
        "many::want_of_descriptors_refuses_a_call_and_loses_nothing",
        || BACKENDS.into_iter().for_each(few_descriptors),
    );
}

fn few_descriptors(backend: tidelog::sys::Backend) {
    const TOPICS: u64 = 150;
    let name = |number: u64| format!("t{number}");
    let limit = |current| {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let current = Some(current);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    };
    let place = Place::new();
    limit(100);
    let store = place.open(backend);
    let mut acknowledged = Vec::new();
    for number in 0..TOPICS {
        let topic = store.create_topic(&name(number), segments_of(16 << 10));
        match topic.and_then(|topic| topic.append(Record::new(name(number)))) {
            Ok(_) => acknowledged.push(number),
            Err(Error::Io { .. }) => {}
            Err(other) => panic!("{number}: {other:?}"),
        }
    }
    assert!(!acknowledged.is_empty());
    assert!((acknowledged.len() as u64) < TOPICS, "nothing was scarce");
    // Those that are open go on.
    for number in &acknowledged {
        one(&store, &name(*number)).append("second").unwrap();
    }
    assert!(store.health().failed.is_empty());
    store.close().unwrap();

    limit(1000);
    let store = place.open(backend);
    for number in acknowledged {
        let found = payloads(&one(&store, &name(number)));
        assert_eq!(found, [name(number).into_bytes(), b"second".to_vec()]);
    }
    store.close().unwrap();
}
