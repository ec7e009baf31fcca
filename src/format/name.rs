use std::fmt;

use super::flaw::{Field, Flaw};

/// The longest name of a topic, in bytes.
pub(crate) const MAX_NAME: usize = 200;

/// The name of a topic as a segment carries it: the empty one is the journal's.
///
/// 1 to 200 bytes of `a-z`, `0-9`, `.`, `_`, `-`, beginning with a letter or a digit; so that a
/// name read from a damaged or forged file can become part of a path without leaving its folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopicName {
    len: u8,
    bytes: [u8; MAX_NAME],
}

impl TopicName {
    pub(crate) const JOURNAL: Self = Self {
        len: 0,
        bytes: [0; MAX_NAME],
    };

    pub(crate) fn new(name: &str) -> Result<Self, Flaw> {
        let flaw = Flaw::Field {
            field: Field::Topic,
            found: name.len() as u64,
        };
        let mut bytes = [0; MAX_NAME];
        bytes
            .get_mut(..name.len())
            .ok_or(flaw)?
            .copy_from_slice(name.as_bytes());
        Self::decode(u8::try_from(name.len()).map_err(|_| flaw)?, bytes)
    }

    /// What a segment says; behind the name all is zero.
    pub(super) fn decode(len: u8, bytes: [u8; MAX_NAME]) -> Result<Self, Flaw> {
        let (name, behind) = bytes
            .split_at_checked(len.into())
            .filter(|(name, _)| is_name(name))
            .ok_or(Flaw::Field {
                field: Field::Topic,
                found: len.into(),
            })?;
        match behind.iter().find(|byte| **byte != 0) {
            Some(byte) => Err(Flaw::Field {
                field: Field::Reserved,
                found: (*byte).into(),
            }),
            None => {
                debug_assert!(name.is_ascii());
                Ok(Self { len, bytes })
            }
        }
    }

    pub(super) fn encode(self) -> (u8, [u8; MAX_NAME]) {
        (self.len, self.bytes)
    }

    pub(crate) fn is_journal(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn as_str(&self) -> &str {
        let name = self.bytes.get(..self.len.into()).unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

fn is_name(name: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.first().is_none_or(plain) && name.iter().all(|byte| plain(byte) || b"._-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_folders_pass() {
        let longest = "a".repeat(MAX_NAME);
        for name in ["a", "0", "agent.output", "a-b_c..d", "con", &longest] {
            assert_eq!(
                TopicName::new(name).map(|name| name.as_str().to_owned()),
                Ok(name.to_owned())
            );
        }
        assert_eq!(TopicName::new(""), Ok(TopicName::JOURNAL));
    }

    #[test]
    fn names_that_could_lead_elsewhere_do_not() {
        let too_long = "a".repeat(MAX_NAME + 1);
        for name in [
            ".", "..", "../x", "a/b", "a\0b", ".a", "-a", "_a", "A", "a b", "\u{fc}", "%2e",
            &too_long,
        ] {
            assert!(TopicName::new(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn nothing_hides_behind_a_name() {
        let (len, mut bytes) = TopicName::new("abc").unwrap().encode();
        bytes[MAX_NAME - 1] = b'x';
        assert_eq!(
            TopicName::decode(len, bytes),
            Err(Flaw::Field {
                field: Field::Reserved,
                found: b'x'.into()
            })
        );
        assert!(TopicName::decode(201, [b'a'; MAX_NAME]).is_err());
    }
}
