//! Names of topics and subscriptions: such that no two collide on any disk, and none escapes its
//! folder.

use crate::error::{Error, Result};

/// The longest name, in bytes.
const MAX: usize = 200;

/// Refuses what is not a name: 1 to 200 bytes of lowercase letters, digits, `.`, `_`, `-`,
/// beginning with a letter or digit.
pub(crate) fn check(name: &str) -> Result<()> {
    let reason = match name.as_bytes() {
        [] => "it is empty",
        bytes if bytes.len() > MAX => "it is longer than 200 bytes",
        [first, ..] if !first.is_ascii_lowercase() && !first.is_ascii_digit() => {
            "it does not begin with a lowercase letter or a digit"
        }
        bytes if !bytes.iter().all(|byte| is_allowed(*byte)) => {
            "it has other characters than lowercase letters, digits, '.', '_' and '-'"
        }
        _ => return Ok(()),
    };
    Err(Error::InvalidName {
        name: name.chars().take(MAX).collect(),
        reason,
    })
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused_and_plain_ones_are_not() {
        let long = "a".repeat(300);
        let hostile = [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\0b",
            "A",
            "CON",
            "a ",
            " a",
            "é",
            "🦀",
            "-a",
            "_a",
            "a\n",
            "%2e%2e%2f",
            "a\\b",
            "a:b",
            &long,
        ];
        for name in hostile {
            assert!(
                matches!(check(name), Err(Error::InvalidName { .. })),
                "{name:?}"
            );
        }
        for name in ["a", "0", "agent.output", "a-b_c.d", "a..", &"z".repeat(200)] {
            assert!(check(name).is_ok(), "{name:?}");
        }
    }
}
