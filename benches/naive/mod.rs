//! What people write first: a file, a lock, records framed by length and checksum, one `fdatasync`
//! for each commit, and a scan of everything when it is opened.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard};

/// A log in one file.
pub struct Naive {
    end: Mutex<End>,
    moved: Condvar,
}

struct End {
    file: File,
    records: u64,
}

impl Naive {
    /// Opens the log, making it where there is none: all of it is read, to find its end.
    pub fn open(path: &Path) -> Naive {
        let mut options = File::options();
        options.read(true).append(true).create(true);
        let file = options.open(path).expect("a file");
        let mut records = 0;
        scan(path, |_| records += 1);
        Naive {
            end: Mutex::new(End { file, records }),
            moved: Condvar::new(),
        }
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().expect("nobody panics under it")
    }

    /// Appends records with one write and one sync, and returns once they are durable.
    pub fn append(&self, payloads: &[&[u8]]) {
        let mut frames = Vec::new();
        for payload in payloads {
            let length = u32::try_from(payload.len()).expect("a short payload");
            frames.extend(length.to_le_bytes());
            frames.extend(crc32c::crc32c(payload).to_le_bytes());
            frames.extend(*payload);
        }
        let mut end = self.end();
        end.file.write_all(&frames).expect("a write");
        end.file.sync_data().expect("a sync");
        end.records += payloads.len() as u64;
        drop(end);
        self.moved.notify_all();
    }

    /// Waits until there are more than so many records; how many there are then.
    pub fn wait_past(&self, seen: u64) -> u64 {
        let more = self.moved.wait_while(self.end(), |end| end.records <= seen);
        more.expect("nobody panics under it").records
    }
}

/// Hands every sound record to `take`, in order.
pub fn scan(path: &Path, mut take: impl FnMut(&[u8])) {
    let mut file = BufReader::with_capacity(64 << 10, File::open(path).expect("a file"));
    let (mut head, mut payload) = ([0; 8], Vec::new());
    while file.read_exact(&mut head).is_ok() {
        let [length, sum] = [&head[..4], &head[4..]]
            .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
        payload.resize(length as usize, 0);
        if file.read_exact(&mut payload).is_err() || crc32c::crc32c(&payload) != sum {
            return;
        }
        take(&payload);
    }
}
