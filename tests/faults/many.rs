//! More topics than the process, or the store, may open files.

use rustix::process::{Resource, Rlimit, setrlimit};
use tidelog::{Record, Store};

use crate::kit::{BACKENDS, Place, one, options, payloads, segments_of};
use crate::life;

/// D28. Thousands of topics ended in a panic for want of descriptors. So use a hundred and fifty with a
/// hundred descriptors, by a store that believes it has thousands: it lets go of some and tries
/// again, and every call is answered.
#[test]
fn where_descriptors_run_out_some_are_let_go_of_and_every_call_succeeds() {
    life::alone(
        "many::where_descriptors_run_out_some_are_let_go_of_and_every_call_succeeds",
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
    let store = Store::open_with(&place.root, options(backend).max_open_files(4000)).unwrap();
    for number in 0..TOPICS {
        let topic = store.create_topic(&name(number), segments_of(16 << 10));
        topic.unwrap().append(Record::new(name(number))).unwrap();
    }
    for number in 0..TOPICS {
        one(&store, &name(number)).append("second").unwrap();
        let found = payloads(&one(&store, &name(number)));
        assert_eq!(found, [name(number).into_bytes(), b"second".to_vec()]);
    }
    assert!(store.health().failed.is_empty());
    store.close().unwrap();

    limit(1000);
    let store = place.open(backend);
    for number in 0..TOPICS {
        let found = payloads(&one(&store, &name(number)));
        assert_eq!(found, [name(number).into_bytes(), b"second".to_vec()]);
    }
    store.close().unwrap();
}
