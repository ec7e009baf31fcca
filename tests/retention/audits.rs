//! What an audit tells from outside.

use tidelog::{Error, Retention, Store};

use crate::kit::{HOUR, fill, small};
use crate::machine::{Machine, ROOT};

/// A store that is only read tells what its owner would let go of, and lets go of nothing.
#[test]
fn an_audit_of_a_store_that_is_only_read_tells_what_its_owner_does() {
    for way in ["age", "bytes", "required", "idle"] {
        let machine = Machine::new(1);
        let retention = match way {
            "bytes" => Retention::bytes(20_000),
            "required" => Retention::age(HOUR).keep_required(10 << 20),
            _ => Retention::age(HOUR),
        };
        let (store, topic) = machine.topic(small(retention));
        fill(&topic, 30);
        if way == "required" {
            let mut must = topic.subscription("must").required().open().unwrap();
            for _ in 0..20 {
                must.next().unwrap().unwrap();
            }
            must.commit().unwrap();
        }
        if way == "age" {
            machine.pass(HOUR / 8);
            fill(&topic, 20);
            machine.pass(HOUR);
            fill(&topic, 1);
        } else {
            machine.pass(2 * HOUR);
        }
        drop(topic);
        store.close().unwrap();
        let reader = Store::open_read_only_with(ROOT, machine.options().inline()).unwrap();
        let reads = reader.existing_topic("t").unwrap();
        let would = reads.audit().unwrap();
        assert_eq!(reader.audit().unwrap(), would, "{way}");
        assert!(would.partitions[0].records() > 0, "{way} {would:?}");
        let refused = reads.apply_retention().unwrap_err();
        assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
        drop(reads);
        reader.close().unwrap();
        let store = machine.open();
        assert_eq!(store.apply_retention().unwrap(), would, "{way}");
        store.close().unwrap();
    }
}
