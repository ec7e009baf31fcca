//! Sizes in bytes, as people write them.

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

/// Reads `20GB`, `20GiB`, or a number of bytes.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let unit = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit));
    let (unit, bytes) = unit.unwrap_or(("", 1));
    let number = text[..text.len() - unit.len()].trim_end();
    let size = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(bytes));
    size.ok_or_else(|| "expected a size like 1048576, 20MB or 1GiB".to_owned())
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
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "GB", "-1", "1.5GB", "1 XB", "99999999TB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
