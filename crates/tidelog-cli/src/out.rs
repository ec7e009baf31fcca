//! Standard output: buffered, and an error where it ends instead of a panic.

use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::failure::{Failure, Result};

/// Standard output, for as long as a command writes to it.
pub(crate) struct Out(BufWriter<StdoutLock<'static>>);

impl Out {
    pub(crate) fn new() -> Out {
        Out(BufWriter::with_capacity(64 << 10, io::stdout().lock()))
    }

    /// Bytes as they are, and the end of the line.
    pub(crate) fn line(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        let written = self.0.write_all(bytes.as_ref());
        written
            .and_then(|()| self.0.write_all(b"\n"))
            .map_err(Failure::Output)
    }

    /// An object on a line of its own.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let written = serde_json::to_writer(&mut self.0, value).map_err(io::Error::from);
        written
            .and_then(|()| self.0.write_all(b"\n"))
            .map_err(Failure::Output)
    }

    /// Hands over what is buffered.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.0.flush().map_err(Failure::Output)
    }
}

/// A number as people read it: 1,707.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of something: "1 record", "1,707 records".
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        thousands(number),
        if number == 1 { one } else { many }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_in_groups_of_three() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_707, "1,707"),
            (12_345_678, "12,345,678"),
        ];
        for (number, text) in cases {
            assert_eq!(thousands(number), text);
        }
    }
}
