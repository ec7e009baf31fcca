//! What to do with a record that the function fails with.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::store::{Header, Record};

/// A reason may be so long in a header, in bytes.
const LONGEST_REASON: usize = 4096;

/// What becomes of a record when all attempts have failed.
///
/// # Examples
///
/// ```
/// use tidelog::OnError;
/// assert_eq!(OnError::default(), OnError::Stop);
/// assert_eq!(OnError::dead_letter("dead"), OnError::DeadLetter("dead".to_owned()));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// The processor ends with [`Error::ProcessorFailed`]. What came before the record is committed; the
    /// record comes first when the processor runs again.
    #[default]
    Stop,
    /// The record is left out, and counted.
    Skip,
    /// The record goes to this topic, made if there is none, with its key, headers, timestamp and
    /// payload, and with these headers behind its own: `tidelog.dead.reason` (cut to 4 KiB),
    /// `tidelog.dead.origin` (topic/partition@offset), `tidelog.dead.attempts`,
    /// `tidelog.dead.processor`. One of a record that could not be read has no payload, and nobody's
    /// attempts. A letter that the topic cannot take, since it is too large or has more than 251 headers
    /// of its own, ends the processor.
    DeadLetter(String),
}

impl OnError {
    /// [`OnError::DeadLetter`] with this topic.
    pub fn dead_letter(topic: impl Into<String>) -> OnError {
        OnError::DeadLetter(topic.into())
    }
}

/// How often a record is tried, and how long the pauses are.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidelog::Retry;
/// // Pauses of 10, 20, 40 and 50 ms.
/// let retry = Retry::attempts(5).pauses(Duration::from_millis(10), Duration::from_millis(50));
/// assert_ne!(retry, Retry::never());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    attempts: u32,
    first: Duration,
    greatest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry::never()
    }
}

impl Retry {
    /// A record is tried once.
    pub const fn never() -> Retry {
        Retry::attempts(1)
    }

    /// A record is tried so often at the most, the first time counted. The first pause is 100 ms, each
    /// next one twice as long, up to 10 s.
    pub const fn attempts(attempts: u32) -> Retry {
        Retry {
            attempts,
            first: Duration::from_millis(100),
            greatest: Duration::from_secs(10),
        }
    }

    /// The first pause, and the one beyond which they do not grow.
    pub const fn pauses(mut self, first: Duration, greatest: Duration) -> Retry {
        self.first = first;
        self.greatest = greatest;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.attempts == 0 {
            return Err(Error::InvalidOption {
                option: "retry",
                reason: "a record is tried once at least".to_owned(),
            });
        }
        Ok(())
    }

    /// The pause after so many attempts; nothing if that was the last one.
    pub(super) fn pause_after(&self, attempts: u32) -> Option<Duration> {
        let doubled = 1_u32.checked_shl(attempts.saturating_sub(1));
        let pause = self.first.saturating_mul(doubled.unwrap_or(u32::MAX));
        (attempts < self.attempts).then(|| pause.min(self.greatest))
    }
}

/// The dead letter of a record, or of one that could not be read.
pub(super) fn letter(
    record: Option<Record<'_>>,
    (processor, origin): (&str, &str),
    (attempts, reason): (u32, &str),
) -> Record<'static> {
    let mut letter = record.unwrap_or_else(|| Record::new("")).into_owned();
    let reason = &reason[..reason.floor_char_boundary(LONGEST_REASON)];
    let attempts = attempts.to_string();
    for (name, value) in [
        ("reason", reason),
        ("origin", origin),
        ("attempts", &attempts),
        ("processor", processor),
    ] {
        let name = format!("tidelog.dead.{name}");
        letter
            .headers
            .push(Header::new(name, value.as_bytes().to_vec()));
    }
    letter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five attempts have four pauses, each twice the last one up to the greatest; as many as can be
    /// asked for have pauses, too.
    #[test]
    fn pauses_double_up_to_the_greatest_and_end_with_the_attempts() {
        let millis = Duration::from_millis;
        let retry = Retry::attempts(5).pauses(millis(10), millis(50));
        let pauses: Vec<_> = (1..=5).map(|it| retry.pause_after(it)).collect();
        let expected = [10, 20, 40, 50].map(|it| Some(millis(it)));
        assert_eq!(pauses[..4], expected);
        assert_eq!(pauses[4], None);
        let forever = Retry::attempts(u32::MAX);
        assert_eq!(
            forever.pause_after(4_000_000),
            Some(Duration::from_secs(10))
        );
        assert_eq!(Retry::never().pause_after(1), None);
        Retry::attempts(0).check().unwrap_err();
    }

    /// A reason of many bytes is cut between two characters.
    #[test]
    fn a_long_reason_is_cut_in_the_letter() {
        let reason = "ü".repeat(5000);
        let letter = letter(None, ("p", "t/0@1"), (2, &reason[1 - 1..]));
        assert_eq!(letter.headers[0].value.len(), 4096);
        let odd = format!("a{reason}");
        let letter = super::letter(None, ("p", "t/0@1"), (2, &odd));
        assert_eq!(letter.headers[0].value.len(), 4095);
    }
}
