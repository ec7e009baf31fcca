//! Lines from files or standard input, in batches of what is ready.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use tidelog::Error;

use crate::failure::{Failure, Result};

/// How much is read at once: what a batch can be made of.
const BUFFER: usize = 1 << 20;

/// An input that is being appended, and how far it has come.
pub(crate) struct Input {
    name: String,
    size: Option<u64>,
    reader: BufReader<Box<dyn Read>>,
    appended: u64,
}

/// What was ready.
pub(crate) enum Batch {
    /// Lines, without their line feeds.
    Lines(Vec<Vec<u8>>),
    /// Lines, and behind them one that is longer than any record may be: at least so many bytes.
    TooLong(Vec<Vec<u8>>, u64),
    /// There are no more.
    End,
}

/// A line, as far as it was read.
enum Line {
    Whole(Vec<u8>),
    TooLong(u64),
    End,
}

impl Input {
    pub(crate) fn standard() -> Input {
        Input::new("standard input".to_owned(), None, Box::new(io::stdin()))
    }

    /// Opens a file; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Input> {
        if path == Path::new("-") {
            return Ok(Input::standard());
        }
        let name = path.display().to_string();
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = match opened {
            Ok((metadata, _)) if metadata.is_dir() => {
                let source = io::ErrorKind::IsADirectory.into();
                return Err(Failure::Input { name, source });
            }
            Ok(opened) => opened,
            Err(source) => return Err(Failure::Input { name, source }),
        };
        let size = metadata.is_file().then_some(metadata.len());
        Ok(Input::new(name, size, Box::new(file)))
    }

    /// Opens all of these, or standard input where there are none: before anything is appended.
    pub(crate) fn all(paths: &[PathBuf]) -> Result<Vec<Input>> {
        if paths.is_empty() {
            return Ok(vec![Input::standard()]);
        }
        paths.iter().map(|path| Input::open(path)).collect()
    }

    /// How many bytes will come, where all of them tell.
    pub(crate) fn total(inputs: &[Input]) -> Option<u64> {
        inputs.iter().map(|input| input.size).sum()
    }

    fn new(name: String, size: Option<u64>, reader: Box<dyn Read>) -> Input {
        Input {
            name,
            size,
            reader: BufReader::with_capacity(BUFFER, reader),
            appended: 0,
        }
    }

    /// How many of its lines are durable.
    pub(crate) fn appended(&self) -> u64 {
        self.appended
    }

    pub(crate) fn note_appended(&mut self, lines: u64) {
        self.appended += lines;
    }

    /// The failure of the first line that is not durable.
    pub(crate) fn failed(&self, cause: Error) -> Failure {
        Failure::Line {
            name: self.name.clone(),
            line: self.appended + 1,
            before: self.appended,
            cause: Box::new(cause),
        }
    }

    /// The failure of the first line that is not durable: it is not what it should be.
    pub(crate) fn refused(&self, reason: String) -> Failure {
        Failure::BadLine {
            name: self.name.clone(),
            line: self.appended + 1,
            before: self.appended,
            reason,
        }
    }

    /// Waits for a line, and takes with it those that have come together with it: as many as
    /// `weigh` to no more than `limit`. No line is longer than `longest`.
    pub(crate) fn batch(
        &mut self,
        limit: u64,
        longest: u64,
        weigh: impl Fn(usize) -> u64,
    ) -> Result<Batch> {
        let mut lines = Vec::new();
        let mut weight = 0;
        loop {
            match self.line(longest)? {
                Line::Whole(line) => {
                    weight += weigh(line.len());
                    lines.push(line);
                }
                Line::TooLong(size) => return Ok(Batch::TooLong(lines, size)),
                Line::End if lines.is_empty() => return Ok(Batch::End),
                Line::End => return Ok(Batch::Lines(lines)),
            }
            let ready = self.reader.buffer().iter().position(|byte| *byte == b'\n');
            if ready.is_none_or(|length| weight + weigh(length) > limit) {
                return Ok(Batch::Lines(lines));
            }
        }
    }

    /// The next line, read no further than it may be long.
    fn line(&mut self, longest: u64) -> Result<Line> {
        let mut line = Vec::new();
        let read = self
            .reader
            .by_ref()
            .take(longest + 1)
            .read_until(b'\n', &mut line);
        let read = read.map_err(|source| Failure::Input {
            name: self.name.clone(),
            source,
        })?;
        if read == 0 {
            return Ok(Line::End);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if read as u64 > longest {
            return Ok(Line::TooLong(read as u64));
        }
        Ok(Line::Whole(line))
    }
}
