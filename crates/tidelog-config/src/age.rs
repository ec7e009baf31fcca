//! Lengths of time, as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time: `7d`, `12h`, `1h 30m`, `200ms`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidelog_config::Age;
/// assert_eq!("7d".parse(), Ok(Age(Duration::from_secs(7 * 24 * 3600))));
/// assert_eq!(Age(Duration::from_millis(1500)).to_string(), "1s 500ms");
/// assert!("7".parse::<Age>().is_err()); // seven what?
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age(pub Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Age, String> {
        let age = humantime::parse_duration(text);
        age.map(Age)
            .map_err(|error| format!("expected a length of time like 7d, 12h or 200ms: {error}"))
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_duration(self.0))
    }
}

impl Serialize for Age {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Age {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Age, D::Error> {
        struct Seen;
        impl Visitor<'_> for Seen {
            type Value = Age;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time like \"7d\", \"12h\" or \"200ms\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Age, E> {
                text.parse()
                    .map_err(|error| E::custom(format!("{text:?}: {error}")))
            }
        }
        deserializer.deserialize_str(Seen)
    }
}
