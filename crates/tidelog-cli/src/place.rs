//! Where reading starts, as it is said on the command line.

use std::str::FromStr;

use clap::Args;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tidelog::Start;

/// What `--from` takes, in a line.
pub(crate) const SUMMARY: &str = "Where to start: earliest, latest, an offset, or a time";

/// What `--from` takes.
pub(crate) const HELP: &str = "\
Where to start: earliest, latest, an offset, or a time

An offset is a plain number and needs --partition where the topic has several. A time is the first \
record at or after it: RFC 3339 (2018-02-04T12:00:00Z), a date (2018-02-04, midnight UTC), or a \
number with a unit since 1970 (1517745600s, 1517745600000ms, us, ns).";

/// What is read.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// The topic
    pub(crate) topic: String,

    #[arg(
        long,
        value_name = "PLACE",
        default_value = "earliest",
        value_parser = parse,
        help = SUMMARY,
        long_help = HELP,
    )]
    pub(crate) from: Start,

    /// Only this partition
    #[arg(long, value_name = "N")]
    pub(crate) partition: Option<u32>,
}

/// Units of time since 1970, and how many nanoseconds each has. The longer suffix comes first.
const UNITS: [(&str, i64); 4] = [
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    ("s", 1_000_000_000),
];

/// Reads `earliest`, `latest`, an offset or a time.
pub(crate) fn parse(text: &str) -> Result<Start, String> {
    match text {
        "earliest" => return Ok(Start::Earliest),
        "latest" => return Ok(Start::Latest),
        _ => {}
    }
    if text.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(offset) = text.parse()
    {
        return Ok(Start::Offset(offset));
    }
    let nanos = since_1970(text).or_else(|| calendar(text));
    let nanos = nanos.ok_or("expected earliest, latest, an offset or a time; see --help")?;
    Ok(Start::At(tidelog::Timestamp::from_nanos(nanos)))
}

fn since_1970(text: &str) -> Option<i64> {
    let with_unit = |(unit, nanos)| {
        let number: i64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(nanos)
    };
    UNITS.into_iter().find_map(with_unit)
}

fn calendar(text: &str) -> Option<i64> {
    let stamp = match Timestamp::from_str(text) {
        Ok(stamp) => stamp,
        // A date alone, and not the date of a time whose zone is missing.
        Err(_) if text.len() == "2018-02-04".len() => Date::from_str(text)
            .ok()?
            .to_zoned(TimeZone::UTC)
            .ok()?
            .timestamp(),
        Err(_) => return None,
    };
    i64::try_from(stamp.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_can_be_said_in_many_ways() {
        for text in [
            "2018-02-04",
            "2018-02-04T00:00:00Z",
            "2018-02-04T01:00:00+01:00",
            "1517702400s",
            "1517702400000ms",
            "1517702400000000us",
            "1517702400000000000ns",
        ] {
            let start = Start::At(tidelog::Timestamp::from_millis(1_517_702_400_000));
            assert_eq!(parse(text), Ok(start), "{text}");
        }
    }

    #[test]
    fn words_and_plain_numbers_are_no_times() {
        assert_eq!(parse("earliest"), Ok(Start::Earliest));
        assert_eq!(parse("latest"), Ok(Start::Latest));
        assert_eq!(parse("20180204"), Ok(Start::Offset(20_180_204)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "",
            "-1",
            "yesterday",
            "2018-02-30",
            "2018-02-04T12:00:00",
            "9e9s",
            "ms",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("99999999999999999999").is_err());
        assert!(parse("9999-01-01").is_err());
    }
}
