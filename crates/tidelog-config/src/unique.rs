//! Tables in which no key stands twice: JSON and YAML would take the last one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

pub(crate) fn map<'de, D, V>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    struct Seen<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Seen<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = access.next_entry::<String, V>()? {
                match map.entry(key) {
                    Entry::Vacant(place) => {
                        place.insert(value);
                    }
                    Entry::Occupied(place) => {
                        let twice = format!("{:?} stands there twice", place.key());
                        return Err(A::Error::custom(twice));
                    }
                }
            }
            Ok(map)
        }
    }
    deserializer.deserialize_map(Seen(PhantomData))
}
