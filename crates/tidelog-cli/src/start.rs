//! `--from`: where reading starts.

use std::str::FromStr;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use tidelog::{Start, Timestamp};

/// What `--from` says, and how it is written.
pub const HELP: &str = "\
Where to start: earliest, latest, an offset (one partition only), or a time: the first record at
or after it. A time is RFC 3339 (2018-02-01T00:00:00Z), a date or a date with time in UTC
(2018-02-01, 2018-02-01T06:30), or @ and seconds since 1970 (@1517443200)";

/// Reads what `--from` says.
pub fn parse(text: &str) -> Result<Start, String> {
    match text {
        "earliest" => return Ok(Start::Earliest),
        "latest" => return Ok(Start::Latest),
        _ => {}
    }
    if let Ok(offset) = text.parse() {
        return Ok(Start::Offset(offset));
    }
    time(text).map(Start::At).ok_or_else(|| {
        "it is neither earliest, latest, an offset, nor a time like 2018-02-01T00:00:00Z".to_owned()
    })
}

fn time(text: &str) -> Option<Timestamp> {
    if let Some(seconds) = text.strip_prefix('@') {
        let millis = seconds.parse::<i64>().ok()?.checked_mul(1000)?;
        return Some(Timestamp::from_millis(millis));
    }
    let civil = || {
        let date = Date::from_str(text).map(DateTime::from);
        let date = date.or_else(|_| DateTime::from_str(text)).ok()?;
        TimeZone::UTC.to_timestamp(date).ok()
    };
    let time = jiff::Timestamp::from_str(text).ok().or_else(civil)?;
    Some(Timestamp::from_nanos(
        i64::try_from(time.as_nanosecond()).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_read_in_every_way_it_is_written() {
        let february = Start::At(Timestamp::from_millis(1_517_443_200_000));
        for text in [
            "2018-02-01",
            "2018-02-01T00:00",
            "2018-02-01T00:00:00Z",
            "@1517443200",
        ] {
            assert_eq!(parse(text), Ok(february), "{text}");
        }
        assert_eq!(parse("2018-02-01T01:00:00+01:00"), Ok(february));
        assert_eq!(parse("17"), Ok(Start::Offset(17)));
        assert_eq!(parse("earliest"), Ok(Start::Earliest));
        assert_eq!(parse("latest"), Ok(Start::Latest));
        for text in ["", "-1", "yesterday", "2018-13-01", "@x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
