//! Sizes in bytes, as people write them.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// A number of bytes: `1048576`, `20MB` (20,000,000) or `1GiB` (1,073,741,824).
///
/// # Examples
///
/// ```
/// use tidelog_config::Size;
/// assert_eq!("20GB".parse(), Ok(Size(20_000_000_000)));
/// assert_eq!("20 GiB".parse(), Ok(Size(20 << 30)));
/// assert_eq!(Size(64 << 10).to_string(), "64KiB");
/// assert!("20 gigs".parse::<Size>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let unit = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit));
        let (unit, bytes) = unit.unwrap_or(("", 1));
        let number = text[..text.len() - unit.len()].trim_end();
        let size = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(bytes));
        let size = size.ok_or("expected a size like 1048576, 20MB or 1GiB");
        Ok(Size(size?))
    }
}

impl fmt::Display for Size {
    /// In the largest unit that says it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, bytes): &(&str, u64)| self.0 >= *bytes && self.0.is_multiple_of(*bytes);
        match UNITS
            .into_iter()
            .filter(fits)
            .max_by_key(|(_, bytes)| *bytes)
        {
            Some((unit, bytes)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Seen;
        impl Visitor<'_> for Seen {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size like 1048576, \"20MB\" or \"1GiB\"")
            }

            fn visit_u64<E: Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes)
                    .map(Size)
                    .map_err(|_| E::custom("a size is not negative"))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                text.parse()
                    .map_err(|error| E::custom(format!("{text:?}: {error}")))
            }
        }
        deserializer.deserialize_any(Seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        let cases = [
            ("7", 7),
            ("7B", 7),
            ("1kB", 1000),
            ("1KiB", 1024),
            ("20 GiB", 20 << 30),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "GB", "-1", "1.5GB", "1 XB", "99999999TB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_told_as_it_can_be_read() {
        for bytes in [0, 1, 999, 1000, 1024, 20_000_000_000, 20 << 30, u64::MAX] {
            assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }
        assert_eq!(Size(20_000_000).to_string(), "20MB");
    }
}
